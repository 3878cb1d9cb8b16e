"""The findings of the papers as data: ``references/claims.yaml``, loaded, checked, and taken apart into groups of cells.

A claim says what a paper found, in our words, and how the finding would show in our own cells: which cells, which direction,
which margin, which test. The head of the file explains every key. Whether a claim holds here is for
:mod:`pretrieve.reporting.claims.verdicts`; this module only knows what is asked.

Every check but two asks that weighted sums of a group's cells exceed bounds: those that must all be shown for the claim, and
those of which one must be shown against it (:meth:`Claim.tests`). So one method serves all. ``correlation`` and ``reach`` have
rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.references.figures import Figure
from pretrieve.references.yaml_files import check, read_yaml

#: Check → cells in a group; None: all cells are one group.
GROUP_SIZE = {
    **{"greater": 2, "at-least": 2, "not-worse": 2, "near": 2, "gap": 4},
    **{"order": None, "correlation": None, "reach": 2},
}


class Place(NamedTuple):
    """Where a value stands. ``of`` is a table or figure; a cell's ``where`` is (row, column), a point's (panel, series, x)."""

    paper: str
    of: str
    where: tuple[str, ...]

    @property
    def is_point(self) -> bool:
        return self.of.startswith("figure")

    def __str__(self) -> str:
        return f"{self.paper}/{self.of}: {', '.join(self.where)}"


class Margin(NamedTuple):
    """A size of effect: in the cells' unit, or, when ``relative``, a part of the second value.

    >>> [str(Margin(Decimal(size), True)) for size in ("1", "0.10", "0.125")], str(Margin(Decimal("0.02")))
    (['100%', '10%', '12.5%'], '0.02')
    """

    size: Decimal
    relative: bool = False

    def __str__(self) -> str:
        return f"{float(self.size * 100):g}%" if self.relative else f"{self.size:f}"


class Test(NamedTuple):
    """Σ weight · value must exceed ``bound`` (in the cells' unit); ``strict``: a tie is not enough."""

    weights: tuple[Decimal, ...]
    bound: Decimal
    strict: bool

    def met(self, values: Sequence[Decimal]) -> bool:
        """Whether the values alone pass: exact, for they are the decimals a reader sees."""
        slack = sum((w * v for w, v in zip(self.weights, values, strict=True)), Decimal()) - self.bound
        return slack > 0 if self.strict else slack >= 0


@dataclass(frozen=True)
class Claim:
    """One finding. ``groups``: tuples of places, each of which the check must hold in; ``share``: in how many of them.

    ``smallest_effect`` is the margin of every check. ``needs_train``: training examples that the sentence talks of, 0 for any;
    ``needs_original``: roles whose substitutes cannot show it (``all``: every one), because of ``because``; ``needs_groups``:
    fewer measured groups say nothing; ``decided_by``: a metric in place of the cells' own.
    """

    name: str
    paper: str
    section: str
    table: str
    claim: str
    estimand: str
    smallest_effect: Margin
    type: str
    groups: tuple[tuple[Place, ...], ...]
    share: float = 1
    at_most: Margin | None = None
    both_gain: bool = False
    needs_groups: int = 1
    decided_by: str = ""
    against: tuple[float, ...] = ()
    needs_train: int = 0
    needs_original: tuple[str, ...] = ()
    because: str = ""

    @property
    def lenient(self) -> bool:
        """Whether a value that guessing would have could pass the check."""
        return self.type in ("not-worse", "near", "reach") or self.at_most is not None

    def effects(self, n: int) -> list[tuple[Decimal, ...]]:
        """Weights of the differences that the check is about, in a group of ``n`` cells; [] where it is about no difference."""
        if self.type in ("correlation", "reach"):
            return []
        if self.type == "gap":
            return [tuple(map(Decimal, (1, -1, -1, 1)))]
        return [tuple(Decimal((i == a) - (i == b)) for i in range(n)) for a, b in pairwise(range(n))]

    def tests(
        self, n: int, below_zero: bool = False, has_room: Callable[[Test], bool] = lambda test: True
    ) -> tuple[list[Test], list[Test]]:
        """What must all be shown for the claim, and of what one must be shown against it, in a group of ``n`` cells.

        below_zero: values are counted downwards, as those of a measure that is better when lower. has_room: whether the smallest
        effect of interest is possible at all; where it is not, only an effect below zero counts against an order.

        >>> claim = Claim("", "", "", "", "", "", Margin(Decimal("0.1"), True), "not-worse", ())
        >>> [[str(w) for w in test.weights] for side in claim.tests(2) for test in side]
        [['1.0', '-0.9'], ['-1.0', '0.9']]
        """
        pairs = []  # (what must be shown, its contrary)
        margin, none = self.smallest_effect, Margin(Decimal())
        minus = margin._replace(size=-margin.size)
        for effect in self.effects(n):
            # A relative margin is a part of what is subtracted: b of a - b, (c - d) of (a - b) - (c - d).
            subtracted = (0, 0, 1, -1) if self.type == "gap" else (max(-w, 0) for w in effect)
            other = tuple(map(Decimal, subtracted))
            above, below = (_sides(effect, other, -1 if below_zero else 1, sign) for sign in (1, -1))
            if self.type in ("greater", "gap", "order", "at-least"):
                contrary = below(margin if has_room(below(margin)) else none)
                pairs.append((above(margin if self.type == "at-least" else none), contrary))
            else:
                pairs.append((above(minus), below(minus)))
            if self.type == "near":
                pairs.append((below(margin), above(margin)))
            if self.at_most:
                pairs.append((below(self.at_most), above(self.at_most)))
            if self.both_gain:
                contrary = Test(tuple(-w for w in other), Decimal(), True)
                pairs.append((Test(other, Decimal(), True), contrary))
        return [shown for shown, _ in pairs], [contrary for _, contrary in pairs]


def _sides(effect: Sequence[Decimal], other: Sequence[Decimal], direction: int, sign: int):
    """Margin → the test that the effect is above it (sign 1) or below it (-1)."""

    def test(margin: Margin) -> Test:
        part = margin.size * direction if margin.relative else Decimal()
        weights = tuple(sign * (w - part * o) for w, o in zip(effect, other, strict=True))
        return Test(weights, Decimal() if margin.relative else sign * margin.size, margin.size == 0)

    return test


def load_claims(
    path: Path | str,
    tables: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    figures: Mapping[str, Figure] | None = None,
) -> list[Claim]:
    """Read and check a file of claims (``schemas/claims.schema.yaml``). With the references' ``tables`` and ``figures``, as
    :class:`pretrieve.workflow.plan.Plan` has them, what claims name must be in these.

    Raises ConfigError for a missing file, text that is not YAML, every unknown, missing or senseless key, and a cell, series or
    role that is nowhere; it names the claim and the key.
    """
    claims, names, known = [], set(), _known(tables or {}, figures or {})
    for i, entry in enumerate(entries_of(path, "claims")):
        name = entry.get("id", f"number {i + 1}") if isinstance(entry, Mapping) else f"number {i + 1}"
        where = f"{path}: claim {name}"
        check(entry, where, "claims", "claim")
        claim = _claim(entry, where)
        if name in names:
            raise ConfigError(f"{where}: this id is there twice; give each claim its own.")
        if known:
            _check_names(claim, where, known)
        names.add(name)
        claims.append(claim)
    return claims


#: Paper/table or paper/figure → (row, column) or (panel, series) → roles.
_Known = Mapping[str, Mapping[tuple[str, ...], Set[str]]]


def _known(tables: Mapping[str, Sequence[Mapping[str, str]]], figures: Mapping[str, Figure]) -> _Known:
    known = {name: {(row["row"], row["column"]): {row["dataset"]} for row in rows} for name, rows in tables.items()}
    for name, figure in figures.items():
        series = figure.all_series()
        known[name] = {(panel.name, one.name): {measure.role for measure in one.measures()} for panel, one in series}
    return known


def _check_names(claim: Claim, where: str, known: _Known) -> None:
    roles = {"all"}
    for place in dict.fromkeys(place for group in claim.groups for place in group):
        name, found = f"{place.paper}/{place.of}", place.where[:2]
        if name not in known:
            raise ConfigError(
                f"{where}: check.cells: {name!r}; expected a table or figure of the references{nearest(name, known)}"
            )
        if found not in known[name]:
            text, allowed = ", ".join(found), map(", ".join, known[name])
            what = "a panel and a series" if place.is_point else "a row and a column"
            raise ConfigError(f"{where}: check.cells: {text!r}; expected {what} of {name}{nearest(text, allowed)}")
        roles |= set().union(*known[name].values())
    for role in claim.needs_original:
        if role not in roles:
            raise ConfigError(
                f"{where}: needs_original: {role!r} is no role of the claim's tables and figures; allowed: "
                f"{', '.join(sorted(filter(None, roles)))}{nearest(role, roles)}"
            )


def _claim(entry: Mapping[str, Any], where: str) -> Claim:
    check = entry["check"]
    kind, against = check["type"], check.get("with")
    smallest = _margin(entry["smallest_effect"])
    if (kind in ("correlation", "reach") and smallest.relative) or (kind != "correlation" and smallest.size < 0):
        found = entry["smallest_effect"]
        raise ConfigError(
            f"{where}: smallest_effect is {found!r}; type {kind} expects a plain number, below 0 only "
            "for a correlation."
        )
    at_most = _margin(check["at_most"]) if "at_most" in check else None
    if at_most and (kind not in ("greater", "at-least", "gap") or at_most.size <= 0):
        raise ConfigError(
            f"{where}: check.at_most is {check['at_most']!r} for type {kind}; expected a size above 0, for greater, "
            "at-least or gap."
        )
    if check.get("both_gain") and kind != "gap":
        raise ConfigError(f"{where}: check.both_gain is for type gap, and this is {kind}.")
    if ("needs_original" in entry) != ("because" in entry):
        raise ConfigError(
            f"{where}: needs_original and because belong together: roles, and why substitute data cannot show it."
        )
    groups = _groups(check["cells"], kind, entry, f"{where}: check.cells")
    if (kind == "correlation") != (against is not None):
        raise ConfigError(f"{where}: check.with is {against!r}; required for a correlation, not allowed otherwise.")
    if against is not None and len(against) != len(groups[0]):
        raise ConfigError(
            f"{where}: check.with has {len(against)} numbers for {len(groups[0])} cells; expected as many."
        )
    roles = entry.get("needs_original", ())
    as_given = {key: check[key] for key in ("share", "both_gain", "needs_groups", "decided_by") if key in check}
    as_given |= {key: entry[key] for key in ("paper", "section", "table", "needs_train") if key in entry}
    texts = {key: " ".join(entry[key].split()) for key in ("claim", "estimand", "because") if key in entry}
    return Claim(
        name=entry["id"],
        smallest_effect=smallest,
        type=kind,
        groups=groups,
        at_most=at_most,
        against=tuple(against or ()),
        needs_original=(roles,) if isinstance(roles, str) else tuple(roles),
        **as_given,
        **texts,
    )


def _margin(value: float | str) -> Margin:
    if isinstance(value, str):
        return Margin(Decimal(value.rstrip(" %\n")) / 100, True)
    return Margin(Decimal(str(value)))


def entries_of(path: Path | str, key: str) -> list[Any]:
    """The list under ``key`` of a YAML file."""
    content = read_yaml(path, f"a list of {key}")
    entries = content.get(key) if isinstance(content, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: key {key} is {type(entries).__name__}; expected a list of {key}.")
    return entries


def _groups(cells: list[Any], kind: str, entry: Mapping[str, Any], where: str) -> tuple[tuple[Place, ...], ...]:
    """The cells in groups of the check's size, a group with lists taken apart into one for each entry."""
    size = GROUP_SIZE[kind] or len(cells)
    if not cells or len(cells) % size:
        raise ConfigError(f"{where}: {len(cells)} cells; type {kind} expects groups of {size or 'two or more'}.")
    groups = []
    for start in range(0, len(cells), size):
        group = cells[start : start + size]
        lengths = {len(value) for cell in group for value in cell.values() if isinstance(value, list)}
        if len(lengths) > 1:
            raise ConfigError(f"{where}: lists of lengths {sorted(lengths)} must match; expected one length ({group}).")
        groups += [tuple(_place(cell, i, entry) for cell in group) for i in range(lengths.pop() if lengths else 1)]
    return tuple(groups)


def _place(cell: Mapping[str, Any], i: int, entry: Mapping[str, Any]) -> Place:
    one = {key: str(value[i] if isinstance(value, list) else value) for key, value in cell.items()}
    paper = one.get("paper", entry["paper"])
    if "figure" in one:
        return Place(paper, one["figure"], (one["panel"], one["series"], one["x"]))
    return Place(paper, one.get("table", entry["table"]), (one["row"], one["column"]))
