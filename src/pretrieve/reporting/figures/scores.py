"""Scores of systems as points: a value for each seed, its interval, and what guessing scores there; at each x of a series, or by
tokens of pre-training.

Intervals are those of the claims' verdicts (:func:`pretrieve.evaluation.significance.crossed_estimate`): over queries and, with
several seeds, over seeds, each system's seeds paired with those of the same base. The interval of a change is that of the ratio
of two means, linearised (the delta method), query by query and seed by seed. What guessing scores is that of all queries of a
size, where a point is of the common ones, too.

**By tokens** stand the snapshots of one training, and their difference to another one's, query by query. Objectives read other
numbers of tokens in as many steps. So a difference is taken at the tokens of the reference's points, as far as the other series
reaches, and at its end where that comes before. There a series is interpolated linearly between its two points around: a weighted
sum of its systems, of which the interval takes account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import crossed_estimate
from pretrieve.references.figures import Measure, Panel, Series
from pretrieve.reporting.figures.points import (
    NOT_AHEAD,
    Found,
    NotMeasured,
    cell_of,
    metrics_of,
    scores_beyond,
    seeds_to_run,
    there,
)
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.workflow.figure_inputs import trained_since

#: Tokens of a seed's batches differ a little: so much further than its last point a series is taken to reach.
REACH = 1.02


class Curve(NamedTuple):
    """``tokens`` (k) in millions, rising; for each the systems' ``scores`` (seeds, queries) and the ``measures`` behind them."""

    tokens: list[float]
    scores: list[np.ndarray]
    measures: list[Measure]


class Scores:
    """Reads the scores of one figure. ``starts``: encoder → the one that it is continued from; ``bases``: the same to the end,
    with which it shares the draws of a seed."""

    def __init__(
        self, tables: Setting, files: ResultFiles, starts: Mapping[str, str], bases: Mapping[str, str]
    ) -> None:
        self._tables, self._files, self._starts, self._bases = tables, files, starts, bases

    def of_series(self, panel: Panel, series: Series) -> dict[str, Found]:
        """Every point of a series of ``panel``. Raises DataError when a file is damaged."""
        common = self._common_queries(panel) if series.common_queries else None
        return {x: self._found(series, measure, common) for x, measure in series.points.items()}

    def _found(self, series: Series, measure: Measure, common: Sequence[str] | None) -> Found:
        try:
            seeds = seeds_to_run(self._tables, measure)
            values, rows = self._values(measure, seeds, common)
            if series.relative_to:
                found = self._change(measure, (values, rows), series.relative_to, common)
            else:
                interval = interval_of(values, rows, self._base(measure.system))
                chance = self._files.chance(self._file(measure, seeds[0]), measure.metric)
                found = Found(values, measure, interval=interval, chance=chance)
        except NotMeasured as why:
            return Found((), measure, *why.args)
        return found._replace(beyond=scores_beyond(self._tables, self._files, series, measure))

    def _change(
        self,
        measure: Measure,
        own: tuple[tuple[float, ...], list[dict[str, float]]],
        relative_to: str,
        common: Sequence[str] | None,
    ) -> Found:
        """(own − base) / base of the means over seeds. A seed's value is that of the tangent at these means, so that the
        values' mean is the ratio of the means, and their deviation that of the interval: ratios of single seeds would weigh
        most where the base is near 0."""
        seeds = self._tables.seeds_of(cell_of(measure))
        base, base_rows = self._values(measure._replace(system=relative_to), seeds, common)
        if not all(base):
            raise NotMeasured("not-run", f"{relative_to} scores 0, to which nothing has a ratio")
        a, b = fmean(own[0]), fmean(base)
        ratio = a / b
        pairs = zip(own[0], base, strict=True)
        values = tuple(ratio - 1 + (ours - a - ratio * (theirs - b)) / b for ours, theirs in pairs)
        blocks = [matrix_of(rows) for rows in (own[1], base_rows)]
        if any(block is None for block in blocks) or own[1][0].keys() != base_rows[0].keys():
            return Found(values, measure)
        systems = (measure.system, relative_to)
        estimate = crossed_estimate(blocks, [1 / b, -ratio / b], [self._base(system) for system in systems])
        half = estimate.interval()[1] - estimate.effect
        return Found(values, measure, interval=(ratio - 1 - half, ratio - 1 + half))

    def _values(
        self, measure: Measure, seeds: Sequence[int], common: Sequence[str] | None
    ) -> tuple[tuple[float, ...], list[dict[str, float]]]:
        """For each seed the score, and the scores of its queries ([] where they are not known)."""
        files = [there(self._file(measure, seed)) for seed in seeds]
        rows = [self._files.per_query(file, measure.metric) for file in files]
        if common is None:
            values = tuple(self._files.number(file, "metrics", measure.metric) for file in files)
            return values, rows if all(rows) else []
        if not all(rows) or not common:
            raise NotMeasured("not-run", "its points share no test query with a per-query value")
        kept = [{query: row[query] for query in common} for row in rows]
        return tuple(fmean(row.values()) for row in kept), kept

    def _common_queries(self, panel: Panel) -> list[str]:
        """Queries with a value in every metrics file of the panel that is there, sorted."""
        found: list[set[str]] = []
        for measure in (one for series in panel.series if series.common_queries for one in series.points.values()):
            if not self._tables.why_not_run(cell_of(measure)):
                files = [self._file(measure, seed) for seed in self._tables.seeds_of(cell_of(measure))]
                read = (self._files.per_query(file, measure.metric) for file in files if Path(file).is_file())
                found += [set(values or ()) for values in read]
        return sorted(set.intersection(*found)) if found else []

    def _file(self, measure: Measure, seed: int) -> str:
        return paths.metrics_file(self._tables.root, measure.system, self._tables.roles.get(measure.role, ""), seed)

    def _base(self, system: str) -> str:
        encoder = paths.parse_system(system).encoder
        return self._bases.get(encoder, encoder)

    # -- by tokens

    def by_tokens(self, series: Series) -> dict[str, Found]:
        """Every point of a series of tokens. Raises NotMeasured when one is not there, for then its x is unknown."""
        curve = self._curve(series)
        found = {}
        for x, scores, measure in zip(curve.tokens, curve.scores, curve.measures, strict=True):
            beyond = scores_beyond(self._tables, self._files, series, measure)
            estimate = crossed_estimate([scores], [1.0], [self._base(measure.system)])
            found[shown(x)] = Found(tuple(scores.mean(1)), measure, beyond=beyond, interval=estimate.interval())
        return found

    def gains(self, series: Series, reference: Series) -> dict[str, Found]:
        """``series`` minus ``reference`` at equal tokens (see above). Raises NotMeasured as above."""
        ours, theirs = self._curve(series), self._curve(reference)
        measure = Measure("", theirs.measures[0].role, theirs.measures[0].metric)
        found: dict[str, Found] = {}
        for x in compared_at(ours.tokens, theirs.tokens):
            parts = [(ours, place, weight) for place, weight in between(ours.tokens, x).items()]
            parts += [(theirs, place, -weight) for place, weight in between(theirs.tokens, x).items()]
            blocks, weights = [curve.scores[place] for curve, place, _ in parts], [weight for *_, weight in parts]
            estimate = crossed_estimate(
                blocks, weights, [self._base(curve.measures[place].system) for curve, place, _ in parts]
            )
            values = sum(weight * block.mean(1) for weight, block in zip(weights, blocks, strict=True))
            found[shown(x)] = Found(tuple(values), measure, interval=estimate.interval())
        ahead = ahead_from({x: point.interval[0] for x, point in found.items()})
        return {x: point._replace(ahead_from=ahead) for x, point in found.items()}

    def level(self, series: Series) -> Found:
        """The score of a system, or of guessing where it was measured."""
        (measure,) = series.points.values()
        files = metrics_of(self._tables, measure)
        if series.value == "score":
            return Found(tuple(self._files.number(path, "metrics", measure.metric) for path in files), measure)
        chance = self._files.chance(files[0], measure.metric)
        if chance is None:
            raise NotMeasured("not-run", f"the score of guessing is unknown for {measure.metric}")
        return Found((chance,), Measure("", measure.role, measure.metric))

    def _curve(self, series: Series) -> Curve:
        points: dict[float, tuple[np.ndarray, Measure]] = {}
        first = paths.parse_system(next(iter(series.points.values())).system).encoder
        for measure in series.points.values():
            encoder, files = paths.parse_system(measure.system).encoder, metrics_of(self._tables, measure)
            since = trained_since(self._starts, encoder, first)
            tokens = sum(self._tokens(one) for one in since) / 1e6
            points.setdefault(tokens, (self._matrix(files, measure.metric), measure))
        ordered = sorted(points)
        return Curve(ordered, [points[x][0] for x in ordered], [points[x][1] for x in ordered])

    def _tokens(self, encoder: str) -> float:
        """Mean over seeds."""
        places = (paths.encoder_dir(self._tables.root, encoder, seed) for seed in self._tables.seeds)
        return float(np.mean([self._files.number(there(f"{place}/pretrieve.json"), "tokens") for place in places]))

    def _matrix(self, files: Sequence[str], metric: str) -> np.ndarray:
        """(seeds, queries), queries by their id."""
        found = self._files.by_query(files, metric)
        if not found:
            raise DataError(
                f"{', '.join(files)}: not all have values per query for {metric}; expected them. Evaluate again."
            )
        return np.array([found[query] for query in sorted(found)]).T


def matrix_of(rows: Sequence[Mapping[str, float]]) -> np.ndarray | None:
    """(seeds, queries), queries by their id; None where seeds have different queries, or none are known."""
    if not rows or any(row.keys() != rows[0].keys() for row in rows):
        return None
    return np.array([[row[query] for query in sorted(row)] for row in rows])


def interval_of(
    values: Sequence[float], rows: Sequence[Mapping[str, float]], base: str = ""
) -> tuple[float, float] | None:
    """The 95 % interval of a score over its queries and seeds, within 0 and 1 as the score is.

    values: of each seed; rows: query → score of each seed. None where queries are not known, or the score is not their mean: a
    mean of data sets has weights.
    """
    scores = matrix_of(rows)
    if scores is None or np.abs(scores.mean(1) - values).max() > 1e-6:
        return None
    low, high = crossed_estimate([scores], [1.0], [base]).interval()
    return max(low, min(0.0, float(scores.min()))), min(high, max(1.0, float(scores.max())))


def shown(tokens: float) -> str:
    """Millions of tokens as x.

    >>> shown(0.0), shown(0.0512345), shown(1234.56)
    ('0', '0.05123', '1235')
    """
    return f"{tokens:.4g}"


def compared_at(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The points of theirs that ours reaches, and the end of ours where that comes before the end of theirs.

    >>> compared_at([0.0, 2.0, 4.0], [0.0, 1.0, 3.0]), compared_at([0.0, 1.0, 2.0], [0.0, 1.5, 3.0])
    ([0.0, 1.0, 3.0], [0.0, 1.5, 2.0])
    """
    reached = [x for x in theirs if x <= REACH * ours[-1]]
    return reached if len(reached) == len(theirs) else [*(x for x in reached if x < ours[-1]), ours[-1]]


def between(tokens: Sequence[float], x: float) -> dict[int, float]:
    """Place → weight of the points that a rising line has at x; behind its end, its last one.

    >>> between([0.0, 1.0, 3.0], 1.5), between([0.0, 1.0, 3.0], 1.0), between([0.0, 1.0], 1.01)
    ({1: 0.75, 2: 0.25}, {1: 1.0}, {1: 1.0})
    """
    if x > tokens[-1]:
        return {len(tokens) - 1: 1.0}
    upper = next(place for place, there in enumerate(tokens) if x <= there)
    if x == tokens[upper] or upper == 0:
        return {upper: 1.0}
    share = (x - tokens[upper - 1]) / (tokens[upper] - tokens[upper - 1])
    return {upper - 1: 1 - share, upper: share}


def ahead_from(lows: Mapping[str, float]) -> str:
    """The first x from which on the lower end of every interval is above 0.

    >>> ahead_from({"0": 0.0, "1": 0.2, "2": -0.1, "3": 0.1, "4": 0.1}), ahead_from({"0": 0.0, "1": 0.2, "2": -0.1})
    ('3', 'not within the budget')
    """
    ahead = NOT_AHEAD
    for x, low in reversed(lows.items()):
        if low <= 0:
            break
        ahead = x
    return ahead
