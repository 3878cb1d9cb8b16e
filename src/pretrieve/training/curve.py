"""Learning curves as CSV files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from pretrieve.base.files import whole_file

COLUMNS = ["step", "tokens", "tokens_per_s", "loss", "learning_rate", "gradient_norm"]


def write_curve(path: Path, curve: list[dict[str, float]]) -> None:
    """Write a learning curve, one row for every 1 % of the steps: step (from 0), real tokens so far, tokens a second since
    the row before, the loss, each of its terms, learning rate, gradient norm before clipping."""
    columns = list(curve[0]) if curve else COLUMNS
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    # Counts are written in full; six digits are enough for everything else.
    shown = lambda value: str(value) if isinstance(value, int) else f"{value:.6g}"
    writer.writerows({name: shown(value) for name, value in row.items()} for row in curve)
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())
