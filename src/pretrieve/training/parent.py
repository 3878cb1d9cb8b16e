"""A process that does not outlive the one that started it. Standard library only."""

from __future__ import annotations

import ctypes
import signal
import sys

#: Linux, ``prctl(2)``: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From here on a parent that is killed takes this process along; nothing happens on other systems than Linux.

    A killed ``torchrun`` leaves its processes behind otherwise: they would hold their GPUs, and write the checkpoints of a run
    that has been started again.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
