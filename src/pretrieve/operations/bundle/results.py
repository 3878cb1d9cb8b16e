"""What a slice sends home: a folder of files that are at most 16 MiB each.

::

    out/slice-001/
        manifest.json             the jobs that ended in it, with times; the machine; of which bundle; checksums of all
        results-01.tar.xz, …      runs or their scores, predictions, curves, negatives, configurations, costs, logs
        weights-00001.safetensors, …, weights.index.json

``parts`` of the manifest has the sha256 of every file next to it, ``members`` of what is in each archive, ``checksum`` the
manifest's own: of its JSON without that key, keys sorted. A job is in the slice in which it ended. Vectors stay there. The folder
gets its name when it is complete.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pretrieve.base.files import write_json
from pretrieve.operations.bundle.archive import sums_of, write_archive
from pretrieve.operations.bundle.jobs import Job

MANIFEST = "manifest.json"
_WEIGHTS = ".safetensors"
#: Of a part that comes home; a larger file has one of its own.
PART_BYTES = 16 << 20


def files_of(job: Job, stay: Collection[str] = ()) -> list[str]:
    """The files of a finished job that go home; of vectors, and of files that ``stay``, only what they cost and what is beside
    them."""
    found: list[Path] = []
    for place in map(Path, job.call.makes):
        if place.is_dir():
            vectors = str(place) in job.call.options.get("stores", ())
            found += [place / "cost.json"] if vectors else sorted(place.rglob("*"))
        else:
            found += [*([] if str(place) in stay else [place]), *beside(place)]
    return list(dict.fromkeys(str(file) for file in found if file.is_file()))


def beside(place: Path) -> list[Path]:
    """What may be next to a file that a job makes."""
    stem = place.name
    for suffix in (".trec.gz", ".jsonl.gz", ".tsv.gz", ".json"):
        stem = stem.removesuffix(suffix)
    return [place.with_name(f"{stem}.{kind}.json") for kind in ("cost", "recall", "entropy")]


def is_of(name: str, job: Job) -> bool:
    """Whether a file that came home, by its path in the checkout, is one that a job makes.

    >>> from pretrieve.operations.bundle.jobs import Call
    >>> job = Job("", "", Call("pretrain", {"out": ["results/a/encoders/x"]}))
    >>> is_of("results/a/encoders/x/cost.json", job), is_of("results/a/encoders/xx", job)
    (True, False)
    """
    makes = [Path(place) for place in job.call.makes]
    path = Path(name)
    return any(path == place or place in path.parents or path in beside(place) for place in makes)


def packed_jobs(out: Path) -> set[str]:
    """Ids of the jobs that earlier slices have sent home."""
    return {job for path in slices_in(out) for job in json.loads((path / MANIFEST).read_bytes())["jobs"]}


def slices_in(out: Path) -> list[Path]:
    """The complete slices of a folder, oldest first."""
    return sorted(path.parent for path in out.glob(f"slice-*/{MANIFEST}"))


def checksum(manifest: Mapping[str, Any]) -> str:
    """The checksum that a manifest has of itself: of all but that key."""
    kept = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, allow_nan=False).encode()).hexdigest()


def write_slice(
    jobs: Sequence[Job],
    records: Mapping[str, dict[str, Any]],
    out: Path,
    about: Mapping[str, Any],
    weights: str = "bf16",
    stay: Collection[str] = (),
) -> Path | None:
    """Write the next slice with these finished jobs; None where there are none. records: job → what the runner knows of it.
    about: of the bundle and the machine. weights: ``bf16``, ``fp32`` or ``none``. stay: runs and negatives that are not sent."""
    if not jobs:
        return None
    ends = (path.name.rpartition("-")[2] for path in slices_in(out))
    number = 1 + max((int(end) for end in ends if end.isdecimal()), default=0)  # a copy may be called slice-001.old
    folder, unfinished = out / f"slice-{number:03d}", out / f".slice-{number:03d}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    files = [file for job in jobs for file in files_of(job, stay)]
    models = [file for file in files if file.endswith(_WEIGHTS)]
    if weights != "none" and models:
        from pretrieve.operations.bundle.weights import pack_weights  # torch takes two seconds to load

        pack_weights(models, unfinished, weights)
    shares = _shares([file for file in files if not file.endswith(_WEIGHTS)])
    archives = {
        f"results-{part:02d}.tar.xz": {name: Path(name) for name in names} for part, names in enumerate(shares, 1)
    }
    with ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0)))) as pool:  # xz runs beside Python
        list(pool.map(lambda archive: write_archive(unfinished / archive, archives[archive]), archives))
    manifest = {
        "weights": weights,
        "stay": sorted({place for job in jobs for place in job.call.makes} & {*stay}),
        "jobs": {job.id: {"made": records[job.id], "job": job.as_json()} for job in jobs},
        "parts": sums_of({file.name: file for file in sorted(unfinished.iterdir())}),
        "members": {archive: sums_of(content) for archive, content in archives.items()},
        **about,
    }
    write_json(unfinished / MANIFEST, manifest | {"checksum": checksum(manifest)})
    os.replace(unfinished, folder)
    return folder


def _shares(files: Sequence[str]) -> list[list[str]]:
    """Files in groups that do not exceed a part even uncompressed; a larger file has a group of its own."""
    shares: list[list[str]] = []
    used = PART_BYTES
    for file in files:
        size = Path(file).stat().st_size + 2048  # its header and padding
        if used + size > PART_BYTES - (1 << 14):
            shares.append([])
            used = 0
        shares[-1].append(file)
        used += size
    return shares
