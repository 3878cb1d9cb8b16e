"""What a bundle holds: the jobs that some tables still need, and the files that these read.

The workflow is queried, not copied: its plan names the metrics files of the tables, and a dry run of Snakemake the calls that
make them. What a job reads and no job of the bundle makes is data, which is built first: token stores, tasks, BM25's negatives
and candidates, finished encoders and retrievers. Texts are not packed, for training and embedding read token ids; except, with
``--answers``, the passages and answers of tasks that are scored by answers.
"""

import io
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.paths import cost_beside, metrics_file, parse_system
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.metrics import needs_answers
from pretrieve.finetuning import trainers
from pretrieve.operations.bundle.archive import Content
from pretrieve.operations.bundle.jobs import Call, Job, calls_in, makers
from pretrieve.pretraining import objectives
from pretrieve.raw import hub
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_environment import cache_places
from pretrieve.workflow.job_options import from_outside
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.stage_code import stage_code

#: Columns that are read between token ids and runs.
COLUMNS = {"corpus.parquet": ["doc_id", "sentence_index", "passage_index"], "queries.parquet": ["query_id"]}
#: Files that only earlier or later stages read, and folders of a retriever that nothing is trained from.
LEFT_AT_HOME = {"texts.parquet", "answers.parquet", "curve.csv", "steps", "negatives"}


@dataclass(frozen=True)
class Asked:
    """Which tables of which scale (none: those of the configuration), or else which metrics files; ``config``: further words for
    Snakemake's ``--config``, such as ``seeds=[1]``."""

    scale: str
    tables: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return [f"scale={self.scale}", *self.config]

    def plan(self) -> Plan:
        """The checked configuration, with these words in it."""
        return Plan.load(read_config(words=self.words))

    def named(self, plan: Plan) -> Sequence[str]:
        """The tables, PAPER/TABLE each."""
        return self.tables or (() if self.files else plan.config["tables"])

    def cells(self, plan: Plan) -> Counter[str]:
        """As :meth:`trained`; raises ConfigError, too, where no cell of the tables has to be trained at this scale."""
        if not (counts := self.trained(plan)):
            raise ConfigError(
                f"tables {', '.join(self.tables or plan.config['tables'])}: no cell has to be trained at scale {self.scale}; "
                "nothing to bundle."
            )
        return counts

    def trained(self, plan: Plan) -> Counter[str]:
        """Metrics file → how many cells of the tables need it; those of trained systems only, and of a mean its parts'. Raises
        ConfigError for an unknown table."""
        counts: Counter[str] = Counter(part for file in self.files for part in parts_of_mean(file, plan))
        for table in map(plan.check_table, self.named(plan)):
            known = {file for file in plan.table_inputs(*table.split("/")) if "/metrics/" in file}
            for cell in plan.cells[table]:
                system, dataset = cell["system"], plan.measured(cell)
                if dataset is None or system == "statistics" or parse_system(system).encoder == "bm25":
                    continue
                for seed in plan.seeds_of(system):
                    file = metrics_file(plan.root, system, dataset, seed)
                    counts.update(parts_of_mean(file, plan) if file in known else ())
        return counts


def scored_by_answers(jobs: Sequence[Job]) -> set[str]:
    """The tasks whose searches are scored by answers that a passage contains."""
    return {job.call.one("task") for job in jobs if any(map(needs_answers, job.call.options.get("metrics", ())))}


def needed_runs(asked: Asked, plan: Plan, jobs: Sequence[Job], answers: bool = False) -> list[str]:
    """The runs of these jobs that more than their scores is made from, by tables of case studies; and, unless their ``answers``
    are packed, those that are scored by answers."""
    read = {file for table in asked.named(plan) for file in plan.table_inputs(*table.split("/"))}
    at_home = set() if answers else scored_by_answers(jobs)
    runs = {run: job.call.one("task") for job in jobs for run in job.call.options.get("runs", ())}
    return sorted(run for run, task in runs.items() if run in read or task in at_home)


def parts_of_mean(file: str, plan: Plan) -> list[str]:
    """The metrics files that a bundle's searches make for a requested one: itself, or those of a mean's data sets; the mean
    is computed here."""
    path = Path(file)
    if path.parent.name not in plan.means:
        return [file]
    return [str(path.parents[1] / part / path.name) for part in plan.parts(path.parent.name)]


def snakemake(asked: Asked, options: Sequence[str], files: Iterable[str], quiet: bool = False) -> str:
    """Run the code's Snakefile for some files in the current directory and return what it printed (with ``quiet``; else it goes
    to the terminal). Raises DataError when it fails; with the end of its messages."""
    program = [sys.executable, "-m", "snakemake", "--snakefile", str(code_file("Snakefile"))]
    done = subprocess.run(
        [*program, *options, "--config", *asked.words, "--", *files],
        env={**os.environ, **cache_places(".")},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        end = " ".join((done.stdout or "").split()[-60:])
        raise DataError(
            f"snakemake {' '.join(options)} failed with status {done.returncode}{': ' + end if end else ''}."
        )
    return done.stdout or ""


def check_alone(root: str) -> None:
    """Raise DataError when Snakemake's lock is on files of ``root`` (``results/{scale}``). Snakemake would then refuse
    :func:`touch`, and never see a later change of what was placed."""
    for lock in Path(".snakemake/locks").glob("*.lock"):
        try:
            files = lock.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:  # the run has ended meanwhile
            continue
        if any(file.startswith(f"{root}/") for file in files):
            raise DataError(
                f"{lock}: a run is at work on {root}, or was killed; nothing is placed beside it. Wait until it has ended; if "
                "none is alive, remove its lock (snakemake --unlock), and run the same command again."
            )


def touch(asked: Asked, files: Iterable[str]) -> None:
    """Let Snakemake note for the jobs of some files the arguments and inputs that they have now, so that it takes the files as
    made, and sees a later change of either."""
    options = ("--touch", "--force", "--no-hooks", "--cores", "1")
    snakemake(asked, options, dict.fromkeys(files), quiet=True)


def remaining(asked: Asked, targets: Iterable[str], again: bool = False) -> list[Job]:
    """The jobs of a bundle's programs that Snakemake would run for some files, one for each training-set size; with ``again``
    those that are done, too."""
    printed = snakemake(asked, ["-n", "-p", *(["--forceall"] if again else [])], sorted(targets), quiet=True)
    printed = printed.replace(shlex.quote(str(code_file("workflow_scripts"))), "workflow_scripts")
    calls = [(one, group) for call, group in calls_in(printed) for one in call.by_size()]
    return [Job(one.key, group, one, code=code_of(one)) for one, group in calls]


def code_of(call: Call) -> str:
    """The code that a call's result depends on, as the workflow's rules have it."""
    modules: tuple[str, ...] = ()
    if call.program == "pretrain":
        modules = objectives.modules_of(call.json("options")["objective"])
    elif call.program == "finetune":
        modules = trainers.modules_of(call.json("options"))
    return stage_code(f"{call.program}.py", *modules)


def data_places(jobs: Sequence[Job]) -> list[str]:
    """What jobs read and no job makes."""
    made = makers(jobs)
    return sorted({place for job in jobs for place in job.call.needs if place not in made})


def build(asked: Asked, plan: Plan, places: Sequence[str], cores: int) -> None:
    """Let Snakemake make the data, where they are not there or not up to date."""
    last = {"tokens": "meta.json", "tasks": "stats.json"}
    last |= dict.fromkeys(("encoders", "retrievers"), "model.safetensors")
    targets = []
    for place in places:
        parts = Path(place).parts
        if not place.startswith(f"{plan.root}/"):
            starts = [entry["start"] for entry in plan.config["encoders"].values() if entry.get("start")]
            for start in filter(from_outside, starts):
                if hub.place_of(start) == place and hub.is_published(start):
                    targets += hub.files_of(start)
            continue
        kind = "tokens" if parts[-1] == "tokens" else parts[2]
        targets.append(f"{place}/{last[kind]}" if kind in last else place)
    if targets:
        snakemake(asked, ["--cores", str(cores)], sorted(set(targets)))


def data_files(place: str, answers: bool = False) -> dict[str, Path]:
    """The files of a place: name in the bundle → file. answers: those of a task, too. Raises DataError when there is nothing."""
    path = Path(place)
    if path.is_dir():
        left = LEFT_AT_HOME - ({"answers.parquet"} if answers else set())
        files = [file for file in sorted(path.rglob("*")) if left.isdisjoint(file.relative_to(path).parts)]
    else:
        files = [path, Path(cost_beside(place))]
    if not (found := {str(file): file for file in files if file.is_file()}):
        raise DataError(f"{place}: missing, and jobs of the bundle need it; build it with snakemake.")
    return found


def content_of(file: Path, whole: Collection[str] = ()) -> Content:
    """What is packed of a file: its columns of :data:`COLUMNS`, or all of it; of the tasks ``whole`` always all."""
    columns = COLUMNS.get(file.name)
    if columns is None or "tasks" not in file.parts or str(file.parent) in whole:
        return file
    target = io.BytesIO()
    pq.write_table(read_table(file, columns), target, compression="none")
    return target.getvalue()


def code_files() -> dict[str, Path]:
    """The package: name in the bundle → file."""
    files = (file for file in sorted(code_file("src/pretrieve").rglob("*")) if file.is_file())
    return {str(file.relative_to(code_file())): file for file in files if "__pycache__" not in file.parts}
