"""One process for each job, also when what started the first one was killed. Standard library only.

``kill -9`` of Snakemake ends Snakemake alone: its jobs live on, and the same command starts them a second time, while the first
ones still write the same files. So every program holds a file beside its log, which no other job has, with a lock of the system
that ends with the process; the log itself will not do, because Snakemake removes that before it starts a job. Who finds it held
waits: a training then continues from the last checkpoint of the other process, which is its end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def lock_file(log: Path) -> Path:
    """The file that the job with this log holds. It stays when the job has ended: removing it would let two processes hold it."""
    return log.with_name(f".{log.name}.lock")


def hold_job(log: Path) -> None:
    """Hold the job with this log until this process ends; wait as long as another process has it."""
    try:
        import fcntl

        file = os.open(lock_file(log), os.O_WRONLY | os.O_CREAT, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{log}: another process is at this job; waiting until it ends.", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass  # a file system without locks
