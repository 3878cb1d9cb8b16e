"""The effect of one group of cells, its interval and its p-values: the statistics of :mod:`pretrieve.reporting.claims.verdicts`.

An effect is a weighted sum of the cells, with the error that other seeds and other queries would give it. A rank correlation and
the steps to reach a value are no sums: their intervals are those of draws with the same errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import scipy

from pretrieve.evaluation.significance import Estimate, crossed_draws, crossed_estimate, independent_estimate
from pretrieve.reporting.claims.claims import Claim, Place, Test
from pretrieve.reporting.claims.measured import Measurements, Value

LEVEL = 0.05
FOR, AGAINST, OPEN, REPEATED = "for", "against", "open", "counted above"
_DRAWS = 2000


def p_in_digits(p: float | None) -> str:
    """A p-value of a CSV: four significant digits, so that none is 0; '' for None.

    >>> [p_in_digits(p) for p in (1.0, 0.03372, 0.00004321, None)]
    ['1', '0.03372', '4.321e-05', '']
    """
    return "" if p is None else f"{p:.4g}"


@dataclass(frozen=True)
class Outcome:
    """One group. ``effect`` (``low`` to ``high``): the difference, ratio or correlation that is asked for, in the cells' unit.

    ``points``: whether the values alone pass; ``p_for``, ``p_against``: one-sided; ``not_learnt``: rows of values that guessing
    would have, where others are beyond it; ``trained``: training examples of its values, each number once; ``has_room``: the
    highest value of the metric would show the smallest effect.
    """

    places: tuple[Place, ...]
    values: tuple[Value, ...] = ()
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    points: bool = False
    p_for: float = 1.0
    p_against: float = 1.0
    outcome: str = OPEN
    note: str = ""
    not_learnt: tuple[str, ...] = ()
    trained: tuple[int, ...] = ()
    has_room: bool = True


def compared(outcome: Outcome, claim: Claim, measurements: Measurements) -> Outcome:
    """The outcome with its effect, interval and p-values."""
    values = outcome.values
    drawn = any(place.is_point for place in outcome.places)
    bases = [measurements.facts.bases.get(value.encoder, value.encoder) for value in values]
    scores = [measurements.per_query(value, drawn) for value in values]
    reasons = [score for score in scores if isinstance(score, str)]
    # Of two data sets an id is two queries, however equal.
    apart = len({value.dataset for value in values}) > 1
    common = sorted(set.intersection(*map(set, scores))) if not (reasons or apart) else []
    spreads = [measurements.spread(value) for value in values]
    if len(common) > 1:
        if any(len(score) > len(common) for score in scores):
            outcome = replace(outcome, note=f"on the {len(common)} queries that all of its cells were tested on")
            values = tuple(_on(value, score, common) for value, score in zip(values, scores, strict=True))
        blocks = [np.stack([score[query] for query in common], axis=1) for score in scores]

        def estimate(weights: Sequence[Decimal]) -> Estimate:
            return crossed_estimate(blocks, [float(w) for w in weights], bases)
    elif (reasons or apart) and None not in spreads:
        numbers = [float(value.number) for value in values]

        def estimate(weights: Sequence[Decimal]) -> Estimate:
            return independent_estimate(numbers, [float(w) for w in weights], spreads)
    else:
        why = "; ".join(dict.fromkeys(reasons)) or f"{len(common) or 'no'} query is common to all cells"
        estimate = None
        outcome = replace(outcome, note=f"no uncertainty is known ({why}; one seed)" if reasons else why)
    outcome = replace(outcome, values=values)
    if claim.type == "correlation":
        draws = None
        if estimate is not None:
            draws = crossed_draws(blocks, bases, _DRAWS) if common else _independent_draws(values, spreads)
        return _correlation(outcome, claim, draws)
    return _differences(outcome, claim, estimate)


def _on(value: Value, score: dict[str, np.ndarray], queries: Sequence[str]) -> Value:
    """The value on some of its queries, rounded as the tables are, for other questions may be harder ones."""
    mean = Decimal(repr(float(np.mean([score[query].mean() for query in queries]))))
    return replace(value, number=round(mean, -value.number.as_tuple().exponent))


def _differences(outcome: Outcome, claim: Claim, estimate: Callable[[Sequence[Decimal]], Estimate] | None) -> Outcome:
    numbers = [value.number for value in outcome.values]
    first = outcome.values[0]
    highest = Decimal(first.factor) if first.factor > 0 and first.unit in ("%", "fraction") else None

    def has_room(test: Test) -> bool:
        """Whether the highest values of a metric could fail this test against the claim."""
        best = (highest if weight < 0 else number for weight, number in zip(test.weights, numbers, strict=True))
        return highest is None or not test.met(tuple(best))

    shown, refuted = claim.tests(len(numbers), first.factor < 0, has_room)
    if refuted != claim.tests(len(numbers), first.factor < 0)[1]:
        said = f"the highest value, {highest}, would not reach the smallest effect, so only a reversed order counts against it"
        outcome = replace(outcome, note="; ".join(filter(None, (outcome.note, said))), has_room=False)
    sizes = ((sum(w * n for w, n in zip(ws, numbers, strict=True)), ws) for ws in claim.effects(len(numbers)))
    effect, weights = min(sizes)  # of an order the smallest of its differences, which it stands or falls with
    outcome = replace(outcome, effect=float(effect), points=all(test.met(numbers) for test in shown))
    if estimate is None:
        return outcome
    bounds = estimate(weights).interval(LEVEL / 2)
    low, high = bounds if math.isfinite(bounds[0]) else (None, None)
    ps = [[estimate(test.weights).p_above(float(test.bound)) for test in tests] for tests in (shown, refuted)]
    return replace(outcome, low=low, high=high, p_for=max(ps[0]), p_against=min(1.0, min(ps[1]) * len(ps[1])))


def _correlation(outcome: Outcome, claim: Claim, draws: np.ndarray | None) -> Outcome:
    numbers = np.array([[float(value.number) for value in outcome.values]])
    margin = float(claim.smallest_effect.size)
    effect = float(spearman(numbers, claim.against)[0])
    sign = -1 if margin < 0 else 1
    # Of ranks: rho has rounding errors only.
    outcome = replace(outcome, effect=effect, points=sign * effect >= abs(margin) - 1e-12)
    if draws is None:
        return outcome
    return _from_draws(
        outcome, spearman(draws, claim.against), lambda rho: sign * rho > 0, lambda rho: sign * rho < abs(margin)
    )


def spearman(rows: np.ndarray, against: Sequence[float]) -> np.ndarray:
    """Spearman's correlation of each row (r, k) with k numbers; 0 where all are equal."""
    ranks, given = scipy.stats.rankdata(rows, axis=1), scipy.stats.rankdata(against)
    ranks, given = ranks - ranks.mean(1, keepdims=True), given - given.mean()
    sizes = np.sqrt((ranks**2).sum(1) * (given**2).sum())
    return np.divide(ranks @ given, sizes, out=np.zeros(len(rows)), where=sizes > 0)


def reach(
    outcome: Outcome, curves: Sequence[list[tuple[float, Value]]], claim: Claim, measurements: Measurements
) -> Outcome:
    """The part of the second series' steps to its best value that the first needs to be as good."""
    steps = [np.array([x for x, _ in curve]) for curve in curves]
    margin = float(claim.smallest_effect.size)

    def parts(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        reached = first >= second.max(1, keepdims=True)
        when = np.where(reached.any(1), steps[0][reached.argmax(1)], np.inf)
        best = steps[1][second.argmax(1)]
        return np.divide(when, best, out=np.full(len(when), np.inf), where=best > 0)

    rows = [np.array([[float(value.number) for _, value in curve]]) for curve in curves]
    effect = float(parts(*rows)[0])
    outcome = replace(outcome, effect=effect if math.isfinite(effect) else None, points=effect <= margin)
    spreads = [[measurements.spread(value) for _, value in curve] for curve in curves]
    if any(None in spread for spread in spreads):
        return replace(outcome, note="no uncertainty is known (one seed, and no values per query during training)")
    drawn = [_independent_draws([v for _, v in curve], s) for curve, s in zip(curves, spreads, strict=True)]
    found = _from_draws(outcome, parts(*drawn), lambda part: part <= margin, lambda part: part > margin)
    # The greatest of many draws lies above the second curve's best, so draws would say too often that the first is late. It is
    # late only if each of its values up to the margin is below the second one's last.
    last, end = curves[1][-1], spreads[1][-1]
    early = [(v, s) for (x, v), s in zip(curves[0], spreads[0], strict=True) if x <= margin * last[0]]
    below = [
        independent_estimate([float(value.number), float(last[1].number)], [1, -1], [spread, end]).p_below(0)
        for value, spread in early
    ]
    return replace(found, p_against=max(below, default=1.0))


def _independent_draws(values: Sequence[Value], spreads: Sequence[Sequence[tuple[float, float]]]) -> np.ndarray:
    """(draws, values): each with Student's t of its own parts of variance."""
    rng, columns = np.random.default_rng(0), []
    for value, parts in zip(values, spreads, strict=True):
        noise = (math.sqrt(variance) * rng.standard_t(df, _DRAWS) for variance, df in parts)
        columns.append(float(value.number) + sum(noise, np.zeros(_DRAWS)))
    return np.stack(columns, axis=1)


def _from_draws(
    outcome: Outcome,
    draws: np.ndarray,
    holds: Callable[[np.ndarray], np.ndarray],
    fails: Callable[[np.ndarray], np.ndarray],
) -> Outcome:
    low, high = np.quantile(draws, [LEVEL / 2, 1 - LEVEL / 2], method="nearest")
    p_for, p_against = (float((~test(draws)).sum() + 1) / (len(draws) + 1) for test in (holds, fails))
    return replace(outcome, low=float(low), high=float(high), p_for=p_for, p_against=p_against)
