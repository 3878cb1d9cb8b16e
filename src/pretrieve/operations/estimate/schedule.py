"""How long jobs take on N GPUs and C cores, when each starts as soon as what it needs is done and its places are free.

List scheduling, the longest chain first (Graham 1969): a ready job waits for its places, and later ones wait with it. With
more places such a schedule can be a little slower; then fewer are used, so that N GPUs are never slower than N − 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pretrieve.operations.estimate.jobs import Graph, Job

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


def wall_seconds(jobs: Sequence[Job], graph: Graph, timings: Mapping[Job, Timing], gpus: int, cores: int) -> float:
    """From the first job's start to the last one's end. jobs: each after those that it needs (:meth:`Graph.behind`); gpus: at
    least 1 where a job takes any."""
    line = _Line(jobs, graph, timings)
    return min(line.seconds(number, cores) for number in range(min(1, gpus), gpus + 1))


class _Line:
    """The jobs of a schedule, their dependencies, and their priorities."""

    def __init__(self, jobs: Sequence[Job], graph: Graph, timings: Mapping[Job, Timing]) -> None:
        place = {job: number for number, job in enumerate(jobs)}
        self._timings = [timings[job] for job in jobs]
        self._needs = [[place[one] for one in graph.needs(job) if one in place] for job in jobs]
        self._waited_for: list[list[int]] = [[] for _ in jobs]
        for number, needs in enumerate(self._needs):
            for one in needs:
                self._waited_for[one].append(number)
        #: Seconds of the longest chain from a job's start to the end.
        self._tails = [timing.seconds for timing in self._timings]
        for number in reversed(range(len(jobs))):
            behind = max((self._tails[other] for other in self._waited_for[number]), default=0.0)
            self._tails[number] += behind

    def seconds(self, gpus: int, cores: int) -> float:
        """Of the schedule with these places."""
        free = {True: gpus, False: max(1, cores)}
        most = dict(free)
        waiting = [len(needs) for needs in self._needs]
        ready: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
        running: list[tuple[float, int, bool, int]] = []
        now = 0.0

        def enter(number: int) -> None:
            heapq.heappush(ready[self._timings[number].gpus > 0], (-self._tails[number], number))

        for number, needs in enumerate(self._needs):
            if not needs:
                enter(number)
        while running or any(ready.values()):
            for on_gpus, queue in ready.items():
                while queue:
                    timing = self._timings[queue[0][1]]
                    wanted = min(timing.gpus if on_gpus else timing.cores, most[on_gpus])
                    if wanted > free[on_gpus]:
                        break
                    _, number = heapq.heappop(queue)
                    free[on_gpus] -= wanted
                    lasts = timing.seconds
                    # On fewer cores than it asks for, a job is that much slower at most.
                    lasts = lasts / speed_up(wanted) if on_gpus else lasts * timing.cores / wanted
                    heapq.heappush(running, (now + lasts, number, on_gpus, wanted))
            now, number, on_gpus, wanted = heapq.heappop(running)
            free[on_gpus] += wanted
            for other in self._waited_for[number]:
                waiting[other] -= 1
                if not waiting[other]:
                    enter(other)
        return now
