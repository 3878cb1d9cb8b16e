"""A table as the report shows it: every cell with an address, its difference to the paper as a shade, and all its facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrieve.references.tables import Table, parse_number
from pretrieve.reporting.tables.filling import MEASURED, Line, count_statuses
from pretrieve.reporting.tables.layout import Page, Shown, make_page
from pretrieve.reporting.tables.results import Setting

#: Percentage points (of other units: per cent) from which a difference has the next darker shade.
SHADES = (2.0, 10.0, 25.0)
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
    "low",
    "high",
    "queries",
    "candidates",
    "wall_s",
    "gpu_h",
    "peak_gb",
    "note",
)


@dataclass(frozen=True)
class CellView:
    """One cell. ``shade``: ``above-1`` … ``below-3`` or ''; ``difference``: with its sign; ``order``: what a column sorts by."""

    anchor: str
    shown: Shown
    shade: str
    difference: str
    order: str


@dataclass(frozen=True)
class RowView:
    """``again``: which heads repeat those of the row above. ``command``: builds what the row measures, '' for quoted rows."""

    anchor: str
    heads: list[str]
    again: list[bool]
    cells: list[CellView | None]
    wall: str
    command: str


@dataclass(frozen=True)
class TableView:
    """``details``: row → column → facts, for the page's script. ``status``: the word that all measured cells share, if any."""

    anchor: str
    page: Page
    rows: list[RowView]
    counts: dict[str, int]
    status: str
    words: list[str]
    manifest: Mapping[str, Any]
    details: list[list[dict[str, str] | None]]


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
    rows, before = [], [""] * len(table.row_columns)
    for i, (name, row) in enumerate(zip(table.rows, page.rows, strict=True)):
        cells = [
            _cell(at[name, column], shown, anchors[name, column]) if shown else None
            for column, shown in zip(table.columns, row.cells, strict=True)
        ]
        again = [head == above for head, above in zip(row.heads, before, strict=True)]
        again = [all(again[: j + 1]) and j < len(again) - 1 for j in range(len(again))]
        anchor = f"{anchor_of(table.paper, table.name)}-r{i + 1}"
        rows.append(RowView(anchor, row.heads, again, cells, row.wall, commands.get(name, "")))
        before = row.heads
    words = list(dict.fromkeys(line.status for line in lines))
    measured = [word for word in words if word in MEASURED]
    return TableView(
        anchor=anchor_of(table.paper, table.name),
        page=page,
        rows=rows,
        counts=count_statuses(lines),
        status=measured[0] if len(measured) == 1 else "",
        words=words,
        manifest=manifest,
        details=[[_details(at.get((row, column))) for column in table.columns] for row in table.rows],
    )


def _cell(line: Line, shown: Shown, anchor: str) -> CellView:
    difference = float(line.delta) if line.delta else None
    return CellView(
        anchor=anchor,
        shown=shown,
        shade="" if shown.guessed else shade_of(line),
        difference=f"{difference:+g}".replace("-", "−") if difference is not None else "",
        order=line.measured or _plain_number(line.published),
    )


def shade_of(line: Line) -> str:
    """How far a measured value is from the published one, in three steps above and below; '' within the first.

    Percentages and fractions are compared in percentage points, everything else in per cent of the published value.
    """
    if not line.delta:
        return ""
    delta = float(line.delta)
    if line.unit in ("%", "fraction"):
        points = delta * (100 if line.unit == "fraction" else 1)
    else:
        published = abs(parse_number(line.published))
        points = 100 * delta / published if published else 100.0
    level = sum(abs(points) >= bound for bound in SHADES)
    return f"{'above' if delta > 0 else 'below'}-{level}" if level else ""


def _plain_number(text: str) -> str:
    try:
        return f"{parse_number(text):g}" if text else ""
    except ValueError:
        return ""


def _details(line: Line | None) -> dict[str, str] | None:
    return line and {name: value for name in DETAILS if (value := getattr(line, name))}
