# Shared by all stages: every import, the checked configuration, and what it says of the whole run. What it says of corpora and data
# sets is in pretrieve/workflow/rule_data.py, of encoders, retrievers and scores in rule_models.py.

import os
import shlex
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

from pretrieve.workflow import figure_inputs as figure_plan, my_corpus, my_corpus_rows
from pretrieve.base import paths
from pretrieve.base.code_folder import CODE, code_file
from pretrieve.analysis import plan as analysis_plan
from pretrieve.workflow.config_checks import check_size
from pretrieve.workflow.config_files import complete
from pretrieve.workflow.configuration import config_hash
from pretrieve.raw import hub
from pretrieve.raw.mirror import check_mirror
from pretrieve.base.disk import check_run_folders
from pretrieve.workflow.job_options import PUBLISHED, by_snapshots
from pretrieve.pretraining import objectives
from pretrieve.workflow.job_resources import Needs
from pretrieve.workflow.joined_jobs import alike, rules_of
from pretrieve.workflow.rule_data import COLLECTION_FILES, TASK_KINDS, DataRules
from pretrieve.base.finished_work import forget_finished
from pretrieve.workflow.file_dates import redate_for_run
from pretrieve.workflow.job_environment import job_prefix
from pretrieve.workflow.snakemake_faults import watch_timers
from pretrieve.reporting.claims.claims import load_claims
from pretrieve.workflow.rule_models import ENCODER_FILES, RETRIEVER_FILES, STORE_FILES, ModelRules
from pretrieve.workflow.cluster import Site
from pretrieve.workflow.scales import of_one_scale
from pretrieve.workflow.stage_code import remember, stage_code
from pretrieve.operations.estimate.jobs import SeedJobs, check_run_size
from pretrieve.workflow.plan import Plan, alternation, as_argument


# With `--software-deployment-method apptainer` every job runs in this image (containers/pretrieve.def, docs/clusters.md).
container: os.environ.get("PRETRIEVE_CONTAINER", "containers/pretrieve.sif")


STARTED = int(time.time())
# Beside the code, so that the first run in another folder does not read all modules again; else in the run's own folder.
COMPILED = code_file("src/pretrieve") / "__pycache__"
WRITABLE = os.access(COMPILED if COMPILED.is_dir() else COMPILED.parent, os.W_OK)
remember(COMPILED / "stages.json" if WRITABLE else Path(".snakemake/pretrieve-code.json"))
# A job on a cluster reads the rules again, in the environment of the Snakemake that submitted it.
FIRST = os.environ.setdefault("PRETRIEVE_RUN", str(os.getpid())) == str(os.getpid())

try:
    # Where jobs run does not change what they compute: below, only their resources depend on it.
    SITE = Site.read(config.get("site"))
    check_size(config)
    config = complete(config, CODE)
    config.pop("site", None)
    PLAN = Plan.load(my_corpus.with_my_corpus(config))
    config = PLAN.config
    hub.check_starts(config, PLAN.sources)
    NEEDS = Needs(config, SITE)
    if FIRST:
        watch_timers()
        check_run_size(PLAN)
        load_claims(code_file("references/claims.yaml"), PLAN.cells, PLAN.figures)
        SITE.check_cluster()
        redate_for_run(PLAN.root)
        my_corpus.print_remarks(config)
except PretrieveError as error:
    refuse(error)

# What starts a program on all GPUs of a job.
LAUNCH = "python -m pretrieve.training.launch --gpus {resources.gpu} --nodes {resources.nodes} --"
# The programs of the rules, one file each, as a word of the shell. Rules name it in f-strings: braces that Snakemake fills see
# only the names of the Snakefile that a run begins with, and none of these when it uses this one as a module.
SCRIPTS = shlex.quote(str(code_file("workflow_scripts"))).replace("{", "{{").replace("}", "}}")
ROOT = PLAN.root
SEEDS = PLAN.seeds
SEED_JOBS = SeedJobs(PLAN)
DATA = DataRules(PLAN)
MODELS = ModelRules(PLAN, DATA)
TABLE_FILES = PLAN.table_files()

shell.prefix(job_prefix(config, SITE, own_python=not workflow.deployment_settings.deployment_method))

HELP_ON_ERROR = """
A job failed. Its log is printed above (and is in results/*/logs/). What to do:
  - the last line of the log says what is wrong and how to correct it;
  - then run the same command again: finished jobs are kept, and training continues from its last checkpoint;
  - `snakemake -n` shows what is left to do.
"""


wildcard_constraints:
    encoder=alternation(config["encoders"]),
    seed=alternation(map(str, SEEDS)),
    corpus=alternation(config["corpora"]),
    dataset=alternation(config["datasets"]),
    paper=alternation(table.split("/")[0] for table in PLAN.all_tables),
    table=alternation(table.split("/")[1] for table in PLAN.all_tables),
    figure=alternation(name.split("/")[1] for name in PLAN.figures),


def of(function, *names):
    """An input or a parameter of a rule: ``function`` of the values that its wildcards ``names`` have."""
    return lambda wildcards: function(*(getattr(wildcards, name) for name in names))


def without_dates(files):
    """The files; of one's own corpus, whatever their dates. Snakemake compares contents below 1 MB only, and takes a new date of a
    larger file for a new text; what these files hold is a parameter of their jobs (:meth:`DataRules.contents_of`)."""
    return [ancient(file) if DATA.contents_of([file]) else file for file in files]


def as_text(function, *names):
    """The same, as one shell word of JSON; of no wildcard where Snakemake would look for some between the braces."""
    value = of(function, *names)
    return lambda wildcards: as_argument(value(wildcards))


def folder_of(name):
    """A parameter: the folder with the files of the input ``name``."""
    return lambda wildcards, input: os.path.dirname(getattr(input, name)[0])


def shown(file, caption, category, labels):
    """An output that Snakemake's report shows, with a text of ``docs/captions``; what is there for each paper, by papers."""
    papers = {"subcategory": "{paper}"} if "{paper}" in file else {}
    return report(file, caption=f"../docs/captions/{caption}.rst", category=category, labels=labels, **papers)


WHOLE_RUN = []


def whole_run(wildcards):
    """What plain ``snakemake`` makes. It is asked for when that is made, and then checkpoints of what is done may go."""
    WHOLE_RUN.append(ROOT)
    pages = [f"{ROOT}/{name}" for name in ("claims.csv", "league.csv", "report.html")]
    return my_corpus.files_of(config, ROOT) or [*TABLE_FILES, *PLAN.figure_files(), *pages]


RULE_NAMES = {}


def rule_name(dataset, sizes=(), follows=""):
    """``questions_1pct_5pct``: the end of a rule's name. Where another rule has the same words (data sets a-b and a_b), a number
    follows."""
    words = "_".join(filter(None, [dataset.replace("-", "_"), *sizes, follows]))
    same = RULE_NAMES.setdefault(words, {})
    number = same.setdefault((dataset, tuple(sizes), follows), len(same))
    return f"{words}_{number + 1}" if number else words
