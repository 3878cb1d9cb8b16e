"""Options with a value in the paper, a value in the released code, what is allowed, and where both values come from.

Papers and released code differ in at least one place that changes the result, for every one of the five papers. So every
pre-training objective (:mod:`pretrieve.pretraining.presets`) and every fine-tuning recipe (:mod:`pretrieve.finetuning.recipes`)
has two presets, ``paper`` and ``official_code``, and each option can be set by itself in ``config.yaml``. No torch here: the
workflow reads these files to check a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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


def resolve_options(
    name: str,
    known: Mapping[str, Option],
    preset: str,
    changes: Mapping[str, Any],
    where: str,
) -> dict[str, Any]:
    """All options of ``name``: those of the preset, then ``changes``. where: the key of the configuration, for messages.

    Raises
    ------
    ConfigError
        for an unknown preset or option, or a value that is not allowed.
    """
    if preset not in PRESETS:
        raise ConfigError(
            f"config: {where}.preset: {preset!r} is not allowed; allowed: {', '.join(PRESETS)}{nearest(preset, PRESETS)}"
        )
    values = {option: getattr(entry, preset) for option, entry in known.items()}
    for option, value in changes.items():
        if option not in known:
            raise ConfigError(
                f"config: {where}.options.{option}: unknown option of {name}; it has {', '.join(sorted(known)) or 'none'}"
                f"{nearest(option, known)}"
            )
        if not known[option].allowed.admits(value):
            raise ConfigError(
                f"config: {where}.options.{option}: {value!r} is not allowed; allowed: {known[option].allowed}"
            )
        values[option] = value
    return values
