"""Titles and heads of a filled table: they name what was measured here, and the paper's name stands as the published one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pretrieve.base.paths import parse_system
from pretrieve.references.tables import ROW_SEPARATOR, Table
from pretrieve.reporting.tables.filling import MEASURED, Line
from pretrieve.reporting.tables.results import Setting


def _here(shown: Sequence[Line], setting: Setting, sized: bool) -> list[str]:
    """Data that was measured in place of the paper's, and how many examples it was trained on."""
    shown = [line for line in shown if line.status in MEASURED]
    here = list(dict.fromkeys(line.dataset for line in shown if line.role in setting.stand_ins))
    counts = {line.train_examples for line in shown if line.train_examples}
    if sized and len(counts) == 1:
        here.append(f"trained on {int(counts.pop()):,}")
    return here


def _head(name: str, shown: Sequence[Line], here: Sequence[str]) -> str:
    """A column or row as the paper has it; first what was measured, where that is something else or has a size of its own."""
    if not here:
        return name
    published = any(line.published for line in shown if line.status in MEASURED)
    return f"here {', '.join(here)}; published: {name}" if published else f"{name}: here {', '.join(here)}"


def split_head(head: str) -> tuple[str, str]:
    """The paper's name in a head, and what was measured in its place ('' where nothing was).

    >>> split_head("here questions, trained on 12; published: R@1"), split_head("R@1: here questions"), split_head("R@1")
    (('R@1', 'questions, trained on 12'), ('R@1', 'questions'), ('R@1', ''))
    """
    found = re.fullmatch(r"here (?P<here>.+?); published: (?P<name>.+)|(?P<own>.+): here (?P<there>.+)", head)
    return ((found["name"] or found["own"]), (found["here"] or found["there"])) if found else (head, "")


def column_heads(table: Table, lines: Sequence[Line], setting: Setting) -> list[str]:
    """Heads of the columns. Where rows name the data, those heads do (:func:`row_heads`)."""
    here = zip(table.columns, columns_here(table, lines, setting), strict=True)
    return [_head(column, [line for line in lines if line.column == column], data) for column, data in here]


def columns_here(table: Table, lines: Sequence[Line], setting: Setting) -> list[list[str]]:
    """For each column the data that was measured in place of the paper's, and its training examples where columns differ in them;
    [] where that is the paper's data, or rows name it."""
    setting = replace(setting, stand_ins=frozenset()) if _data_in_rows(table, lines) else setting
    found = []
    for column in table.columns:
        shown = [line for line in lines if line.column == column]
        sizes = {parse_system(line.system).size for line in shown if line.train_examples}
        found.append(_here(shown, setting, len(sizes) == 1 and len(_sizes(lines)) > 1))
    return found


def _sizes(lines: Sequence[Line]) -> set[str]:
    return {parse_system(line.system).size for line in lines if line.train_examples}


def _data_in_rows(table: Table, lines: Sequence[Line]) -> bool:
    """Whether each row is of data of its own, and no column is: ``SQuAD`` and ``Natural Questions`` are names of rows."""
    measured = [line for line in lines if line.status in MEASURED]
    by_row, by_column = ({(getattr(line, of), line.role) for line in measured} for of in ("row", "column"))
    n_rows, n_columns = len({row for row, _ in by_row}), len({column for column, _ in by_column})
    return len({line.role for line in measured}) > 1 and len(by_row) == n_rows and len(by_column) > n_columns


def row_heads(table: Table, lines: Sequence[Line], setting: Setting) -> list[list[str]]:
    """The parts of the rows' names. The first has the number of training examples where it stands for a share, and the last
    the data where rows name it."""
    heads = [row.split(ROW_SEPARATOR) for row in table.rows]
    sized = len(_sizes(lines)) > 1
    for first in dict.fromkeys(head[0] for head in heads):
        own = [line for line in lines if line.row.split(ROW_SEPARATOR)[0] == first]
        counts = {line.train_examples for line in own if line.train_examples}
        if sized and len(_sizes(own)) == 1 and len(counts) == 1 and len(table.row_columns) > 1:
            for head in heads:
                head[0] = f"{first} ({int(max(counts)):,} train)" if head[0] == first else head[0]
    if _data_in_rows(table, lines):
        for head, row in zip(heads, table.rows, strict=True):
            own = [line for line in lines if line.row == row]
            head[-1] = _head(head[-1], own, _here(own, setting, False))
    return heads
