"""Options with a value in the paper, a value in the released code, what is allowed, and where both values come from.

Papers and released code differ in at least one place that changes the result, for every one of the five papers. So every
pre-training objective (:mod:`pretrieve.pretraining.presets`) and every fine-tuning recipe (:mod:`pretrieve.finetuning.recipes`)
has two presets, ``paper`` and ``official_code``, and each option can be set by itself in ``config.yaml``. No torch here: the
workflow reads these files to check a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pretrieve.base.errors import ConfigError, nearest

PRESETS = ("paper", "official_code")


class OneOf(NamedTuple):
    """Allowed: one of these words or flags."""

    values: tuple

    def admits(self, value: object) -> bool:
        return any(value is v if isinstance(v, bool) or isinstance(value, bool) else value == v for v in self.values)

    def __str__(self) -> str:
        return ", ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in self.values)


class Between(NamedTuple):
    """Allowed: numbers from low to high (whole ones only, if ``whole``), or one of ``words``."""

    low: float
    high: float
    whole: bool = False
    words: tuple[str, ...] = ()

    def admits(self, value: object) -> bool:
        if value in self.words:
            return True
        number = isinstance(value, int if self.whole else (int, float)) and not isinstance(value, bool)
        return number and self.low <= value <= self.high

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return " or ".join([f"{kind} from {self.low:g} to {self.high:g}", *self.words])


class Option(NamedTuple):
    """One switch: its value in the paper, in the released code, what is allowed, and the sources of both values."""

    paper: Any
    official_code: Any
    allowed: OneOf | Between
    source: str


FLAG = OneOf((False, True))
WEIGHT = Between(0, 1e3)


class ByPreset(NamedTuple):
    """A value that paper and released code do not share."""

    paper: Any
    official_code: Any


class Sourced(NamedTuple):
    """A value that has another source than the part that it stands in."""

    value: Any
    source: str


T = TypeVar("T")
#: How a field is given: as a value, or in one of the two ways above.
Given = T | ByPreset | Sourced


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@dataclass(frozen=True)
class Part:
    """Some options of an objective or a recipe, one a field, and where their values come from.

    A field is annotated with what is allowed, and, where it is not that of the part, its source (``{}`` in it is the part's). Its
    value is the same in paper and released code, or :class:`ByPreset`.
    """

    source: str

    def options(self) -> dict[str, Option]:
        """Option → its value in both presets, what is allowed and its source."""
        made, hints = {}, _hints(type(self))
        for one in fields(self)[1:]:
            value, (allowed, *sources) = getattr(self, one.name), hints[one.name].__metadata__
            source = sources[0].format(self.source) if sources else self.source
            if isinstance(value, Sourced):
                value, source = value
            both = value if isinstance(value, ByPreset) else (value, value)
            listed = [list(of) if isinstance(of, tuple) else of for of in both]  # as YAML and JSON have them
            made[one.name] = Option(*listed, allowed, source)
        return made


def resolve_options(
    name: str,
    known: Mapping[str, Option],
    preset: str,
    changes: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """All options of ``name``: those of the preset, then ``changes``. where: the key of the configuration, for messages.

    Raises ConfigError for an unknown preset or option, or a value that is not allowed.
    """
    if preset not in PRESETS:
        raise ConfigError(
            f"config: {where}.preset: {preset!r} is not allowed; allowed: {', '.join(PRESETS)}{nearest(preset, PRESETS)}"
        )
    check_options(name, known, changes, f"{where}.options")
    return {option: getattr(entry, preset) for option, entry in known.items()} | dict(changes)


def check_options(name: str, known: Mapping[str, Option], given: Mapping[str, Any], where: str) -> None:
    """That ``name`` has every option that is given, and admits its value. where: the key of the configuration above them.

    Raises ConfigError for the first that is not so.
    """
    for option, value in given.items():
        if option not in known:
            raise ConfigError(
                f"config: {where}.{option}: unknown option of {name}; it has {', '.join(sorted(known)) or 'none'}"
                f"{nearest(option, known)}"
            )
        if not known[option].allowed.admits(value):
            raise ConfigError(f"config: {where}.{option}: {value!r} is not allowed; allowed: {known[option].allowed}")
