"""A table as the report shows it: every cell with an address and all its facts, rows without a measured value last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrieve.references.tables import TEXT, Table, parse_number
from pretrieve.reporting.tables.filling import MEASURED, Line, count_statuses
from pretrieve.reporting.tables.heads import Head, head_rows
from pretrieve.reporting.tables.layout import Page, Shown, interval_of, make_page
from pretrieve.reporting.tables.legend import explain_cells
from pretrieve.reporting.tables.render import is_aside
from pretrieve.reporting.tables.results import Setting

#: Fields of a line that the details of a cell show, beside what is in its place already.
DETAILS = (
    "system",
    "dataset",
    "role",
    "metric",
    "unit",
    "published",
    "measured",
    "sd",
    "n_seeds",
    "delta",
    "tolerance",
    "status",
    "p_value",
    "p_holm",
    "baseline",
    "effect",
    "bm25_effect",
    "bm25_p_holm",
    "chance",
    "beyond_chance",
    "train_examples",
    "queries",
    "candidates",
    "wall_s",
    "gpu_h",
    "peak_gb",
    "note",
)


@dataclass(frozen=True)
class CellView:
    """One cell. ``order``: what a column sorts by, '' of a cell whose number is of another kind than its row's."""

    anchor: str
    shown: Shown
    order: str


@dataclass(frozen=True)
class RowView:
    """``again``: which heads repeat those of the row above. ``command``: builds what the row measures, '' for quoted rows.
    ``aside``: nothing of it is measured, in a table that has measured rows."""

    anchor: str
    heads: list[str]
    again: list[bool]
    cells: list[CellView | None]
    wall: str
    command: str
    aside: bool


@dataclass(frozen=True)
class TableView:
    """``rows``: as shown, those aside last. ``head``: rows of heads of the columns. ``reading``: (term, sentence) pairs that
    explain the cells. ``facts``: what the page's script shows of a cell, in the reference's order of rows and columns, which
    addresses count. ``status``: the word that all measured cells share, if any."""

    anchor: str
    page: Page
    head: list[list[Head]]
    rows: list[RowView]
    counts: dict[str, int]
    status: str
    words: list[str]
    manifest: Mapping[str, Any]
    reading: list[tuple[str, str]]
    facts: dict[str, Any]


def anchor_of(paper: str, table: str) -> str:
    """The address of a table or figure in the page; a cell's goes on with ``-r1c2``."""
    return f"{paper}-{table}"


def cell_anchors(table: Table) -> dict[tuple[str, str], str]:
    """(row, column) → address: rows and columns are counted from 1 in the order of the reference, so addresses last."""
    base = anchor_of(table.paper, table.name)
    rows = {name: i + 1 for i, name in enumerate(table.rows)}
    columns = {name: i + 1 for i, name in enumerate(table.columns)}
    return {(cell.row, cell.column): f"{base}-r{rows[cell.row]}c{columns[cell.column]}" for cell in table.cells}


def view_table(table: Table, lines: Sequence[Line], setting: Setting, manifest: Mapping[str, Any]) -> TableView:
    """Arrange a filled table. ``manifest``: as :func:`pretrieve.reporting.tables.manifest.make_manifest` wrote it."""
    page = make_page(table, lines, setting)
    at = {(line.row, line.column): line for line in lines}
    anchors = cell_anchors(table)
    commands = manifest["commands"]["rows"]
    aside = [is_aside(row, page) for row in page.rows]
    nothing = not any(line.status in MEASURED for line in lines)
    rows, before = [], [""] * len(table.row_columns)
    for i in sorted(range(len(page.rows)), key=aside.__getitem__):
        name, row = table.rows[i], page.rows[i]
        cells = [
            shown and CellView(anchors[name, column], shown, _order(at[name, column], aside[i] or nothing))
            for column, shown in zip(table.columns, row.cells, strict=True)
        ]
        if rows and aside[i] != rows[-1].aside:
            before = [""] * len(table.row_columns)
        again = [head == above for head, above in zip(row.heads, before, strict=True)]
        again = [all(again[: j + 1]) and j < len(again) - 1 for j in range(len(again))]
        anchor = f"{anchor_of(table.paper, table.name)}-r{i + 1}"
        rows.append(RowView(anchor, row.heads, again, cells, row.wall, commands.get(name, ""), aside[i]))
        before = row.heads
    words = list(dict.fromkeys(line.status for line in lines))
    measured = [word for word in words if word in MEASURED]
    return TableView(
        anchor=anchor_of(table.paper, table.name),
        page=page,
        head=head_rows(page.columns, page.column_group),
        rows=rows,
        counts=count_statuses(lines),
        status=measured[0] if len(measured) == 1 else "",
        words=words,
        manifest=manifest,
        reading=explain_cells(lines, page.columns),
        facts={
            "rows": [row.heads for row in page.rows],
            "columns": page.columns,
            "cells": [[_details(at.get((row, column))) for column in table.columns] for row in table.rows],
            "commands": [commands.get(row, "") for row in table.rows],
            "table": f"{table.paper}/{table.name}",
            "paper": table.url,
        },
    )


def _order(line: Line, published: bool) -> str:
    """A measured number; or the ``published`` one, of rows that are sorted among themselves."""
    if not published:
        return "" if line.unit == TEXT else line.measured
    try:
        return f"{parse_number(line.published):g}" if line.published else ""
    except ValueError:
        return ""


def _details(line: Line | None) -> dict[str, str] | None:
    if line is None:
        return None
    facts = {name: value for name in DETAILS if (value := getattr(line, name))}
    for name, low, high in (
        ("effect", line.effect_low, line.effect_high),
        ("bm25_effect", line.bm25_low, line.bm25_high),
    ):
        if low:
            facts[name] += f" [{low}, {high}]"
    return facts | ({"interval": interval_of(line)} if line.low else {})
