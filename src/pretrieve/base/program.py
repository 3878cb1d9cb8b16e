"""What the command-line programs in ``workflow_scripts/`` share: how they end and print, and their queries."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from pretrieve.base.disk import explained, room_for
from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.base.job_lock import hold_job

#: How the first line of a log begins: what the interpreter's start and a program's imports took; report_time.py adds it up.
STARTED_IN = "started in "


def _process_age() -> float:
    """Seconds since this process began (Linux: its start in clock ticks since boot)."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK")


class Log:
    """A log file that is begun anew; its job is held as long as the process lives (:mod:`pretrieve.base.job_lock`).

    It never ends a program: on a full disk what does not fit is lost, which is said once. Nothing is buffered, so that a
    reader follows it, and nothing is left to be written at the end.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._complete = path, True
        with room_for(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            hold_job(path)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            if self._complete:
                print(f"{self._path}: lines are lost: {error.strerror}.", file=sys.__stderr__)
            self._complete = False


class Tee:
    """A stream that also writes to a log file. It says it is a terminal where the first stream is one, so progress bars
    are drawn there; what redraws a line (it begins with a carriage return) stays out of the log."""

    def __init__(self, stream: TextIO, log: Log | TextIO) -> None:
        self._stream, self.log = stream, log

    def write(self, text: str) -> int:
        if not text.startswith("\r"):
            self.log.write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _open_log() -> Log | None:
    """Take ``--log FILE`` out of the command line and open that file; under torchrun, one for each process (x.1.log)."""
    if "--log" not in sys.argv:
        return None
    place = sys.argv.index("--log")
    if place + 1 >= len(sys.argv):
        sys.exit("--log needs a file name")
    path, rank = Path(sys.argv[place + 1]), os.environ.get("RANK", "0")
    path = path if rank == "0" else path.with_suffix(f".{rank}{path.suffix}")
    del sys.argv[place : place + 2]
    return Log(path)


def run_program(function: Callable[[], None]) -> NoReturn:
    """Run a program and exit: 0 when it returns, 1 with one line on standard error for a :class:`PretrieveError`, and for a
    disk that is full or read-only, wherever that was met.

    Every other exception is a defect of the program and keeps its traceback. Output is line-buffered. With ``--log FILE``
    on the command line everything printed goes to that file as well, plain, while a terminal gets progress bars.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                line_buffering=True, errors="backslashreplace"
            )  # in a plain locale, and of odd file names
    try:
        log = _open_log()
        if log is not None:
            log.write(f"{STARTED_IN}{_process_age():.2f} s\n")
            sys.stdout, sys.stderr = Tee(sys.stdout, log), Tee(sys.stderr, log)
        function()
    except PretrieveError as error:
        _fail(error)
    except Exception as error:
        said = explained(error)
        if said is None:
            raise
        _fail(said)
    sys.exit(0)


def _fail(error: PretrieveError) -> NoReturn:
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(1)


def one_each(**lists: list) -> None:
    """Check that options which are read side by side have one value each for every item.

    Raises
    ------
    ConfigError
        naming the options and how many values each of them has.
    """
    if len({len(values) for values in lists.values()}) > 1:
        counts = ", ".join(f"--{name} has {len(values)}" for name, values in lists.items())
        raise ConfigError(f"options read side by side need equally many values: {counts}. Give one value for each run.")
