"""How one training run is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pretrieve.training.device import Device
from pretrieve.training.processes import Processes


@dataclass(frozen=True)
class RunSettings:
    """Of all this only the seed, and the device's precision, decide what comes out.

    Parameters
    ----------
    checkpoint_seconds:
        a run that has a place for checkpoints saves one this often.
    processes:
        the group that shares each batch; every member is called with the same arguments and ends with the same weights.
    stop:
        asked after every step but the last: whether to save and end here. One process that says yes is enough for all.
    token_budget:
        tokens of a micro-batch of pre-training; None: the device's default.
    compiled:
        pre-train with compiled layers (:mod:`pretrieve.models.transformer`), which changes no result but for rounding.
    """

    device: Device
    seed: int
    checkpoint_seconds: float = 60.0
    processes: Processes | None = None
    stop: Callable[[], bool] | None = None
    token_budget: int | None = None
    compiled: bool = False
