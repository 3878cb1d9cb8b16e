"""Raw files: found in a mirror folder, in the Python package that ships them, inside an archive, or at their publisher's,
checked, and put in place.

``resources/sources.tsv`` names each file, its checksum and where it comes from (docs/raw-files.md). Nothing is ever used
unchecked, and a good file is never replaced by a bad one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError, nearest
from pretrieve.base.files import unfinished, whole_file
from pretrieve.base.inside import plain_name
from pretrieve.base.sizes import stated_limit, too_large
from pretrieve.raw.archives import extract_member
from pretrieve.raw.checksums import RECORDS, Checksum, Digests, digests_of, locked, read_records, record
from pretrieve.raw.download import Download
from pretrieve.raw.mirror import Candidate, candidates, is_in_place
from pretrieve.raw.readable import check_readable

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


def read_sources(table: Path) -> dict[str, Source]:
    """All sources, by name; columns with a default may be missing.

    Raises DataError when the list cannot be read, a column is unknown or missing, a line has more or fewer fields, a number,
    a checksum or an archive is none, or two have one name or one file; the message has the file and the line.
    """
    sources: dict[str, Source] = {}
    lines = _lines(table)
    header = lines[0][1] if lines else []
    _check_header(f"{table}: line {lines[0][0]}" if lines else f"{table}", header)
    files, taken = dict[str, str](), dict[str, str]()
    for number, (line, values) in enumerate(lines[1:], start=1):
        row: dict[str, Any] = dict(zip(header, values, strict=False))
        where = f"{table}: source {number} ({row.get('name')!r})"
        try:
            if len(values) != len(header):
                raise ValueError(f"{len(values)} fields, expected {len(header)} separated by tabs")
            size = row["bytes"] or "0"
            if not (size.isascii() and size.isdecimal() and len(size) < 20):
                raise ValueError(
                    f"column 'bytes': {size[:40]!r}, expected a whole number, or nothing where it is not known"
                )
            source = Source(**{**row, "bytes": int(size)})
            if not source.name or (not source.expected.algorithm and source.checksum != "first-use"):
                raise ValueError("a name and a checksum are needed")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where} is not complete: {error}; line {line}") from None
        plain_name(source.file, f"{where}: line {line}: file", taken)
        if source.package:
            plain_name(source.path, f"{where}: line {line}: path")
        if source.name in sources or source.file in files:
            other = source.name if source.name in sources else files[source.file]
            what = "its name" if source.name in sources else f"its file {source.file!r}"
            raise DataError(
                f"{where}: line {line}: {what} is that of {other!r} too; expected each name and each file once."
            )
        sources[source.name] = source
        files[source.file] = source.name
    for source in sources.values():
        if source.archive and source.archive not in sources:
            raise DataError(
                f"{table}: source {source.name!r}: archive {source.archive!r} is not a source{nearest(source.archive, sources)}"
            )
    return sources


def _lines(table: Path) -> list[tuple[int, list[str]]]:
    """Number and fields of the lines that are no comments and not blank; a byte order mark is dropped."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as stream:
            lines = list(enumerate(stream, start=1))
    except OSError as error:
        raise DataError(f"{table}: cannot be read: {error.strerror}; expected the list of raw files.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{table}: not UTF-8 ({error.reason}); expected a UTF-8 file of columns separated by tabs."
        ) from None
    texts = [(number, line.strip("\r\n")) for number, line in lines if not line.startswith("#")]
    return [(number, text.split("\t")) for number, text in texts if text]


def _check_header(where: str, header: Sequence[str]) -> None:
    """Raise :class:`DataError` unless every column is a field of :class:`Source`, once, and no needed one is missing."""
    known = {field.name: field.default is MISSING for field in fields(Source)}
    needed = [name for name in known if known[name]]
    for name in header:
        if name not in known or header.count(name) > 1:
            what = "stands twice" if header.count(name) > 1 else f"is unknown{nearest(name, known)}"
            raise DataError(f"{where}: column {name!r} {what}; expected each of {', '.join(known)} at most once.")
    if missing := [name for name in needed if name not in header]:
        raise DataError(
            f"{where}: no column {', '.join(map(repr, missing))}; expected a header, separated by tabs, with the columns "
            f"{', '.join(needed)}."
        )


def source_of(sources: Mapping[str, Source], name: str) -> Source:
    """The source of that name. Raises DataError when there is none; it names the nearest."""
    if name not in sources:
        raise DataError(f"source {name!r}: not in resources/sources.tsv{nearest(name, sources)}")
    return sources[name]


def fetch(
    source: Source,
    target: Path,
    mirror: Path | None = None,
    sources: Mapping[str, Source] | None = None,
    records: Path | None = None,
    download: Download | None = None,
    member: str = "",
) -> str:
    """Put a checked copy of ``source`` at ``target`` and return where it came from.

    The mirror is looked at first, then the package, then the archive that the file is a member of (it is fetched to its own
    place below the same folder), then its publisher. A file with another checksum is passed over when a right one follows, and
    named when none does. ``sources`` is needed for archives. ``records`` has the checksums of first uses: of files that could be
    read to their end, and of archives that have the ``member`` that is asked for.

    Raises DataError when there is no right file; the message has the expected and found checksums and what to do by hand.
    """
    records = records or target.parent / RECORDS
    expected = recorded(source, records)

    def check(path: Path) -> None:
        if not expected:
            check_readable(path, source.file, member)

    wrong = []
    for candidate in candidates(source, mirror):
        found = _take(candidate, target, expected, source.bytes, check)
        if isinstance(found, Digests):
            return _done(source, expected, records, found, str(candidate.path))
        wrong.append(found)
    by_hand = (
        f"To supply it by hand, put the right file into a folder under the name {source.file} and run snakemake with "
        f"--config mirror=FOLDER"
    ) + ("; or install the locked packages again (make clean-venv && make tables)." if source.package else ".")
    if expected and not source.expected:
        by_hand += (
            f" If the file of the first use was the wrong one, take the line of {source.name} out of {records} before."
        )
    if source.archive:
        holder = source_of(sources or {}, source.archive)
        archive = below(target, source.file) / holder.file
        with locked(archive.with_name(f".{archive.name}.lock")):
            if not is_in_place(holder, archive):
                fetch(holder, archive, mirror, sources, records, download, source.path)
        unpacked = unfinished(target).with_suffix(".member")
        try:
            extract_member(archive, source.path, unpacked, source.bytes)
            found = digests_of(unpacked, expected)
            if found.right(source.bytes):
                check(unpacked)
                os.replace(unpacked, target)
                return _done(source, expected, records, found, f"{archive} ({source.path})")
        finally:
            unpacked.unlink(missing_ok=True)
        wrong.append(f"{source.path} of {archive} has {found.found} ({found.bytes:,} bytes)")
    if source.url:
        try:
            found = (download or Download())(source.url, target, expected, source.bytes, source.name, check)
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
    if expected and not source.expected:
        return f"expected, as recorded at first use, {expected}"
    return f"expected {source.expected}" + (f" ({source.bytes:,} bytes)" if source.bytes else "")


class _Wrong(DataError):
    """The file is not as it must be. As a DataError it is not taken for a disk error of the target."""


def _take(
    candidate: Candidate, target: Path, expected: Checksum, size: int, check: Callable[[Path], None]
) -> Digests | str:
    """Copy a candidate to the target if it is right: its checksums; else what is wrong with it.

    Raises DataError when the target cannot be written.
    """
    digests = Digests(expected)
    try:
        with whole_file(target) as out:
            for block in _blocks(candidate):
                digests.update(block)
                if digests.bytes > (limit := stated_limit(size)):
                    raise _Wrong(too_large(candidate.path, digests.bytes, limit, "its size in the list and a margin"))
                out.write(block)
            if not digests.right(size):
                unpacked = "unpacked, " if candidate.packed else ""
                raise _Wrong(f"{candidate.path} has {unpacked}{digests.found} ({digests.bytes:,} bytes)")
            out.flush()
            try:
                check(Path(out.name))
            except DataError as error:
                raise _Wrong(f"{candidate.path}: {str(error).removeprefix(out.name + ': ')}") from None
    except _Wrong as error:
        return str(error)
    return digests


def _blocks(candidate: Candidate) -> Iterator[bytes]:
    """The content of a candidate; that it cannot be read or unpacked is :class:`_Wrong`, not what is wrong with the target."""
    try:
        with candidate.open() as stream:
            while block := stream.read(1 << 20):
                yield block
    except DataError as error:
        raise _Wrong(str(error)) from None
    except OSError as error:
        raise _Wrong(f"{candidate.path} cannot be read: {error.strerror}") from None


def _done(source: Source, expected: Checksum, records: Path, found: Digests, origin: str) -> str:
    if not expected:
        record(records, source.name, found, origin)
    return origin
