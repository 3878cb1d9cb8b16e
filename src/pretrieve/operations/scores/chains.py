"""What made a score: the jobs behind a metrics file, the data that they read, and the small files that tables read of them.

Two scores of one path may stand side by side in a table only where the same would be made here: the same calls
(:attr:`pretrieve.operations.bundle.jobs.Call.key`: all options, with the seed), code and data. Which jobs there are, Snakemake
says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from pretrieve.base.paths import cost_beside
from pretrieve.operations.bundle.contents import Asked, data_files, hashes, remaining
from pretrieve.operations.bundle.jobs import Job, behind, makers

#: Metrics file → the jobs that make it, its own last.
Chains = Mapping[str, Sequence[Job]]


def chains(asked: Asked, files: Iterable[str]) -> Chains:
    """Of the metrics files of trained systems, whether they are there or not."""
    files = sorted(files)
    made_by = makers(remaining(asked, files, again=True))
    return {file: [*behind(made_by[file], made_by), made_by[file]] for file in files}


def fingerprint(jobs: Sequence[Job]) -> dict[str, str]:
    """What must be equal for two scores to be the same: ``arguments`` and ``code`` of all jobs, a hash each."""
    parts = {"arguments": [job.id for job in jobs], "code": [job.code for job in jobs]}
    return {name: hashlib.sha256(json.dumps(sorted(words)).encode()).hexdigest()[:24] for name, words in parts.items()}


def records(file: str, jobs: Sequence[Job]) -> list[str]:
    """A metrics file, and the files that may stand beside what its jobs make and say how: costs, curves, what a search lost."""
    found = {file: None}
    for place in (place for job in jobs for place in job.call.makes):
        if place.endswith(".gz"):
            beside = cost_beside(place).removesuffix("cost.json")
            found |= dict.fromkeys(f"{beside}{name}.json" for name in ("cost", "recall", "entropy"))
        elif not place.endswith(".json"):
            found |= dict.fromkeys(f"{place}/{name}" for name in ("cost.json", "pretrieve.json", "curve.csv"))
    return list(found)


def data_hashes(places: Iterable[str]) -> dict[str, dict[str, str]]:
    """Place → file → SHA-256, of what jobs read; what it cost is no part of it.

    Raises DataError when there is nothing at a place.
    """
    return {
        place: hashes(file for name, file in data_files(place).items() if not name.endswith("cost.json"))
        for place in places
    }
