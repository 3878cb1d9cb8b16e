"""A table as the report shows it: every cell with an address and all its facts, rows without a measured value last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pretrieve.references.tables import TEXT, Table, parse_number
from pretrieve.reporting.tables.filling import MEASURED, Line, count_statuses
from pretrieve.reporting.tables.heads import head_rows
from pretrieve.reporting.tables.layout import interval_of, make_page
from pretrieve.reporting.tables.legend import explain_cells
from pretrieve.reporting.tables.render import is_aside
from pretrieve.reporting.tables.results import Setting

#: Fields of a line that the details of a cell show, beside what is in its place already.
DETAILS = (
    "system dataset role metric unit published measured sd n_seeds delta tolerance status p_value p_holm baseline effect "
    "bm25_effect bm25_p_holm chance beyond_chance train_examples queries candidates wall_s gpu_h peak_gb note"
)


def anchor_of(paper: str, table: str) -> str:
    """The address of a table or figure in the page; a cell's goes on with ``-r1c2``."""
    return f"{paper}-{table}"


def cell_anchors(table: Table) -> dict[tuple[str, str], str]:
    """(row, column) → address: rows and columns are counted from 1 in the order of the reference, so addresses last."""
    base = anchor_of(table.paper, table.name)
    rows = {name: i + 1 for i, name in enumerate(table.rows)}
    columns = {name: i + 1 for i, name in enumerate(table.columns)}
    return {(cell.row, cell.column): f"{base}-r{rows[cell.row]}c{columns[cell.column]}" for cell in table.cells}


def view_table(table: Table, lines: Sequence[Line], setting: Setting, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Arrange a filled table for the template, its rows without a measured value last (``aside``). ``manifest``: as
    :func:`pretrieve.reporting.tables.manifest.make_manifest` wrote it."""
    page = make_page(table, lines, setting)
    at = {(line.row, line.column): line for line in lines}
    base, anchors = anchor_of(table.paper, table.name), cell_anchors(table)
    commands = manifest["commands"]["rows"]  # of a row what builds it; quoted rows have none
    aside = [is_aside(row, page) for row in page.rows]
    measured = {line.status for line in lines}.intersection(MEASURED)
    rows, before = [], [""] * len(table.row_columns)
    for i in sorted(range(len(page.rows)), key=aside.__getitem__):
        name, row = table.rows[i], page.rows[i]
        published = aside[i] or not measured
        cells = [
            shown and {"anchor": anchors[name, column], "shown": shown, "order": _order(at[name, column], published)}
            for column, shown in zip(table.columns, row.cells, strict=True)
        ]
        if rows and aside[i] != rows[-1]["aside"]:
            before = [""] * len(table.row_columns)
        again = [head == above for head, above in zip(row.heads, before, strict=True)]
        again = [all(again[: j + 1]) and j < len(again) - 1 for j in range(len(again))]
        rows.append(
            {
                "anchor": f"{base}-r{i + 1}",
                "heads": row.heads,
                "again": again,  # which heads repeat those of the row above
                "cells": cells,
                "wall": row.wall,
                "command": commands.get(name, ""),
                "aside": aside[i],
            }
        )
        before = row.heads
    return {
        "anchor": base,
        "page": page,
        "head": head_rows(page.columns, page.column_group),
        "rows": rows,
        "counts": count_statuses(lines),
        "status": measured.pop() if len(measured) == 1 else "",  # the word that all measured cells share, if any
        "manifest": manifest,
        "reading": explain_cells(lines, page.columns),
        # What the page's script shows of a cell, in the reference's order of rows and columns, which addresses count.
        "facts": {
            "rows": [row.heads for row in page.rows],
            "columns": page.columns,
            "cells": [[_details(at.get((row, column))) for column in table.columns] for row in table.rows],
            "commands": [commands.get(row, "") for row in table.rows],
            "table": f"{table.paper}/{table.name}",
            "paper": table.url,
        },
    }


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
    facts = {name: value for name in DETAILS.split() if (value := getattr(line, name))}
    if line.effect_low:
        facts["effect"] += f" [{line.effect_low}, {line.effect_high}]"
    if line.bm25_low:
        facts["bm25_effect"] += f" [{line.bm25_low}, {line.bm25_high}]"
    return facts | ({"interval": interval_of(line)} if line.low else {})
