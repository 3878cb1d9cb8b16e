"""Progress that suits where it is shown: a bar with rate and time left on a terminal, plain lines in a log; and how long the
whole run still takes.

A timetable is JSON: ``places``, how many jobs run at a time; ``jobs``, the cost file that a job leaves → expected seconds.
``PRETRIEVE_TIMETABLE`` names it for every job of a run. What finished jobs took against what was expected of them is the pace of
the others, so the figure is right on a busy machine too. A job that is running counts as a whole: less may be left.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType

VARIABLE = "PRETRIEVE_TIMETABLE"


def seconds_left(timetable: Path | str | None = None) -> float | None:
    """Seconds that the run of ``timetable`` (by default the environment's) takes from now on; None where there is none that can
    be read. Only cost files that are newer than the timetable are of this run."""
    named = timetable or os.environ.get(VARIABLE)
    if not named:
        return None
    try:
        path = Path(named)
        plan, since = json.loads(path.read_text(encoding="utf-8")), path.stat().st_mtime
        expected, taken, left = 0.0, 0.0, 0.0
        for name, seconds in plan["jobs"].items():
            file = Path(name)
            if file.is_file() and file.stat().st_mtime >= since:
                expected += seconds
                taken += json.loads(file.read_text(encoding="utf-8"))["wall_s"]
            else:
                left += seconds
        return left * (taken / expected if expected else 1.0) / max(1, plan["places"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def whole_run() -> str:
    """``; whole run: about 12 min left``, or '' where no timetable is known."""
    left = seconds_left()
    return "" if left is None else f"; whole run: about {max(1, round(left / 60))} min left"


#: Seconds between two lines in a log.
LOG_INTERVAL = 15.0


class Progress:
    """Count ``unit``s towards ``total`` (None: unknown). A context manager; the last line gives count, rate and time.

    On a terminal tqdm draws a bar on standard error. Elsewhere (a log file, CI) a plain line is printed every
    15 seconds, so that a log stays readable and is never rewritten; a program's ``--log`` file gets them in either case. Where
    the run has a timetable, they say what is left of the whole.
    """

    def __init__(self, label: str, total: int | None = None, unit: str = "steps", initial: int = 0) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.count, self._initial = initial, initial
        self._begun = self._last = time.monotonic()
        self._note = ""
        self._bar = None
        if sys.stderr.isatty():
            from tqdm import tqdm  # here, for the workflow, which reads this module, shows no bar

            # Some terminals say they have no width; tqdm would then draw nothing.
            columns = shutil.get_terminal_size((100, 24)).columns
            options = {"total": total, "initial": initial, "ncols": columns, "smoothing": 0.1}
            self._bar = tqdm(desc=label, unit=f" {unit}", mininterval=0.5, **options)

    def advance(self, n: int = 1, note: str = "") -> None:
        """Add ``n`` to the count; ``note`` (a loss, say) is shown after it."""
        self.count += n
        self._note = note or self._note
        if self._bar is not None:
            self._bar.update(n)
            if note:
                self._bar.set_postfix_str(note, refresh=False)
        now = time.monotonic()
        if now - self._last >= LOG_INTERVAL:
            self._last = now
            whole = whole_run()
            if self._bar is not None and whole:
                self._bar.set_postfix_str(f"{self._note}{whole}", refresh=False)
            self._line(now, whole)

    def _line(self, now: float, whole: str = "") -> None:
        elapsed = max(now - self._begun, 1e-9)
        rate = (self.count - self._initial) / elapsed
        of = f"/{self.total:,}" if self.total else ""
        left = (
            f", {(self.total - self.count) / rate:.0f} s left"
            if self.total and rate and self.count < self.total
            else ""
        )
        note = f", {self._note}" if self._note else ""
        line = f"{self.label}: {self.count:,}{of} {self.unit}, {rate:,.1f}/s, {elapsed:.1f} s{left}{note}{whole}\n"
        # Beside a bar, lines go to the log alone, if there is one.
        stream = getattr(sys.stderr, "log", None) if self._bar is not None else sys.stderr
        if stream is not None:
            stream.write(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._bar is not None:
            self._bar.close()
        if kind is None:
            self._line(time.monotonic())
