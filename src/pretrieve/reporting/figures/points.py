"""A figure's CSV: one line for each point, every field as text, empty where there is nothing to say."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pretrieve.errors import DataError
from pretrieve.files import whole_file
from pretrieve.reporting.tables import MEASURED, UNMEASURED

#: Behind the name of a series: points that the paper states at an x that was not measured.
AS_PUBLISHED = " (published)"


class Point(NamedTuple):
    """A point: ``y``, ``sd`` (over seeds) and ``published`` in ``unit``; ``x`` as the axis has it, '' for a series that was
    not run and whose x are therefore unknown. ``encoder`` is the encoder of ``system``, or the one that an analysis looked
    at; ``dataset`` played the part of ``role``. ``status`` as in tables."""

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


def is_measured(point: Point) -> bool:
    return point.status in MEASURED


def write_points(path: Path | str, points: Sequence[Point]) -> None:
    """Write a figure's CSV (UTF-8, ``\\n`` line ends): equal points give equal bytes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Point._fields)
    writer.writerows(points)
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())


def read_points(path: Path | str) -> list[Point]:
    """Read a CSV that :func:`write_points` wrote. Raises DataError when it has other columns or a broken line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such figure. Make it with: snakemake {path}") from None
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    if header != list(Point._fields):
        raise DataError(f"{path}, line 1: columns are {','.join(header)}; expected {','.join(Point._fields)}.")
    points = []
    for fields in reader:
        if len(fields) != len(Point._fields):
            raise DataError(
                f"{path}, line {reader.line_num}: {len(fields)} fields; expected {len(Point._fields)}. "
                "Delete the file and make the figure again."
            )
        points.append(Point(*fields))
    return points


def count_points(points: Sequence[Point]) -> dict[str, int]:
    """Number of points in each of ``measured``, ``quoted``, ``not-run`` and ``failed``."""
    counts = Counter("measured" if is_measured(point) else point.status for point in points)
    return {word: counts.pop(word, 0) for word in ("measured", *UNMEASURED)}
