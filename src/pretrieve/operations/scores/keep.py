"""Pack the scores of finished systems, for joining them with other seeds elsewhere: ``pretrieve keep-scores``.

A tar.xz of the metrics files, which have the score of every query, of the small files that tables read beside them, and of
``scores.json``:

* ``scale``
* ``scores``: metrics file → ``arguments`` and ``code`` (:func:`fingerprint`), ``sha256``, and the ``commit`` whose
  code makes it and the ``cpu`` that made it
* ``data``: place → file → SHA-256 of what the jobs read

Models, runs and embeddings stay behind.

Two scores of one path may stand side by side in a table only where the same would be made here: the same calls
(:attr:`pretrieve.operations.bundle.jobs.Call.key`: all options, with the seed), code and data. Which jobs there are, Snakemake
says.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.base.paths import cost_beside
from pretrieve.base.repository import version_of
from pretrieve.operations.bundle.archive import write_archive
from pretrieve.operations.bundle.contents import Asked, data_files, data_places, hashes, remaining
from pretrieve.operations.bundle.jobs import Job, behind, makers
from pretrieve.raw.archives import damage_told, tar_members
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_bytes import open_xz
from pretrieve.reporting.tables.manifest import cpu_model

MANIFEST = "scores.json"
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


def keep(asked: Asked, out: Path) -> int:
    """Write the scores of ``asked`` that are there to ``out``; returns how many. Without any, as of a table of counts, there is
    no ``out``. Those that Snakemake would make again are left out, and said: arguments, code and data are those of today.
    """
    plan = asked.plan()
    there = [file for file in asked.trained(plan) if Path(file).is_file()]
    stale = {place for job in (remaining(asked, there) if there else ()) for place in job.call.makes}
    files = [file for file in there if file not in stale]
    if old := sorted(stale.intersection(there)):
        print(
            f"{len(old)} scores are not up to date, such as {old[0]}: not kept; run snakemake first.", file=sys.stderr
        )
    if not files:
        out.unlink(missing_ok=True)
        return 0
    found = chains(asked, files)
    here = {"commit": version_of(code_file()).commit, "cpu": cpu_model()}
    elsewhere = taken(Path(plan.root))
    scores = {}
    for file, jobs in found.items():
        digest = sha256_of(Path(file))
        scores[file] = fingerprint(jobs) | {"sha256": digest} | elsewhere.get((file, digest), here)
    jobs = {job.id: job for some in found.values() for job in some}
    manifest = {"scale": asked.scale, "scores": scores, "data": data_hashes(data_places(list(jobs.values())))}
    members = {name: Path(name) for file, some in found.items() for name in records(file, some) if Path(name).is_file()}
    write_archive(out, members | {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode()})
    return len(scores)


def read_scores(path: Path) -> dict[str, bytes]:
    """Name → content of the plain files of an archive.

    Raises DataError when there is none, or it is damaged.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected an archive that keep-scores wrote.")
    with damage_told(path):
        return {info.name: content.read() for info, content in tar_members(path, open_xz) if content is not None}


def seed_of(file: str) -> int:
    """Of a metrics file."""
    return int(Path(file).stem.removeprefix("seed"))


def taken(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Metrics file and its SHA-256 → commit and processor, of the scores that came from elsewhere
    (:mod:`pretrieve.operations.scores.take`)."""
    return {
        (file, entry["sha256"]): {"commit": entry["commit"], "cpu": entry["cpu"]}
        for record in sorted((root / "taken").glob("*.json"))
        for file, entry in read_json(record, "a record of scores from elsewhere").items()
    }


def origins(path: Path) -> list[str]:
    """A line for each commit and processor that an archive's scores were made with: their seeds."""
    scores = json.loads(read_scores(path)[MANIFEST])["scores"]
    seeds: dict[tuple[str, str], set[int]] = {}
    for file, entry in scores.items():
        seeds.setdefault((entry["commit"] or "no commit", entry["cpu"]), set()).add(seed_of(file))
    return [f"{_words(found)}: `{commit[:7]}`, {cpu}" for (commit, cpu), found in sorted(seeds.items(), key=str)]


def _words(seeds: Iterable[int]) -> str:
    numbers = sorted(seeds)
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
