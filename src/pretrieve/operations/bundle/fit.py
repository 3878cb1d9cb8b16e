"""What waits or stays at home when a bundle would be too large.

1. **Later seeds wait.** As long as there are several, the jobs of the last seed go out. Nothing is lost: a cell with fewer seeds
   is a cell, and the next bundle, made when this one has come home, begins with the seeds that waited.
2. **Then data stay at home**, a piece at a time, with all jobs that need it: the piece that takes the most room for each cell
   that it serves. So a token store that hundreds of cells begin with stays, and a large task of ten cells goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.operations.bundle.jobs import Job, dependents, in_order

#: Jobs → place of each piece of data that they read → about how many bytes it takes in the bundle.
Measure = Callable[[Sequence[Job]], Mapping[str, int]]


def fit(
    jobs: Sequence[Job], cells: Mapping[str, int], measure: Measure, room: float
) -> tuple[list[Job], list[dict[str, Any]]]:
    """The jobs whose data take at most ``room`` bytes, and a record for all that is not among them.

    cells: metrics file → how many cells of the asked tables it is behind.

    Raises
    ------
    ConfigError
        when no job is left.
    """
    kept, left_out = list(jobs), []
    while (total := sum((sizes := measure(kept)).values())) > room:
        seeds = sorted({seed_of(job) for job in kept})
        if len(seeds) > 1:
            out = [job for job in kept if seed_of(job) == seeds[-1]]
            what, why = f"seed {seeds[-1]}", "it waits for the next bundle"
        else:
            what = max(sizes, key=lambda place: (sizes[place] / _served(place, kept, cells), place))
            out, why = dependents([what], kept), "the bundle was over its limit"
        lost = {job.id for job in out}
        kept = in_order([job for job in kept if job.id not in lost], cells)
        if not kept:
            raise ConfigError(
                f"the bundle: nothing fits into {room / 2**20:.1f} MiB: {what} alone takes {sizes[what] / 2**20:.1f}; raise "
                "--limit."
            )
        size = sizes.get(what, total - sum(measure(kept).values()))
        left_out.append({"what": what, "bytes": size, "jobs": len(out), "why": why})
    return kept, left_out


def seed_of(job: Job) -> int:
    """The seed that a job's result is of."""
    found = re.search(r"seed(\d+)", job.call.makes[0])
    return int(found[1]) if found else 0


def _served(place: str, jobs: Sequence[Job], cells: Mapping[str, int]) -> int:
    """How many cells are lost without a piece of data; 1 where there is none, though jobs need it."""
    makes = [made for job in dependents([place], jobs) for made in job.call.makes]
    return max(1, sum(cells.get(made, 0) for made in makes))
