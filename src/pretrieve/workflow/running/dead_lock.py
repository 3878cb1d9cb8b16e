"""Snakemake's lock after a run that was killed, and beside a run that lives. Standard library only.

Snakemake's own lock is files, which outlive a ``kill -9``. Beside it, every run holds a shared lock of the system on
``.snakemake/alive``, which ends with the process whatever way it dies: who gets that file exclusively knows that nobody else on
this machine is alive. Some cluster file systems keep such locks apart for each machine, so the file also names the machine, and
only a run on the same one takes a lock away.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import BinaryIO


def release_dead_lock(directory: Path = Path(".snakemake")) -> BinaryIO | None:
    """Remove the lock that a killed run left in Snakemake's directory, so that the same command works again.

    Where another run is alive its lock stands, and a line on standard error says which run that is: what both want to make is
    refused by Snakemake to the second one.

    Returns
    -------
    file or None
        to be kept open as long as the run lives; None where the system has no such locks, and nothing is removed.
    """
    try:
        import fcntl

        directory.mkdir(exist_ok=True)
        # The file stays open, which keeps its lock, until the process ends.
        stream = open(directory / "alive", "a+b")  # noqa: SIM115
        locked = any((directory / "locks").glob("*.lock"))
        owner = _owner(stream)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if locked:
                _say(
                    f"Another run is at work in this checkout{_shown(owner)}. What both would make is made by that one: if this "
                    "one is refused below, wait until it has ended, and run the same command again."
                )
        else:
            elsewhere = locked and _is_foreign(owner)
            if elsewhere:
                _say(
                    f"The lock of this checkout belongs to a run that was started on {owner[0]}, whose end cannot be seen from "
                    "here. If it is not alive there, remove the lock with `snakemake --unlock`, and run the same command again."
                )
            elif locked:
                shutil.rmtree(directory / "locks")
                _say("A run was killed here; its lock is removed, and its finished jobs are kept.")
            if not elsewhere:
                stream.truncate(0)
                stream.write(
                    "\t".join((socket.gethostname(), str(os.getpid()), time.strftime("%Y-%m-%d %H:%M"))).encode()
                )
                stream.flush()
        fcntl.flock(stream, fcntl.LOCK_SH)
    except (ImportError, OSError):
        return None
    return stream


def is_alone(stream: BinaryIO | None) -> bool:
    """Whether no other run is alive in the folder, as far as this machine can know. stream: of :func:`release_dead_lock`."""
    if stream is None or _is_foreign(_owner(stream)):
        return False
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        fcntl.flock(stream, fcntl.LOCK_SH)  # an attempt that fails may lose the lock that was held
    return True


def _owner(stream: BinaryIO) -> list[str]:
    """Machine, process and begin of the run that wrote the file last; [] where nothing stands there."""
    stream.seek(0)
    return stream.read().decode("utf-8", "replace").split("\t") if os.fstat(stream.fileno()).st_size else []


def _is_foreign(owner: list[str]) -> bool:
    return bool(owner) and owner[0].strip() != socket.gethostname()


def _shown(owner: list[str]) -> str:
    return f" (process {owner[1]} on {owner[0]}, since {owner[2]})" if len(owner) == 3 else ""


def _say(text: str) -> None:
    print(text, file=sys.stderr)
