"""The league table of a run: encoders beside each other at one recipe of fine-tuning, on every data set that they share.

``league.csv`` has a line for each encoder, recipe, data set and metric: score with its interval, difference to plain masked words
(the encoder of the same body, start and budget that was trained on masked words alone), and cost. ``league.pairs.csv`` has the
paired difference of every two encoders. What tables of several papers measure at one recipe stands together here.

The method is the ledger's (:mod:`pretrieve.reporting.claims.outcomes`): intervals of 95 % and p-values are over seeds and
queries together, and two values that guessing would have are not compared. ``q`` is p, adjusted to a false-discovery rate over
all pairs of one recipe and metric, which a reader sees at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.paths import parse_system
from pretrieve.evaluation.significance import crossed_estimate, false_discovery, independent_estimate
from pretrieve.reporting.claims.claims import Claim, Margin, Place
from pretrieve.reporting.claims.measured import Facts, Measurements, Value
from pretrieve.reporting.claims.outcomes import Outcome, compared, p_in_digits
from pretrieve.reporting.tables.filling import Line, is_scored
from pretrieve.reporting.tables.rows import text_tuple

BM25 = "bm25"
#: What makes two encoders comparable: all but the objective.
_ALIKE = ("body", "layers", "layers_of_start", "start", "budget")
#: A claim that asks for any difference above zero: its two tests are the two sides.
ANY_DIFFERENCE = Claim("", "", "", "", "", "", Margin(Decimal()), "greater", ())


class Standing(
    text_tuple(
        "Standing",
        "recipe encoder dataset metric unit score low high n_seeds queries beyond_chance baseline effect effect_low "
        "effect_high p q wall_s gpu_h cell",
    )
):
    """One line of ``league.csv``, every field as text. ``score``, ``effect`` and their bounds are in ``unit``; ``effect`` is
    ``score`` minus that of ``baseline``; ``wall_s`` and ``gpu_h`` are of all stages that the score needs, mean over seeds;
    ``cell`` is where the score stands (PAPER/TABLE: ROW, COLUMN)."""


class Pair(text_tuple("Pair", "recipe dataset metric unit a b effect low high p q n_seeds queries note")):
    """One line of ``league.pairs.csv``: ``effect`` is ``a`` minus ``b`` in ``unit``, on the same queries. ``p`` is two-sided;
    ``n_seeds``: the fewer of the two that were trained with; ``note``: why nothing is decided."""


@dataclass(frozen=True)
class Entry:
    """An encoder's value at a recipe on a data set. ``line``: of the table that it stands in, at ``place``."""

    encoder: str
    recipe: str
    value: Value
    line: Line
    place: Place


class Kept(Measurements):
    """Measurements that keep what they made of a value until :meth:`forget`: each is compared with many others."""

    def __init__(self, root: Path | str, seeds: Sequence[int], facts: Facts | None = None) -> None:
        super().__init__(root, seeds, facts)
        self.forget()

    def forget(self) -> None:
        per_query = cache(super().per_query)
        self.per_query = lambda value, drawn=False: per_query(value, drawn)  # one key, however ``drawn`` is given
        self.spread, self.at_chance = cache(super().spread), cache(super().at_chance)


def entries_of(tables: Mapping[str, Sequence[Line]], measurements: Measurements) -> list[Entry]:
    """The measured scores of all tables (PAPER/TABLE → lines), each once, as percentages where they are fractions.

    A recipe is in the league where at least two encoders were trained by it.
    """
    found: dict[tuple[str, str, str, str], Entry] = {}
    for name, lines in tables.items():
        for line in lines:
            if not is_scored(line):
                continue
            system = parse_system(line.system)
            key = (f"{system.recipe}-{system.size}", system.encoder, line.dataset, line.metric)
            if key not in found:
                place = Place(*name.split("/"), (line.row, line.column))
                value = measurements.find(place)
                if isinstance(value, Value):
                    found[key] = Entry(system.encoder, key[0], _in_per_cent(value), line, place)
    trained: dict[str, set[str]] = {}
    for entry in found.values():
        trained.setdefault(entry.recipe, set()).update({entry.encoder} - {BM25})
    return [entry for entry in found.values() if len(trained[entry.recipe]) > 1]


def _in_per_cent(value: Value) -> Value:
    if value.unit != "fraction":
        return value
    sd = None if value.sd is None else value.sd * 100
    return replace(value, number=value.number.scaleb(2), sd=sd, unit="%", factor=100)


def baseline_of(encoder: str, others: Iterable[str], encoders: Mapping[str, Mapping[str, Any]]) -> str:
    """Which of ``others`` was trained on masked words alone with all else alike; '' where none was, and of itself.

    >>> bodies = {"a": {"body": "t", "objective": "mlm"}, "b": {"body": "t", "objective": "condenser"}, "c": {"body": "u"}}
    >>> [baseline_of(name, bodies, bodies) for name in bodies]
    ['', 'a', '']
    """
    mine = encoders.get(encoder, {})
    if mine and mine.get("objective") != "mlm":
        for other in others:
            theirs = encoders.get(other, {})
            if theirs.get("objective") == "mlm" and all(mine.get(key) == theirs.get(key) for key in _ALIKE):
                return other
    return ""


def league(
    entries: Sequence[Entry], encoders: Mapping[str, Mapping[str, Any]], measurements: Kept
) -> tuple[list[Standing], list[Pair]]:
    """The lines of both files. ``encoders``: of the configuration, in whose order they are looked at."""
    boards: dict[tuple[str, str], dict[str, list[Entry]]] = {}
    for entry in entries:
        boards.setdefault((entry.recipe, entry.line.metric), {}).setdefault(entry.line.dataset, []).append(entry)
    order = {name: i for i, name in enumerate((BM25, *encoders))}
    standings, pairs = [], []
    for datasets in boards.values():
        measurements.forget()
        board = []
        for some in datasets.values():
            some.sort(key=lambda entry: order.get(entry.encoder, len(order)))
            board += [_pair(a, b, measurements) for a, b in combinations(some, 2)]
        tested = [i for i, pair in enumerate(board) if pair.p]
        for i, q in zip(tested, false_discovery([float(board[i].p) for i in tested]), strict=True):
            board[i] = board[i]._replace(q=p_in_digits(q))
        pairs += board
        by_key = {(pair.dataset, pair.a, pair.b): pair for pair in board}
        for some in datasets.values():
            names = [entry.encoder for entry in some]
            for one in some:
                standings.append(_standing(one, baseline_of(one.encoder, names, encoders), by_key, measurements))
    return standings, pairs


def _pair(a: Entry, b: Entry, measurements: Measurements) -> Pair:
    values = (a.value, b.value)
    outcome = compared(Outcome((), values), ANY_DIFFERENCE, measurements)
    guessed = all(map(measurements.at_chance, values))
    tested = outcome.low is not None and not guessed
    seeds = [int(value.n_seeds or 1) for value in values if value.encoder]
    return Pair(
        recipe=a.recipe,
        dataset=a.line.dataset,
        metric=a.line.metric,
        unit=a.value.unit,
        a=a.encoder,
        b=b.encoder,
        effect=two_digits(outcome.effect),
        low=two_digits(outcome.low),
        high=two_digits(outcome.high),
        p=p_in_digits(min(1.0, 2 * min(outcome.p_for, outcome.p_against))) if tested else "",
        q="",
        n_seeds=str(min(seeds)) if seeds else "",
        queries=a.line.queries,
        note="both are at the level of guessing" if guessed else outcome.note,
    )


def _standing(
    entry: Entry, baseline: str, pairs: Mapping[tuple[str, str, str], Pair], measurements: Measurements
) -> Standing:
    line, value = entry.line, entry.value
    pair = pairs.get((line.dataset, entry.encoder, baseline)) or Pair(*[""] * len(Pair._fields))
    if other_way := pairs.get((line.dataset, baseline, entry.encoder)):
        pair = turned(other_way)
    low, high = interval(value, measurements)
    if value.unit == "%" and low is not None:
        low, high = max(low, 0.0), min(high, 100.0)
    return Standing(
        recipe=entry.recipe,
        encoder=entry.encoder,
        dataset=line.dataset,
        metric=line.metric,
        unit=value.unit,
        score=str(value.number),
        low=two_digits(low),
        high=two_digits(high),
        n_seeds=value.n_seeds if value.encoder else "",
        queries=line.queries,
        beyond_chance=line.beyond_chance,
        baseline=baseline,
        effect=pair.effect,
        effect_low=pair.low,
        effect_high=pair.high,
        p=pair.p,
        q=pair.q,
        wall_s=line.wall_s,
        gpu_h=line.gpu_h,
        cell=str(entry.place),
    )


def turned(pair: Pair) -> Pair:
    """The same comparison the other way round: ``b`` minus ``a``."""
    effect, low, high = (two_digits(-float(x)) if x else "" for x in (pair.effect, pair.high, pair.low))
    return pair._replace(a=pair.b, b=pair.a, effect=effect, low=low, high=high)


def interval(value: Value, measurements: Measurements) -> tuple[float, float] | tuple[None, None]:
    """Bounds of 95 % over seeds and queries, in the value's unit; None twice where neither is known."""
    scores = measurements.per_query(value)
    if not isinstance(scores, str):
        base = measurements.facts.bases.get(value.encoder, value.encoder)
        return crossed_estimate([np.stack(list(scores.values()), axis=1)], [1.0], [base]).interval()
    spread = measurements.spread(value)
    return (None, None) if spread is None else independent_estimate([float(value.number)], [1.0], [spread]).interval()


def two_digits(value: float | None) -> str:
    """A number of the league's files; '' for None."""
    return "" if value is None else f"{value:.2f}".replace("-0.00", "0.00")
