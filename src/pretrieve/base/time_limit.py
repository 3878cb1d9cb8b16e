"""A bound on the processor time that reading one file may take.

Parsers of formats that say much of what may come (web pages, PDF, Markdown) take time that grows with the square of some
inputs: a megabyte of ``<!--`` is hours. Time is what the process computes, not the clock's, so that a machine that is busy
elsewhere refuses nothing. Standard library only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import FACTOR, factor

#: Seconds for any file, and bytes for which there is one second more: ordinary files take a hundredth of it.
SECONDS, BYTES_PER_SECOND = 20, 100_000


class TooSlow(DataError):
    """A file that took longer to read than :func:`time_limit` allows."""


class _Rung(BaseException):
    """Raised wherever the time is over; no parser takes it for a fault of its own."""


@contextmanager
def time_limit(what: object, size: int) -> Iterator[None]:
    """End the block when it has computed longer than a file of so many bytes may take. Threads besides the main one have no
    limit: the system's timers are the main thread's.

    Raises
    ------
    TooSlow
        with ``what`` in front, the seconds, and how to raise them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = (SECONDS + size / BYTES_PER_SECOND) * factor()

    def ring(*_: object) -> None:
        raise _Rung

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        # Again each second, for what ends where no exception can pass.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Rung:
        raise TooSlow(
            f"{what}: not read after {seconds:g} seconds of computing, far more than a file of {size:,} bytes takes. If you "
            f"trust it, set {FACTOR} to a factor for the limit, such as 10."
        ) from None
    finally:
        signal.signal(signal.SIGVTALRM, before)
