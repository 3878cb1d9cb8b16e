"""A figure's CSV: one line for each point, every field as text, empty where there is nothing to say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pretrieve.reporting.tables.filling import MEASURED
from pretrieve.reporting.tables.rows import read_rows, write_rows

#: Behind the name of a series: points that the paper states at an x that was not measured.
AS_PUBLISHED = " (published)"
#: ``ahead_from`` of a gain that is not ahead at the end.
NOT_AHEAD = "not within the budget"


class Point(NamedTuple):
    """A point: ``y``, ``sd`` (over seeds) and ``published`` in ``unit``; ``x`` as the axis has it, '' for a series that was not
    run and whose x are therefore unknown. ``encoder`` is the encoder of ``system``, or the one that an analysis looked at;
    ``dataset`` played the part of ``role``. ``status`` as in tables. ``beyond_chance``: ``no`` of a score that guessing has
    too (of a change, when one of its two scores is), ``yes`` of a better one, '' where no level is known. ``low``, ``high``:
    95 % interval over queries (of an analysis, over texts) and seeds, '' where it is not known. ``ahead_from``, of a gain: the x
    from which on all its intervals are above 0, or :data:`NOT_AHEAD`. ``chance``: what guessing scores, in ``unit``."""

    figure: str
    panel: str
    series: str
    x: str
    y: str
    sd: str
    n_seeds: str
    published: str
    system: str
    dataset: str
    metric: str
    status: str
    note: str
    role: str
    unit: str
    encoder: str
    beyond_chance: str = ""
    low: str = ""
    high: str = ""
    ahead_from: str = ""
    chance: str = ""


def is_measured(point: Point) -> bool:
    return point.status in MEASURED


def write_points(path: Path | str, points: Sequence[Point]) -> None:
    """Write a figure's CSV."""
    write_rows(path, points, Point)


def read_points(path: Path | str) -> list[Point]:
    """Read a CSV that :func:`write_points` wrote. Raises DataError when it has other columns or a broken line."""
    return read_rows(path, Point, "figure")
