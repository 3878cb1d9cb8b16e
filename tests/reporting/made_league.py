"""A table of a run as files, and the league of its tables: what a report is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.files import write_json
from pretrieve.base.paths import table_file
from pretrieve.references.tables import Table
from pretrieve.reporting.claims.measured import Facts, bases_of
from pretrieve.reporting.report.league import Kept, Pair, Standing, entries_of, league
from pretrieve.reporting.report.paper_order import Rank, orders
from pretrieve.reporting.tables.filling import Line, fill_table, read_lines, write_lines
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import write_rows


def write_table(root: Path, name: str, table: Table, setting: Setting) -> list[Line]:
    """The lines of a table and its manifest; ``name``: PAPER/TABLE."""
    lines = fill_table(table, setting)
    write_lines(table_file(str(root), *name.split("/")), lines)
    write_json(table_file(str(root), *name.split("/"), "manifest.json"), make_manifest(table, lines, setting, "abc"))
    return lines


def write_league(root: Path, tables: Iterable[str], encoders: Mapping[str, Any]) -> None:
    """League, pairs and order of a run with one seed, from its tables."""
    measurements = Kept(root, [1], Facts(bases=bases_of(encoders)))
    filled = {name: read_lines(table_file(str(root), *name.split("/"))) for name in tables}
    standings, pairs = league(entries_of(filled, measurements), encoders, measurements)
    write_rows(root / "league.csv", standings, Standing)
    write_rows(root / "league.pairs.csv", pairs, Pair)
    write_rows(root / "order.csv", orders(filled, measurements), Rank)
