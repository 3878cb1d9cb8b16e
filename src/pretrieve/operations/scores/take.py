"""Put scores that were kept elsewhere in their places, so that Snakemake takes them as made: ``pretrieve take-scores``.

A score is taken only where the same would be made here: calls and code behind it are those of this checkout and configuration,
and so are the data, which are made first. Then tables join its seed with those that are trained here. Which paths are written
follows from the plan here; of the archive come contents alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrieve.base.code_folder import package_file
from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of, whole_file, write_json
from pretrieve.operations.bundle.arrived import check_form
from pretrieve.operations.bundle.contents import Asked, build, data_places, touch
from pretrieve.operations.bundle.unpack import by_reason
from pretrieve.operations.scores.keep import (
    MANIFEST,
    Chains,
    chains,
    data_hashes,
    fingerprint,
    read_scores,
    records,
    seed_of,
)

SCHEMA = package_file("schemas/scores.schema.yaml")


@dataclass
class Taken:
    """Metrics files that are in place now, and the others, each with the reason."""

    files: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def take(path: Path, words: Sequence[str] = (), any_code: bool = False, cores: int = 1) -> Taken:
    """Take what is missing here of an archive of :func:`pretrieve.operations.scores.keep.keep`.

    words: for Snakemake's ``--config``, without seeds. any_code: also scores that other code made; Snakemake then does not see
    the difference.

    Raises DataError when the archive is none, or damaged; nothing is in place then that was not before.
    """
    contents = read_scores(path)
    manifest = _manifest(path, contents)
    kept = manifest["scores"]
    seeds = sorted({seed_of(file) for file in kept})
    asked = Asked(manifest["scale"], config=(f"seeds={seeds}", *words))
    plan = asked.plan()
    taken = Taken()
    known = asked.trained(plan)
    for file in kept:
        if file not in known:
            taken.refused[file] = "no table of this configuration asks for it"
        elif Path(file).is_file():
            taken.refused[file] = "is there already"
    if not (wanted := [file for file in kept if file not in taken.refused]):
        return taken
    found = chains(asked, wanted)
    places = data_places(list({job.id: job for jobs in found.values() for job in jobs}.values()))
    build(asked, plan, places, cores)
    here = data_hashes(places)
    stale = [place for place in places if here[place] != manifest["data"].get(place)]
    taken.refused |= _refused(found, kept, stale, any_code)
    taken.files = [file for file in wanted if file not in taken.refused]
    _place(path, contents, {file: found[file] for file in taken.files}, kept)
    if taken.files:
        write_json(f"{plan.root}/taken/{sha256_of(path)[:12]}.json", {file: kept[file] for file in taken.files})
        touch(asked, taken.files)
    return taken


def _refused(found: Chains, kept: dict[str, dict[str, Any]], stale: Iterable[str], any_code: bool) -> dict[str, str]:
    """Metrics file → why it is not what would be made here."""
    refused = {}
    for file, jobs in found.items():
        own, needs = fingerprint(jobs), {place for job in jobs for place in job.call.needs}
        if own["arguments"] != kept[file]["arguments"]:
            refused[file] = "was made with other arguments than the configuration's"
        elif not any_code and own["code"] != kept[file]["code"]:
            refused[file] = "was made by other code (see --any-code)"
        elif others := sorted(needs.intersection(stale)):
            refused[file] = f"was made from other data than {', '.join(others)} now"
    return refused


def _place(path: Path, contents: dict[str, bytes], found: Chains, kept: dict[str, dict[str, Any]]) -> None:
    """Write the files of some scores; all are compared first."""
    for file in found:
        if hashlib.sha256(contents.get(file, b"")).hexdigest() != kept[file]["sha256"]:
            raise DataError(f"{path}: {file} is missing or is not what {MANIFEST} says: copy the archive again.")
    for file, jobs in found.items():
        for name in records(file, jobs):
            if name in contents and (name == file or not Path(name).is_file()):
                with whole_file(name) as stream:
                    stream.write(contents[name])


def _manifest(path: Path, contents: dict[str, bytes]) -> dict[str, Any]:
    try:
        manifest = json.loads(contents[MANIFEST])
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: {MANIFEST}: {error}; expected what keep-scores writes: copy it again.") from None
    check_form(manifest, SCHEMA, f"{path}: {MANIFEST}", "archive")
    return manifest


def report(taken: Taken) -> str:
    """What was taken and what was not, for people."""
    first = f"{len(taken.files)} scores are in place, {len(taken.refused)} are not taken"
    named = {"/".join(Path(file).parts[3:]).removesuffix(".json"): why for file, why in taken.refused.items()}
    return "\n".join([first, *by_reason(named)])
