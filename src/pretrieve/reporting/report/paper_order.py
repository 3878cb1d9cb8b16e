"""Do the rows of a table stand in the paper's order? Ranks of the rows that the paper and this run both measured: ``order.csv``.

Ranks are within a column of a table, one data set, one metric and one training-set size: only there are scores comparable.
Spearman's rho has the interval of the ledger (:func:`pretrieve.reporting.claims.outcomes.compared`, type ``correlation``): other
seeds and other queries; it says nothing of how few the rows are. So ``p`` is the share of random orders of the same rows that
are at least as near the paper's. A flip is a pair of rows that the paper has in one order and this run in the other; it is shown
where our difference is beyond chance, at p < 0.05 alone: with many pairs some flips are by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy

from pretrieve.base.paths import parse_system
from pretrieve.references.tables import ROW_SEPARATOR
from pretrieve.reporting.claims.claims import Place
from pretrieve.reporting.claims.measured import Measurements, Value
from pretrieve.reporting.claims.outcomes import LEVEL, Outcome, compared, spearman
from pretrieve.reporting.report.league import ANY_DIFFERENCE, Kept, two_digits
from pretrieve.reporting.tables.filling import Line, is_scored
from pretrieve.reporting.tables.results import LOWER_IS_BETTER
from pretrieve.reporting.tables.rows import text_tuple

#: Fewer rows have no order to speak of.
LEAST = 3
#: Random orders that an order is compared with, itself among them.
ORDERS = 10_000


class Rank(
    text_tuple(
        "Rank",
        "paper table column size row published measured rank_published rank_here rho low high p pairs flips "
        "flips_shown guessed flipped",
        later="metric",
    )
):
    """One line of ``order.csv``: a row of a table in one column, every field as text.

    ``rank_published`` and ``rank_here`` count from 1, the best; equal values share the mean of their ranks. Of the whole column:
    ``rho`` with its interval (empty where no uncertainty is known), ``p`` of a random order, ``flips`` of ``pairs`` pairs of
    rows, ``flips_shown`` of them beyond chance, ``guessed`` rows at the level of guessing. ``flipped``: the rows that this one
    has changed places with, those beyond chance with a ``*`` after the name, separated by ``; ``.
    """


def orders(tables: Mapping[str, Sequence[Line]], measurements: Kept) -> list[Rank]:
    """The lines of ``order.csv`` for tables (PAPER/TABLE → lines), in their order."""
    ranks = []
    for name, lines in tables.items():
        groups: dict[tuple[str, str, str, str], list[Line]] = {}
        for line in lines:
            if is_scored(line) and line.published_value:
                key = (line.column, line.role, line.metric, parse_system(line.system).size)
                groups.setdefault(key, []).append(line)
        measurements.forget()
        for (*_, size), some in groups.items():
            distinct = {line.system: line for line in some}  # a system that is printed twice counts once
            values = {
                line: value
                for line in distinct.values()
                if isinstance(value := measurements.find(Place(*name.split("/"), (line.row, line.column))), Value)
            }
            if len(values) >= LEAST and len({line.published_value for line in values}) > 1:
                ranks += _column(name, size, values, measurements)
    return ranks


def _column(name: str, size: str, values: Mapping[Line, Value], measurements: Measurements) -> list[Rank]:
    lines, found = list(values), list(values.values())
    sign = -1 if lines[0].metric in LOWER_IS_BETTER else 1
    printed = [sign * float(line.published_value) for line in lines]
    here = [sign * float(value.number) for value in found]
    claim = replace(ANY_DIFFERENCE, type="correlation", against=tuple(float(line.published_value) for line in lines))
    outcome = compared(Outcome((), tuple(found)), claim, measurements)
    if len(set(here)) == 1:  # equal values have no order
        outcome = replace(outcome, effect=None, low=None, high=None)
    p = "" if outcome.effect is None else f"{_share_as_near(here, printed, outcome.effect):.4f}"
    flipped: dict[int, list[str]] = {i: [] for i in range(len(lines))}
    flips = shown = 0
    for i, j in combinations(range(len(lines)), 2):
        if (printed[i] - printed[j]) * (here[i] - here[j]) < 0:
            beyond = _differ(found[i], found[j], measurements)
            flips, shown = flips + 1, shown + beyond
            flipped[i].append(lines[j].row + "*" * beyond)
            flipped[j].append(lines[i].row + "*" * beyond)
    ranks = (scipy.stats.rankdata([-value for value in some]) for some in (printed, here))
    paper, table = name.split("/")
    return [
        Rank(
            paper=paper,
            table=table,
            column=line.column,
            size=size,
            row=line.row,
            published=line.published,
            measured=line.measured,
            rank_published=f"{of_paper:g}",
            rank_here=f"{of_run:g}",
            rho=two_digits(outcome.effect),
            low=two_digits(outcome.low),
            high=two_digits(outcome.high),
            p=p,
            pairs=str(len(lines) * (len(lines) - 1) // 2),
            flips=str(flips),
            flips_shown=str(shown),
            guessed=str(sum(map(measurements.at_chance, found))),
            flipped="; ".join(flipped[i]),
            metric=line.metric,
        )
        for i, (line, of_paper, of_run) in enumerate(zip(lines, *ranks, strict=True))
    ]


def _share_as_near(here: Sequence[float], printed: Sequence[float], rho: float) -> float:
    """The share of random orders of ``here`` whose Spearman's rho with ``printed`` is ``rho`` or more; this one counts, too."""
    shuffled = np.random.default_rng(0).permuted(np.tile(here, (ORDERS - 1, 1)), axis=1)
    return float((1 + np.sum(spearman(shuffled, printed) >= rho - 1e-9)) / ORDERS)


def _differ(a: Value, b: Value, measurements: Measurements) -> bool:
    """Whether two values differ beyond chance; never when guessing would have both."""
    if measurements.at_chance(a) and measurements.at_chance(b):
        return False
    outcome = compared(Outcome((), (a, b)), ANY_DIFFERENCE, measurements)
    return min(outcome.p_for, outcome.p_against) < LEVEL / 2


@dataclass(frozen=True)
class OrderColumn:
    """A column as the report draws it: ``left`` has its rows in the paper's order, ``right`` in ours, ``lines`` the places (from
    0) of each row on both sides, and whether it has changed places with another beyond chance. ``names``: row → the parts of
    its name that not all rows have."""

    paper: str
    table: str
    title: str
    left: list[Rank]
    right: list[Rank]
    lines: list[tuple[int, int, str]]
    names: dict[str, str]

    @property
    def whisker(self) -> dict[str, float] | None:
        """Rho and its interval on an axis from −1 to 1, as 2 to 98; None where no uncertainty is known."""
        rank = self.left[0]
        if not rank.low:
            return None
        places = {"left": rank.low, "middle": rank.rho, "right": rank.high}
        return {name: round(50 + 48 * float(text), 1) for name, text in places.items()}


def columns_of(ranks: Sequence[Rank]) -> list[OrderColumn]:
    """The columns of ``order.csv``, in its order. A line's word is ``shown``, ``flip`` or ''."""
    groups: dict[tuple[str, ...], list[Rank]] = {}
    for rank in ranks:
        groups.setdefault((rank.paper, rank.table, rank.column, rank.metric, rank.size), []).append(rank)
    kinds = [Counter(key[:3] for key in {(*key[:3], key[part]) for key in groups}) for part in (3, 4)]
    columns = []
    for (paper, table, column, *further), some in groups.items():
        told = [word for word, counts in zip(further, kinds, strict=True) if counts[paper, table, column] > 1]
        left = sorted(some, key=lambda rank: float(rank.rank_published))
        right = sorted(left, key=lambda rank: float(rank.rank_here))
        lines = [
            (i, right.index(rank), "shown" if "*" in rank.flipped else "flip" * bool(rank.flipped))
            for i, rank in enumerate(left)
        ]
        parts = {rank.row: rank.row.split(ROW_SEPARATOR) for rank in left}
        common = set.intersection(*map(set, parts.values()))
        distinct = {row: ", ".join(part for part in own if part not in common) for row, own in parts.items()}
        names = {row: short or ", ".join(parts[row]) for row, short in distinct.items()}
        columns.append(OrderColumn(paper, table, ", ".join([column, *told]), left, right, lines, names))
    return columns
