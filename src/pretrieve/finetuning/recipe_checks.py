"""Options of a recipe that do not go together: said when the configuration is read, not after hours of pre-training.

No torch here: the workflow reads this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrieve.base.errors import ConfigError, check_choice

LOSSES = ("softmax", "pairwise", "hinge")
DIRECTIONS = ("one", "both")


def check_loss(options: Mapping[str, Any]) -> None:
    """Raise :class:`ConfigError` for a loss, a direction or a temperature that does not exist, or that does not go with
    the rest of the recipe's options."""
    loss, direction, group = options["loss"], options["direction"], options["group"]
    check_choice("loss", loss, LOSSES)
    check_choice("direction", direction, DIRECTIONS)
    if options["temperature"] <= 0:
        raise ConfigError(
            f"temperature {options['temperature']} is not allowed; expected above 0, for scores are divided by it."
        )
    if loss in ("pairwise", "hinge") and options["in_batch"]:
        raise ConfigError(
            f"loss {loss!r} compares a query with its own negatives only; set in_batch: false, or loss: softmax."
        )
    if not options["in_batch"] and group < 2:
        raise ConfigError(f"group {group} without in_batch leaves a query no negative; set group: 2 or more.")
    if direction == "both" and not options["in_batch"]:
        raise ConfigError("direction 'both' has the queries of the batch compete for a document; set in_batch: true.")


def check_together(base: str, options: Mapping[str, Any], where: str) -> None:
    """Raise :class:`ConfigError` for options of a recipe that do not go together. base: its name in the presets; where: their
    key in the configuration."""
    taught = options.get("loss") == "distillation"
    try:
        mines = base == "ance" or options.get("refresh")
        if (taught or mines or options["kind"] == "cross-encoder") and options["group"] < 2:
            raise ConfigError(f"group {options['group']} leaves a query no negative; set group: 2 or more.")
        if base == "ance" and options["refresh"] < 1:
            raise ConfigError("refresh 0 never searches for negatives; expected a refresh every 1 or more steps.")
        if options["kind"] == "ranking" and not taught:
            check_loss(options)
    except ConfigError as error:
        raise ConfigError(f"config: {where}: {error}") from None
