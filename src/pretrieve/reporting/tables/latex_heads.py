"""Heads of a LaTeX table: what columns have in common stands once above them, with a rule across them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from pretrieve.reporting.tables.head_rows import split_names

#: Letters of a row's head on a line, of a group of one column, and of each further column that a group has.
ROW_HEAD, ONE, MORE = 26, 11, 8


def head_lines(
    left: Sequence[str],
    columns: Sequence[str],
    here: Sequence[Sequence[str]],
    group: str = "",
    right: Sequence[str] = (),
) -> list[str]:
    """Lines of the head, escaped text: the ``group`` of all columns, what they were measured on (``here``), the words that names
    of neighbours begin with, and the rest of the names, beside the heads of the ``left`` and ``right`` columns."""
    names = split_names(columns)
    depth = max(map(len, names))
    data = max(map(len, here), default=0)
    levels = [[group] * len(columns)] if group else []
    levels += [[own[i] if i < len(own) else "" for own in here] for i in range(data)]
    above = [[name[i] if i < len(name) - 1 else "" for name in names] for i in range(depth - 1)]
    lines: list[str] = []
    for i, level in enumerate([*levels, *above]):
        # A group of one level does not reach across the groups of the levels above it.
        parents = above[: max(0, i - len(levels))]
        lines += _group_line(level, parents, len(left), len(right))
    lines.append(" & ".join([*left, *(stacked(name[-1], ONE, "r") for name in names), *right]) + r" \\")
    return lines


def _group_line(level: Sequence[str], parents: Sequence[Sequence[str]], left: int, right: int) -> list[str]:
    """A line of heads across columns, and the rules below it."""
    cells, rules, at = [""] * left, [], left + 1
    keys = list(zip(level, *parents, strict=True))
    for key, some in groupby(keys):
        wide = len(list(some))
        if key[0]:
            cells.append(rf"\multicolumn{{{wide}}}{{c}}{{{stacked(key[0], ONE + MORE * (wide - 1), 'c')}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + wide - 1}}}")
        else:
            cells += [""] * wide
        at += wide
    return [" & ".join([*cells, *[""] * right]) + r" \\", " ".join(rules)]


def stacked(text: str, width: int, align: str) -> str:
    """Escaped text on lines of at most ``width`` letters, where words allow that.

    >>> stacked("Best DeepCT", 20, "l"), stacked("Best DeepCT", 8, "l")
    ('Best DeepCT', '\\\\begin{tabular}[t]{@{}l@{}}Best\\\\\\\\DeepCT\\\\end{tabular}')
    """
    lines = textwrap.wrap(text, width, break_long_words=False)
    if len(lines) < 2:
        return text
    where = (
        "b" if align != "l" else "t"
    )  # heads of columns stand on their rule, a row's first line on that of its values
    joined = r"\\".join(lines)
    return rf"\begin{{tabular}}[{where}]{{@{{}}{align}@{{}}}}{joined}\end{{tabular}}"
