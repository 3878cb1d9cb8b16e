"""Named tuples of text as the lines of a CSV file: cells of tables, points of figures, findings.

A file may have columns for its readers alone, whose names begin with ``row: ``: they say again, in parts, what a field says.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_text
from pretrieve.reporting.tables.outside_text import from_cell, to_cell
from pretrieve.workflow.commands import make_it

Row = TypeVar("Row", bound=NamedTuple)
#: Begins the name of a column that is no field.
PART = "row: "


def write_rows(
    path: Path | str,
    rows: Sequence[NamedTuple],
    kind: type[NamedTuple],
    parts: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write rows of one ``kind``, whole or not at all (UTF-8, ``\\n`` line ends): equal rows give equal bytes. ``parts``: name →
    a text for each row, columns behind the fields. What a spreadsheet would run is quoted
    (:mod:`pretrieve.reporting.tables.outside_text`)."""
    parts = parts or {}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*kind._fields, *(PART + name for name in parts)])
    careful = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for i, row in enumerate(rows):
        cells = [to_cell(field) for field in (*row, *(texts[i] for texts in parts.values()))]
        # The writer quotes its own line end alone, and the reader takes a bare "\r" for one too.
        (careful if any("\r" in cell for cell in cells) else writer).writerow(cells)
    write_text(path, text.getvalue())


def read_rows(path: Path | str, kind: type[Row], what: str = "file") -> list[Row]:
    """Read what :func:`write_rows` wrote; ``what`` the file is called in messages. Last columns may be missing if they have
    defaults: older files do not have them.

    Raises DataError when the file is missing, has other columns or a broken line.
    """
    try:
        text = Path(path).read_bytes().decode()  # with the line ends within a cell
    except FileNotFoundError:
        raise DataError(f"{path}: no such {what}. {make_it(path)}") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    columns = next(reader, [])
    header = [name for name in columns if not name.startswith(PART)]
    if header != list(kind._fields[: len(header)]) or len(header) < len(kind._fields) - len(kind._field_defaults):
        raise DataError(f"{path}, line 1: columns are {','.join(header)}; expected {','.join(kind._fields)}.")
    rows = []
    for fields in reader:
        if len(fields) != len(columns):
            raise DataError(
                f"{path}, line {reader.line_num}: {len(fields)} fields; expected {len(columns)}. "
                f"Delete the file and make the {what} again."
            )
        rows.append(
            kind(*(from_cell(text) for name, text in zip(columns, fields, strict=True) if not name.startswith(PART)))
        )
    return rows
