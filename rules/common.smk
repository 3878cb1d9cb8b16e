# Shared by all stages: the checked configuration, names, paths and every helper function.

import os
import re
import shlex
import sys
import time
from functools import partial

sys.path.insert(
    0,
    str(
        workflow.current_basedir / "../src"
        if hasattr(workflow.current_basedir, "joinpath")
        else "src"
    ),
)

from pretrieve import my_corpus, paths
from pretrieve.analysis import plan as analysis_plan
from pretrieve.before_run import prepare_run
from pretrieve.configuration import (
    PUBLISHED,
    config_hash,
    encoder_options,
    from_outside,
    recipe_options,
    started_from,
    with_numbers,
)
from pretrieve.corpora import hub
from pretrieve.corpora.readers import unused_modules
from pretrieve.dead_lock import is_alone, release_dead_lock
from pretrieve.errors import PretrieveError
from pretrieve.finished_work import KEEP, forget_finished
from pretrieve.finetuning.recipes import trainer_of
from pretrieve.home import cache_places
from pretrieve.job_lock import RUN, process_name
from pretrieve.left_jobs import cancel_left_jobs
from pretrieve.pretraining.presets import resolve
from pretrieve.reporting.figures import inputs as figure_plan
from pretrieve.resources import Needs
from pretrieve.scales import corpus_of, vocabulary_corpus, vocabulary_of
from pretrieve.site import Site
from pretrieve.stage_sources import stage_sources
from pretrieve.tasks.collection_formats import LAYOUTS, ships_negatives
from pretrieve.tasks.example_readers import READERS as OFFICIAL_READERS
from pretrieve.workflow import Plan, as_argument


# With `--software-deployment-method apptainer` every job runs in this image (containers/pretrieve.def, docs/clusters.md).
container: os.environ.get("PRETRIEVE_CONTAINER", "containers/pretrieve.sif")


ENCODER_FILES = [
    "config.json",
    "model.safetensors",
    "heads.safetensors",
    "pretrieve.json",
]
RETRIEVER_FILES = ["model.safetensors", "heads.safetensors", "pretrieve.json"]
STARTED = int(time.time())
# Not in a cluster's job: its node may not see the locks of the machine that the run was started on.
ALIVE = release_dead_lock() if workflow.is_main_process else None

try:
    # Where jobs run is no part of what they compute: nothing below sees it but what they ask for.
    SITE = Site.read(config.pop("site", None))
    config.update(with_numbers(config))
    wanted_config = my_corpus.with_my_corpus(config, sys.argv[1:])
    if wanted_config is not config:
        config.clear()
        config.update(wanted_config)
    PLAN = Plan.load(config)
    config.update(PLAN.config)
    PLAN.check_targets(sys.argv[1:])
    hub.check_starts(config, PLAN.sources)
    NEEDS = Needs(config, SITE)
    if workflow.is_main_process:
        SITE.check_cluster()
        prepare_run(PLAN.root, sys.argv[1:])
except PretrieveError as error:
    # One line, no traceback: the message names the key, the value and what is allowed.
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1)

ROOT = PLAN.root
SEEDS = PLAN.seeds
CORPUS = PLAN.scale["corpus"]
STORE = f"{ROOT}/corpora/{CORPUS}/tokens"
TOKENIZER = f"{ROOT}/corpora/{CORPUS}/tokenizer.json"
TABLE_FILES = PLAN.table_files()
FIGURE_POINTS = [file.replace(".svg", ".csv") for file in PLAN.figure_files()]
PAIR_OPTIONS = resolve(
    "pairs", None, {}, "scales", PLAN.scale["pretraining"]["options"].get("pairs")
)

# A job's results follow from its input and params. Where raw files come from and how often training saves change no result,
# so they are no params: they reach the programs through the environment, and changing them runs nothing again.
ENVIRONMENT = {
    "PYTHONPATH": "src",
    "PRETRIEVE_MIRROR": config.get("mirror") or "",
    "PRETRIEVE_CHECKPOINT_SECONDS": config.get("checkpoint_seconds", 60),
    "PRETRIEVE_SCHEDULER": SITE.scheduler,
    "PRETRIEVE_GPU_SHARE": SITE.share,
    # Snakemake removes checkpoints when it has taken note of a job's end, and a later run knows processes of this one.
    KEEP: 1,
    RUN: process_name(os.getpid()),
    **cache_places("."),
}
EXPORTS = " ".join(
    f"{name}={shlex.quote(str(value))}" for name, value in ENVIRONMENT.items()
)
shell.prefix(
    f"set -euo pipefail; export {EXPORTS}; ".replace("{", "{{").replace("}", "}}")
)

HELP_ON_ERROR = """
A job failed. Its log is printed above (and stands under results/*/logs/). What to do:
  - the last line of the log says what is wrong and how to mend it;
  - then run the same command again: finished jobs are kept, and a training run goes on from its last checkpoint;
  - `snakemake -n` shows what is left to do.
"""


wildcard_constraints:
    encoder=PLAN.alternation(config["encoders"]),
    seed=PLAN.alternation(map(str, SEEDS)),
    corpus=PLAN.alternation(config["corpora"]),
    dataset=PLAN.alternation(config["datasets"]),
    source=PLAN.alternation(PLAN.sources),
    paper=PLAN.alternation(table.split("/")[0] for table in PLAN.all_tables),
    table=PLAN.alternation(table.split("/")[1] for table in PLAN.all_tables),


def time_report_options():
    """Options of report_time.py for what this call of snakemake did."""
    elapsed = f"{time.time() - STARTED:.0f}"
    return f"--results {shlex.quote(ROOT)} --since {STARTED} --elapsed {elapsed}"


def corpus_files(name, *tables):
    """Parquet tables of a corpus."""
    return [f"{paths.corpus_dir(ROOT, name)}/{table}.parquet" for table in tables]


def folder_of(files):
    """The folder that the files of an input stand in."""
    return os.path.dirname(files[0])


def datasets_read_by(reader):
    """Data sets that a reader of raw files serves."""
    return [
        name
        for name, options in config["datasets"].items()
        if options["reader"] == reader
    ]


def raw_files(dataset):
    """Name → path of a data set's ``files``."""
    return PLAN.dataset_files(dataset)


def named_files(dataset):
    """The same as an option: ``train=path dev=path``."""
    return " ".join(
        shlex.quote(f"{name}={path}") for name, path in raw_files(dataset).items()
    )


def collection_options(dataset):
    """Command-line options of a collection's task."""
    options = config["datasets"][dataset]
    words = [
        f"--{key.replace('_', '-')} {shlex.quote(str(options[key]))}"
        for key in ("title", "max_documents", "test")
        if key in options
    ]
    return " ".join(words)


def official_options(dataset):
    """Command-line options of a reader of official files."""
    options = config["datasets"][dataset]
    words = (
        [f"--counts {shlex.quote(options['counts'])}"] if "counts" in options else []
    )
    if options.get("reader_options"):
        words.append(f"--options {as_argument(options['reader_options'])}")
    return " ".join(words)


def task_files(dataset):
    """What every later stage reads of a task."""
    directory = paths.task_dir(ROOT, dataset)
    names = paths.EXAMPLE_FILES if PLAN.is_examples(dataset) else paths.TASK_FILES
    if dataset in datasets_read_by("squad"):
        names = (*names, "answers.parquet")
    return [f"{directory}/{name}" for name in names]


def bm25_of(dataset):
    """BM25's k1 and b on a data set."""
    return config["datasets"][dataset].get("bm25", config["bm25"])


def candidate_runs(dataset, sizes):
    """In the rerank setting, the BM25 runs whose hits are ranked; of another data set, none."""
    if not config["datasets"][dataset].get("rerank"):
        return []
    return [paths.run_file(ROOT, f"bm25.reqa-{size}", dataset, 0) for size in sizes]


def candidates_argument(dataset, sizes, wildcards):
    """The same, as an option."""
    runs = candidate_runs(dataset, sizes)
    return f"--candidates {' '.join(map(shlex.quote, runs))}" if runs else ""


def open_argument(dataset, corpus):
    """The options of an open-domain task of questions, or nothing."""
    if not corpus:
        return ""
    limit = config["datasets"][dataset].get("max_extra")
    return f"--open {shlex.quote(folder_of(corpus))}" + (
        f" --max-extra {limit}" if limit else ""
    )


def open_corpus(dataset):
    """Tables of the corpus whose passages an open-domain task of questions adds to its own; none for another task."""
    is_open = config["datasets"][dataset].get("open")
    return corpus_files(CORPUS, "articles", "passages") if is_open else []


def rule_name(dataset, sizes=()):
    """``questions_1pct_5pct``: the end of a rule's name."""
    return "_".join([dataset.replace("-", "_"), *sizes])


def encoder_of(wildcards):
    """Directory of the encoder of ``{family}``, an encoder and a recipe."""
    return paths.encoder_dir(ROOT, wildcards.family.split(".")[0], wildcards.seed)


def watched_sizes(task, wildcards):
    """The training-set sizes of ``{family}`` that a figure shows steps of."""
    return sorted(PLAN.watched_sizes.get((wildcards.family, task), ()))


def options_of(task, wildcards):
    """Options of the recipe of ``{family}`` on a task; ``curve`` only where a figure shows it."""
    options = recipe_options(config, wildcards.family.split(".")[1], task)
    if options.get("curve") and not watched_sizes(task, wildcards):
        options["curve"] = 0
    return options


def finetuning_sources(task, wildcards):
    """The code that trains ``{family}`` on a task."""
    trainer = trainer_of(options_of(task, wildcards))
    return stage_sources("finetune.py", trainer=trainer)


def family_options(task, wildcards):
    """Options of the recipe of ``{family}`` on a task, as an argument."""
    return as_argument(options_of(task, wildcards))


def lengths_of(wildcards):
    """Tokens of a query and of a document of ``{family}``."""
    options = recipe_options(config, wildcards.family.split(".")[1], wildcards.dataset)
    return options["query_length"], options["passage_length"]


def made_of_files(task, sizes, wildcards):
    """What the retrievers of ``{family}`` are made of beside their encoder."""
    files = [
        file
        for size in sizes
        for file in PLAN.made_of_files(wildcards.family, task, size, wildcards.seed)
    ]
    return list(dict.fromkeys(files))


def made_of_argument(task, sizes, wildcards):
    """The same by training-set size, as finetune.py takes it."""
    made_of = {
        size: PLAN.made_of(wildcards.family, task, size, wildcards.seed)
        for size in sizes
    }
    return as_argument(made_of)


def size_arguments(dataset):
    """``1pct=0.01 5pct=0.05``: the training-set sizes of a task."""
    return " ".join(
        shlex.quote(f"{size}={share}")
        for size, share in config["datasets"][dataset]["sizes"].items()
    )


def corpus_raw_files(corpus):
    """Paths of the raw files of a corpus, with those of all its parts."""
    parts = PLAN.corpus_parts(corpus)
    return list(dict.fromkeys(file for part in parts for file in part.files.values()))


def corpus_arguments(corpus):
    """The same as options of corpus.py: ``--part NAME=READER FILE=PATH …`` for each part."""
    return " ".join(
        "--part "
        + " ".join(
            shlex.quote(f"{name}={value}")
            for name, value in ((part.name, part.reader), *part.files.items())
        )
        for part in PLAN.corpus_parts(corpus)
    )


def corpus_sources(corpus):
    """The code that reads a corpus: that of its own readers only."""
    unused = unused_modules(part.reader for part in PLAN.corpus_parts(corpus))
    return [
        file
        for file in stage_sources("corpus.py")
        if not (
            os.path.dirname(file).endswith("corpora")
            and os.path.basename(file) in unused
        )
    ]


def task_options(dataset):
    """Command-line options of the descriptions reader."""
    options = config["datasets"][dataset]
    words = [
        f"--{key.replace('_', '-')} {shlex.quote(str(options[key]))}"
        for key in ("max_queries", "max_extra", "max_examples")
        if key in options
    ]
    return " ".join(words + (["--open"] if options.get("open") else []))


def tokenizer_of(dataset):
    """The vocabulary that the texts of a data set are tokenised with."""
    return (
        f"{paths.corpus_dir(ROOT, vocabulary_corpus(config, dataset))}/tokenizer.json"
    )


def store_of(encoder):
    """The token store that an encoder is pre-trained on."""
    return f"{paths.corpus_dir(ROOT, corpus_of(config, encoder))}/tokens"


def outside(encoder):
    """The start of an encoder that is hub:OWNER/NAME or dir:PATH, or None."""
    start = config["encoders"][encoder].get("start")
    return start if start is not None and from_outside(start) else None


def start_of(encoder, seed):
    """Files of what an encoder goes on from; none for a fresh one."""
    if outside(encoder):
        return hub.files_of(outside(encoder))
    start = started_from(config, encoder)
    if start is None:
        return []
    directory = paths.encoder_dir(ROOT, start, seed)
    return [f"{directory}/{name}" for name in ENCODER_FILES]


def start_argument(encoder, seed):
    """The option of pretrain.py that names the directory of an encoder's start; nothing for a fresh one."""
    own = started_from(config, encoder)
    if outside(encoder) is None and own is None:
        return ""
    directory = (
        hub.place_of(outside(encoder))
        if outside(encoder)
        else paths.encoder_dir(ROOT, own, seed)
    )
    return f"--start {shlex.quote(directory)}"


def given_vocabulary(corpus):
    """The file that stands for the given vocabulary of a corpus, or none: of a checkpoint of the hub, what says that it is
    there."""
    given = vocabulary_of(config, corpus).file
    if not given:
        return []
    return hub.files_of(given) if given.startswith("hub:") else PLAN.raw_file(given)


def my_corpus_files():
    """What a run on a corpus of one's own makes: the comparison, or without questions its encoders; [] for any other run."""
    if not config.get("my_corpus"):
        return []
    if not my_corpus.compares(config):
        return [
            f"{paths.encoder_dir(ROOT, encoder, seed)}/config.json"
            for encoder in config["encoders"]
            for seed in SEEDS
        ]
    return [
        f"{ROOT}/{name}"
        for name in ("table.csv", "table.md", "table.html", "retriever")
    ]


def objective_name(encoder):
    """The objective that an encoder is trained with, as the list of objectives has it."""
    return encoder_options(config, encoder)["objective"]["name"]
