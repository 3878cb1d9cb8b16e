"""How fast a machine is, and how long jobs take on several: on N GPUs and C cores, when each starts as soon as what it needs is
done and its places are free.

Rates are measured here in half a minute, read from a file that was measured elsewhere, or assumed for a GPU. A rate of training
or encoding is FLOPs as :mod:`pretrieve.operations.estimate.flops` counts them, divided by seconds; what a step spends on all else
(norms, dropout) makes it smaller.

List scheduling, the longest chain first (Graham 1969): a ready job waits for its places, and later ones wait with it. With more
places such a schedule can be a little slower; then fewer are used, so that N GPUs are never slower than N − 1.
"""

import heapq
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.files import write_json
from pretrieve.operations.estimate.jobs import ON_GPU, Graph, Job
from pretrieve.operations.estimate.work import Work
from pretrieve.workflow.job_resources import COLUMNS, MOST_GPUS, STAGES, Need, column_of


@dataclass(frozen=True)
class Rates:
    """machine: in words; device: cpu or cuda; origin: measured or assumed. FLOPs a second: products (large matrices alone),
    train, encode, search (inner products with a collection, on a CPU core). Seconds: pass_s of a micro-batch besides its FLOPs,
    gathered_s of a number picked from the vocabulary, update_s of one parameter's update, load_s of a model, start_s of a job
    that computes, light_s of one that does not."""

    machine: str
    device: str
    origin: str
    products: float
    train: float
    encode: float
    search: float
    pass_s: float
    gathered_s: float
    update_s: float
    load_s: float
    start_s: float
    light_s: float

    def seconds(self, work: Work, threads: int = 1) -> float:
        """Of a job on one core or one GPU of this machine, where ``threads`` cores share what can be shared."""
        computing = work.runs > 0
        return (
            (self.start_s if computing else self.light_s)
            + work.runs * self.load_s
            + work.train / self.train
            + work.encode / self.encode
            + (work.search / self.search + work.shared_s) / max(1, threads)
            + work.gathered * self.gathered_s
            + (work.train_passes + work.encode_passes / 3) * self.pass_s
            + work.updates * self.update_s
            + work.cpu_s
        )

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def read_rates(path: Path) -> Rates:
    """What :meth:`Rates.write` wrote. Raises DataError when the file is missing or damaged, or has other fields."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        if other := {field.name for field in fields(Rates)} ^ {*values}:
            raise ValueError(f"fields that are missing or not known: {', '.join(sorted(other))}")
        if any(not value > 0 for name, value in values.items() if name not in ("machine", "device", "origin")):
            raise ValueError("a rate is not above 0")
        return Rates(**values)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{path}: {type(error).__name__} {error}; expected rates as `pretrieve estimate --measure FILE` writes "
            "them."
        ) from None


#: TFLOP/s of dense bf16 products (fp16 where there is no bf16), and who says so. Datasheets give peaks; an H200's large products
#: were measured at 769 to 798 TFLOP/s, which is 0.8 of its peak.
GPUS = {
    "h200": (989, "NVIDIA H200 datasheet, without sparsity"),
    "h100": (989, "NVIDIA H100 SXM datasheet, without sparsity"),
    "a100": (312, "NVIDIA A100 datasheet"),
    "l40s": (362, "NVIDIA L40S datasheet"),
    "a40": (150, "NVIDIA A40 datasheet"),
    "v100": (125, "NVIDIA V100 datasheet, fp16"),
}
#: Share of the peak that training is assumed to reach, and encoding.
MFU, ENCODING_MFU = 0.35, 0.40


def assumed_gpu(name: str, cpu: Rates, mfu: float = MFU) -> Rates:
    """A GPU that nobody measured: its datasheet's peak times ``mfu``. cpu: of the machine that it is in. Raises ConfigError for a
    GPU that is not in the list, or a share that is not between 0 and 1."""
    key = name.lower()
    if key not in GPUS:
        raise ConfigError(
            f"gpu {name!r}: allowed: {', '.join(GPUS)}, or rates that were measured on one (pretrieve estimate "
            f"--measure FILE){nearest(key, GPUS)}"
        )
    if not 0 < mfu <= 1:
        raise ConfigError(f"mfu {mfu}: expected a share of the peak, above 0 and at most 1.")
    tflops, source = GPUS[key]
    peak = tflops * 1e12
    return replace(
        cpu,
        machine=f"{key.upper()}, {tflops} TFLOP/s bf16 ({source}) × {mfu}",
        device="cuda",
        origin="assumed",
        products=peak,
        train=peak * mfu,
        encode=peak * min(1.0, mfu * ENCODING_MFU / MFU),
        pass_s=0.025,  # some 1,000 kernels of 12 layers, both ways, are launched in no less
        gathered_s=3e-12,  # 4 bytes at 1.3 TB/s
        update_s=1.4e-11,  # 28 bytes of a parameter, its gradient and two moments, at 2 TB/s
        load_s=5.0,
        start_s=20.0,
    )


def usable_cores(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that this process may use; in a container at most its share of processor time. ``limit``: control groups v2 write
    there microseconds, or ``max``, and those of the period."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        share, period = map(int, limit.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return cores
    return max(1, min(cores, share // period))


#: What each GPU of a job beyond the first adds, of a GPU's work. Assumed.
EFFICIENCY = 0.9


@dataclass(frozen=True)
class Timing:
    """seconds: of a job on one GPU, or on its ``cores``; gpus: that it takes at most, 0 for a job on cores."""

    seconds: float
    gpus: int = 0
    cores: int = 1


def speed_up(gpus: int) -> float:
    """Of a job on a number of GPUs.

    >>> speed_up(1), speed_up(8)
    (1.0, 7.3)
    """
    return 1.0 + EFFICIENCY * (gpus - 1)


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

    def rates(self, stage: str) -> Rates:
        """Of what its jobs run on."""
        return (self.gpu if stage in ON_GPU else None) or self.cpu

    def timing(self, stage: str, task: Work) -> Timing:
        """Where a job runs, and how long."""
        need = self.needs(stage)
        if stage in ON_GPU and self.gpu is not None:
            return Timing(self.gpu.seconds(task, need.threads), max(1, min(need.gpus, self.most)), need.threads)
        threads = min(need.threads, self.cores)
        return Timing(self.cpu.seconds(task, threads), 0, threads)


def needs_of(config: Mapping[str, Any]) -> Callable[[str], Need]:
    """What jobs ask for at the configuration's scale (:mod:`pretrieve.workflow.job_resources`), by stage."""
    column = COLUMNS.index(column_of(config))
    other = {"claims": "report", "league": "report", "published_negatives": "collection"}
    return lambda stage: STAGES[other.get(stage, stage.removesuffix("_checkpoint"))][column]


def wall_seconds(jobs: Sequence[Job], graph: Graph, timings: Mapping[Job, Timing], gpus: int, cores: int) -> float:
    """From the first job's start to the last one's end. jobs: each after those that it needs (:meth:`Graph.behind`); gpus: at
    least 1 where a job takes any."""
    place = {job: number for number, job in enumerate(jobs)}
    needs = {number: [place[one] for one in graph.needs(job) if one in place] for job, number in place.items()}
    taken = [timings[job] for job in jobs]
    #: Seconds of the longest chain from a job's start to the end.
    tails, behind = [timing.seconds for timing in taken], [0.0] * len(jobs)
    for number in reversed(range(len(jobs))):
        tails[number] += behind[number]
        for one in needs[number]:
            behind[one] = max(behind[one], tails[number])
    return min(_scheduled(needs, taken, tails, number, max(1, cores)) for number in range(min(1, gpus), gpus + 1))


def _scheduled(
    needs: Mapping[int, Sequence[int]], timings: Sequence[Timing], tails: Sequence[float], gpus: int, cores: int
) -> float:
    """Seconds of the schedule with these places."""
    free = {True: gpus, False: cores}
    most, now = dict(free), 0.0
    ready: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    running: list[tuple[float, int, bool, int]] = []
    order = TopologicalSorter(needs)
    order.prepare()
    while order.is_active():
        for number in order.get_ready():
            heapq.heappush(ready[timings[number].gpus > 0], (-tails[number], number))
        for on_gpus, queue in ready.items():
            while queue:
                timing = timings[queue[0][1]]
                wanted = min(timing.gpus if on_gpus else timing.cores, most[on_gpus])
                if wanted > free[on_gpus]:
                    break
                _, number = heapq.heappop(queue)
                free[on_gpus] -= wanted
                # On fewer cores than it asks for, a job is that much slower at most.
                lasts = timing.seconds / speed_up(wanted) if on_gpus else timing.seconds * timing.cores / wanted
                heapq.heappush(running, (now + lasts, number, on_gpus, wanted))
        now, number, on_gpus, wanted = heapq.heappop(running)
        free[on_gpus] += wanted
        order.done(number)
    return now
