"""The estimate as text: a line for each table, a total in which shared stages count once, and what was assumed; and a comparison
with a finished run: the expected seconds of its jobs, and those of their ``cost.json``."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.operations.estimate import work
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.operations.estimate.machines import EFFICIENCY, Machines, wall_seconds
from pretrieve.operations.estimate.sizes import Sizes
from pretrieve.operations.estimate.work import Workload
from pretrieve.reporting.tables.results import ResultFiles
from pretrieve.reporting.tables.rows import text_table
from pretrieve.workflow.plan import Plan

GB = 1e9


@dataclass(frozen=True)
class Line:
    """What some targets cost, with all that they need. Hours of one GPU and of one core, and by the clock; GB on the disk, and to
    download; ``in_place_gb``: what need not be downloaded any more."""

    name: str
    jobs: int
    gpu_h: float
    cpu_h: float
    disk_gb: float
    download_gb: float
    wall_h: float
    in_place_gb: float = 0.0


class Estimate:
    """The costs of targets on given machines. is_there: of a source's name, whether it need not be downloaded any more."""

    def __init__(self, workload: Workload, machines: Machines, is_there: Callable[[str], bool] = lambda name: False):
        self.workload, self.machines = workload, machines
        self.graph: Graph = workload.graph
        self._is_there = is_there

    def seconds(self, job: Job) -> float:
        """Of one job, on one GPU or core."""
        return self.machines.timing(job.stage, self.workload.of(job)).seconds

    def line(self, name: str, targets: Iterable[Job]) -> Line:
        """Targets and the jobs that they need."""
        jobs = self.graph.behind(targets)
        tasks = {job: self.workload.of(job) for job in jobs}
        machines = self.machines
        timings = {job: machines.timing(job.stage, task) for job, task in tasks.items()}
        gpu_h = sum(timing.seconds for timing in timings.values() if timing.gpus) / 3600
        cpu_h = sum(machines.cpu.seconds(task) for job, task in tasks.items() if not timings[job].gpus) / 3600
        download, there, raw = self._raw(jobs)
        wall = wall_seconds(jobs, self.graph, timings, machines.gpus, machines.cores)
        disk = raw + sum(task.disk for task in tasks.values()) / GB
        return Line(name, len(jobs), gpu_h, cpu_h, disk, download, wall / 3600, there)

    def _raw(self, jobs: Sequence[Job]) -> tuple[float, float, float]:
        """GB to download, GB of these that are in place, and GB of raw files on the disk; an archive counts once."""
        sizes = self.workload.sizes
        names = [job.subject for job in jobs if job.stage == "fetch"]
        checkpoints = sum(self.workload.of(job).download for job in jobs if job.stage == "fetch_checkpoint")
        there = {name for name in names if self._is_there(name) or self._is_there(sizes.downloaded_as(name).name)}
        coming, everything = sizes.download(name for name in names if name not in there), sizes.download(names)
        return (coming + checkpoints) / GB, (everything - coming) / GB, sizes.on_disk(names) / GB

    def largest(self, targets: Iterable[Job], number: int) -> list[tuple[Job, float]]:
        """The jobs that take longest, and their seconds."""
        jobs = [(job, self.seconds(job)) for job in self.graph.behind(targets)]
        return sorted(jobs, key=lambda pair: -pair[1])[:number]


def hours(value: float) -> str:
    """Hours in the unit that suits them.

    >>> hours(0.002), hours(0.5), hours(30), hours(1000)
    ('7 s', '30 min', '30.0 h', '1,000 h')
    """
    seconds = value * 3600
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{value:.1f} h" if value < 100 else f"{value:,.0f} h"


def size(gigabytes: float) -> str:
    """GB, or TB.

    >>> size(0.0004), size(2.5), size(12000)
    ('0.00 GB', '2.50 GB', '12.0 TB')
    """
    return f"{gigabytes:,.2f} GB" if gigabytes < 1000 else f"{gigabytes / 1000:,.1f} TB"


def table_of(lines: Sequence[Line], total: Line) -> str:
    """Lines as a table of text; the total below a rule."""
    rows = [("table", "jobs", "GPU", "one core", "disk", "download", "wall")]
    for line in (*lines, total):
        numbers = (hours(line.gpu_h), hours(line.cpu_h), size(line.disk_gb), size(line.download_gb), hours(line.wall_h))
        rows.append((line.name, f"{line.jobs:,}", *numbers))
    head, *body, last = text_table(rows)
    rule = "-" * len(head)
    return "\n".join([head, rule, *body, rule, last])


def table_of_stages(estimate: Estimate, targets: Iterable[Job]) -> str:
    """Stages as text, with their jobs and the time of these on one GPU or core each; those that take longest first."""
    seconds: dict[str, list[float]] = {}
    for job in estimate.graph.behind(targets):
        seconds.setdefault(job.stage, []).append(estimate.seconds(job))
    longest = sorted(seconds.items(), key=lambda item: (-sum(item[1]), item[0]))
    rows = [(stage, f"{len(some):,}", hours(sum(some) / 3600)) for stage, some in longest]
    return "\n".join(text_table([("stage", "jobs", "time"), *rows]))


def assumptions(machines: Machines, sizes: Sizes) -> list[str]:
    """What the numbers rest on, one sentence each."""
    cpu, gpu, budgets = machines.cpu, machines.gpu, machines.budgets
    said = [
        f"CPU: {cpu.machine}, {cpu.origin}: {cpu.train / 1e9:,.0f} GFLOP/s in training, {cpu.encode / 1e9:,.0f} in encoding, "
        f"{cpu.search / 1e9:,.0f} in exact search; {machines.cores} of these."
    ]
    if gpu is not None:
        what = "measured" if gpu.origin == "measured" else "ASSUMED, not measured"
        said.append(
            f"GPU: {gpu.machine}, {what}: {gpu.train / 1e12:,.1f} TFLOP/s in training, {gpu.encode / 1e12:,.1f} in encoding, "
            f"{1000 * gpu.pass_s:.0f} ms for the smallest micro-batch; {machines.gpus} of these, "
            "as many for a job as src/pretrieve/workflow/job_resources.py has, each further one adds "
            f"{EFFICIENCY} of one (assumed)."
        )
    said += [
        "FLOPs: matrix products of real tokens, forward and twice that backward (Kaplan et al. 2020); logits at predicted words "
        "only.",
        f"Micro-batches of {budgets[0]:,} tokens in training, {budgets[1]:,} in encoding; texts have their mean length, cut at "
        "the limit.",
        "Tokens of a step are the plan's: batch and lengths of budgets and recipes.",
        "Reading, tokenising, BM25: one core at this project's measured rates (benchmarks/results/); at "
        f"{1 / work.BM25_DOCUMENT / 1e6:,.0f} million documents a second for a BM25 query.",
        "Exact search: on the cores of its job (src/pretrieve/workflow/job_resources.py), also where ANCE searches "
        "between its steps; with faiss-gpu that is faster.",
        "Disk: what stays when all is done, raw files in; a training job has up to six times its model beside that in "
        "checkpoints.",
        "Wall: every job as soon as its input is there and a GPU or core is free. Not in it: queues, node failures, slow file "
        "systems.",
        "From nothing: finished jobs are not taken off; `snakemake -n` says what is left.",
    ]
    if sizes.guessed:
        said.append(
            f"GUESSED from the bytes of their files, for lack of counts: {', '.join(sorted(sizes.guessed))}. "
            "Add their counts to resources/counts.tsv."
        )
    return said


def as_json(lines: Sequence[Line], total: Line, machines: Machines, said: Sequence[str]) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "tables": [asdict(line) for line in lines],
        "total": asdict(total),
        "cpu": asdict(machines.cpu),
        "gpu": asdict(machines.gpu) if machines.gpu else None,
        "gpus": machines.gpus,
        "cores": machines.cores,
        "assumptions": list(said),
    }


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
        rates = estimate.machines.rates(job.stage)
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


def comparison(stages: list[Stage]) -> str:
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
