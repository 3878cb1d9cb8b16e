# Shared by all stages: the checked configuration and what it says of the whole run. Every import of the rules is here.
# What they say of corpora and data sets is in pretrieve/workflow/rule_data.py, of encoders and retrievers in rule_models.py.

import os
import re
import shlex
import sys
import time
from functools import partial

from pretrieve.workflow import my_corpus
from pretrieve.base import paths
from pretrieve.analysis import plan as analysis_plan
from pretrieve.workflow.running.before_run import prepare_run
from pretrieve.workflow.config_checks import check_size
from pretrieve.workflow.configuration import config_hash, with_numbers
from pretrieve.raw import hub
from pretrieve.workflow.running.dead_lock import is_alone, release_dead_lock
from pretrieve.base.errors import PretrieveError
from pretrieve.workflow.running.finished_work import KEEP, forget_finished
from pretrieve.workflow.running.caches import cache_places
from pretrieve.workflow.running.idle_timers import watch_timers
from pretrieve.base.job_lock import RUN, process_name
from pretrieve.workflow.job_options import PUBLISHED, encoder_options
from pretrieve.workflow.running.left_jobs import cancel_left_jobs
from pretrieve.pretraining import objectives
from pretrieve.pretraining.presets import resolve
from pretrieve.reporting.figures import inputs as figure_plan
from pretrieve.workflow.job_resources import Needs
from pretrieve.workflow.rule_data import COLLECTION_FILES, TASK_KINDS, DataRules
from pretrieve.workflow.rule_models import (
    ENCODER_FILES,
    RETRIEVER_FILES,
    STORE_FILES,
    ModelRules,
)
from pretrieve.workflow.cluster import Site
from pretrieve.workflow.stage_code import stage_code
from pretrieve.benchmarks import readers as dataset_formats
from pretrieve.workflow.plan import Plan, as_argument


# With `--software-deployment-method apptainer` every job runs in this image (containers/pretrieve.def, docs/clusters.md).
container: os.environ.get("PRETRIEVE_CONTAINER", "containers/pretrieve.sif")


STARTED = int(time.time())
# Not in a cluster's job: its node may not see the locks of the machine that the run was started on.
ALIVE = release_dead_lock() if workflow.is_main_process else None

try:
    # Where jobs run is no part of what they compute: nothing below sees it but what they ask for.
    SITE = Site.read(config.pop("site", None))
    check_size(config)
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
        watch_timers()
        SITE.check_cluster()
        prepare_run(PLAN.root, sys.argv[1:])
except PretrieveError as error:
    # One line, no traceback: the message names the key, the value and what is allowed.
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(1)

# The programs of the rules, one file each.
SCRIPTS = "workflow_scripts"
ROOT = PLAN.root
SEEDS = PLAN.seeds
DATA, MODELS = DataRules(PLAN), ModelRules(PLAN)
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
    paper=PLAN.alternation(table.split("/")[0] for table in PLAN.all_tables),
    table=PLAN.alternation(table.split("/")[1] for table in PLAN.all_tables),


def of(function, *names):
    """An input or a parameter of a rule: ``function`` of the values that its wildcards ``names`` have."""
    return lambda wildcards: function(*(getattr(wildcards, name) for name in names))


def as_text(function, *names):
    """The same, as one shell word of JSON; of no wildcard where Snakemake would look for some between the braces."""
    value = of(function, *names)
    return lambda wildcards: as_argument(value(wildcards))


def folder_of(name):
    """A parameter: the folder that the files of the input ``name`` stand in."""
    return lambda wildcards, input: os.path.dirname(getattr(input, name)[0])


def time_report_options():
    """Options of report-time for what this call of snakemake did."""
    elapsed = f"{time.time() - STARTED:.0f}"
    return f"--results {shlex.quote(ROOT)} --since {STARTED} --elapsed {elapsed}"


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
