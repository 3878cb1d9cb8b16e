"""The next step's batch, made while a GPU computes this one's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from pretrieve.training.device import Device
from pretrieve.training.objective import MicroBatch


class Prefetch:
    """``prefetch(step, last)`` → the batches of a step; on a GPU, those of step + 1 are begun at the same time.

    On a CPU batches are made when they are asked for: a thread would take from the core that trains.
    """

    def __init__(self, make: Callable[[int], list[MicroBatch]], device: Device) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1) if device.device.type == "cuda" else None
        self._waiting: tuple[int, Future] | None = None

    def __call__(self, step: int, last: int) -> list[MicroBatch]:
        """Batches of ``step``; nothing is begun after step ``last``."""
        if self._pool is None:
            return self._make(step)
        ready = self._waiting
        batches = ready[1].result() if ready and ready[0] == step else self._make(step)
        self._waiting = (step + 1, self._pool.submit(self._make, step + 1)) if step < last else None
        return batches

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
