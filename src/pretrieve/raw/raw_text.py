"""Raw files, line by line: plain, gzip or bzip2, strict UTF-8, JSON lines and separated columns.

Every reader of an official format begins here, so that a damaged file ends in the same way everywhere: with a sentence that
names the file, the line, what was found and what was expected. All of it streams; memory does not grow with the file.

* Packed files are unpacked by :mod:`pretrieve.raw.raw_bytes`.
* Lines end with ``\\n`` or ``\\r\\n`` and with nothing else. ``str.splitlines`` also cuts at U+2028 and at form feeds, which
  stand inside the texts of MS MARCO and Natural Questions.
* JSON lines: https://jsonlines.org. Columns: either cut at the separator alone (MS MARCO, TREC), or ``quoted`` by the rules
  of RFC 4180 (DPR's ``psgs_w100.tsv``), where a field may hold line breaks.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.base.progress import Progress
from pretrieve.raw.raw_bytes import BLOCK, open_raw

#: Bytes of the longest line that is believed to be one.
LONGEST = 16 << 20
#: Bytes of an id: more Lucene takes for no word [IndexWriter.MAX_TERM_LENGTH].
LONGEST_ID = 32_766
#: Smaller files are read before a progress line could be.
SHOWN_FROM = 1_000_000
_BOM = "\ufeff".encode()


class Line(NamedTuple):
    """A line and its number in the file, counted from 1."""

    number: int
    text: str


class Warnings:
    """What was odd but no reason to stop: counted by kind, with the first example of each."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.examples: dict[str, str] = {}

    def add(self, kind: str, example: str) -> None:
        """Count one more of ``kind``; ``example`` says where the first one is."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.examples.setdefault(kind, example)

    def summary(self) -> str:
        """One line for each kind, in the order they were met; '' when there are none.

        >>> warnings = Warnings()
        >>> for line in (3, 8): warnings.add("blank line", f"corpus.jsonl, line {line}")
        >>> warnings.summary()
        'blank line: 2, the first: corpus.jsonl, line 3'
        """
        return "\n".join(f"{kind}: {count:,}, the first: {self.examples[kind]}" for kind, count in self.counts.items())


def read_lines(path: Path | str, label: str | None = "", longest: int = LONGEST) -> Iterator[Line]:
    """The lines of a UTF-8 file without their ends; a byte order mark in front of line 1 is dropped.

    ``label`` stands in front of the progress (default: the file's name), which counts MB of the file as it is on the disk;
    None: no progress.
    ``longest`` is in bytes.

    Raises DataError for bytes that are not UTF-8 (file, line, byte), a line above ``longest``, and what
    :func:`~pretrieve.raw.raw_bytes.open_raw` raises.
    """
    path = Path(path)
    number, rest = 1, b""
    with open_raw(path) as stream, MegaBytes(path, stream, path.name if label == "" else label) as progress:
        while block := stream.read(BLOCK):
            progress.update()
            # Long lines come in many blocks: they are not looked through again with each.
            if b"\n" in block:
                returns = b"\r" in block or rest.endswith(b"\r")
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                texts = _decode(path, lines, number, longest, returns)
                yield from map(Line, range(number, number + len(texts)), texts)
                number += len(texts)
            else:
                rest += block
            if len(rest) > longest:
                raise _too_long(path, number, f"at least {len(rest):,}", longest)
        if rest:
            yield Line(number, *_decode(path, [rest], number, longest, False))


def _decode(path: Path, lines: list[bytes], number: int, longest: int, returns: bool) -> list[str]:
    """Texts of lines, the first of which is ``number``; ``returns``: some may end in a carriage return."""
    if number == 1 and lines[0].startswith(_BOM):
        lines[0] = lines[0][len(_BOM) :]
    if returns:
        lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if len(max(lines, key=len)) > longest:
        place, line = next((place, line) for place, line in enumerate(lines) if len(line) > longest)
        raise _too_long(path, number + place, f"{len(line):,}", longest)
    try:
        return list(map(bytes.decode, lines))
    except UnicodeDecodeError:
        raise _not_utf8(path, lines, number) from None


def _not_utf8(path: Path, lines: list[bytes], number: int) -> DataError:
    for place, line in enumerate(lines):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            utf16 = " (UTF-16?)" if number + place == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
            return DataError(
                f"{path}: line {number + place}, byte {error.start + 1}: 0x{line[error.start]:02x} is not UTF-8{utf16}: "
                f"{error.reason}; expected a UTF-8 file: convert it, or fetch it again."
            )
    raise AssertionError("every line is UTF-8")


def _too_long(path: Path, number: int, size: str, longest: int) -> DataError:
    return DataError(f"{path}: line {number}: {size} bytes; expected at most {longest:,}: is this file made of lines?")


class MegaBytes:
    """Progress in MB of a file on the disk; nothing is shown for a small one."""

    def __init__(self, path: Path, stream: BinaryIO, label: str | None) -> None:
        # Of a packed file the position in the packed bytes: their total is known, the unpacked is not.
        self._source = getattr(stream, "raw", stream)
        size = path.stat().st_size
        shown = label is not None and size >= SHOWN_FROM
        self._progress = Progress(label, total=-(-size // 1_000_000), unit="MB") if shown else None

    def update(self) -> None:
        if self._progress is not None:
            self._progress.advance(self._source.tell() // 1_000_000 - self._progress.count)

    def __enter__(self) -> MegaBytes:
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._progress is not None:
            if raised[0] is None and self._progress.total:
                self._progress.advance(self._progress.total - self._progress.count)
            self._progress.__exit__(*raised)


def read_json_lines(
    path: Path | str,
    keys: Sequence[str] = (),
    label: str | None = "",
    warnings: Warnings | None = None,
    longest: int = LONGEST,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line. Blank lines are skipped and counted: in ``warnings``, or on standard error.

    Raises DataError for a line that is not JSON, no object, lacks one of ``keys``, or has half of a surrogate pair, which no
    text can have; and what :func:`read_lines` raises.
    """
    found = Warnings() if warnings is None else warnings
    for number, text in read_lines(path, label, longest):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            if not text.strip():
                found.add("blank line", f"{path}, line {number}")
                continue
            raise DataError(
                f"{path}: line {number}: not JSON: {error}; found {_short(text)}; expected one JSON object a line."
            ) from None
        if not isinstance(record, dict):
            raise DataError(
                f"{path}: line {number}: found {type(record).__name__} {_short(text)}; expected a JSON object"
                f"{f' with the keys {_names(keys)}' if keys else ''}."
            )
        for key in keys:
            if key not in record:
                raise DataError(
                    f"{path}: line {number}: no key {key!r}; it has {_names(record)}; expected {_names(keys)}."
                )
        if "\\ud" in text or "\\uD" in text:
            check_characters(f"{path}: line {number}", json.dumps(record, ensure_ascii=False))
        yield number, record
    if warnings is None and found.counts:
        print(f"{path}: {found.summary()}", file=sys.stderr)


def check_characters(where: str, text: str) -> bytes:
    """The text in UTF-8.

    Raises DataError for half of a surrogate pair: JSON can escape it, UTF-8 cannot have it. ``where`` begins the message.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: \\u{ord(text[error.start]):04x} without the other half of its surrogate pair; expected whole characters."
        ) from None


def check_id(where: str, name: str) -> None:
    """Raise DataError for an id of more than :data:`LONGEST_ID` bytes. ``where`` begins the message."""
    if (size := len(name.encode())) > LONGEST_ID:
        raise DataError(f"{where} has {size:,} bytes; expected at most {LONGEST_ID:,}: {name[:60]!r}…")


class Form(NamedTuple):
    """``separator`` None: any run of white space, as in TREC files. ``header``: the first line must have the columns' names, and
    is not a record. ``quoted``: RFC 4180 quoting with ``"``; a field may then span lines, the number is of the first."""

    separator: str | None = "\t"
    header: bool = False
    quoted: bool = False


TABS = Form()


def read_columns(
    path: Path | str,
    columns: Sequence[str],
    form: Form = TABS,
    label: str | None = "",
    warnings: Warnings | None = None,
    longest: int = LONGEST,
) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each record of a file with exactly these ``columns``. Blank lines are skipped and counted: in
    ``warnings``, or on standard error.

    Raises DataError for another number of fields, another header, a quote that is never closed; and what :func:`read_lines`
    raises.
    """
    path, (separator, header, quoted) = Path(path), form
    found = Warnings() if warnings is None else warnings
    lines = read_lines(path, label, longest)
    if quoted:
        records = _quoted(path, lines, separator or "\t", longest)
    else:
        records = ((number, text.split(separator)) for number, text in lines)
    width = len(columns)
    for number, fields in records:
        if header:
            header = False
            if fields != list(columns):
                raise DataError(f"{path}: line {number}: header {_names(fields)}; expected {_names(columns)}.")
            continue
        if len(fields) != width:
            if not any(fields):
                found.add("blank line", f"{path}, line {number}")
                continue
            raise DataError(
                f"{path}: line {number}: {len(fields)} fields; expected {width}, separated by "
                f"{'white space' if separator is None else repr(separator)}: {_names(columns)}; found {_short(str(fields))}."
            )
        yield number, fields
    if header:
        raise DataError(f"{path}: no lines; expected a header {_names(columns)}.")
    if warnings is None and found.counts:
        print(f"{path}: {found.summary()}", file=sys.stderr)


def _quoted(path: Path, lines: Iterator[Line], separator: str, longest: int) -> Iterator[tuple[int, list[str]]]:
    """Records by RFC 4180, and the line each begins in."""
    # The module's only limit is one for all readers of the process; the smaller one of read_lines is in force as well.
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    reader = csv.reader((line.text + "\n" for line in lines), delimiter=separator, strict=True)
    begin = 1
    try:
        for fields in reader:
            yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}: line {begin}: the quotes in this record do not match ({error}, line {reader.line_num}); expected fields "
            f"separated by {separator!r}, a quote within a quoted field written twice."
        ) from None


def _names(names: Sequence[str] | dict[str, Any]) -> str:
    return _cut(", ".join(map(repr, names)), 500) or "nothing"


def _short(text: str) -> str:
    return repr(_cut(text, 80))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
