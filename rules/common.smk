# Shared by all stages: the checked configuration and what it says of the whole run. Every import of the rules is here.
# Functions on corpora and data sets: common_data.smk; on encoders and retrievers: common_models.smk.

import os
import re
import shlex
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(
    0,
    str(
        workflow.current_basedir / "../src"
        if hasattr(workflow.current_basedir, "joinpath")
        else "src"
    ),
)

from pretrieve.workflow import my_corpus
from pretrieve.base import paths
from pretrieve.analysis import plan as analysis_plan
from pretrieve.workflow.running.before_run import prepare_run
from pretrieve.workflow.config_files import complete
from pretrieve.workflow.configuration import config_hash
from pretrieve.raw import hub
from pretrieve.corpora.readers import unused_modules
from pretrieve.workflow.running.dead_lock import is_alone, release_dead_lock
from pretrieve.base.errors import PretrieveError
from pretrieve.workflow.running.finished_work import KEEP, forget_finished
from pretrieve.finetuning.recipes import trainer_of
from pretrieve.workflow.running.caches import cache_places
from pretrieve.workflow.running.idle_timers import watch_timers
from pretrieve.base.job_lock import RUN, process_name
from pretrieve.workflow.job_options import (
    PUBLISHED,
    encoder_options,
    from_outside,
    recipe_options,
    started_from,
)
from pretrieve.workflow.running.left_jobs import cancel_left_jobs
from pretrieve.pretraining.presets import resolve
from pretrieve.reporting.figures import inputs as figure_plan
from pretrieve.workflow.job_resources import Needs
from pretrieve.workflow.scales import (
    articles_of,
    corpus_of,
    of_one_scale,
    vocabulary_corpus,
    vocabulary_of,
)
from pretrieve.workflow.cluster import Site
from pretrieve.workflow.stage_sources import stage_sources
from pretrieve.benchmarks.official.collection_formats import LAYOUTS, ships_negatives
from pretrieve.benchmarks.official.example_readers import READERS as OFFICIAL_READERS
from pretrieve.workflow.plan import Plan, as_argument


# With `--software-deployment-method apptainer` every job runs in this image (containers/pretrieve.def, docs/clusters.md).
container: os.environ.get("PRETRIEVE_CONTAINER", "containers/pretrieve.sif")


STARTED = int(time.time())
# Not in a cluster's job: its node may not see the locks of the machine that the run was started on.
ALIVE = release_dead_lock() if workflow.is_main_process else None

try:
    # Where jobs run is no part of what they compute: nothing below sees it but what they ask for.
    SITE = Site.read(config.pop("site", None))
    whole = my_corpus.with_my_corpus(
        complete(config, Path(workflow.basedir)), sys.argv[1:]
    )
    config.clear()
    config.update(whole)
    PLAN = Plan.load(config)
    config.update(PLAN.config)
    PLAN.check_targets(sys.argv[1:])
    hub.check_starts(config, PLAN.sources)
    NEEDS = Needs(config, SITE)
    if workflow.is_main_process:
        watch_timers()
        SITE.check_cluster()
        prepare_run(PLAN.root, sys.argv[1:])
except PretrieveError as error:
    # One line, no traceback: the message names the key, the value and what is allowed.
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1)

# The programs of the rules, one file each.
SCRIPTS = "workflow_scripts"
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


def config_of_results(wildcards):
    """What is measured, as one argument; where files come from and other scales' numbers are no part of it."""
    # A function of wildcards, or Snakemake would look for some between the braces of a value.
    return as_argument(of_one_scale(config))


def folder_of(files):
    """The folder that the files of an input stand in."""
    return os.path.dirname(files[0])


def rule_name(dataset, sizes=()):
    """``questions_1pct_5pct``: the end of a rule's name."""
    return "_".join([dataset.replace("-", "_"), *sizes])


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
