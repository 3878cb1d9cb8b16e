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
Hochberg 1995). A claim with more groups for it than against it is not contradicted. Where one seed was trained,
no verdict on training is given: the claim *holds*, or *fails*, *for this seed only*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import median_low

from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import false_discovery
from pretrieve.reporting.claims.claims import Claim, Margin, Place
from pretrieve.reporting.claims.measured import EACH, FIRST, Measurements, Value
from pretrieve.reporting.claims.outcomes import AGAINST, FOR, LEVEL, OPEN, REPEATED, Outcome, compared, reach

SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
HOLDS, FAILS = "holds for this seed only", "fails for this seed only"
NOT_TESTABLE, NOT_TESTED = "not testable here", "not tested"
VERDICTS = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, HOLDS, FAILS, NOT_TESTABLE, NOT_TESTED)
#: The second estimand of a comparison of retrievers (pretrieve.evaluation.metrics).
ENTROPY = "contrastive_entropy"


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
        """The measured group with the median effect (of an even number the lower one), of those with room for an effect."""
        known = [o for o in self.measured if o.effect is not None]
        known = [o for o in known if o.has_room] or known
        return {o.effect: o for o in known}[median_low(o.effect for o in known)] if known else None

    @property
    def note(self) -> str:
        """Why the verdict is not simply yes or no, and which groups say nothing, with their reasons."""
        parts, measured = [], self.measured
        names = dict.fromkeys(name for outcome in measured for name in outcome.not_learnt)
        if names:
            parts.append(f"has not learnt (≈ chance): {', '.join(names)}")
        if self.verdict == INCONCLUSIVE:
            pointing, counts = sum(outcome.points for outcome in measured), self.counts
            parts.append(
                f"{pointing} of {_comparisons(len(measured), 'points', 'point')} that way, {counts[FOR]} beyond chance, and "
                f"{counts[AGAINST]} beyond chance the other way"
            )
        noted = Counter(outcome.note for outcome in measured if outcome.note)
        parts += [note if n == len(measured) else f"{n} of {len(measured)}: {note}" for note, n in noted.items()]
        if 0 < len(measured) < (needs := self.claim.needs_groups):
            parts.append(f"{_comparisons(len(measured), 'is', 'are')} measured, and the claim is about {needs} or more")
        for word, told in (
            (REPEATED, "repeat others"),
            (NOT_TESTABLE, "are not testable here"),
            (NOT_TESTED, "are not measured"),
        ):
            notes = Counter(outcome.note for outcome in self.outcomes if outcome.outcome == word)
            if notes and measured:
                parts.append(f"{sum(notes.values())} of {len(self.outcomes)} comparisons {told}")
            parts += _with_one_head(list(notes)) if word != REPEATED else []
        return "; ".join(parts)


def _comparisons(count: int, one: str, many: str) -> str:
    """Of one comparison or many, with the verb.

    >>> _comparisons(1, "is", "are"), _comparisons(0, "is", "are")
    ('1 comparison is', '0 comparisons are')
    """
    return f"1 comparison {one}" if count == 1 else f"{count} comparisons {many}"


def judge_claims(claims: Sequence[Claim], measurements: Measurements) -> list[Verdict]:
    """Evaluate claims, in the order given; their p-values are adjusted for all of them.

    Raises DataError when a table or figure lacks a place that a claim names, or values of one group have different units.
    """
    verdicts = [_unadjusted(claim, measurements) for claim in claims]
    tested = [i for i, verdict in enumerate(verdicts) if verdict.verdict == INCONCLUSIVE]
    for i, q in zip(tested, false_discovery([verdicts[i].p for i in tested]), strict=True):
        found = verdicts[i]
        if q < LEVEL:
            one_seed = any(value.one_seed for outcome in found.measured for value in outcome.values)
            words = (HOLDS, FAILS) if one_seed else (SUPPORTED, CONTRADICTED)
            refuted = found.p_for > found.p_against
            # With more comparisons for it than against it, a claim holds in part.
            if not refuted or found.counts[AGAINST] >= found.counts[FOR]:
                found = replace(found, verdict=words[refuted])
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
        # All steps of a training name the files of its end.
        xs = [place.where[2] if place.is_point else "" for place in outcome.places]
        key = tuple((value.files, value.metric, x) for value, x in zip(outcome.values, xs, strict=False))
        if outcome.values and all(files for files, _, _ in key):
            if key in seen and outcome.outcome in (FOR, AGAINST, OPEN):
                said = "the same runs on the same data as another comparison"
                outcome = replace(outcome, outcome=REPEATED, note=said)
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
        reasons = []
        for place, why in absent:
            if why == EACH:
                why = measurements.find(place._replace(where=(*place.where[:2], FIRST)))
            reasons += [why] if isinstance(why, str) else []
        note = "; ".join(dict.fromkeys(reasons)) or "the series have no x in common"
        return Outcome(places, outcome=NOT_TESTED, note=note)
    values = [max(curve, key=lambda point: point[1].number)[1] for curve in curves] or list(found)
    counts = (measurements.facts.trained(value) for value in values)
    trained = tuple(sorted({count for count in counts if count is not None}))
    if why := _not_testable(claim, values, trained, measurements):
        return Outcome(places, tuple(values), outcome=NOT_TESTABLE, note=why, trained=trained)
    if metric:
        others = [measurements.by_metric(value, metric) for value in values]
        if None in others:
            return Outcome(places, outcome=NOT_TESTED, note=f"not measured by {metric}")
        values = others
    if len(units := {value.unit for value in values}) > 1:
        raise DataError(
            f"claim {claim.name}: units {', '.join(sorted(units))} in one group ({places[0]}); expected one."
        )
    outcome = Outcome(places, tuple(values), trained=trained)
    outcome = reach(outcome, curves, claim, measurements) if curves else compared(outcome, claim, measurements)
    return _beyond_guessing(_decided(outcome), values, claim, measurements)


def _not_testable(claim: Claim, values: Sequence[Value], trained: Sequence[int], measurements: Measurements) -> str:
    """Why the data or the number of training examples cannot show the claim; '' when they can."""
    roles = dict.fromkeys(value.role for value in values if value.role)
    needed = roles if "all" in claim.needs_original else [role for role in roles if role in claim.needs_original]
    if stand_ins := [role for role in needed if not measurements.facts.original(role)]:
        return f"substitute data for {', '.join(stand_ins)}: {claim.because}"
    if claim.needs_train and trained and min(trained) < 0.95 * claim.needs_train:
        return f"trained on {min(trained):,} examples where the sentence is about {claim.needs_train:,}"
    return ""


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
    guessed = [place for place, guess in zip(outcome.places, guesses, strict=True) if guess]
    named = dict.fromkeys(place.where[1 if place.is_point else 0] for place in guessed)
    outcome = replace(outcome, not_learnt=tuple(named))
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
