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
    leaves = []
    for i, column in enumerate(columns):
        name, here = split_head(column)
        data, _, size = here.partition(_SIZE)
        leaves.append((name.split(), _Node("", data.removesuffix(", "), size and _SIZE + size, i)))
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


def _gather(leaves: Sequence[tuple[list[str], _Node]]) -> list[_Node]:
    """Nodes for neighbours whose names begin with equal words, each with a word left of its own."""
    nodes = []
    for (_, single), group in groupby(leaves, key=lambda leaf: (leaf[0][0], len(leaf[0]) == 1)):
        some = list(group)
        if single or len(some) == 1:
            for words, node in some:
                node.text = " ".join(words)
                nodes.append(node)
            continue
        shared = 0
        while all(len(words) > shared + 1 and words[shared] == some[0][0][shared] for words, _ in some):
            shared += 1
        below = _gather([(words[shared:], node) for words, node in some])
        nodes.append(_Node(" ".join(some[0][0][:shared]), below=below))
    return nodes


def _raise_data(node: _Node) -> None:
    for below in node.below:
        _raise_data(below)
    data = {below.data for below in node.below}
    if len(data) == 1:
        node.data = data.pop()
        for below in node.below:
            below.data = ""
