"""A slice that was brought here: its manifest is checked, its files are compared with it and unpacked next to the results.

A slice was on other machines, so all of it is checked. The manifest has its own form (``schemas/slice.schema.yaml`` of the
package) and checksum; the id of each job must be the key of its arguments; every file and every member of an archive must have
its sha256 and belong to a job. Where a job writes is taken from the plan here (:mod:`pretrieve.operations.bundle.unpack`).
"""

import errno
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from pretrieve.base.code_folder import package_file
from pretrieve.base.disk import refusal
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import whole_file
from pretrieve.base.inside import inside, plain_name
from pretrieve.operations.bundle.archive import check_sum, read_archive
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.bundle.jobs import SIDE_BY_SIDE, Call, Job
from pretrieve.operations.bundle.results import MANIFEST, checksum, is_of
from pretrieve.raw.json_file import read_json
from pretrieve.references.yaml_files import Loader

SCHEMA = package_file("schemas/slice.schema.yaml")
#: Bytes; that of a thousand jobs has about three million.
LARGEST = 64 << 20
_SEEDS = re.compile(r"seeds=\[[0-9]{1,9}(, ?[0-9]{1,9})*\]")


def arrived(folder: Path) -> tuple[dict[str, Any], list[Job]]:
    """The manifest of a slice, and its jobs. Raises DataError when it cannot be read, is damaged, or says what no runner writes;
    with the key."""
    path = folder / MANIFEST
    manifest = read_json(path, "the manifest of a slice", most=LARGEST)
    check_form(manifest, SCHEMA, path, "slice")
    try:
        found = checksum(manifest)
    except ValueError as error:  # NaN, which is no JSON, though Python reads it
        raise DataError(f"{path}: {error}; expected numbers: copy the slice again.") from None
    if manifest["checksum"] != found:
        raise DataError(f"{path}: has the checksum {found}, and says {manifest['checksum']}; damaged: copy it again.")
    jobs = [_job(path, key, entry["job"]) for key, entry in manifest["jobs"].items()]
    if set(manifest["members"]) != {part for part in manifest["parts"] if part.startswith("results-")}:
        raise DataError(f"{path}: parts and members name different archives: copy the slice again.")
    for archive, members in manifest["members"].items():
        for name in members:
            _check_owner(f"{path}: {archive}: member", name, jobs)
    return manifest, jobs


def check_form(manifest: Any, schema: Path, path: object, what: str) -> None:
    """Raise DataError, with the key, unless a manifest has the form that ``schema`` gives; ``what`` it is of, for the advice."""
    if error := best_match(_form(schema).iter_errors(manifest)):
        key = ".".join(str(part)[:60] for part in error.absolute_path) or "top level"
        raise DataError(f"{path}: {key}: {error.message[:300]}; expected what {schema} allows: copy the {what} again.")


@cache
def _form(schema: Path) -> Draft202012Validator:
    return Draft202012Validator(yaml.load(schema.read_text(encoding="utf-8"), Loader))


def _job(path: Path, key: str, given: Mapping[str, Any]) -> Job:
    call = Call(given["call"]["program"], given["call"]["options"])
    try:
        if call.program not in SIDE_BY_SIDE:
            raise ValueError(f"program {call.program!r}")
        own, _, _ = call.key, call.makes, call.needs
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DataError(
            f"{path}: job {key}: arguments that no program of a bundle takes ({type(error).__name__}: {str(error)[:100]})."
        ) from None
    if not own == key == given["id"]:
        raise DataError(
            f"{path}: job {key}: its arguments have the id {own}, so they are not those of the bundle; the job is refused."
        )
    return Job(own, "", call, code=given["code"])


def _check_owner(what: str, name: str, jobs: Sequence[Job]) -> None:
    plain_name(name, what)
    if not any(is_of(name, job) for job in jobs):
        raise DataError(f"{what} {name[:120]!r} is not made by any job of the slice.")


def asked_by(about: Mapping[str, Any], given: Sequence[str] = ()) -> Asked:
    """What a bundle was made for. Of its words for ``--config``, seeds are accepted, and those that are also ``given`` here; a
    slice does not decide where raw files are (``mirror=``). Raises ConfigError for any other word."""
    words = [word for word in about["config"] if not word.startswith("mirror=")]
    for word in words:
        if word not in given and not _SEEDS.fullmatch(word):
            raise ConfigError(
                f"the bundle says --config {word[:120]!r}; expected seeds=[…] alone. If you made the bundle with it, "
                "repeat it: pretrieve unbundle --config WORD."
            )
    for name in about["files"]:
        plain_name(name, "the bundle: metrics file")
    return Asked(about["scale"], tuple(about["tables"]), tuple(words), tuple(about["files"]))


def unpack(folder: Path, manifest: Mapping[str, Any], jobs: Sequence[Job], place: Path) -> None:
    """Compare all files of a slice with its manifest, and unpack them below ``place``. Raises DataError when one is missing,
    damaged or not what it should be, or there is no room for them."""
    from pretrieve.operations.bundle.weights import INDEX, unpack_weights  # torch takes two seconds to load

    parts = manifest["parts"]
    for name, expected in parts.items():
        check_sum(inside(folder, name, f"{folder / MANIFEST}: part"), expected)
    sizes = [entry["bytes"] for members in manifest["members"].values() for entry in members.values()]
    needed = sum(sizes) + sum(entry["bytes"] for name, entry in parts.items() if name.startswith("weights-"))
    if needed > shutil.disk_usage(place).free:
        raise refusal(place, errno.ENOSPC, needed)
    for archive, members in manifest["members"].items():
        read_archive(folder / archive, place, members)
    if INDEX in parts:
        for name, content in unpack_weights(folder, [part for part in parts if part != INDEX]):
            _check_owner(f"{folder / INDEX}: file", name, jobs)
            with whole_file(inside(place, name, f"{folder / INDEX}: file")) as stream:
                stream.write(content)
