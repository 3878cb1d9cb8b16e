"""Checksums of raw files: ``sha256:HEX`` or ``md5:HEX`` as a publisher gives it, or ``first-use``.

Where no publisher states one, the sha256 of the first copy is recorded in ``data/sources/checksums.tsv`` (name, sha256, bytes,
where it came from), and every later copy is checked against it: what a run was made from cannot change unseen. md5 tells a
damaged file from a whole one; against somebody who wants to deceive, sha256 alone is good.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_text

FIRST_USE = "first-use"
RECORDS = "checksums.tsv"
_LENGTHS = {"sha256": 64, "md5": 32}
_HEADER = "name\tsha256\tbytes\torigin"


@dataclass(frozen=True)
class Checksum:
    """What a file must have: ``algorithm`` '' means that its first use decides."""

    algorithm: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """From ``sha256:HEX``, ``md5:HEX``, 64 bare hexadecimal digits (sha256) or ``first-use``.

        Raises ValueError for anything else.
        """
        if text == FIRST_USE:
            return cls("", "")
        algorithm, _, digest = text.lower().rpartition(":")
        algorithm = algorithm or "sha256"
        if algorithm not in _LENGTHS or not re.fullmatch(f"[0-9a-f]{{{_LENGTHS[algorithm]}}}", digest):
            raise ValueError(f"checksum {text!r}: expected sha256:HEX, md5:HEX or {FIRST_USE}")
        return cls(algorithm, digest)

    def __bool__(self) -> bool:
        return bool(self.algorithm)

    def __str__(self) -> str:
        return f"{self.algorithm} {self.digest}" if self.algorithm else "a checksum that its first use decides"


class Digests:
    """The checksums of bytes that come by: sha256 always, and the one that is asked for."""

    def __init__(self, wanted: Checksum) -> None:
        self.bytes = 0
        self._wanted = wanted
        self._hashes = {name: hashlib.new(name) for name in {"sha256", wanted.algorithm} - {""}}

    def update(self, block: bytes) -> None:
        """Take the next bytes."""
        self.bytes += len(block)
        for one in self._hashes.values():
            one.update(block)

    @property
    def sha256(self) -> str:
        return self._hashes["sha256"].hexdigest()

    @property
    def found(self) -> str:
        """The checksum to compare, as ``ALGORITHM HEX``."""
        name = self._wanted.algorithm or "sha256"
        return f"{name} {self._hashes[name].hexdigest()}"

    def right(self, size: int = 0) -> bool:
        """Whether checksum and size (0: not known) are as they must be."""
        return (not self._wanted or self.found == str(self._wanted)) and (not size or self.bytes == size)


def digests_of(path: Path, wanted: Checksum) -> Digests:
    """Checksums of a file, read in blocks."""
    digests = Digests(wanted)
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digests.update(block)
    return digests


def read_records(path: Path) -> dict[str, str]:
    """Name → sha256 of what was recorded at first use. Raises DataError when a line is not complete."""
    if not path.is_file():
        return {}
    records = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], start=2):
        fields = line.split("\t")
        if len(fields) != 4 or not re.fullmatch("[0-9a-f]{64}", fields[1]):
            raise DataError(
                f"{path}: line {number}: found {line!r}; expected {_HEADER!r}. Remove the line: its file is then recorded again."
            )
        records[fields[0]] = fields[1]
    return records


def record(path: Path, name: str, digests: Digests, origin: str) -> None:
    """Add one line to the records; jobs side by side wait for each other."""
    with locked(path.with_name("." + path.name + ".lock")):
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [_HEADER]
        lines.append("\t".join((name, digests.sha256, str(digests.bytes), re.sub(r"\s", " ", origin))))
        write_text(path, "\n".join(lines) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file: of processes on one file system, one at a time is inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
