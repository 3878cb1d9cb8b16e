"""What a run measured, by place: the cells of its tables, the points of its figures, and their values per query.

Tables are ``results/{scale}/tables/{paper}/{table}.csv`` (:mod:`pretrieve.reporting.tables`), figures are
``results/{scale}/figures/{paper}/{figure}.csv`` (:mod:`pretrieve.reporting.figures.points`). A place without a value has a
reason; a place that is nowhere is an error, for then the question is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from statistics import fmean

from pretrieve.errors import DataError
from pretrieve.paths import figure_file, metrics_file, parse_system, table_file
from pretrieve.reporting.claims import Place
from pretrieve.reporting.figures.points import Point, read_points
from pretrieve.reporting.references import STATISTICS
from pretrieve.reporting.results import ResultFiles
from pretrieve.reporting.tables import MEASURED, Line, read_lines

#: Words for x that are no point but a summary of a series; ``each`` is one group for every x.
FIRST, LAST, MEAN, EACH = "first", "last", "mean", "each"


@dataclass(frozen=True)
class Value:
    """A measured value. ``sd``: over seeds, 0 where nothing is drawn at random, None with a single seed.

    ``files`` are the metrics files behind it, one for each seed; ``factor`` turns what they hold (0..1) into the unit. ``parts``:
    of the mean of a series, the values it is the mean of.
    """

    number: Decimal
    sd: float | None
    n_seeds: str
    unit: str
    metric: str
    factor: int
    files: tuple[str, ...]
    parts: tuple[Value, ...] = ()


class Measurements:
    """Reads the tables and figures under ``root`` (``results/{scale}``), each once. ``seeds``: of the run."""

    def __init__(self, root: Path | str, seeds: Sequence[int]) -> None:
        self._root, self._seeds = str(root), tuple(seeds)
        self._tables: dict[tuple[str, str], dict[tuple[str, str], Line] | None] = {}
        self._figures: dict[tuple[str, str], list[Point] | None] = {}
        self._files = ResultFiles()

    def find(self, place: Place) -> Value | str:
        """The value at ``place``, or the reason why there is none. Raises DataError when the table or figure lacks the place."""
        return self._point(place) if place.is_point else self._cell(place)

    def per_query(self, value: Value) -> dict[str, float] | str:
        """Query id → score 0..1, mean over seeds; or why there are none.

        Raises DataError when seeds have different queries, or the metrics are not those that the table shows.
        """
        if not value.files:
            return "no values per query"
        if missing := next((path for path in value.files if not Path(path).is_file()), None):
            return f"{missing} is not there, so there are no values per query"
        shown = fmean(self._files.number(path, "metrics", value.metric) for path in value.files) * value.factor
        if abs(shown - float(value.number)) > 0.5001 * 10 ** value.number.as_tuple().exponent:
            raise DataError(
                f"{value.files[0]}: {value.metric} is {shown:.6g} and {value.number} in the table or figure; expected the "
                "same number. Run snakemake again: one of them is older."
            )
        seeds = [self._files.per_query(path, value.metric) for path in value.files]
        if any(seed is None for seed in seeds):
            return f"no values per query for {value.metric}"
        for path, seed in zip(value.files, seeds, strict=True):
            if seed.keys() != seeds[0].keys():
                raise DataError(
                    f"{path}: its queries are not those of {value.files[0]}; expected the same. Evaluate again."
                )
        return {query: fmean(seed[query] for seed in seeds) for query in seeds[0]}

    def chance(self, value: Value) -> float | None:
        """What guessing is expected to score where ``value`` was measured, in its unit; None where that is not known."""
        level = self._files.chance(value.files[0], value.metric) if self._there(value) else None
        return None if level is None else level * value.factor

    def at_chance(self, value: Value) -> bool:
        """Whether a value is known not to be beyond what guessing scores; the mean of a series, when all its points are not."""
        if value.parts:
            return all(self.at_chance(part) for part in value.parts)
        # On all its queries, also where a comparison is about some of them.
        return self._there(value) and self._files.guessed(value.files, value.metric)

    def _there(self, value: Value) -> bool:
        return bool(value.files) and all(Path(path).is_file() for path in value.files)

    def shared_x(self, group: Sequence[Place]) -> list[str]:
        """Every x that all series of a group of points have, in the order of the first; [] where a figure is not there."""
        lists = []
        for place in group:
            points = self._series(place)
            if points is None:
                return []
            lists.append([point.x for point in points])
        return [x for x in lists[0] if all(x in other for other in lists)]

    # -- tables

    def _cell(self, place: Place) -> Value | str:
        key = (place.paper, place.of)
        if key not in self._tables:
            path = Path(table_file(self._root, *key))
            there = path.is_file()
            self._tables[key] = {(line.row, line.column): line for line in read_lines(path)} if there else None
        lines = self._tables[key]
        if lines is None:
            return f"{place.paper}/{place.of} is not among the tables of this run"
        line = lines.get(place.where)
        if line is None:
            raise DataError(
                f"{table_file(self._root, *key)}: no cell {place.where}; expected it, for a claim names it."
            )
        if line.status not in MEASURED:
            return line.note.rpartition("; ")[2] or line.status  # the reason stands behind the reference's own note
        return self._value(line.measured, line.sd, line.n_seeds, line.unit, line.system, line.dataset, line.metric)

    def _value(self, number: str, sd: str, n_seeds: str, unit: str, system: str, dataset: str, metric: str) -> Value:
        fixed, seeds = not system or system == STATISTICS, self._seeds
        if not fixed and parse_system(system).encoder == "bm25":
            fixed, seeds = True, (0,)
        files = [metrics_file(self._root, system, dataset, seed) for seed in seeds if system and system != STATISTICS]
        try:
            value = Decimal(number)
        except InvalidOperation:
            raise DataError(
                f"{self._root}: the value {number!r} of {system} is no number; make its table again."
            ) from None
        deviation = float(sd) if sd else 0.0 if fixed and system else None
        return Value(
            value, deviation, n_seeds, unit, metric, 100 if unit == "%" else 1, tuple(files) if dataset else ()
        )

    # -- figures

    def _point(self, place: Place) -> Value | str:
        panel, series, x = place.where
        points = self._series(place)
        if points is None:
            return f"{place.paper}/{place.of} is not among the figures of this run"
        if x in (FIRST, LAST):
            chosen = [points[0 if x == FIRST else -1]]
        elif x == MEAN:
            chosen = points
        else:
            # A series that was not run is one line without an x: which it would have is not known.
            chosen = [point for point in points if point.x in (x, "")]
        if not chosen:
            known = ", ".join(point.x for point in points)
            raise DataError(f"{self._figure_file(place)}: panel {panel}, series {series}: no x {x!r}; it has {known}.")
        for point in chosen:
            if point.status not in MEASURED or not point.y:
                return point.note or point.status or "no value"
        values = [self._value(p.y, p.sd, p.n_seeds, p.unit, p.system, p.dataset, p.metric) for p in chosen]
        if len(values) == 1:
            return values[0]
        # Points of a series go up and down together from seed to seed, so the deviation of their mean is no smaller.
        sds = [value.sd for value in values]
        mean = sum(value.number for value in values) / len(values)
        sd = None if None in sds else fmean(sds)
        one = values[0]
        return Value(mean, sd, one.n_seeds, one.unit, one.metric, one.factor, (), tuple(values))

    def _series(self, place: Place) -> list[Point] | None:
        """The points of a place's series; None where the figure is not there."""
        key = (place.paper, place.of)
        if key not in self._figures:
            path = self._figure_file(place)
            self._figures[key] = read_points(path) if path.is_file() else None
        points = self._figures[key]
        if points is None:
            return None
        panel, series = place.where[:2]
        found = [point for point in points if (point.panel, point.series) == (panel, series)]
        if not found:
            known = sorted({f"{point.panel}/{point.series}" for point in points})
            raise DataError(
                f"{self._figure_file(place)}: no series {series!r} in panel {panel!r}; it has {', '.join(known)}."
            )
        return found

    def _figure_file(self, place: Place) -> Path:
        return Path(figure_file(self._root, place.paper, place.of, "csv"))
