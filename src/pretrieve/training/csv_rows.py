"""Rows of numbers as CSV: learning curves, and what analyses measure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from pretrieve.base.files import write_text


def write_rows(path: Path, rows: Sequence[Mapping[str, object]], without: Sequence[str] = ()) -> None:
    """Write rows with equal columns, ``without`` any row those: fractions with six significant digits, all else in full."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else without, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
    write_text(path, text.getvalue())
