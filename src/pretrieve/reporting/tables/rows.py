"""Rows of texts as readers get them: named tuples (cells of tables, points of figures, findings) as a CSV file; tables of
Markdown, and of plain text, as commands print them.

A CSV file may have columns for its readers alone, whose names begin with ``row: ``: they say again, in parts, what a field says.

Texts from outside (queries, titles, paths) are data there, and do nothing:

* A spreadsheet takes a CSV cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end for a formula, and runs it. Such
  a cell gets an apostrophe in front, the usual sign for text (https://owasp.org/www-community/attacks/CSV_Injection); a plain
  number such as -0.3 stays. :func:`from_cell` takes exactly that apostrophe away again.
* Markdown passes HTML on, and makes a link of ``[text](address)``, whatever the address does. The characters that begin either
  are written as entities, which Markdown shows and does not read. So are the bars of a table's cells (:func:`to_markdown_table`).
"""

from __future__ import annotations

import csv
import io
import re
from collections import namedtuple
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_text
from pretrieve.workflow.commands import make_it

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_ONE = r"[+-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*%?"
#: A number, several as claims have them (-0.04; -0.06, -0.04 > -0.06), a sign alone, or nothing: none of it runs anything.
_NUMBER = re.compile(rf"{_ONE}(?: ?[;>−] {_ONE})*|[+-]|")
_HTML = re.compile(r"<(?=[A-Za-z/!?])")


def to_cell(text: str) -> str:
    """A text as a cell of a CSV file.

    >>> [to_cell(text) for text in ("=1+1", "-0.3", "+", "-cmd", "'=1", "a=1")]
    ["'=1+1", '-0.3', '+', "'-cmd", "''=1", 'a=1']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """The text that :func:`to_cell` made a cell of; files of before have such texts as they are.

    >>> [from_cell(cell) for cell in ("'=1+1", "-0.3", "''=1", "'tis", "=1+1")]
    ['=1+1', '-0.3', "'=1", "'tis", '=1+1']
    """
    return cell[1:] if cell.startswith("'") and to_cell(cell[1:]) == cell else cell


def to_markdown_text(text: str) -> str:
    """A text as a part of a line of Markdown: without HTML, links, images and line ends. Emphasis is left as it is.

    >>> to_markdown_text("a < b, <b>c</b> ![x](javascript:y)")
    'a < b, &lt;b>c&lt;/b> ![x]&#40;javascript:y)'
    """
    return _HTML.sub("&lt;", re.sub(r"\s*[\r\n]+\s*", " ", text)).replace("](", "]&#40;")


def to_markdown_cell(text: str) -> str:
    """The same for a cell of a table, which a bar would end."""
    return to_markdown_text(text).replace("|", "\\|")


def to_markdown_table(heads: Sequence[str], body: Sequence[Sequence[str]], left: int) -> str:
    """A table of GitHub-flavoured Markdown, the first ``left`` columns aligned to the left, the others to the right.

    Cells are padded to equal widths, for a table is also read in a terminal.
    """
    lines = [[to_markdown_cell(cell) for cell in line] for line in (heads, *body)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(heads))]
    lines.insert(1, [f":{'-' * (w - 1)}" if i < left else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)])
    padded = (
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def text_tuple(name: str, fields: str, later: str = "") -> type[tuple[str, ...]]:
    """A named tuple of the columns of a CSV file, all of them texts, with blanks between their names; ``later``: columns that
    files of before do not have, and that are '' there."""
    return namedtuple(name, f"{fields} {later}", defaults=[""] * len(later.split()))


Row = TypeVar("Row", bound=tuple)
#: Begins the name of a column that is no field.
PART = "row: "


def write_rows(
    path: Path | str,
    rows: Sequence[NamedTuple],
    kind: type[NamedTuple],
    parts: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write rows of one ``kind``, whole or not at all (UTF-8, ``\\n`` line ends): equal rows give equal bytes. ``parts``: name →
    a text for each row, columns behind the fields. What a spreadsheet would run is quoted (:func:`to_cell`)."""
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
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8: {error}. Delete the file and make the {what} again.") from None
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


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows, each with as many texts, as lines: columns two blanks apart, the first one left-aligned, all others right-aligned.

    >>> text_table([("rule", "jobs"), ("finetune", "12")])
    ['rule      jobs', 'finetune    12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])]).rstrip() for name, *numbers in rows
    ]
