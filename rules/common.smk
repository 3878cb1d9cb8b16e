# Everything that more than one rule file uses: the checked configuration, names, paths and helper functions.

import sys
import time

sys.path.insert(
    0,
    str(
        workflow.current_basedir / "../src"
        if hasattr(workflow.current_basedir, "joinpath")
        else "src"
    ),
)

from pretrieve import paths
from pretrieve.configuration import config_hash, encoder_options, recipe_options
from pretrieve.errors import PretrieveError
from pretrieve.workflow import Plan, as_argument, stage_sources

STARTED = int(time.time())

try:
    PLAN = Plan.load(config)
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
PYTHON = "PYTHONPATH=src python"

HELP_ON_ERROR = """
A job failed. Its log is printed above (and stands under results/*/logs/). What to do:
  - the last line of the log says what is wrong and how to mend it;
  - then run the same command again: finished jobs are kept, and a training run goes on from its last checkpoint;
  - `snakemake -n` shows what is left to do.
"""


wildcard_constraints:
    encoder=PLAN.alternation(config["encoders"]),
    recipe=PLAN.alternation(config["recipes"]),
    seed=PLAN.alternation(map(str, SEEDS)),
    corpus=PLAN.alternation(config["corpora"]),
    dataset=PLAN.alternation(config["datasets"]),
    source=PLAN.alternation(PLAN.sources),
    paper=PLAN.alternation(table.split("/")[0] for table in PLAN.all_tables),
    table=PLAN.alternation(table.split("/")[1] for table in PLAN.all_tables),


def time_report_options():
    """Options of report_time.py for what this call of snakemake did."""
    elapsed = f"{time.time() - STARTED:.0f}"
    return f"--results {ROOT} --since {STARTED} --elapsed {elapsed}"


def corpus_files(name, *tables):
    """Parquet tables of a corpus."""
    return [f"{paths.corpus_dir(ROOT, name)}/{table}.parquet" for table in tables]


def task_files(dataset):
    """What every later stage reads of a task."""
    directory = paths.task_dir(ROOT, dataset)
    return [f"{directory}/{name}" for name in PLAN.TASK_FILES]


def size_arguments(dataset):
    """``1pct=0.01 5pct=0.05``: the training-set sizes of a task."""
    return " ".join(
        f"{size}={share}"
        for size, share in config["datasets"][dataset]["sizes"].items()
    )


def source_of(corpus, key):
    """Path of the raw file that a corpus's ``dump`` or ``leads`` names."""
    return PLAN.source_file(config["corpora"][corpus][key])


def task_options(dataset):
    """Command-line options of the descriptions reader."""
    options = config["datasets"][dataset]
    words = [
        f"--{key.replace('_', '-')} {options[key]}"
        for key in ("max_queries", "max_extra")
        if key in options
    ]
    return " ".join(words + (["--open"] if options.get("open") else []))
