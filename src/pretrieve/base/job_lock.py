"""One process for each job, also when what started the first one was killed. Standard library only.

``kill -9`` of Snakemake ends Snakemake alone: its jobs live on, and the same command starts them a second time, while the first
ones still write the same files. So every program holds a file beside its log, which no other job has, with a lock of the system
that ends with the process; the log itself will not do, because Snakemake removes that before it starts a job. Who finds it held

* ends the other process where that is left over from a run that is dead (its Snakemake is named in ``PRETRIEVE_RUN``, see
  ``rules/common.smk``): what it trained is in its last checkpoint, and this process goes on from there;
* waits otherwise, as for a process on another machine or one that somebody started by hand.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

#: Names the run of Snakemake that started a program, as :func:`process_name` does.
RUN = "PRETRIEVE_RUN"
#: Seconds that a process has to end when it is asked to, before it is killed.
PATIENCE = 10.0


def process_name(process: int) -> str:
    """``PID-START``: a number alone would come again. '' where there is no such process, or no /proc to ask.

    >>> process_name(os.getpid()).startswith(f"{os.getpid()}-") or not Path("/proc/self/stat").exists()
    True
    """
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie has ended, and waits for its parent to notice.
    return "" if stat[0] == "Z" else f"{process}-{stat[19]}"


def lock_file(log: Path) -> Path:
    """The file that the job with this log holds. It stays when the job has ended: removing it would let two processes hold it."""
    return log.with_name(f".{log.name}.lock")


def hold_job(path: Path) -> None:
    """Hold the job with the log ``path`` until this process ends; see the module for what is done about another process that
    has it."""
    try:
        import fcntl

        file = os.open(lock_file(path), os.O_WRONLY | os.O_CREAT, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        pass
    except (ImportError, OSError):
        return  # a file system without locks
    for process in holders(file):
        if _left_over(process):
            print(f"{path}: process {process} of a run that was killed is ended; this one goes on.", file=sys.stderr)
            _end(process)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{path}: another process is at this job; waiting until it ends.", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)


def holders(file: int) -> list[int]:
    """Processes of this machine that hold a lock on an open file, but for this one."""
    wanted, found = os.fstat(file), []
    try:
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        fields = line.split()
        # 1: FLOCK ADVISORY WRITE 4711 00:31:8080 0 EOF; one that waits has an arrow in front of its kind.
        if len(fields) < 6 or fields[1] != "FLOCK" or not fields[5].endswith(f":{wanted.st_ino}"):
            continue
        process = int(fields[4])
        if process not in (0, os.getpid()) and _has_open(process, wanted):
            found.append(process)
    return found


def _has_open(process: int, wanted: os.stat_result) -> bool:
    """Whether a process has the file open: device numbers of /proc/locks are not those of stat on every file system."""
    try:
        return any(os.path.samestat(entry.stat(), wanted) for entry in os.scandir(f"/proc/{process}/fd"))
    except OSError:
        return False


def _left_over(process: int) -> bool:
    """Whether a process belongs to a run of Snakemake that is dead."""
    try:
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    run = next((word.partition(b"=")[2].decode() for word in words if word.startswith(f"{RUN}=".encode())), "")
    number = run.partition("-")[0]
    return number.isdigit() and process_name(int(number)) != run


def _end(process: int) -> None:
    name = process_name(process)
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(process, sent)
        except OSError:
            return
        until = time.monotonic() + PATIENCE
        while name and process_name(process) == name:
            if time.monotonic() > until:
                break
            time.sleep(0.02)
        else:
            return
