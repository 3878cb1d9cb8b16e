"""Pack the scores of finished systems, for joining them with other seeds elsewhere: ``pretrieve keep-scores``.

A zip of the metrics files, which have the score of every query, of the small files that tables read beside them, and of
``scores.json``:

* ``scale``
* ``scores``: metrics file → ``arguments`` and ``code`` (:func:`pretrieve.operations.scores.chains.fingerprint`), ``sha256``, and
  the ``commit`` and ``cpu`` that it was made with
* ``data``: place → file → SHA-256 of what the jobs read

Models, runs and embeddings stay behind.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, whole_file
from pretrieve.base.repository import version_of
from pretrieve.operations.bundle.contents import Asked, data_places
from pretrieve.operations.scores.chains import chains, data_hashes, fingerprint, records
from pretrieve.raw.json_file import read_json
from pretrieve.reporting.tables.manifest import cpu_model

MANIFEST = "scores.json"


def keep(asked: Asked, out: Path) -> int:
    """Write the scores of ``asked`` that are there to ``out``; returns how many.

    Raises DataError when there is none.
    """
    plan = asked.plan()
    files = [file for file in asked.cells(plan) if Path(file).is_file()]
    if not files:
        raise DataError(f"{plan.root}/metrics: no score of these tables and seeds is there; make the tables first.")
    found = chains(asked, files)
    here = {"commit": version_of(code_file()).commit, "cpu": cpu_model()}
    elsewhere = taken(Path(plan.root))
    scores = {}
    for file, jobs in found.items():
        digest = sha256_of(Path(file))
        scores[file] = fingerprint(jobs) | {"sha256": digest} | elsewhere.get((file, digest), here)
    jobs = {job.id: job for some in found.values() for job in some}
    manifest = {"scale": asked.scale, "scores": scores, "data": data_hashes(data_places(list(jobs.values())))}
    members = sorted({name for file, some in found.items() for name in records(file, some) if Path(name).is_file()})
    with whole_file(out) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        # Dates of 1980, so that equal scores give equal bytes.
        archive.writestr(_member(MANIFEST), json.dumps(manifest, indent=1, sort_keys=True))
        for name in members:
            archive.writestr(_member(name), Path(name).read_bytes())
    return len(scores)


def seed_of(file: str) -> int:
    """Of a metrics file."""
    return int(Path(file).stem.removeprefix("seed"))


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


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
    with zipfile.ZipFile(path) as archive:
        scores = json.loads(archive.read(MANIFEST))["scores"]
    seeds: dict[tuple[str, str], set[int]] = {}
    for file, entry in scores.items():
        seeds.setdefault((entry["commit"] or "no commit", entry["cpu"]), set()).add(seed_of(file))
    return [f"{_words(found)}: `{commit[:7]}`, {cpu}" for (commit, cpu), found in sorted(seeds.items(), key=str)]


def _words(seeds: Iterable[int]) -> str:
    numbers = sorted(seeds)
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
