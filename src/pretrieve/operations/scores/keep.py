"""Pack the scores of finished systems, for joining them with other seeds elsewhere: ``pretrieve keep-scores``.

A tar.xz of the metrics files, which have the score of every query, of the small files that tables read beside them, and of
``scores.json``:

* ``scale``
* ``scores``: metrics file → ``arguments`` and ``code`` (:func:`pretrieve.operations.scores.chains.fingerprint`), ``sha256``, and
  the ``commit`` whose code makes it and the ``cpu`` that made it
* ``data``: place → file → SHA-256 of what the jobs read

Models, runs and embeddings stay behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import code_file
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.base.repository import version_of
from pretrieve.operations.bundle.archive import write_archive
from pretrieve.operations.bundle.contents import Asked, data_places
from pretrieve.operations.scores.chains import chains, data_hashes, fingerprint, records
from pretrieve.raw.archives import damage_told, tar_members
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_bytes import open_xz
from pretrieve.reporting.tables.manifest import cpu_model

MANIFEST = "scores.json"


def keep(asked: Asked, out: Path) -> int:
    """Write the scores of ``asked`` that are there to ``out``; returns how many. Without any, as of a table of counts, there is
    no ``out``.
    """
    plan = asked.plan()
    files = [file for file in asked.trained(plan) if Path(file).is_file()]
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
