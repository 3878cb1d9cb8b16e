"""What a stage cost: wall and processor time, peak memory, GPU hours. Written beside its results as JSON."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from pretrieve.base.files import write_json


class Spent(NamedTuple):
    """Seconds by the clock, and of processors."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


NOTHING = Spent()


class Cost:
    """Measure the block it surrounds; ``tokens``, ``gpus`` (1) and ``earlier`` may be set in it by who counts them.

    ``wall_s``, ``cpu_s`` (this process and its ended children, user + system) are of the block, and of ``earlier`` processes
    whose work it continued. ``peak_gb`` is the largest resident size of the process, or of one of its children, since it
    began (1 GB = 1e9 bytes; the system keeps no figure for a block). ``gpu_h`` is the wall time in hours, times ``gpus``, when
    the block used CUDA, which is known by torch being imported and initialised by then; torch is not imported for it.

    Example: ``with Cost("bm25", threads=2) as cost: ...`` then ``cost.write(path)``.
    """

    def __init__(self, stage: str, threads: int = 1) -> None:
        self.stage, self.threads, self.tokens, self.gpus, self.earlier = stage, threads, 0, 1, NOTHING
        self.wall_s = self.cpu_s = self.peak_gb = self.gpu_h = 0.0

    def __enter__(self) -> Cost:
        self._wall, self._cpu = time.perf_counter(), cpu_seconds()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.wall_s = self.earlier.wall_s + time.perf_counter() - self._wall
        self.cpu_s = self.earlier.cpu_s + cpu_seconds() - self._cpu
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        self.peak_gb = max(resource.getrusage(who).ru_maxrss for who in kinds) * 1024 / 1e9  # Linux counts KiB
        torch = sys.modules.get("torch")
        self.gpu_h = self.wall_s * self.gpus / 3600 if torch is not None and torch.cuda.is_initialized() else 0.0

    def write(self, path: Path | str, behind: Sequence[str] = ()) -> None:
        """Write the cost file, seconds and GB to 3 digits, GPU hours to 6; ``behind``: cost files of what this stage was given,
        which its result cost too."""
        fields = {
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "peak_gb": round(self.peak_gb, 3),
            "gpu_h": round(self.gpu_h, 6),
            "threads": self.threads,
            "stage": self.stage,
            "tokens": self.tokens,
        }
        write_json(path, fields | ({"behind": list(behind)} if behind else {}))

    def write_with_parts(self, out: Path, parts: Sequence[Path], behind: Sequence[str] = ()) -> None:
        """Write ``cost.json`` of a directory, and of others that the same work has left: they cost nothing beside it, and stand
        on it. The first is written last (:mod:`pretrieve.base.finished_work`)."""
        for place in parts:
            Cost(self.stage, self.threads).write(place / "cost.json", [f"{out}/cost.json"])
        self.write(out / "cost.json", behind)


def cpu_seconds() -> float:
    """Of this process and its ended children, user + system."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
