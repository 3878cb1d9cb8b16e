"""Does a claim hold in what was measured here? One outcome for each group of cells, one verdict for each claim.

**One method.** The effect of a group is a weighted sum of its cells. Its interval (95 %) and its one-sided p-values are those
over other seeds *and* other queries (:func:`pretrieve.evaluation.significance.crossed_estimate`). A group is *for* the claim
when everything that its check asks for is shown (each p < 0.025: two one-sided tests where a margin has two sides), *against* it
when the contrary of one part is (p < 0.025, times the number of parts), and *open* otherwise. A rank correlation and the steps
to reach a value are no sums: their intervals come from draws of seeds and queries (``crossed_draws``).

**What decides nothing.** Values that guessing would have (:mod:`pretrieve.evaluation.chance`): a group without a value beyond
them stays open, and so does a check that such a value could pass (*near*, *not-worse*, *at_most*). Where one side alone has
learnt, the other is named. Groups of the same files count once, though two roles name them. Groups without the training
examples or the original data that the sentence is about are *not testable here*.

**A claim** needs ``share`` of its n measured groups. That at least k are true has p = (n − k + 1) · the k-th smallest p (partial
conjunction; Benjamini & Heller, *Biometrics* 64, 2008), for it and, with what the contrary needs, against it. The
smaller of the two, doubled, is the claim's p. Over all claims these are adjusted to a false-discovery rate of 5 % (Benjamini &
Hochberg 1995). Where one seed was trained, no verdict on training is given: the claim *holds*, or *fails*, *for this seed only*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import median_low

import numpy as np
from scipy.stats import rankdata

from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import (
    Estimate,
    crossed_draws,
    crossed_estimate,
    false_discovery,
    independent_estimate,
)
from pretrieve.reporting.claims.claims import Claim, Margin, Place
from pretrieve.reporting.claims.measured import EACH, Measurements, Value

LEVEL = 0.05
SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
HOLDS, FAILS = "holds for this seed only", "fails for this seed only"
NOT_TESTABLE, NOT_TESTED = "not testable here", "not tested"
VERDICTS = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, HOLDS, FAILS, NOT_TESTABLE, NOT_TESTED)
FOR, AGAINST, OPEN, REPEATED = "for", "against", "open", "counted above"
#: The second estimand of a comparison of retrievers (pretrieve.evaluation.metrics).
ENTROPY = "contrastive_entropy"
_DRAWS = 2000


@dataclass(frozen=True)
class Outcome:
    """One group. ``effect`` (``low`` to ``high``): the difference, ratio or correlation that is asked for, in the cells' unit.

    ``points``: whether the values alone pass; ``p_for``, ``p_against``: one-sided; ``not_learnt``: rows of values that guessing
    would have, where others are beyond it.
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


@dataclass(frozen=True)
class Verdict:
    """What became of a claim. ``needed``: groups that must be for it; ``p``: of the side that is nearer to being shown;
    ``q``: the same among all claims. ``beside``: the second estimand, in words."""

    claim: Claim
    outcomes: tuple[Outcome, ...]
    needed: int = 0
    p_for: float = 1.0
    p_against: float = 1.0
    q: float | None = None
    verdict: str = NOT_TESTED
    beside: str = ""

    @property
    def measured(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.outcome in (FOR, AGAINST, OPEN)]

    @property
    def p(self) -> float | None:
        return min(1.0, 2 * min(self.p_for, self.p_against)) if self.measured else None

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.outcome for outcome in self.outcomes)

    @property
    def middle(self) -> Outcome | None:
        """The measured group with the median effect (of an even number the lower one)."""
        found = {o.effect: o for o in self.measured if o.effect is not None}
        return found[median_low(o.effect for o in self.measured if o.effect is not None)] if found else None

    @property
    def note(self) -> str:
        return _note(self)


def judge_claims(claims: Sequence[Claim], measurements: Measurements) -> list[Verdict]:
    """Evaluate claims, in the order given; their p-values are adjusted for all of them.

    Raises
    ------
    DataError
        when a table or figure lacks a place that a claim names, or values of one group have different units.
    """
    verdicts = [_unadjusted(claim, measurements) for claim in claims]
    tested = [i for i, verdict in enumerate(verdicts) if verdict.verdict == INCONCLUSIVE]
    for i, q in zip(tested, false_discovery([verdicts[i].p for i in tested]), strict=True):
        found = verdicts[i]
        if q < LEVEL:
            one_seed = any(value.one_seed for outcome in found.measured for value in outcome.values)
            words = (HOLDS, FAILS) if one_seed else (SUPPORTED, CONTRADICTED)
            found = replace(found, verdict=words[found.p_for > found.p_against])
        verdicts[i] = replace(found, q=q)
    return verdicts


def _unadjusted(claim: Claim, measurements: Measurements) -> Verdict:
    groups = [places for group in claim.groups for places in _each_x(claim, group, measurements)]
    outcomes = _once([_group(claim, places, measurements, claim.decided_by) for places in groups])
    found = Verdict(claim, tuple(outcomes))
    n = len(found.measured)
    if n < max(claim.needs_groups, 1):
        untestable = any(outcome.outcome == NOT_TESTABLE for outcome in outcomes)
        return replace(found, verdict=NOT_TESTABLE if untestable else NOT_TESTED)
    needed = math.ceil(claim.share * n - 1e-9)
    p_for = _at_least([outcome.p_for for outcome in found.measured], needed)
    p_against = _at_least([outcome.p_against for outcome in found.measured], n - needed + 1)
    beside = "" if claim.decided_by else _beside(claim, groups, measurements)
    return replace(found, needed=needed, p_for=p_for, p_against=p_against, verdict=INCONCLUSIVE, beside=beside)


def _at_least(ps: Sequence[float], k: int) -> float:
    """p of 'fewer than k of these hypotheses are true' (partial conjunction)."""
    return min(1.0, (len(ps) - k + 1) * sorted(ps)[k - 1])


def _each_x(claim: Claim, group: tuple[Place, ...], measurements: Measurements) -> list[tuple[Place, ...]]:
    """A group whose points are asked for at ``each`` x, as one group for every x; any other as it is."""
    if claim.type == "reach" or not all(place.is_point and place.where[2] == EACH for place in group):
        return [group]
    xs = measurements.shared_x(group) or [EACH]
    return [tuple(place._replace(where=(*place.where[:2], x)) for place in group) for x in xs]


def _once(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, those of values that an earlier group already has marked: one data set may play two roles."""
    seen, result = set(), []
    for outcome in outcomes:
        key = tuple((value.files, value.metric) for value in outcome.values)
        if outcome.values and all(files for files, _ in key):
            if key in seen and outcome.outcome in (FOR, AGAINST, OPEN):
                outcome = replace(
                    outcome, outcome=REPEATED, note="the same runs on the same data as another comparison"
                )
            seen.add(key)
        result.append(outcome)
    return result


def _group(claim: Claim, places: tuple[Place, ...], measurements: Measurements, metric: str = "") -> Outcome:
    curves = []
    if claim.type == "reach":
        found = curves = [measurements.curve(place) for place in places]
    else:
        found = [EACH if place.where[-1] == EACH else measurements.find(place) for place in places]
    absent = [(place, value) for place, value in zip(places, found, strict=True) if isinstance(value, str)]
    if absent:
        reasons = [_reason(place, value, measurements) for place, value in absent]
        note = "; ".join(dict.fromkeys(filter(None, reasons))) or "the series have no x in common"
        return Outcome(places, outcome=NOT_TESTED, note=note)
    values = [max(curve, key=lambda point: point[1].number)[1] for curve in curves] or list(found)
    if why := _not_testable(claim, values, measurements):
        return Outcome(places, tuple(values), outcome=NOT_TESTABLE, note=why)
    if metric:
        others = [measurements.by_metric(value, metric) for value in values]
        if None in others:
            return Outcome(places, outcome=NOT_TESTED, note=f"not measured by {metric}")
        values = others
    if len(units := {value.unit for value in values}) > 1:
        raise DataError(
            f"claim {claim.name}: units {', '.join(sorted(units))} in one group ({places[0]}); expected one."
        )
    if claim.type == "reach":
        outcome = _reach(Outcome(places, tuple(values)), curves, claim, measurements)
    else:
        outcome = _compared(Outcome(places, tuple(values)), claim, measurements)
    return _beyond_guessing(_decided(outcome), values, claim, measurements)


def _reason(place: Place, value: str, measurements: Measurements) -> str:
    if value != EACH:
        return value
    reason = measurements.find(place._replace(where=(*place.where[:2], "first")))
    return reason if isinstance(reason, str) else ""


def _not_testable(claim: Claim, values: Sequence[Value], measurements: Measurements) -> str:
    """Why the data or the number of training examples cannot show the claim; '' when they can."""
    roles = dict.fromkeys(value.role for value in values if value.role)
    stand_ins = [
        role
        for role in roles
        if ("all" in claim.needs_original or role in claim.needs_original) and not measurements.facts.original(role)
    ]
    if stand_ins:
        return f"stand-in data for {', '.join(stand_ins)}: {claim.because}"
    counts = [n for value in values if (n := measurements.facts.trained(value)) is not None]
    if claim.needs_train and counts and min(counts) < 0.95 * claim.needs_train:
        return f"trained on {min(counts):,} examples where the sentence is about {claim.needs_train:,}"
    return ""


def _compared(outcome: Outcome, claim: Claim, measurements: Measurements) -> Outcome:
    """The outcome with its effect, interval and p-values."""
    values = outcome.values
    drawn = any(place.is_point for place in outcome.places)
    bases = [measurements.facts.bases.get(value.encoder, value.encoder) for value in values]
    scores = [measurements.per_query(value, drawn) for value in values]
    reasons = [score for score in scores if isinstance(score, str)]
    common = sorted(set.intersection(*map(set, scores))) if not reasons else []
    spreads = [measurements.spread(value) for value in values]
    if common:
        if any(len(score) > len(common) for score in scores):
            outcome = replace(outcome, note=f"on the {len(common)} queries that all of its cells were tested on")
            values = tuple(_on(value, score, common) for value, score in zip(values, scores, strict=True))
        blocks = [np.stack([score[query] for query in common], axis=1) for score in scores]

        def estimate(weights: Sequence[Decimal]) -> Estimate:
            return crossed_estimate(blocks, [float(w) for w in weights], bases)
    elif None not in spreads and not (reasons == [] and not common):
        numbers = [float(value.number) for value in values]

        def estimate(weights: Sequence[Decimal]) -> Estimate:
            return independent_estimate(numbers, [float(w) for w in weights], spreads)
    else:
        why = "; ".join(dict.fromkeys(reasons)) if reasons else "no query is common to all cells"
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
    shown, refuted = claim.tests(len(numbers), below_zero=outcome.values[0].factor < 0)
    # Of an order the smallest of its differences, which it stands or falls with
    effects = [
        (sum(w * n for w, n in zip(weights, numbers, strict=True)), weights) for weights in claim.effects(len(numbers))
    ]
    effect, weights = min(effects)
    outcome = replace(outcome, effect=float(effect), points=all(test.met(numbers) for test in shown))
    if estimate is None:
        return outcome
    low, high = estimate(weights).interval(LEVEL / 2)
    ps = [[estimate(test.weights).p_above(float(test.bound)) for test in tests] for tests in (shown, refuted)]
    return replace(outcome, low=low, high=high, p_for=max(ps[0]), p_against=min(1.0, min(ps[1]) * len(ps[1])))


def _correlation(outcome: Outcome, claim: Claim, draws: np.ndarray | None) -> Outcome:
    numbers = np.array([[float(value.number) for value in outcome.values]])
    margin = float(claim.smallest_effect.size)
    effect = float(_spearman(numbers, claim.against)[0])
    sign = -1 if margin < 0 else 1
    outcome = replace(
        outcome, effect=effect, points=sign * effect >= abs(margin) - 1e-12
    )  # ranks: rho has rounding errors only
    if draws is None:
        return outcome
    return _from_draws(
        outcome, _spearman(draws, claim.against), lambda rho: sign * rho > 0, lambda rho: sign * rho < abs(margin)
    )


def _spearman(rows: np.ndarray, against: Sequence[float]) -> np.ndarray:
    """Spearman's correlation of each row (r, k) with k numbers; 0 where all are equal."""
    ranks, given = rankdata(rows, axis=1), rankdata(against)
    ranks, given = ranks - ranks.mean(1, keepdims=True), given - given.mean()
    sizes = np.sqrt((ranks**2).sum(1) * (given**2).sum())
    return np.divide(ranks @ given, sizes, out=np.zeros(len(rows)), where=sizes > 0)


def _reach(
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
    return _from_draws(outcome, parts(*drawn), lambda part: part <= margin, lambda part: part > margin)


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


def _decided(outcome: Outcome) -> Outcome:
    if outcome.p_for < LEVEL / 2:  # of an effect that is shown, however small, the contrary is not
        return replace(outcome, outcome=FOR, p_against=1.0)
    return replace(outcome, outcome=AGAINST if outcome.p_against < LEVEL / 2 else OPEN)


def _beyond_guessing(outcome: Outcome, values: Sequence[Value], claim: Claim, measurements: Measurements) -> Outcome:
    """The outcome, open where the check cannot tell a system that has learnt from one that guesses.

    values: on all their queries, also where the comparison is about some of them.
    """
    guesses = [measurements.at_chance(value) for value in values]
    if all(guesses):
        return _opened(outcome, "all values are at the level of guessing")
    named = (
        place.where[1 if place.is_point else 0] for place, guess in zip(outcome.places, guesses, strict=True) if guess
    )
    outcome = replace(outcome, not_learnt=tuple(dict.fromkeys(named)))
    if not claim.lenient:
        return outcome
    if any(guesses) and outcome.outcome != AGAINST:
        return _opened(outcome, "a value is at the level of guessing")
    level = measurements.chance(values[0])
    if outcome.outcome == FOR and level is not None and claim.type != "reach":
        numbers = [Decimal(repr(level)), *(value.number for value in outcome.values[1:])]
        if all(test.met(numbers) for test in claim.tests(len(numbers), values[0].factor < 0)[0]):
            return _opened(outcome, "guessing would pass this check too")
    return outcome


def _opened(outcome: Outcome, why: str) -> Outcome:
    note = "; ".join(filter(None, (outcome.note, why)))
    return replace(outcome, outcome=OPEN, p_for=1.0, p_against=1.0, note=note)


def _beside(claim: Claim, groups: Sequence[tuple[Place, ...]], measurements: Measurements) -> str:
    """The direction of the claim's comparisons by contrastive entropy, in words; '' where there is none."""
    if claim.type not in ("greater", "at-least", "gap", "order"):
        return ""
    direction = "greater" if claim.type == "at-least" else claim.type
    asked = replace(claim, type=direction, smallest_effect=Margin(Decimal()), at_most=None, both_gain=False)
    found = Verdict(asked, tuple(_once([_group(asked, places, measurements, ENTROPY) for places in groups])))
    if not found.measured:
        return ""
    middle = found.middle
    interval = "" if middle.low is None else f" [{middle.low:.3f}, {middle.high:.3f}]"
    return (
        f"contrastive entropy: better by {middle.effect:.3f}{interval} nats (median), {found.counts[FOR]} for and "
        f"{found.counts[AGAINST]} against of {len(found.measured)}"
    )


def _note(verdict: Verdict) -> str:
    """Why the verdict is not simply yes or no, and which groups say nothing, with their reasons."""
    parts, measured = [], verdict.measured
    names = dict.fromkeys(name for outcome in measured for name in outcome.not_learnt)
    if names:
        parts.append(f"has not learnt (≈ chance): {', '.join(names)}")
    if verdict.verdict == INCONCLUSIVE:
        pointing = sum(outcome.points for outcome in measured)
        counts = verdict.counts
        parts.append(
            f"{pointing} of {len(measured)} comparisons point that way, {counts[FOR]} beyond chance, and {counts[AGAINST]} "
            "beyond chance the other way"
        )
    noted = Counter(outcome.note for outcome in measured if outcome.note)
    parts += [note if n == len(measured) else f"{n} of {len(measured)}: {note}" for note, n in noted.items()]
    if 0 < len(measured) < verdict.claim.needs_groups:
        parts.append(
            f"{len(measured)} comparisons are measured, and the claim is about {verdict.claim.needs_groups} or more"
        )
    for word, told in (
        (REPEATED, "repeat others"),
        (NOT_TESTABLE, "are not testable here"),
        (NOT_TESTED, "are not measured"),
    ):
        notes = Counter(outcome.note for outcome in verdict.outcomes if outcome.outcome == word)
        if notes and measured:
            parts.append(f"{sum(notes.values())} of {len(verdict.outcomes)} comparisons {told}")
        parts += _with_one_head(list(notes)) if word != REPEATED else []
    return "; ".join(parts)


def _with_one_head(notes: Sequence[str]) -> list[str]:
    """Notes that differ in nothing but their last word, as one.

    >>> _with_one_head(["no data set for fever", "no data set for scifact"])
    ['no data set for fever, scifact']
    """
    ends: dict[str, list[str]] = {}
    for part in dict.fromkeys(part for note in notes for part in note.split("; ")):
        head, _, end = part.rpartition(" ")
        ends.setdefault(head, []).append(end)
    return [f"{head} {', '.join(ends)}".strip() for head, ends in ends.items()]
