"""Where a raw file may be on this machine: in its place, in a mirror folder, or in the Python package that ships it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pretrieve.base.errors import ConfigError
from pretrieve.base.inside import inside
from pretrieve.raw.raw_bytes import open_raw

if TYPE_CHECKING:
    from pretrieve.raw.sources import Source


@dataclass(frozen=True)
class Candidate:
    """A place where the file may be; ``packed``: a gzip copy of it."""

    path: Path
    packed: bool = False

    def open(self) -> BinaryIO:
        return open_raw(self.path) if self.packed else open(self.path, "rb")

    def may_have(self, size: int) -> bool:
        """Whether the (unpacked) size is right, as far as can be told without reading the file."""
        if not self.packed or not size:
            return size in (0, self.path.stat().st_size)
        with open(self.path, "rb") as stream:
            # The last four bytes of a gzip file: the unpacked size modulo 2**32 [RFC 1952].
            stream.seek(max(0, self.path.stat().st_size - 4))
            return int.from_bytes(stream.read(4), "little") == size % (1 << 32)


#: The environment variable that tells jobs the folder.
MIRROR = "PRETRIEVE_MIRROR"


def mirror_folder(config: Mapping[str, Any], given: Path | None = None) -> Path | None:
    """The folder that is asked first: the one that a program was given, else the configuration's, else the environment's."""
    found = given or config.get("mirror") or os.environ.get(MIRROR)
    return Path(found) if found else None


def check_mirror(config: Mapping[str, Any]) -> None:
    """Before the first job. Raises ConfigError where the mirror is no folder."""
    mirror = mirror_folder(config)
    if mirror is not None and not mirror.is_dir():
        raise ConfigError(
            f"config: mirror, --mirror or {MIRROR}: {mirror} is no folder; expected one with raw files, or none."
        )


def is_in_place(source: Source, target: Path) -> bool:
    """Whether there is a file at ``target``, of the size that the list states: its checksum is not looked at."""
    return target.is_file() and source.bytes in (0, target.stat().st_size)


def candidates(source: Source, mirror: Path | None) -> Iterator[Candidate]:
    """Where the file may be on this machine, the likeliest first: in the mirror at its place, there under its name in any other
    folder, and in its package.

    A name like ``corpus.jsonl`` is that of many files. Where only the first use decides what is right, the place must be right,
    and no link may lead out of the mirror or the package: then nothing would say what the file is.

    Raises DataError for such a link.
    """
    if mirror is not None:
        names = [(source.file, False), (source.file + ".gz", True)]
        direct = [Candidate(mirror / name, packed) for name, packed in names]
        for one in direct:
            if one.path.is_file():
                if not source.expected:
                    inside(mirror, str(one.path.relative_to(mirror)), f"mirror {mirror}: {source.name}:")
                yield one
        seen = [one.path for one in direct]
        for name, packed in names if source.expected else []:
            for path in (*sorted(mirror.rglob(name)), *sorted(mirror.rglob(Path(name).name))):
                if path.is_file() and path not in seen:
                    seen.append(path)
                    one = Candidate(path, packed)
                    if path.match(name) or one.may_have(source.bytes):
                        yield one
    spec = importlib.util.find_spec(source.package) if source.package else None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place) / source.path
        if path.is_file():
            if not source.expected:
                inside(place, source.path, f"package {source.package}: {source.name}:")
            yield Candidate(path)
