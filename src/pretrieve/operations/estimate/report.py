"""The estimate as text: a line for each table, a total in which shared stages count once, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pretrieve.operations.estimate import schedule, work
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.operations.estimate.rates import Rates
from pretrieve.operations.estimate.schedule import Timing, wall_seconds
from pretrieve.operations.estimate.sizes import Sizes
from pretrieve.operations.estimate.work import Work, Workload
from pretrieve.reporting.tables.rows import text_table
from pretrieve.workflow.job_resources import COLUMNS, MOST_GPUS, STAGES, Need, column_of

GB = 1e9
#: Tokens of a micro-batch in training and in encoding, by device.
BUDGETS = {"cpu": (16_384, 4_096), "cuda": (65_536, 65_536)}


@dataclass(frozen=True)
class Machines:
    """gpus of the kind ``gpu`` (None: everything on cores), ``cores`` of the kind ``cpu``; needs: what a job of a stage asks for;
    most: GPUs of one job, at most."""

    cpu: Rates
    gpu: Rates | None
    gpus: int
    cores: int
    needs: Callable[[str], Need]
    most: int = MOST_GPUS

    @property
    def budgets(self) -> tuple[int, int]:
        return BUDGETS["cpu" if self.gpu is None else "cuda"]

    def timing(self, stage: str, task: Work) -> Timing:
        """Where a job runs, and how long."""
        need = self.needs(stage)
        if task.gpu and self.gpu is not None:
            return Timing(self.gpu.seconds(task, need.threads), max(1, min(need.gpus, self.most)), need.threads)
        threads = min(need.threads, self.cores)
        return Timing(self.cpu.seconds(task, threads), 0, threads)


def needs_of(config: Mapping[str, Any]) -> Callable[[str], Need]:
    """What jobs ask for at the configuration's scale (:mod:`pretrieve.workflow.job_resources`), by stage."""
    column = COLUMNS.index(column_of(config))
    other = {"claims": "report", "league": "report", "published_negatives": "collection"}
    return lambda stage: STAGES[other.get(stage, stage.removesuffix("_checkpoint"))][column]


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

    def _raw(self, jobs: Iterable[Job]) -> tuple[float, float, float]:
        """GB to download, GB of these that are in place, and GB of raw files on the disk; an archive counts once."""
        jobs, sizes = list(jobs), self.workload.sizes
        names = [job.subject for job in jobs if job.stage == "fetch"]
        checkpoints = sum(self.workload.of(job).download for job in jobs if job.stage == "fetch_checkpoint")
        wanted = [
            name for name in names if not (self._is_there(name) or self._is_there(sizes.downloaded_as(name).name))
        ]
        coming, everything = sizes.download(wanted), sizes.download(names)
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
            f"{schedule.EFFICIENCY} of one (assumed)."
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
