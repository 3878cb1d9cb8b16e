"""An estimate compared with a finished run: the expected seconds of its jobs, and those of their ``cost.json``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.operations.estimate.jobs import Job
from pretrieve.operations.estimate.report import Estimate
from pretrieve.reporting.tables.results import ResultFiles
from pretrieve.reporting.tables.rows import text_table
from pretrieve.workflow.plan import Plan


@dataclass
class Stage:
    """jobs: of which costs were found; seconds: expected, of processors and by the clock; tokens: expected and read."""

    name: str
    jobs: int = 0
    expected_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    expected_tokens: float = 0.0
    tokens: float = 0.0


def cost_files(plan: Plan, job: Job, root: str) -> list[Path]:
    """Where a job left its costs: one file for each training-set size, or one. [] for a job that keeps none."""
    if job.stage == "pretrain":
        return [Path(paths.encoder_dir(root, job.subject, job.seed), "cost.json")]
    if job.stage == "bm25":
        return [Path(paths.cost_beside(paths.negatives_file(root, "bm25", job.place, 0)))]
    own = {"finetune": ["finetune"], "predict": ["predict"], "retrieve": ["embed", "search"]}.get(job.stage, [])
    mines = job.stage == "mine" or (job.stage == "retrieve" and (job.subject, job.place) in plan.mined)
    places: list[str] = []
    for system in (f"{job.subject}-{size}" for size in job.sizes):
        costs = paths.cost_files(root, system, job.place, job.place, job.seed, job.stage == "predict")
        places += [costs[stage] for stage in own]
        places += [paths.cost_beside(paths.negatives_file(root, system, job.place, job.seed))] if mines else []
    return [Path(place) for place in places]


def compare(estimate: Estimate, root: str) -> list[Stage]:
    """The stages of a finished run, by name; only jobs whose costs are all there. Raises DataError when there are none, or one is
    damaged."""
    plan, costs = estimate.graph.plan, ResultFiles()
    stages: dict[str, Stage] = {}
    for job in estimate.graph.behind(estimate.graph.everything()):
        files = [file for part in estimate.graph.parts(job) for file in cost_files(plan, part, root)]
        if not files or not all(file.is_file() for file in files):
            continue
        stage = stages.setdefault(job.stage, Stage(job.stage))
        work = estimate.workload.of(job)
        rates = estimate.machines.cpu if not work.gpu or estimate.machines.gpu is None else estimate.machines.gpu
        stage.jobs += 1
        # A cost is counted after the imports.
        stage.expected_s += rates.seconds(work) - (rates.start_s if work.runs else rates.light_s)
        stage.expected_tokens += work.tokens
        for file in files:
            stage.cpu_s += costs.number(str(file), "cpu_s")
            stage.wall_s += costs.number(str(file), "wall_s")
            stage.tokens += costs.number(str(file), "tokens")
    if not stages:
        raise DataError(f"{root}: no cost.json of a job of this plan; expected the results of a run of the same scale.")
    return list(stages.values())


def report(stages: list[Stage]) -> str:
    """A line a stage, and the sum: seconds expected, of processors, by the clock; expected over processor seconds."""
    numbers = [field.name for field in fields(Stage) if field.name != "name"]
    total = Stage("total", **{name: sum(getattr(stage, name) for stage in stages) for name in numbers})
    rows = [("stage", "jobs", "expected s", "CPU s", "wall s", "ratio", "tokens")]
    for stage in [*stages, total]:
        seconds = (f"{value:,.0f}" for value in (stage.expected_s, stage.cpu_s, stage.wall_s))
        tokens = f"{stage.expected_tokens / stage.tokens:.2f}" if stage.tokens else "–"
        ratio = stage.expected_s / max(stage.cpu_s, 1e-9)
        rows.append((stage.name, str(stage.jobs), *seconds, f"{ratio:.2f}", tokens))
    return "\n".join([*text_table(rows), "ratio: expected over CPU seconds; tokens: expected over read ones"])
