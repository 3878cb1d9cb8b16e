"""Quality by tokens of pre-training: scores of the snapshots of one training, and their difference to another one's.

Intervals are those of the claims' verdicts (:func:`pretrieve.evaluation.significance.crossed_estimate`): over queries and, with
several seeds, over seeds, each system's seeds paired with those of the same base. A difference is taken query by query.

Objectives read other numbers of tokens in as many steps. So a difference is taken at the tokens of the reference's points, as far
as the other series reaches, and at its end where that comes before. There a series is interpolated linearly between its two
points around: a weighted sum of its systems, of which the interval takes account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import crossed_estimate
from pretrieve.references.figures import Measure, Series
from pretrieve.reporting.figures.points import NOT_AHEAD, Found, NotMeasured, metrics_of, scores_beyond, there
from pretrieve.reporting.figures.scores import matrix_of
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.workflow.figure_inputs import trained_since

#: Tokens of a seed's batches differ a little: so much further than its last point a series is taken to reach.
REACH = 1.02


class Curve(NamedTuple):
    """``tokens`` (k) in millions, rising; for each the systems' ``scores`` (seeds, queries) and the ``measures`` behind them."""

    tokens: list[float]
    scores: list[np.ndarray]
    measures: list[Measure]


class TokenCurves:
    """Reads the curves of one figure. ``starts``: encoder → the one that it is continued from; ``bases``: the same to the end."""

    def __init__(self, tables: Setting, starts: Mapping[str, str], bases: Mapping[str, str]) -> None:
        self._tables, self._starts, self._bases, self._files = tables, starts, bases, ResultFiles()

    def scores(self, series: Series) -> dict[str, Found]:
        """Every point of a series of tokens. Raises NotMeasured when one is not there, for then its x is unknown."""
        curve = self._curve(series)
        found = {}
        for x, scores, measure in zip(curve.tokens, curve.scores, curve.measures, strict=True):
            beyond = scores_beyond(self._tables, self._files, series, measure)
            estimate = crossed_estimate([scores], [1.0], [self._base(measure)])
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
                blocks, weights, [self._base(curve.measures[place]) for curve, place, _ in parts]
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
        rows = [self._files.per_query(path, metric) for path in files]
        for path, row in zip(files, rows, strict=True):
            if not row or row.keys() != rows[0].keys():
                raise DataError(
                    f"{path}: {len(row or ())} queries have {metric}, and {len(rows[0] or ())} in {files[0]}; expected the same. "
                    "Evaluate again."
                )
        return matrix_of(rows)

    def _base(self, measure: Measure) -> str:
        encoder = paths.parse_system(measure.system).encoder
        return self._bases.get(encoder, encoder)


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
