"""Heads of a filled table's rows and columns: they name what was measured here, and the paper's name stands as the published one.

Heads of columns stand in rows, as papers print them (:func:`head_rows`): what neighbours share stands once, above them.
``MS MARCO Dev MRR@10`` beside ``MS MARCO Dev R@50`` is ``MS MARCO Dev`` above ``MRR@10`` and ``R@50``. What was measured in
place of the paper's data stands as high as it is true of all columns below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from pretrieve.base.paths import parse_system
from pretrieve.references.tables import ROW_SEPARATOR, Table
from pretrieve.reporting.tables.filling import MEASURED, Line
from pretrieve.reporting.tables.results import Setting

#: Begins what a head says of training examples.
_SIZE = "trained on "


def _here(shown: Sequence[Line], setting: Setting, sized: bool) -> list[str]:
    """Data that was measured in place of the paper's, and how many examples it was trained on."""
    shown = [line for line in shown if line.status in MEASURED]
    here = list(dict.fromkeys(line.dataset for line in shown if line.role in setting.stand_ins))
    counts = {line.train_examples for line in shown if line.train_examples}
    if sized and len(counts) == 1:
        here.append(f"{_SIZE}{int(counts.pop()):,}")
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
    setting = replace(setting, stand_ins=frozenset()) if _data_in_rows(lines) else setting
    found = []
    for column in table.columns:
        shown = [line for line in lines if line.column == column]
        found.append(_here(shown, setting, len(_sizes(shown)) == 1 and len(_sizes(lines)) > 1))
    return found


def _sizes(lines: Sequence[Line]) -> set[str]:
    return {parse_system(line.system).size for line in lines if line.train_examples}


def _data_in_rows(lines: Sequence[Line]) -> bool:
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
    if _data_in_rows(lines):
        for head, row in zip(heads, table.rows, strict=True):
            own = [line for line in lines if line.row == row]
            head[-1] = _head(head[-1], own, _here(own, setting, False))
    return heads


@dataclass
class Head:
    """A head that covers ``span`` columns and ``depth`` rows of heads. ``column``: its column, from 0; None above several, whose
    heads are ``below``. ``data`` and ``size``: what was measured there, together ``here``."""

    text: str
    data: str = ""
    size: str = ""
    column: int | None = None
    below: list[Head] = field(default_factory=list)
    depth: int = 1

    @property
    def span(self) -> int:
        return sum(head.span for head in self.below) or 1

    @property
    def height(self) -> int:
        return 1 + max((head.height for head in self.below), default=0)

    @property
    def here(self) -> str:
        return ", ".join(filter(None, (self.data and f"here {self.data}", self.size)))


def head_rows(columns: Sequence[str], over: str = "") -> list[list[Head]]:
    """Rows of heads, from above. ``columns``: heads as :func:`column_heads` gives them;
    ``over``: what the paper prints above all columns."""
    names, here = zip(*map(split_head, columns), strict=True)
    leaves = []
    for i, (parts, measured) in enumerate(zip(split_names(names), here, strict=True)):
        data, _, size = measured.partition(_SIZE)
        leaves.append((parts, Head("", data.removesuffix(", "), size and _SIZE + size, i)))
    root = Head(over, below=_gather(leaves))
    _raise_data(root)
    rows = [[root]] if root.text or root.data else []
    level, height = root.below, root.height - 1
    while level:
        rows.append(level)
        for head in level:
            head.depth = 1 if head.below else height
        level, height = [below for head in level for below in head.below], height - 1
    return rows


def split_names(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Names by what neighbours have in common.

    >>> split_names(["NQ Top-20", "NQ Top-100", "AUC"]), split_names(["Dev MRR 1K", "Dev MRR 10K", "Dev R@1 1K"])
    ([('NQ', 'Top-20'), ('NQ', 'Top-100'), ('AUC',)], [('Dev', 'MRR', '1K'), ('Dev', 'MRR', '10K'), ('Dev', 'R@1 1K')])
    """
    found: list[tuple[str, ...]] = []
    for _, some in groupby(names, key=lambda name: (name.partition(" ")[0], " " in name)):
        run = [name.split(" ") for name in some]
        shared = 0
        while len(run) > 1 and all(len(words) > shared + 1 and words[shared] == run[0][shared] for words in run):
            shared += 1
        rest = [" ".join(words[shared:]) for words in run]
        if shared:
            common = " ".join(run[0][:shared])
            found += [(common, *name) for name in split_names(rest)]
        else:
            found += [(name,) for name in rest]
    return found


def _gather(leaves: Sequence[tuple[tuple[str, ...], Head]]) -> list[Head]:
    """Heads of neighbours whose names (:func:`split_names`) have a first part in common."""
    heads = []
    for (first, single), group in groupby(leaves, key=lambda leaf: (leaf[0][0], len(leaf[0]) == 1)):
        if single:
            heads += [replace(head, text=first) for _, head in group]
        else:
            heads.append(Head(first, below=_gather([(names[1:], head) for names, head in group])))
    return heads


def _raise_data(head: Head) -> None:
    for below in head.below:
        _raise_data(below)
    data = {below.data for below in head.below}
    if len(data) == 1:
        head.data = data.pop()
        for below in head.below:
            below.data = ""
