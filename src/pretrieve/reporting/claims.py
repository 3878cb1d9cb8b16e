"""The findings of the papers as data: ``references/claims.yaml``, loaded, checked, and taken apart into groups of cells.

A claim says what a paper found, in our words, and how the finding would show in our own cells: which cells, which direction,
which margin, which test. The head of the file explains every key. Whether a claim holds here is for
:mod:`pretrieve.reporting.verdicts`; this module only knows what is asked.

Every check is a list of *contrasts*: weighted sums of the cells of a group that must exceed a bound. ``greater`` is one of
them (a - b > margin), ``close`` two (a - b >= -margin and b - a >= -margin), ``order`` one for each neighbouring pair. So one
test serves all. ``correlation`` alone is none: it has its own rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from pretrieve.errors import ConfigError, nearest

#: Check → cells in a group; None: all cells are one group.
GROUP_SIZE = {"greater": 2, "close": 2, "gap": 4, "ratio": 2, "order": None, "correlation": None}
#: Test → the checks it is defined for. A ratio and a correlation have no deviation that follows from those of their cells.
TESTS = {
    "paired": ("greater", "close", "gap", "ratio", "order"),
    "seeds": ("greater", "close", "gap", "order"),
    "none": tuple(GROUP_SIZE),
}
#: PyYAML's safe loader, in C where it was built with it: ten times as fast, for a file of this length.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEYS = ("id", "paper", "section", "table", "claim", "check")
_CHECK_KEYS = ("type", "margin", "share", "test", "with", "cells")
_CELL_KEYS = ("paper", "table", "row", "column")
_POINT_KEYS = ("paper", "figure", "panel", "series", "x")


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


class Contrast(NamedTuple):
    """Σ weight · value must exceed ``bound`` (in the cells' unit); ``strict``: a tie is not enough."""

    weights: tuple[Decimal, ...]
    bound: Decimal
    strict: bool

    def slack(self, values: Sequence[Decimal]) -> Decimal:
        """By how much the bound is exceeded: exact, for values are the decimals a reader sees."""
        return sum((w * v for w, v in zip(self.weights, values, strict=True)), Decimal()) - self.bound

    def met(self, values: Sequence[Decimal]) -> bool:
        slack = self.slack(values)
        return slack > 0 if self.strict else slack >= 0


@dataclass(frozen=True)
class Claim:
    """One finding. ``groups``: tuples of places, each of which the check must hold in; ``share``: in how many of them."""

    name: str
    paper: str
    section: str
    table: str
    claim: str
    type: str
    margin: Decimal
    share: float
    test: str
    against: tuple[float, ...]
    groups: tuple[tuple[Place, ...], ...]

    def contrasts(self, n: int) -> list[Contrast]:
        """What must be true of a group of ``n`` cells; empty for a correlation.

        >>> [str(w) for c in Claim("", "", "", "", "", "gap", Decimal(0), 1, "none", (), ()).contrasts(4) for w in c.weights]
        ['1', '-1', '-1', '1']
        """
        one, margin = Decimal(1), self.margin
        if self.type == "greater":
            return [Contrast((one, -one), margin, True)]
        if self.type == "close":
            return [Contrast((one, -one), -margin, False), Contrast((-one, one), -margin, False)]
        if self.type == "gap":
            return [Contrast((one, -one, -one, one), margin, True)]
        if self.type == "ratio":
            return [Contrast((one, -margin), Decimal(), False)]
        if self.type == "order":
            return [
                Contrast(tuple(one if i == a else -one if i == b else Decimal() for i in range(n)), margin, True)
                for a, b in pairwise(range(n))
            ]
        return []


def load_claims(path: Path | str) -> list[Claim]:
    """Read and check a file of claims.

    Raises
    ------
    ConfigError
        for a missing file, text that is not YAML, and every unknown, missing or senseless key; it names the claim and the key.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_LOADER)  # safe, whichever it is
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected the papers' claims.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from None
    entries = content.get("claims") if isinstance(content, Mapping) else None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: key claims is {type(entries).__name__}; expected a list of claims.")
    claims, names = [], set()
    for i, entry in enumerate(entries):
        name = entry.get("id", f"number {i + 1}") if isinstance(entry, Mapping) else f"number {i + 1}"
        claim = _claim(entry, f"{path}: claim {name}")
        if claim.name in names:
            raise ConfigError(f"{path}: claim {claim.name}: this id is there twice; give each claim its own.")
        names.add(claim.name)
        claims.append(claim)
    return claims


def _claim(entry: Any, where: str) -> Claim:
    _keys(entry, _KEYS, _KEYS, where)
    check = entry["check"]
    _keys(check, _CHECK_KEYS, ("type", "margin", "test", "cells"), f"{where}: check")
    kind, test, share, margin = check["type"], check["test"], check.get("share", 1), check["margin"]
    if kind not in GROUP_SIZE:
        raise ConfigError(f"{where}: check.type is {kind!r}; expected one of {', '.join(GROUP_SIZE)}.")
    if test not in TESTS or kind not in TESTS[test]:
        fitting = [name for name, kinds in TESTS.items() if kind in kinds]
        raise ConfigError(f"{where}: check.test is {test!r}; of type {kind} expected one of {', '.join(fitting)}.")
    if isinstance(margin, bool) or not isinstance(margin, (int, float)):
        raise ConfigError(f"{where}: check.margin is {margin!r}; expected a number in the cells' unit.")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ConfigError(f"{where}: check.share is {share!r}; expected a part of the groups above 0 and at most 1.")
    groups = _groups(check["cells"], kind, entry, f"{where}: check.cells")
    against = check.get("with")
    if (kind == "correlation") != (against is not None):
        raise ConfigError(f"{where}: check.with is {against!r}; a correlation has it, and only a correlation.")
    if against is not None and len(against) != len(groups[0]):
        raise ConfigError(
            f"{where}: check.with has {len(against)} numbers for {len(groups[0])} cells; expected as many."
        )
    return Claim(
        name=entry["id"],
        paper=entry["paper"],
        section=entry["section"],
        table=entry["table"],
        claim=" ".join(entry["claim"].split()),
        type=kind,
        margin=Decimal(str(margin)),
        share=share,
        test=test,
        against=tuple(against or ()),
        groups=groups,
    )


def _keys(value: Any, known: Sequence[str], needed: Sequence[str], where: str) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {value!r}; expected the keys {', '.join(known)}.")
    for key in value:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}; expected {', '.join(known)}{nearest(key, known)}.")
    for key in needed:
        if key not in value:
            raise ConfigError(f"{where}: no key {key!r}; expected {', '.join(needed)}.")


def _groups(cells: Any, kind: str, entry: Mapping[str, Any], where: str) -> tuple[tuple[Place, ...], ...]:
    """The cells in groups of the check's size, a group with lists taken apart into one for each entry."""
    size = GROUP_SIZE[kind] or (len(cells) if isinstance(cells, list) else 0)
    if not isinstance(cells, list) or not cells or len(cells) % size:
        found = f"{len(cells)} cells" if isinstance(cells, list) else repr(cells)
        raise ConfigError(f"{where}: {found}; of type {kind} expected groups of {size or 'two or more'}.")
    groups = []
    for start in range(0, len(cells), size):
        group = cells[start : start + size]
        lengths = set()
        for cell in group:
            keys = _POINT_KEYS if isinstance(cell, Mapping) and "figure" in cell else _CELL_KEYS
            _keys(cell, keys, keys[-3:] if "figure" in cell else keys[-2:], f"{where}: {cell}")
            lengths |= {len(value) for value in cell.values() if isinstance(value, list)}
        if len(lengths) > 1:
            raise ConfigError(f"{where}: lists of lengths {sorted(lengths)} go in step; expected one length ({group}).")
        groups += [tuple(_place(cell, i, entry) for cell in group) for i in range(lengths.pop() if lengths else 1)]
    return tuple(groups)


def _place(cell: Mapping[str, Any], i: int, entry: Mapping[str, Any]) -> Place:
    one = {key: str(value[i] if isinstance(value, list) else value) for key, value in cell.items()}
    paper = one.get("paper", entry["paper"])
    if "figure" in one:
        return Place(paper, one["figure"], (one["panel"], one["series"], one["x"]))
    return Place(paper, one.get("table", entry["table"]), (one["row"], one["column"]))
