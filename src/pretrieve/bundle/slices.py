"""Training that ends at a moment, having saved first.

The training loop saves when so many seconds have passed since it last did, and asks its processes to add up gradients
before it changes a weight. So a slice that is over shows in two places: the interval is over at once, which saves the
step that is done, and the next call of :meth:`UntilProcesses.add_gradients` ends the run. The step that was begun is
begun again by the next slice; it is a function of its number, so nothing is different.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from pretrieve.training.processes import Processes


class OutOfTime(Exception):
    """The slice is over; what was begun goes on in the next one."""


class Interval(float):
    """Seconds between checkpoints; every waiting time is long enough once ``until`` (of ``time.monotonic``) has passed."""

    until: float

    def __new__(cls, seconds: float, until: float = math.inf) -> Interval:
        made = super().__new__(cls, seconds)
        made.until = until
        return made

    def __le__(self, waited: float) -> bool:
        # Python asks a subclass first, so this answers ``waited >= interval`` too.
        return time.monotonic() >= self.until or float(self) <= waited


@dataclass(frozen=True)
class UntilProcesses(Processes):
    """A single process that trains until a moment of ``time.monotonic``."""

    until: float = math.inf

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Nothing to add; ends the run when its time is over.

        Raises
        ------
        OutOfTime
            before the step's weights are changed.
        """
        if time.monotonic() >= self.until:
            raise OutOfTime


@contextmanager
def alarm(until: float) -> Iterator[None]:
    """End the block with :class:`OutOfTime` when its time is over: for programs that write every file whole."""
    if math.isinf(until):
        yield
        return

    def ring(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
