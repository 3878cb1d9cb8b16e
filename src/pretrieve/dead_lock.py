"""Snakemake's lock after a run that was killed. Standard library only."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import BinaryIO


def release_dead_lock(directory: Path = Path(".snakemake")) -> BinaryIO | None:
    """Remove the lock that a killed run left in Snakemake's directory, so that the same command works again.

    Snakemake's own lock is files, which outlive a ``kill -9``. Beside it, every run holds a shared lock of the system on one
    file, which ends with the process whatever way it dies: who gets that file exclusively knows that nobody else is alive.

    Returns
    -------
    file or None
        to be kept open as long as the run lives; None where the system has no such locks, and nothing is removed.
    """
    try:
        import fcntl

        directory.mkdir(exist_ok=True)
        # The file stays open, which keeps its lock, until the process ends.
        stream = open(directory / "alive", "wb")  # noqa: SIM115
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another run is alive, and its lock stands
        else:
            if any((directory / "locks").glob("*.lock")):
                shutil.rmtree(directory / "locks")
                print("A run was killed here; its lock is removed, and its finished jobs are kept.", file=sys.stderr)
        fcntl.flock(stream, fcntl.LOCK_SH)
    except (ImportError, OSError):
        return None
    return stream
