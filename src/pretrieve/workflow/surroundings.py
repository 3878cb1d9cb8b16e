"""What a run does about its surroundings, before any job. Standard library only.

* Memory (:func:`allocator`). A training step on a CPU allocates and frees tensors of up to 100 MB for each layer. glibc returns
  every block above 32 MB to the system as soon as it is freed, and the system clears its pages again for the next one. Here freed
  blocks are kept for the next tensor, in huge pages where the system has them. Results do not change;
  ``benchmarks/c19_allocator.py`` measures the gain. Tunables of glibc, version 2.35 or later (others ignore them):
  https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
* Caches (:func:`cache_places`). Compiled code of numba, fonts of matplotlib and downloads of the hub go to the home directory.
  A service account, or a job without a home, has none to write: matplotlib then makes a new cache in each process, and numba
  refuses to load what it is to keep.
* Snakemake's timers (:func:`watch_timers`). It limits the rate at which jobs start (``max-jobs-per-timespan``). After every look
  at the ready jobs it sets a timer for the next, so that jobs which the limit held back are not forgotten. But the end of each
  job is such a look too, and each look sets a timer of its own: as long as any job is ready these chains never end, and there are
  as many of them as jobs have ended. A look asks for the size of every input file of every ready job. With some hundred jobs
  on two cores Snakemake ends up doing nothing else, and at the end it waits for the last timer (8.19.1 to 9.27.1, the newest one
  examined). So all timers but the newest are cancelled every few seconds, and all of them when the main thread is over.
  docs/snakemake-faults.md has the report; tests/test_snakemake_faults.py fails when this is mended, and then it goes.
* Dates (:func:`redate`). Snakemake tells by dates whether a file is up to date. When a clock was ahead and is right again, what
  was written meanwhile is dated in the future: every job that reads such a file fails at its end, with its output dated before
  its input, and what was made before is made again until the clock has caught up. Programs here measure time with the monotonic
  clock, which never jumps.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pretrieve.base.code_folder import code_file

NAME = "GLIBC_TUNABLES"
#: Blocks up to 1 GiB come from the heap, of which nothing is returned before the process ends; huge pages.
TUNABLES = f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={1 << 40}:glibc.malloc.hugetlb=1"


def allocator(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variable that a job's process begins with; none where the user has set it."""
    return {} if NAME in environment else {NAME: TUNABLES}


def cache_places(checkout: Path | str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that move the caches into ``.snakemake/`` of a checkout; none where the usual places can be written."""
    home = Path(environment.get("HOME") or os.path.expanduser("~"))  # "~" for a user whom the system has no name of
    usual = {"XDG_CACHE_HOME": home / ".cache", "XDG_CONFIG_HOME": home / ".config"}
    own = Path(checkout).absolute() / ".snakemake"
    return {
        name: str(own / folder.name.removeprefix("."))
        for name, folder in usual.items()
        if not _writable(Path(environment.get(name) or folder))
    }


def _writable(folder: Path) -> bool:
    if not folder.is_absolute():
        return False
    standing = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    return standing.is_dir() and os.access(standing, os.W_OK | os.X_OK)


#: Where the function of such a timer is defined: timers of others are left alone.
MODULE = "snakemake.scheduling.job_scheduler"
SECONDS = 10.0


def cancel_timers(keep: int) -> int:
    """Cancel the scheduler's timers but for the ``keep`` newest; returns how many were cancelled."""
    timers = [
        thread
        for thread in threading.enumerate()  # the oldest first
        if isinstance(thread, threading.Timer)
        and getattr(thread.function, "__module__", "") == MODULE
        and not thread.finished.is_set()
    ]
    old = timers[: max(0, len(timers) - keep)]
    for timer in old:
        timer.cancel()
    return len(old)


def watch_timers(seconds: float = SECONDS) -> None:
    """From now on let no more than one timer live for longer than ``seconds``, and none when the main thread has ended,
    however it ends."""
    threading.Thread(target=_watch, args=(seconds,), daemon=True, name="idle timers").start()


def _watch(seconds: float) -> None:
    main = threading.main_thread()
    while main.is_alive():
        main.join(seconds)
        cancel_timers(keep=int(main.is_alive()))


#: Seconds that a date may be ahead: file servers have clocks of their own.
ALLOWANCE = 5.0
#: Folders of the code that rules have files of among their inputs.
_CODE = ("resources", "references", "schemas", "envs", "src", "workflow_scripts")


def redate(folders: Iterable[Path | str]) -> list[Path]:
    """Set dates in the future to now, and keep the order of these files; returns them, the oldest first.

    Their order decides what is newer than what. They come a microsecond after each other, the last one now, so they stay newer
    than all that was there before, unless that was written within as many microseconds.
    """
    now = time.time()
    ahead = sorted((date, path) for path, date in _dates(folders) if date > (now + ALLOWANCE) * 1e9)
    dates = sorted({date for date, _ in ahead})
    new = {date: int(now * 1e9) - 1000 * (len(dates) - 1 - place) for place, date in enumerate(dates)}
    done = []
    for date, path in ahead:
        try:
            os.utime(path, ns=(new[date], new[date]))
        except OSError:
            continue  # another user's: Snakemake will say which file it is
        done.append(Path(path))
    return done


def redate_for_run(root: str) -> None:
    """The same for all that the rules read: ``root`` (``results/{scale}``), raw files and code. Reports which dates were set."""
    if not (files := redate([root, "data", *map(code_file, _CODE)])):
        return
    which = f"{files[-1]}" if len(files) == 1 else f"{len(files)} files, such as {files[-1]},"
    print(
        f"{which} had a date in the future: the clock was put back. Dated now, so that nothing is made again for it.",
        file=sys.stderr,
    )


def _dates(folders: Iterable[Path | str]) -> Iterator[tuple[str, int]]:
    """Path and modification time in ns of every plain file."""
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False).st_mtime_ns
