"""Columns of a large file, separated by tabs, as Arrow string columns, block by block, without a step in Python for each line.

The format is the one of :func:`pretrieve.raw.raw_text.read_columns` without quoting (MS MARCO's ``collection.tsv``), and so is
the result, for every input. A block of whole lines goes through Arrow's CSV reader without quoting, which refuses lines with
another number of columns and what is not UTF-8. What it would take another way is kept from it: a carriage return alone ends a
line there, a byte order mark is dropped in front of every block, a blank line is a row, and lines may be of any length. A block
with one of these, or that it refuses, and all that follows it, is read by ``read_columns``, which knows what to say about it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pretrieve.base.progress import Progress
from pretrieve.raw.raw_bytes import open_raw
from pretrieve.raw.raw_text import LONGEST, Warnings, read_columns

#: Bytes that are looked at together.
BLOCK = 4 << 20
_BOM = "\ufeff".encode()


def read_column_blocks(
    path: Path | str,
    columns: Sequence[str],
    warnings: Warnings | None = None,
    longest: int = LONGEST,
    unit: str = "lines",
) -> Iterator[tuple[int, list[pa.Array]]]:
    """(number of the first line, one string column (n,) for each of ``columns``) of consecutive lines.

    Progress counts lines, and says how many MB (10⁶ unpacked bytes) pass in a second.

    Raises DataError as :func:`~pretrieve.raw.raw_text.read_columns`.
    """
    path = Path(path)
    first, unpacked, begun = 1, 0, time.monotonic()
    with open_raw(path) as stream, Progress(path.name, unit=unit) as progress:
        rest = b""
        while True:
            data = stream.read(BLOCK)
            end = data.rfind(b"\n") + 1
            if data and not end:
                rest += data
                if len(rest) > longest:
                    break
                continue
            block, rest = rest + data[:end], data[end:]
            if not block:
                return
            fields = _fields(block, len(columns), first == 1, longest)
            if fields is None:
                break
            yield first, fields
            first += len(fields[0])
            unpacked += len(block)
            megabytes = unpacked / 1e6
            progress.advance(len(fields[0]), f"{megabytes:,.0f} MB, {megabytes / (time.monotonic() - begun):,.0f} MB/s")
            if not data:
                return
        # Something is odd from line ``first`` on: it is found, or turns out to be none, one line after another.
        lines = read_columns(path, columns, warnings=warnings, longest=longest)
        lines = (line for line in lines if line[0] >= first)
        while some := list(islice(lines, 4096)):
            # A blank line between two others is omitted: numbers are consecutive within a block only.
            for _, group in groupby(enumerate(some), key=lambda entry: entry[1][0] - entry[0]):
                part = [line for _, line in group]
                fields = zip(*(fields for _, fields in part), strict=True)
                yield part[0][0], [pa.array(column, pa.string()) for column in fields]
            progress.advance(len(some))


def _fields(block: bytes, width: int, begin: bool, longest: int) -> list[pa.Array] | None:
    """The columns of a block of whole lines; None when something is odd. ``begin``: of the file."""
    if begin:
        block = block.removeprefix(_BOM)
    if block.startswith(_BOM) or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
        return None
    names = [str(column) for column in range(width)]
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            # One block of the reader's own, so that columns are not cut.
            read_options=csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    fields = [column.combine_chunks() for column in table.columns]
    if pc.min(pc.binary_length(fields[0])).as_py() == 0:
        return None  # maybe a blank line, which Arrow takes for a row of empty fields
    if len(block) > longest:
        # A line is as long as its fields and the separators between them.
        lengths = sum(pc.binary_length(field).to_numpy().astype("int64") for field in fields) + width - 1
        if lengths.max() > longest:
            return None
    return fields
