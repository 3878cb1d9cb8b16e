"""The comparisons of a table: each row against its baseline, whose outcome the marks show, and against BM25, which the CSV has.

A row has a baseline of its own body only (the table says which, ``baseline`` in ``paper.yaml``): a bag of words and BM25 are not
marked by a Transformer with masked words. BM25 is the row of the same data in the same table, where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import scipy

from pretrieve.base.errors import DataError
from pretrieve.base.paths import parse_system
from pretrieve.evaluation.significance import paired_randomisation_test
from pretrieve.references.tables import UNITS, Cell, Table
from pretrieve.reporting.tables.results import ResultFiles, Setting

#: Sign patterns drawn by the paired randomisation test; the smallest p-value is 1 / (ROUNDS + 1).
ROUNDS = 10_000


class Comparison(NamedTuple):
    """``effect``: what a cell has more than ``system``, in its unit, with the 95 % interval of the same test as ``p``, over the
    paired queries, other seeds left aside; ``reason``: why there is no ``p``."""

    system: str = ""
    effect: str = ""
    p: str = ""
    reason: str = ""
    low: str = ""
    high: str = ""


def against_baseline(table: Table, cell: Cell, setting: Setting, files: ResultFiles) -> Comparison:
    """The comparison that the marks of the table show."""
    baseline = table.baseline_of(cell)
    if not baseline or setting.body_of(cell.system) != setting.body_of(baseline):
        return Comparison()
    other = next(c for c in table.cells if c.system == baseline and c.dataset == cell.dataset)
    return _compare(table, cell, other, setting, files)


def against_bm25(table: Table, cell: Cell, setting: Setting, files: ResultFiles) -> Comparison:
    """The one with BM25's row: that of the cell's training-set size, or the only one, if it has the same test queries."""
    rows = [c for c in table.cells if c.system.startswith("bm25.") and c.dataset == cell.dataset]
    found = [c for c in rows if parse_system(c.system).size == parse_system(cell.system).size]
    if not found and len({c.system for c in rows}) == 1:
        found = rows
    if cell.system.startswith("bm25.") or not found:
        return Comparison()
    return _compare(table, cell, found[0], setting, files)


def _compare(table: Table, cell: Cell, other: Cell, setting: Setting, files: ResultFiles) -> Comparison:
    ours, theirs = setting.files_of(table, cell), setting.files_of(table, other)
    if not theirs or not all(Path(path).is_file() for path in theirs):
        return Comparison(reason=f"not tested: {other.system} has no result")
    a, b = (per_query_mean(paths, cell.metric, files) for paths in (ours, theirs))
    if a is None or b is None:
        return Comparison(reason=f"not tested: no values per query for {cell.metric}")
    if a.keys() != b.keys():
        # With a share of the questions for training, the rest of them is the test set.
        if parse_system(cell.system).size != parse_system(other.system).size:
            return Comparison(reason=f"not tested: {other.system} has other test queries")
        odd = min(a.keys() ^ b.keys())
        raise DataError(
            f"{ours[0]} and {theirs[0]}: {len(a)} and {len(b)} queries that are not the same (such as '{odd}'); "
            "expected equal test queries. Evaluate both again."
        )
    ids = sorted(a)
    p, *bounds = paired_randomisation_test([a[i] for i in ids], [b[i] for i in ids], rounds=ROUNDS)
    first, second = (fmean(files.number(path, "metrics", cell.metric) for path in paths) for paths in (ours, theirs))
    # Of several data sets the mean has weights that their queries have not.
    known = math.isfinite(bounds[0]) and abs(fmean(a[i] - b[i] for i in ids) - (first - second)) <= 1e-9
    effect, *shown = (_shown(number, cell.unit) for number in (first - second, *(bounds if known else ())))
    return Comparison(other.system, effect, f"{p:.4f}", "", *shown)


def _shown(number: float, unit: str) -> str:
    """Of 0..1, in the unit and with its digits; never -0."""
    digits = UNITS[unit]
    return f"{round(number * (100 if unit == '%' else 1), digits) + 0.0:.{digits}f}"


def query_interval(values: Collection[float], shown: float) -> tuple[float, ...]:
    """95 % interval of the mean of values, one for each query (Student's t); () of fewer than two, of fewer than six that are
    equal, and where the mean is not ``shown``: that of several data sets has weights that its queries have not."""
    mean = fmean(values)
    if len(values) < (2 if len(set(values)) > 1 else 6) or abs(mean - shown) > 1e-9:
        return ()
    half = scipy.special.stdtrit(len(values) - 1, 0.975) * stdev(values) / len(values) ** 0.5
    return mean - half, mean + half


def per_query_mean(paths: Sequence[str], metric: str, files: ResultFiles) -> dict[str, float] | None:
    """Query id → mean over seeds, or None when a file has no values per query."""
    found = files.by_query(paths, metric)
    return None if found is None else {query: fmean(values) for query, values in found.items()}
