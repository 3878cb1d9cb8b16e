"""What all commands share (:mod:`pretrieve.commands`): how they are started, print and end."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TextIO

from pretrieve.base.disk import explained, room_for
from pretrieve.base.errors import ConfigError, PretrieveError

#: Between the words of two commands that one process runs: a start takes as long as a small job.
THEN = "--then"
#: What follows it are options of each of these commands.
EACH = "--each"
#: What follows it are the first command's name and seeds: all commands are run for each of them, which stands for :data:`SEED`.
FOR_SEEDS, SEED = "--for-seeds", "{seed}"
#: How the first line of a log begins: what the interpreter's start and a program's imports took; report-time adds it up.
STARTED_IN = "started in "
#: How a shell says that a program was ended by SIGPIPE, as other programs are.
NOBODY_READS = 128 + 13
#: The same of SIGINT.
INTERRUPTED = 128 + 2
#: Linux, ``prctl(2)``: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From here on a parent that is killed takes this process along; nothing happens on other systems than Linux.

    A killed ``torchrun`` leaves its processes behind otherwise: they would hold their GPUs, and write the checkpoints
    of a run that has been started again.
    """
    if sys.platform == "linux":
        import ctypes  # other programs need not load it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _process_age() -> float:
    """Seconds since this process began (Linux: its start in clock ticks since boot)."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK")


def hold_job(log: Path) -> None:
    """Let no other process work on the job with this log until this one ends; wait as long as another does.

    ``kill -9`` of Snakemake ends Snakemake alone: its jobs live on, and the same command starts them a second time, while the
    first ones still write the same files. So every program holds a file beside its log, which no other job has, with a lock of
    the system that ends with the process; the log itself will not do, because Snakemake removes that before it starts a job. A
    training that waited continues from the other process's last checkpoint, which is its end. The file stays when the job has
    ended: removing it would let two processes hold it.
    """
    try:
        import fcntl

        file = os.open(log.with_name(f".{log.name}.lock"), os.O_WRONLY | os.O_CREAT, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{log}: another process is at this job; waiting until it ends.", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass  # a file system without locks


class Log:
    """A log file that is begun anew; its job is held as long as the process lives.

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


def _open_log(words: list[str]) -> Log | None:
    """Take ``--log FILE`` out of the words and open that file; under torchrun, one for each process (x.1.log)."""
    if "--log" not in words:
        return None
    place = words.index("--log")
    if place + 1 >= len(words):
        sys.exit("--log needs a file name")
    path, rank = Path(words[place + 1]), os.environ.get("RANK", "0")
    path = path if rank == "0" else path.with_suffix(f".{rank}{path.suffix}")
    del words[place : place + 2]
    return Log(path)


def _end_with_a_word(log: Log) -> None:
    """SIGTERM, which a scheduler sends at a job's time limit, ends the process as ever, but the log says so in its last line."""

    def end(number: int, frame: object) -> None:
        log.write(f"ended by {signal.Signals(number).name}\n")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


def make_parser(command: ModuleType, program: str | None = None) -> argparse.ArgumentParser:
    """The parser of a module of :mod:`pretrieve.commands`: its docstring is the help, ``add_arguments`` adds the options.
    ``followed`` of what it parses: whether this process runs another command afterwards."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(program, description=command.__doc__, formatter_class=form)
    parser.add_argument("--log", metavar="FILE", help="what is printed goes to this file, too")
    parser.set_defaults(followed=False)
    command.add_arguments(parser)
    return parser


def module_of(name: str) -> str:
    """The module of a command's name.

    >>> module_of("fetch-table")
    'pretrieve.commands.fetch_table'
    """
    return f"pretrieve.commands.{name.replace('-', '_')}"


def _load(name: str) -> ModuleType:
    """The module of a command. All that it imports stays in memory: to search it for garbage, now and later, takes half a second
    of a training's start."""
    if (module := module_of(name)) not in sys.modules:
        gc.disable()
        importlib.import_module(module)
        gc.freeze()
        gc.enable()
    return sys.modules[module]


def run_command(name: str, words: list[str] | None = None, program: str | None = None) -> NoReturn:
    """Run a command (:mod:`pretrieve.commands`) with the words of a command line, by default this process's.

    ``FIRST OPTIONS --then SECOND OPTIONS --each OPTIONS`` runs a second command when the first has ended; what follows
    ``--each`` are options of both, and ``--for-seeds FIRST 1 2`` runs both for each seed. All are parsed before."""
    words = sys.argv[1:] if words is None else words
    command = _load(name)
    run_program(lambda: _run(command, words, program), words)


def _run(command: ModuleType, words: list[str], program: str | None) -> None:
    calls = []
    for number, part in enumerate(split_calls(words)):
        if number:
            command, program = _load(part[0]), part.pop(0)
        calls.append((command, make_parser(command, program).parse_args(part)))
    for command, arguments in calls:
        arguments.followed = arguments is not calls[-1][1]
        command.main(arguments)


def split_calls(words: Sequence[str]) -> list[list[str]]:
    """The words of each command.

    >>> split_calls(["--out", "a", "--then", "retrieve", "--runs", "b", "--each", "--threads", "2"])
    [['--out', 'a', '--threads', '2'], ['retrieve', '--runs', 'b', '--threads', '2']]
    >>> split_calls(["--out", "seed{seed}", "--for-seeds", "finetune", "1", "2"])
    [['--out', 'seed1'], ['finetune', '--out', 'seed2']]
    """
    words = list(words)
    end = words.index(EACH) if EACH in words else len(words)
    last = words.index(FOR_SEEDS) if FOR_SEEDS in words else end
    parts: list[list[str]] = [[]]
    for word in words[:last]:
        if word == THEN:
            parts.append([])
        else:
            parts[-1].append(word)
    if last < end:
        count = next((at for at, word in enumerate(words[last + 1 : end]) if word.startswith("--")), end)
        name, *seeds = words[last + 1 : end][:count]
        parts[-1] += words[last + 1 : end][count:]
        parts[0].insert(0, name)
        parts = [[word.replace(SEED, seed) for word in part] for seed in seeds for part in parts]
        del parts[0][0]
    return [[*part, *words[end + 1 :]] for part in parts]


def run_program(function: Callable[[], None], words: list[str] | None = None) -> NoReturn:
    """Run a program and exit: 0 when it returns, 1 with one line on standard error for a :class:`PretrieveError`, and for a
    disk that is full or read-only or a name that no file can have, wherever that was met; :data:`NOBODY_READS`, without a word,
    when whoever read the output has ended; :data:`INTERRUPTED`, with one line, at Ctrl-C.

    Every other exception is a defect of the program and keeps its traceback. Output is line-buffered. With ``--log FILE``
    among the words everything printed goes to that file as well, plain, while a terminal gets progress bars.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                line_buffering=True, errors="backslashreplace"
            )  # in a plain locale, and of odd file names
    try:
        log = _open_log(sys.argv if words is None else words)
        if log is not None:
            log.write(f"{STARTED_IN}{_process_age():.2f} s\n")
            _end_with_a_word(log)
            sys.stdout, sys.stderr = Tee(sys.stdout, log), Tee(sys.stderr, log)
        try:
            function()
        finally:
            sys.stdout.flush()  # argparse passes over a reader that has ended
    except PretrieveError as error:
        _fail(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        # What is left in the buffers is not tried again at the end of the process.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        sys.exit(NOBODY_READS)
    except Exception as error:
        said = explained(error)
        if said is None:
            raise
        _fail(said)
    sys.exit(0)


def _nobody_reads() -> bool:
    """Whether the reader of standard output or error has ended: ``pretrieve --help | head -1``."""
    poll = select.poll()
    for stream in (1, 2):
        poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _fail(error: PretrieveError) -> NoReturn:
    print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(1)


def one_each(**lists: list) -> None:
    """Check that options which are read side by side have one value each for every item.

    Raises ConfigError naming the options and how many values each of them has.
    """
    if len({len(values) for values in lists.values()}) > 1:
        counts = ", ".join(f"--{name} has {len(values)}" for name, values in lists.items())
        raise ConfigError(f"paired options need the same number of values: {counts}. Give one value for each run.")


def once_each(**lists: list) -> None:
    """Check that no option names a file to be written twice. Raises ConfigError naming the option and the file."""
    for name, values in lists.items():
        places = list(map(os.path.abspath, map(str, values)))
        if twice := [place for place in places if places.count(place) > 1]:
            raise ConfigError(f"--{name}: {twice[0]} stands there twice, and the last would remain; name each once.")
