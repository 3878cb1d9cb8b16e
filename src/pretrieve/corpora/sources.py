"""Raw files: found in a mirror folder, in the Python package that ships them, inside an archive, or at their publisher's,
checked, and put in place.

``resources/sources.tsv`` names each file, its checksum and where it comes from (docs/raw-files.md). Nothing is ever used
unchecked, and a good file is never replaced by a bad one.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pretrieve.corpora.checksums import RECORDS as RECORDS
from pretrieve.corpora.checksums import Checksum, Digests, digests_of, locked, read_records, record
from pretrieve.corpora.download import Download
from pretrieve.errors import DataError, nearest
from pretrieve.files import sha256_of as sha256_of
from pretrieve.files import unfinished, whole_file

#: Where raw files are put.
SOURCES = Path("data/sources")


@dataclass(frozen=True)
class Source:
    """One line of ``resources/sources.tsv``; ``checksum`` as :meth:`Checksum.parse` takes it, ``bytes`` 0 where not known."""

    name: str
    file: str
    package: str
    path: str
    checksum: str
    bytes: int
    licence: str
    needed_by: str
    archive: str = ""
    url: str = ""
    note: str = ""

    @property
    def expected(self) -> Checksum:
        return Checksum.parse(self.checksum)

    @property
    def sha256(self) -> str:
        """The sha256, or '' where another checksum or none is known."""
        return self.expected.digest if self.expected.algorithm == "sha256" else ""

    def wanted(self) -> str:
        """What the file must be, for messages."""
        return f"expected {self.expected}" + (f" ({self.bytes:,} bytes)" if self.bytes else "")


def read_sources(table: Path) -> dict[str, Source]:
    """All sources, by name. A list of the older form, with a column ``sha256`` and without the later ones, is read as well.

    Raises
    ------
    DataError
        when a line lacks a column or has one too many, a checksum or an archive is none, or two have one name or one file; the
        message has the file and the line.
    """
    sources: dict[str, Source] = {}
    with open(table, newline="", encoding="utf-8") as stream:
        lines = [(number, line) for number, line in enumerate(stream, start=1) if not line.startswith("#")]
    rows = csv.DictReader((line for _, line in lines), delimiter="\t", quoting=csv.QUOTE_NONE)
    files: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        where = f"{table}: source {number} ({row.get('name')!r})"
        try:
            if None in row.values() or None in row:
                raise ValueError("a column is missing or too many")
            source = Source(**{"checksum": row.pop("sha256", None), **row, "bytes": int(row["bytes"] or 0)})
            if not source.name or (not source.expected.algorithm and source.checksum != "first-use"):
                raise ValueError("a name and a checksum are needed")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where} is not complete: {error}; line {lines[number][0]}") from None
        if Path(source.file).is_absolute() or ".." in Path(source.file).parts:
            raise DataError(
                f"{where}: line {lines[number][0]}: file {source.file!r}; expected a place below {SOURCES}."
            )
        if source.name in sources or source.file in files:
            other = source.name if source.name in sources else files[source.file]
            what = "its name" if source.name in sources else f"its file {source.file!r}"
            raise DataError(
                f"{where}: line {lines[number][0]}: {what} is that of {other!r} too; expected each name and each file once."
            )
        sources[source.name] = source
        files[source.file] = source.name
    for source in sources.values():
        if source.archive and source.archive not in sources:
            raise DataError(
                f"{table}: source {source.name!r}: archive {source.archive!r} is no source{nearest(source.archive, sources)}"
            )
    return sources


def source_of(sources: Mapping[str, Source], name: str) -> Source:
    """The source of that name.

    Raises
    ------
    DataError
        when there is none; it names the nearest.
    """
    if name not in sources:
        raise DataError(f"source {name!r}: not in resources/sources.tsv{nearest(name, sources)}")
    return sources[name]


@dataclass(frozen=True)
class _Candidate:
    """A place where the file may be; ``packed``: a gzip copy of it."""

    path: Path
    packed: bool = False

    def open(self) -> BinaryIO:
        if not self.packed:
            return open(self.path, "rb")
        from pretrieve.corpora.raw_bytes import open_raw

        return open_raw(self.path)

    def may_have(self, size: int) -> bool:
        """Whether the (unpacked) size is right, as far as can be told without reading the file."""
        if not self.packed or not size:
            return size in (0, self.path.stat().st_size)
        with open(self.path, "rb") as stream:
            # The last four bytes of a gzip file: the unpacked size modulo 2**32 [RFC 1952].
            stream.seek(max(0, self.path.stat().st_size - 4))
            return int.from_bytes(stream.read(4), "little") == size % (1 << 32)


def candidates(source: Source, mirror: Path | None) -> Iterator[_Candidate]:
    """Where the file may be on this machine, the likeliest first: in the mirror at its place, there under its name in any other
    folder, and in its package.

    A name like ``corpus.jsonl`` is that of many files. Where only the first use decides what is right, the place must be right.
    """
    if mirror is not None:
        names = [(source.file, False), (source.file + ".gz", True)]
        direct = [_Candidate(mirror / name, packed) for name, packed in names]
        yield from (one for one in direct if one.path.is_file())
        seen = [one.path for one in direct]
        for name, packed in names if source.expected else []:
            for path in (*sorted(mirror.rglob(name)), *sorted(mirror.rglob(Path(name).name))):
                if path.is_file() and path not in seen:
                    seen.append(path)
                    one = _Candidate(path, packed)
                    if path.match(name) or one.may_have(source.bytes):
                        yield one
    spec = importlib.util.find_spec(source.package) if source.package else None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place) / source.path
        if path.is_file():
            yield _Candidate(path)


def fetch(
    source: Source,
    target: Path,
    mirror: Path | None = None,
    sources: Mapping[str, Source] | None = None,
    records: Path | None = None,
    download: Download | None = None,
) -> str:
    """Put a checked copy of ``source`` at ``target`` and return where it came from.

    The mirror is looked at first, then the package, then the archive that the file is a member of (it is fetched to its own
    place below the same folder), then its publisher. A file with another checksum is passed over when a right one follows, and
    named when none does. ``sources`` is needed for archives. ``records`` has the checksums of first uses.

    Raises
    ------
    DataError
        when there is no right file; the message has the expected and found checksums and what to do by hand.
    """
    records = records or target.parent / RECORDS
    expected = recorded(source, records)
    wrong = []
    for candidate in candidates(source, mirror):
        found = _take(candidate, target, expected, source.bytes)
        if isinstance(found, Digests):
            return _done(source, expected, records, found, str(candidate.path))
        wrong.append(found)
    by_hand = (
        f"To supply it by hand, put the right file into a folder under the name {source.file} and run snakemake with "
        f"--config mirror=FOLDER"
    ) + ("; or install the locked packages again (make clean-venv && make tables)." if source.package else ".")
    if source.archive:
        holder = source_of(sources or {}, source.archive)
        archive = below(target, source.file) / holder.file
        with locked(archive.with_name(f".{archive.name}.lock")):
            if not archive.is_file() or holder.bytes not in (0, archive.stat().st_size):
                fetch(holder, archive, mirror, sources, records, download)
        from pretrieve.corpora.archives import extract_member

        member = unfinished(target).with_suffix(".member")
        try:
            extract_member(archive, source.path, member)
            found = digests_of(member, expected)
            if found.right(source.bytes):
                os.replace(member, target)
                return _done(source, expected, records, found, f"{archive} ({source.path})")
        finally:
            member.unlink(missing_ok=True)
        wrong.append(f"{source.path} of {archive} has {found.found} ({found.bytes:,} bytes)")
    if source.url:
        try:
            found = (download or Download())(source.url, target, expected, source.bytes, source.name)
            return _done(source, expected, records, found, source.url)
        except DataError as error:
            also = f" Also: {'; '.join(wrong)}." if wrong else ""
            raise DataError(f"{source.file}: {error}{also} {by_hand}") from None
    if wrong:
        raise DataError(
            f"{source.file}: damaged or another version: {'; '.join(wrong)}; {_wanted(source, expected)}. {by_hand}"
        )
    looked = [f"the folder {mirror}" if mirror else "", f"the package {source.package}" if source.package else ""]
    places = " and ".join(filter(None, looked))
    missing = f"looked in {places}" if places else "no publisher offers it, and no mirror folder is given"
    raise DataError(f"{source.file}: missing, {missing}; {_wanted(source, expected)}. {by_hand}")


def recorded(source: Source, records: Path) -> Checksum:
    """What the file must be: by the list, or else by the record of its first use (an empty one before that)."""
    if source.expected:
        return source.expected
    digest = read_records(records).get(source.name)
    return Checksum("sha256", digest) if digest else source.expected


def below(target: Path, file: str) -> Path:
    """The folder that ``file`` is a place in, given its path ``target``.

    >>> below(Path("data/sources/beir/scifact.zip"), "beir/scifact.zip").as_posix()
    'data/sources'
    """
    depth = len(Path(file).parts)
    return target.parents[depth - 1] if target.parts[-depth:] == Path(file).parts else target.parent


def _wanted(source: Source, expected: Checksum) -> str:
    if source.expected or not expected:
        return source.wanted()
    return f"expected, as recorded at first use, {expected}"


class _Wrong(Exception):
    """The file is not as it must be."""


def _take(candidate: _Candidate, target: Path, expected: Checksum, size: int) -> Digests | str:
    """Copy a candidate to the target if it is right: its checksums; else what is wrong with it."""
    digests = Digests(expected)
    try:
        with whole_file(target) as out:
            with candidate.open() as stream:
                while block := stream.read(1 << 20):
                    digests.update(block)
                    out.write(block)
            if not digests.right(size):
                unpacked = "unpacked, " if candidate.packed else ""
                raise _Wrong(f"{candidate.path} has {unpacked}{digests.found} ({digests.bytes:,} bytes)")
    except (_Wrong, DataError) as error:  # a damaged gzip copy is a DataError
        return str(error)
    return digests


def _done(source: Source, expected: Checksum, records: Path, found: Digests, origin: str) -> str:
    if not expected:
        record(records, source.name, found, origin)
    return origin
