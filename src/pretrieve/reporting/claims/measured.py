"""What a run measured, by place: the cells of its tables, the points of its figures, and their values per query.

Tables are ``results/{scale}/tables/{paper}/{table}.csv`` (:mod:`pretrieve.reporting.tables.filling`), figures are
``results/{scale}/figures/{paper}/{figure}.csv`` (:mod:`pretrieve.reporting.figures.points`). A place without a value has a
reason; a place that is nowhere is an error, for then the question is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import scipy

from pretrieve.base.errors import DataError
from pretrieve.base.paths import figure_file, metrics_file, parse_system, table_file
from pretrieve.evaluation.significance import query_variance
from pretrieve.references.tables import STATISTICS
from pretrieve.reporting.claims.claims import Place
from pretrieve.reporting.figures.points import Point, read_points
from pretrieve.reporting.tables.filling import MEASURED, Line, read_lines
from pretrieve.reporting.tables.results import LOWER_IS_BETTER, ResultFiles

#: Words for x that are no point but a summary of a series; ``each`` is one group for every x.
FIRST, LAST, MEAN, EACH = "first", "last", "mean", "each"


@dataclass(frozen=True)
class Value:
    """A measured value. ``sd``: over seeds, 0 where nothing is drawn at random, None with a single seed.

    ``files`` are the metrics files behind it, one for each seed; ``factor`` turns what they hold (0..1) into the unit.
    ``parts``: of the mean of a series, the values it is the mean of. ``paper``, ``role``, ``dataset`` and ``system`` as the table
    or figure has them; ``encoder``: what was trained with a seed, '' where nothing was. ``beyond``: ``no`` of a
    point that guessing has, too. ``half``: of a point's interval over seeds and queries (or texts), None where it has none.
    """

    number: Decimal
    sd: float | None
    n_seeds: str
    unit: str
    metric: str
    factor: int
    files: tuple[str, ...]
    parts: tuple[Value, ...] = ()
    paper: str = ""
    role: str = ""
    dataset: str = ""
    system: str = ""
    encoder: str = ""
    beyond: str = ""
    half: float | None = None

    @property
    def one_seed(self) -> bool:
        """Whether it would be another one with another seed, and nothing says how different."""
        return bool(self.encoder) and self.n_seeds == "1"


@dataclass(frozen=True)
class Facts:
    """What the plan of a run knows of its values.

    ``bases``: encoder → the encoder whose weights it starts from, with which it shares the draws of a seed. ``original``:
    role → is the data that of the papers? ``trained``: value → the number of training examples, None of what has none.
    """

    bases: Mapping[str, str] = field(default_factory=dict)
    original: Callable[[str], bool] = lambda role: False
    trained: Callable[[Value], int | None] = lambda value: None


def bases_of(encoders: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Encoder → the one that its pre-training is continued from in the end (``start``), for those that have one.

    >>> bases_of({"base": {}, "bert": {"start": "base"}, "condenser": {"start": "bert"}})
    {'bert': 'base', 'condenser': 'base'}
    """
    found = {}
    for name, options in encoders.items():
        start = options.get("start")
        while start in encoders:
            found[name], start = start, encoders[start].get("start")
    return found


class Measurements:
    """Reads the tables and figures under ``root`` (``results/{scale}``), each once. ``seeds``: of the run."""

    def __init__(self, root: Path | str, seeds: Sequence[int], facts: Facts | None = None) -> None:
        self.facts = facts or Facts()
        self._root, self._seeds = str(root), tuple(seeds)
        self._read: dict[Path, Any] = {}
        self._files = ResultFiles()

    def find(self, place: Place) -> Value | str:
        """The value at ``place``, or the reason why there is none. Raises DataError when the table or figure lacks the place."""
        return self._point(place) if place.is_point else self._cell(place)

    def per_query(self, value: Value, drawn: bool = False) -> dict[str, np.ndarray] | str:
        """Query id → (seeds,) scores in the value's unit; or why there are none.

        drawn: the value is a point of a figure, which may be of some of the queries or of another step.

        Raises DataError when seeds have different queries, or the metrics are not those that the table shows.
        """
        # A point that is made of vectors has files, and nothing in them is its score.
        if not value.files or not value.metric:
            return "no values per query"
        if missing := next((path for path in value.files if not Path(path).is_file()), None):
            return f"{missing} is not there, so there are no values per query"
        shown = fmean(self._files.number(path, "metrics", value.metric) for path in value.files) * value.factor
        if abs(shown - float(value.number)) > 0.5001 * 10 ** value.number.as_tuple().exponent:
            if drawn:
                return "a point that is not of all queries or not of the end of training has no values per query"
            raise DataError(
                f"{value.files[0]}: {value.metric} is {shown:.6g} and {value.number} in the table or figure; expected the "
                "same number. Run snakemake again: one of them is older."
            )
        found = self._files.by_query(value.files, value.metric)
        if found is None:
            return f"no values per query for {value.metric}"
        return {query: np.array(seeds) * value.factor for query, seeds in found.items()}

    def spread(self, value: Value) -> list[tuple[float, float]] | None:
        """(variance, degrees of freedom) of a value over seeds and over queries, in its squared unit; None: neither is known.

        A rank correlation of n texts has no values per query: its variance is (1 − ρ²)²(1 + ρ²/2)/(n − 3) (Bonett & Wright,
        *Psychometrika* 65, 2000). The mean of a series goes up and down with its points, and has no smaller deviation.
        """
        seeds = int(value.n_seeds or 1)
        parts = [(value.sd**2 / seeds, seeds - 1.0)] if value.sd and seeds > 1 else []
        scores = self.per_query(value, drawn=True) if value.files else ""
        if not isinstance(scores, str):
            parts.append(query_variance(np.array([score.mean() for score in scores.values()])))
        elif value.half and seeds > 1:  # a point on the way of training, or over texts: what it was drawn with has both
            parts = [((value.half / scipy.special.stdtrit(seeds - 1, 0.975)) ** 2, seeds - 1.0)]
        elif value.metric == "spearman" and self._there(value):
            n, rho = self._files.number(value.files[0], "n_queries"), float(value.number) / value.factor
            parts.append(((1 - rho**2) ** 2 * (1 + rho**2 / 2) / max(n - 3, 1) * value.factor**2, n))
        return parts if parts or value.sd == 0.0 else None

    def by_metric(self, value: Value, metric: str) -> Value | None:
        """What the same runs score by another metric; None where they were not measured by it.

        One that is better when lower is counted downwards, so that more is better in every value.
        """
        if not self._there(value) or any(metric not in self._files.read(path)["metrics"] for path in value.files):
            return None
        factor, unit = (-1, "nats") if metric in LOWER_IS_BETTER else (1, "")
        numbers = [self._files.number(path, "metrics", metric) * factor for path in value.files]
        sd = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else value.sd
        number = Decimal(f"{fmean(numbers):.4f}")
        return replace(value, number=number, sd=sd, unit=unit, metric=metric, factor=factor, beyond="")

    def chance(self, value: Value) -> float | None:
        """What guessing is expected to score where ``value`` was measured, in its unit; None where that is not known."""
        level = self._files.chance(value.files[0], value.metric) if self._there(value) else None
        return None if level is None else level * value.factor

    def at_chance(self, value: Value) -> bool:
        """Whether a value is known not to be beyond what guessing scores; the mean of a series, when all its points are not."""
        if value.parts:
            return all(self.at_chance(part) for part in value.parts)
        if value.beyond:  # a point on the way of training has no metrics file
            return value.beyond == "no"
        # On all its queries, also where a comparison is about some of them.
        return self._there(value) and self._files.guessed(value.files, value.metric)

    def _there(self, value: Value) -> bool:
        return bool(value.files) and all(Path(path).is_file() for path in value.files)

    def shared_x(self, group: Sequence[Place]) -> list[str]:
        """Every x that all series of a group of points have, in the order of the first; [] where a figure is not there."""
        first, *others = ([point.x for point in self._series(place) or ()] for place in group)
        return [x for x in first if all(x in other for other in others)]

    def _once(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """What ``read`` makes of a file, which is read once; None where it is not there."""
        if path not in self._read:
            self._read[path] = read(path) if path.is_file() else None
        return self._read[path]

    # -- tables

    def _cell(self, place: Place) -> Value | str:
        path = Path(table_file(self._root, place.paper, place.of))
        lines = self._once(path, lambda path: {(line.row, line.column): line for line in read_lines(path)})
        if lines is None:
            return f"{place.paper}/{place.of} is not among the tables of this run"
        line = lines.get(place.where)
        if line is None:
            raise DataError(f"{path}: no cell {place.where}, but a claim names it.")
        if line.status not in MEASURED:
            return line.note.rpartition("; ")[2] or line.status  # the reason stands behind the reference's own note
        return self._value(place.paper, line.measured, line)

    def _value(self, paper: str, number: str, line: Line | Point) -> Value:
        system, dataset = line.system, line.dataset
        encoder, seeds, files = "", self._seeds, []
        if system and system != STATISTICS:
            encoder = parse_system(system).encoder
            if encoder == "bm25":  # nothing is trained with a seed
                encoder, seeds = "", (0,)
            files = [metrics_file(self._root, system, dataset, seed) for seed in seeds if dataset]
        try:
            value = Decimal(number)
        except InvalidOperation:
            raise DataError(
                f"{self._root}: the value {number!r} of {system} is no number; make its table again."
            ) from None
        beyond, half = "", None
        if isinstance(line, Point):
            encoder, beyond = encoder if system else line.encoder, line.beyond_chance
            half = max(float(line.high) - float(value), float(value) - float(line.low)) if line.low else None
        return Value(
            number=value,
            sd=float(line.sd) if line.sd else 0.0 if not encoder else None,
            n_seeds=line.n_seeds,
            unit=line.unit,
            metric=line.metric,
            factor=100 if line.unit == "%" else 1,
            files=tuple(files),
            paper=paper,
            role=line.role,
            dataset=dataset,
            system=system,
            encoder=encoder,
            beyond=beyond,
            half=half,
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
        values = [self._value(place.paper, point.y, point) for point in chosen]
        if len(values) == 1:
            return values[0]
        # Points of a series go up and down together from seed to seed, so the deviation of their mean is no smaller.
        sds, halves = [value.sd for value in values], [value.half for value in values]
        mean = sum(value.number for value in values) / len(values)
        sd, half = (None if None in some else fmean(some) for some in (sds, halves))
        return replace(values[0], number=mean, sd=sd, half=half, files=(), parts=tuple(values))

    def curve(self, place: Place) -> list[tuple[float, Value]] | str:
        """Every (x, value) of a place's series, or why there is none."""
        points = self._series(place)
        if points is None:
            return f"{place.paper}/{place.of} is not among the figures of this run"
        found = []
        for point in points:
            value = self._point(place._replace(where=(*place.where[:2], point.x)))
            if isinstance(value, str):
                return value
            found.append((float(point.x), value))
        return found

    def _series(self, place: Place) -> list[Point] | None:
        """The points of a place's series; None where the figure is not there."""
        points = self._once(self._figure_file(place), read_points)
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
