"""How long pre-training takes. No torch here: what estimates a run reads this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def budget_steps(budget: Mapping[str, Any], examples: float) -> int:
    """Steps of a budget: as stated, or those of its ``epochs`` over so many examples.

    >>> budget_steps({"steps": 7, "batch": 4}, 100), budget_steps({"epochs": 8, "batch": 1024}, 50_000)
    (7, 391)
    """
    return budget["steps"] if "steps" in budget else max(1, round(budget["epochs"] * examples / budget["batch"]))
