"""Does a claim hold in what was measured here? One outcome for each group of cells, one verdict for each claim.

A group is *for* the claim when its values pass the check and the claim's test says that this is more than chance, *against*
it when they fail the check and that is more than chance, *open* otherwise, and *not tested* when one of its cells has no
value. What is more than chance:

``paired``
    Fisher's paired randomisation test of the contrast on the queries that all cells were tested on
    (:mod:`pretrieve.evaluation.significance`; scores are means over seeds), two-sided, Holm-corrected for the groups of the
    claim, below :data:`LEVEL`. It asks whether another sample of queries could turn the result, not whether another seed could.
``seeds``
    the contrast of the means is further from its bound than its own deviation, the root of the summed squares of the cells'
    deviations over seeds. With one seed there is none, and the group stays open.
``none``
    the values alone decide, on the queries that all cells were tested on.

Values that guessing would have (:mod:`pretrieve.evaluation.chance`) are no findings: a group all of whose values are at that
level stays open whatever its test says, and a check that asks for little (``close``, ``ratio``, a negative margin) is not passed
by a value at that level, nor when guessing in place of the first cell would pass as well.

A group with several contrasts (``close``, ``order``) is for the claim by the largest of their p-values, against it by the
smallest of those that fail, times the number of contrasts (Bonferroni).

A claim needs ``share`` of its measured groups. It is **supported** when so many are for it, **contradicted** when the groups
against it leave too few, **inconclusive** otherwise, and **not tested** when no group is measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from statistics import fmean, median

from scipy.stats import spearmanr

from pretrieve.errors import DataError
from pretrieve.evaluation.significance import holm, paired_randomisation_test
from pretrieve.reporting.claims import Claim, Contrast, Place
from pretrieve.reporting.measured import EACH, Measurements, Value
from pretrieve.reporting.tables import ROUNDS

LEVEL = 0.05
VERDICTS = ("supported", "contradicted", "inconclusive", "not tested")
FOR, AGAINST, OPEN, NOT_TESTED = "for", "against", "open", "not tested"


@dataclass(frozen=True)
class Outcome:
    """One group. ``effect``: the difference (or ratio, correlation) that the check is about, in the cells' unit.

    ``points``: whether the values alone pass; ``p`` of this group alone, ``p_holm`` corrected for the claim's groups.
    """

    places: tuple[Place, ...]
    values: tuple[Value, ...] = ()
    effect: float | None = None
    points: bool = False
    p: float | None = None
    p_holm: float | None = None
    outcome: str = NOT_TESTED
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim. ``needed``: groups that must be for it; ``p``: of the weakest group that the verdict needs."""

    claim: Claim
    verdict: str
    outcomes: tuple[Outcome, ...]
    needed: int
    p: float | None
    note: str
    counts: Counter[str] = field(compare=False)

    @property
    def measured(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.values]

    @property
    def pointing(self) -> int:
        """Groups whose values alone pass the check."""
        return sum(outcome.points for outcome in self.outcomes)

    @property
    def effect(self) -> float | None:
        """Median over the measured groups, in the cells' unit."""
        effects = [outcome.effect for outcome in self.measured if outcome.effect is not None]
        return median(effects) if effects else None

    @property
    def in_part(self) -> bool:
        return 0 < len(self.measured) < len(self.outcomes)


def judge_claim(claim: Claim, measurements: Measurements) -> Verdict:
    """Evaluate one claim.

    Raises
    ------
    DataError
        when a table or figure lacks a place that the claim names, or values of one group have different units.
    """
    outcomes = [
        _outcome(claim, places, measurements) for group in claim.groups for places in _each_x(group, measurements)
    ]
    outcomes = [_beyond_guessing(outcome, claim, measurements) for outcome in _corrected(outcomes)]
    counts = Counter(outcome.outcome for outcome in outcomes)
    n = len(outcomes) - counts[NOT_TESTED]
    needed = math.ceil(claim.share * n - 1e-9)
    verdict, p = "inconclusive", None
    if n == 0:
        verdict = "not tested"
    elif counts[FOR] >= needed:
        verdict, p = "supported", _nth_p(outcomes, FOR, needed)
    elif n - counts[AGAINST] < needed:
        verdict, p = "contradicted", _nth_p(outcomes, AGAINST, n - needed + 1)
    return Verdict(claim, verdict, tuple(outcomes), needed, p, _note(outcomes, verdict), counts)


def _each_x(group: tuple[Place, ...], measurements: Measurements) -> list[tuple[Place, ...]]:
    """A group whose points are asked for at ``each`` x, as one group for every x; any other as it is."""
    if not all(place.is_point and place.where[2] == EACH for place in group):
        return [group]
    xs = measurements.shared_x(group) or [EACH]
    return [tuple(place._replace(where=(*place.where[:2], x)) for place in group) for x in xs]


def _outcome(claim: Claim, places: tuple[Place, ...], measurements: Measurements) -> Outcome:
    found = [EACH if place.where[-1] == EACH else measurements.find(place) for place in places]
    absent = [(place, value) for place, value in zip(places, found, strict=True) if isinstance(value, str)]
    if absent:
        reasons = [_reason(place, value, measurements) for place, value in absent]
        return Outcome(places, note="; ".join(dict.fromkeys(filter(None, reasons))) or "the series have no x in common")
    units = {value.unit for value in found}
    if len(units) > 1:
        raise DataError(
            f"claim {claim.name}: units {', '.join(sorted(units))} in one group ({places[0]}); expected one."
        )
    values = [value.number for value in found]
    if claim.type == "correlation":
        return _correlation(claim, places, found)
    contrasts = claim.contrasts(len(values))
    points = all(contrast.met(values) for contrast in contrasts)
    outcome = Outcome(places, tuple(found), _effect(claim.type, values), points)
    if claim.test == "none":
        outcome = _on_common(outcome, contrasts, claim, measurements)
        return replace(outcome, outcome=FOR if outcome.points else AGAINST)
    if claim.test == "seeds":
        return _by_seeds(outcome, contrasts, measurements)
    return _by_queries(outcome, contrasts, claim, measurements)


def _reason(place: Place, value: str, measurements: Measurements) -> str:
    if value != EACH:
        return value
    reason = measurements.find(place._replace(where=(*place.where[:2], "first")))
    return reason if isinstance(reason, str) else ""


def _effect(kind: str, values: Sequence[Decimal]) -> float | None:
    if kind == "close":
        return float(abs(values[0] - values[1]))
    if kind == "gap":
        return float((values[0] - values[1]) - (values[2] - values[3]))
    if kind == "ratio":
        return float(values[0] / values[1]) if values[1] else None
    return float(min(a - b for a, b in pairwise(values)))


def _correlation(claim: Claim, places: tuple[Place, ...], found: list[Value]) -> Outcome:
    numbers, margin = [float(value.number) for value in found], float(claim.margin)
    if len(set(numbers)) == 1 or len(set(claim.against)) == 1:
        return Outcome(places, tuple(found), None, False, outcome=AGAINST, note="all values are equal: no correlation")
    rho = float(spearmanr(numbers, claim.against).statistic)
    points = rho >= margin - 1e-12 if margin >= 0 else rho <= margin + 1e-12  # ranks: rho has rounding errors only
    return Outcome(places, tuple(found), rho, points, outcome=FOR if points else AGAINST)


def _beyond_guessing(outcome: Outcome, claim: Claim, measurements: Measurements) -> Outcome:
    """A decided outcome, open again where the check cannot tell a system that has learnt from one that guesses."""
    if outcome.outcome not in (FOR, AGAINST):
        return outcome
    guesses = [measurements.at_chance(value) for value in outcome.values]
    if all(guesses):
        return _opened(outcome, "all values are at the level of guessing")
    lenient = claim.type in ("close", "ratio") or (claim.type != "correlation" and claim.margin < 0)
    if outcome.outcome == AGAINST or not lenient:
        return outcome
    if any(guesses):
        return _opened(outcome, "a value is at the level of guessing")
    level = measurements.chance(outcome.values[0])
    if level is not None:
        numbers = [Decimal(repr(level)), *(value.number for value in outcome.values[1:])]
        if all(contrast.met(numbers) for contrast in claim.contrasts(len(numbers))):
            return _opened(outcome, "guessing would pass this check too")
    return outcome


def _opened(outcome: Outcome, why: str) -> Outcome:
    return replace(outcome, outcome=OPEN, note="; ".join(filter(None, (outcome.note, why))))


def _on_common(outcome: Outcome, contrasts: Sequence[Contrast], claim: Claim, measurements: Measurements) -> Outcome:
    """The same values on the queries that all cells were tested on, where each has its own; else as it is. Points of a figure
    are compared as they are drawn: on which queries, the figure has decided."""
    if any(place.is_point for place in outcome.places):
        return outcome
    scores = [measurements.per_query(value) for value in outcome.values]
    if any(isinstance(score, str) for score in scores):
        return outcome
    common = set.intersection(*(set(score) for score in scores))
    return _on(outcome, common, scores, contrasts, claim) if common else outcome


def _by_seeds(outcome: Outcome, contrasts: Sequence[Contrast], measurements: Measurements) -> Outcome:
    cells = [value for place, value in zip(outcome.places, outcome.values, strict=True) if not place.is_point]
    scores = [measurements.per_query(value) for value in cells]
    numbers = {len(score) for score in scores if not isinstance(score, str)}
    note = f"cells are tested on {' and '.join(map(str, sorted(numbers)))} queries" if len(numbers) > 1 else ""
    outcome = replace(outcome, note=note)
    if any(value.sd is None for value in outcome.values):
        return _opened(outcome, "one seed, so no deviation to compare the difference with")
    numbers = [value.number for value in outcome.values]
    beyond = {True: [], False: []}  # whether the contrast is met → is it further from its bound than its deviation?
    for contrast in contrasts:
        sd = math.sqrt(sum((float(w) * v.sd) ** 2 for w, v in zip(contrast.weights, outcome.values, strict=True)))
        beyond[contrast.met(numbers)].append(abs(float(contrast.slack(numbers))) > sd)
    if outcome.points:
        return replace(outcome, outcome=FOR if all(beyond[True]) else OPEN)
    return replace(outcome, outcome=AGAINST if any(beyond[False]) else OPEN)


def _by_queries(outcome: Outcome, contrasts: Sequence[Contrast], claim: Claim, measurements: Measurements) -> Outcome:
    scores = [measurements.per_query(value) for value in outcome.values]
    if reasons := [score for score in scores if isinstance(score, str)]:
        return replace(outcome, outcome=OPEN, note=f"not tested on queries: {'; '.join(dict.fromkeys(reasons))}")
    common = set.intersection(*(set(score) for score in scores))
    if not common:
        return replace(outcome, outcome=OPEN, note="not tested on queries: none is common to all cells")
    outcome = _on(outcome, common, scores, contrasts, claim)
    queries, factor = sorted(common), outcome.values[0].factor
    numbers = [value.number for value in outcome.values]
    met, unmet = [], []
    for contrast in contrasts:
        weights = [float(w) for w in contrast.weights]
        bound = float(contrast.bound) / factor
        sums = [sum(w * score[query] for w, score in zip(weights, scores, strict=True)) for query in queries]
        p = paired_randomisation_test(sums, [bound] * len(sums), rounds=ROUNDS, seed=0)
        (met if contrast.met(numbers) else unmet).append(p)
    return replace(outcome, p=min(1.0, min(unmet) * len(contrasts)) if unmet else max(met))


def _on(
    outcome: Outcome, common: set[str], scores: Sequence[dict[str, float]], contrasts: Sequence[Contrast], claim: Claim
) -> Outcome:
    """The same comparison on some queries only: training-set sizes that are tested on different questions share a part of them.

    Values are means over these queries, rounded as the tables are, for other questions may be harder ones.
    """
    if all(len(score) == len(common) for score in scores):
        return outcome
    values = []
    for value, score in zip(outcome.values, scores, strict=True):
        mean = Decimal(repr(fmean(score[query] for query in sorted(common)) * value.factor))
        values.append(replace(value, number=round(mean, -value.number.as_tuple().exponent)))
    numbers = [value.number for value in values]
    return replace(
        outcome,
        values=tuple(values),
        effect=_effect(claim.type, numbers),
        points=all(contrast.met(numbers) for contrast in contrasts),
        note=f"on the {len(common)} queries that all of its cells were tested on",
    )


def _corrected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes of a paired test by their p-values, corrected for all groups of the claim."""
    tested = [outcome for outcome in outcomes if outcome.p is not None]
    corrected = iter(holm([outcome.p for outcome in tested]))
    result = []
    for outcome in outcomes:
        if outcome.p is not None:
            p = next(corrected)
            decided = (FOR if outcome.points else AGAINST) if p < LEVEL else OPEN
            outcome = replace(outcome, p_holm=p, outcome=decided)
        result.append(outcome)
    return result


def _nth_p(outcomes: Sequence[Outcome], side: str, n: int) -> float | None:
    """The n-th smallest corrected p of the groups on one side: the one that the verdict could not do without."""
    ps = sorted(outcome.p_holm for outcome in outcomes if outcome.outcome == side and outcome.p_holm is not None)
    return ps[n - 1] if 0 < n <= len(ps) else None


def _note(outcomes: Sequence[Outcome], verdict: str) -> str:
    """Why the verdict is not simply yes or no, and which groups say nothing, with their reasons."""
    parts = []
    measured = [outcome for outcome in outcomes if outcome.values]
    if verdict == "inconclusive":
        pointing = sum(outcome.points for outcome in measured)
        against = sum(outcome.outcome == AGAINST for outcome in measured)
        sure = sum(outcome.outcome == FOR for outcome in measured)
        parts.append(
            f"{pointing} of {len(measured)} comparisons point that way, {sure} beyond chance, and {against} beyond chance the "
            "other way"
        )
    noted = Counter(outcome.note for outcome in measured if outcome.note)
    parts += [note if n == len(measured) else f"{n} of {len(measured)}: {note}" for note, n in noted.items()]
    left_out = Counter(outcome.note for outcome in outcomes if not outcome.values)
    if measured and left_out:
        parts.append(f"{sum(left_out.values())} of {len(outcomes)} comparisons are not measured")
    parts += _with_one_head(list(left_out))
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
