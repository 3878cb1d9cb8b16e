"""Files from the future: what a clock that was put back leaves behind. Standard library only.

Snakemake tells by dates whether a file is up to date. When the clock was ahead and is right again, what was written meanwhile is
dated in the future: every job that reads such a file fails at its end, with its output dated before its input, and what was made
before is made again until the clock has caught up. Programs here measure time with the monotonic clock, which never jumps.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pretrieve.base.code_folder import code_file

#: Seconds that a date may be ahead: file servers have clocks of their own.
ALLOWANCE = 5.0
#: Folders of the code that rules have files of among their inputs.
_CODE = ("resources", "references", "schemas", "envs", "src", "workflow_scripts")


def redate(folders: Iterable[Path | str]) -> list[Path]:
    """Set dates in the future to now; returns these files, the oldest first. They keep their order, a microsecond apart, the
    last one now: so they stay newer than all that was there before, unless that was written within as many microseconds."""
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
    if files := redate([root, "data", *map(code_file, _CODE)]):
        which = f"{files[-1]}" if len(files) == 1 else f"{len(files)} files, such as {files[-1]},"
        said = "had a date in the future: the clock was put back. Dated now, so that nothing is made again for it."
        print(f"{which} {said}", file=sys.stderr)


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
                with suppress(FileNotFoundError):  # a run that is at work has moved it to its place
                    yield entry.path, entry.stat(follow_symlinks=False).st_mtime_ns
