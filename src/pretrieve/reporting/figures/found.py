"""What there is for the points of a figure before they are lines of its CSV."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pretrieve.references.figures import Measure


class Found(NamedTuple):
    """What there is for one x: a value for each seed, or the reason (``status`` not-run or failed) why there is none.
    ``beyond``, ``ahead_from``: as :class:`~pretrieve.reporting.figures.points.Point` has them; ``interval``: low and high, and
    ``chance``: what guessing scores, as fractions like the values."""

    values: tuple[float, ...]
    measure: Measure = Measure("", "", "")
    status: str = ""
    reason: str = ""
    beyond: str = ""
    interval: tuple[float, float] | None = None
    ahead_from: str = ""
    chance: float | None = None


class NotMeasured(Exception):
    """Carries the status and the reason of a point or series without a value."""


def there(path: str) -> str:
    """The path of a file that is there. Raises NotMeasured when it is not."""
    if not Path(path).is_file():
        raise NotMeasured("failed", f"missing: {path}")
    return path
