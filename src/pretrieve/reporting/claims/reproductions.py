"""What others measured that speaks to claims: ``references/reproductions.yaml``. It stands beside them, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.reporting.claims.claims import Claim, check_keys, entries_of

_KEYS = ("by", "system", "data", "source", "claims", "metric", "value", "unit", "note")


class Reproduction(NamedTuple):
    """What others measured that speaks to a claim: ``value`` in ``unit``, or in words (``note``); ``source``: where it can be
    read."""

    by: str
    system: str
    data: str
    source: str
    claims: tuple[str, ...]
    metric: str = ""
    value: float | None = None
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        number = "" if self.value is None else f": {self.metric} {self.value:g} {self.unit}".rstrip()
        what = f"{self.by}: {self.system}, {self.data}{number}"
        return f"{what} ({self.source})" + (f"; {self.note}" if self.note else "")


def load_reproductions(path: Path | str, claims: Sequence[Claim]) -> list[Reproduction]:
    """Read what others measured (``references/reproductions.yaml``).

    Raises
    ------
    ConfigError
        for unreadable text, a key that is missing or unknown, and a claim that is not among ``claims``.
    """
    found, names = [], {claim.name for claim in claims}
    for i, entry in enumerate(entries_of(path, "reproductions"), 1):
        where = f"{path}: reproduction {i}"
        check_keys(entry, _KEYS, _KEYS[:5], where)
        if ("metric" in entry) != ("value" in entry) or not {"value", "note"} & set(entry):
            raise ConfigError(f"{where}: expected metric and value, or a note that says in words what was found.")
        for name in entry["claims"]:
            if name not in names:
                raise ConfigError(f"{where}: no claim {name!r}{nearest(name, sorted(names))}.")
        value = entry.get("value", 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigError(f"{where}: value is {entry['value']!r}; expected a number.")
        found.append(Reproduction(**{**entry, "claims": tuple(entry["claims"])}))
    return found
