"""The end of a slice: a moment at which training saves and ends, and everything else is interrupted.

Training asks after every step whether it is to stop (:func:`pretrieve.training.loop.train`): :func:`after` answers. The next
slice goes on from what was saved. What has no state to save, such as an embedding or a search, is ended by :func:`alarm`,
wherever it is: its files appear whole or not at all, and it begins again.

A moment is of ``time.monotonic``; infinity is never.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pretrieve.training.loop import Stopped


def after(until: float) -> Callable[[], bool]:
    """What says whether a moment has come."""
    return lambda: time.monotonic() >= until


@contextmanager
def alarm(until: float) -> Iterator[None]:
    """End the block with :class:`~pretrieve.training.loop.Stopped` when a moment comes."""
    if math.isinf(until):
        yield
        return

    def ring(*_: object) -> None:
        raise Stopped("the time of this slice is over")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(until - time.monotonic(), 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
