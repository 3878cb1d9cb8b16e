"""Heads of a table's columns in rows, as papers print them: what neighbours share stands once, above them.

``MS MARCO Dev MRR@10`` beside ``MS MARCO Dev R@50`` is ``MS MARCO Dev`` above ``MRR@10`` and ``R@50``. What was measured in
place of the paper's data (:mod:`pretrieve.reporting.tables.heads`) stands as high as it is true of all columns below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pretrieve.reporting.tables.heads import split_head

_SIZE = "trained on "


@dataclass(frozen=True)
class Head:
    """A head that covers ``span`` columns and ``depth`` rows of heads. ``column``: its column, from 0; None above several."""

    text: str
    here: str
    span: int
    depth: int
    column: int | None


@dataclass
class _Node:
    text: str
    data: str = ""
    size: str = ""
    column: int | None = None
    below: list[_Node] = field(default_factory=list)

    def span(self) -> int:
        return sum(node.span() for node in self.below) or 1

    def height(self) -> int:
        return 1 + max((node.height() for node in self.below), default=0)


def head_rows(columns: Sequence[str], over: str = "") -> list[list[Head]]:
    """Rows of heads, from above. ``columns``: heads as :func:`pretrieve.reporting.tables.heads.column_heads` gives them;
    ``over``: what the paper prints above all columns."""
    heads = [split_head(column) for column in columns]
    leaves = []
    for i, (parts, (_, here)) in enumerate(zip(split_names([name for name, _ in heads]), heads, strict=True)):
        data, _, size = here.partition(_SIZE)
        leaves.append((parts, _Node("", data.removesuffix(", "), size and _SIZE + size, i)))
    root = _Node(over, below=_gather(leaves))
    _raise_data(root)
    rows: list[list[Head]] = []
    if root.text or root.data:
        rows.append([_head(root, 1)])
    level, height = root.below, root.height() - 1
    while level:
        rows.append([_head(node, 1 if node.below else height) for node in level])
        level, height = [below for node in level for below in node.below], height - 1
    return rows


def _head(node: _Node, depth: int) -> Head:
    here = ", ".join(part for part in (node.data and f"here {node.data}", node.size) if part)
    return Head(node.text, here, node.span(), depth, node.column)


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


def _gather(leaves: Sequence[tuple[tuple[str, ...], _Node]]) -> list[_Node]:
    """Nodes for neighbours whose names (:func:`split_names`) have a first part in common."""
    nodes = []
    for (first, single), group in groupby(leaves, key=lambda leaf: (leaf[0][0], len(leaf[0]) == 1)):
        if single:
            for _, node in group:
                node.text = first
                nodes.append(node)
        else:
            nodes.append(_Node(first, below=_gather([(names[1:], node) for names, node in group])))
    return nodes


def _raise_data(node: _Node) -> None:
    for below in node.below:
        _raise_data(below)
    data = {below.data for below in node.below}
    if len(data) == 1:
        node.data = data.pop()
        for below in node.below:
            below.data = ""
