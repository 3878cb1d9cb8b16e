"""Progress that suits where it is shown: a bar with rate and time left on a terminal, plain lines in a log."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

from tqdm import tqdm

from pretrieve.base.timetable import whole_run

#: Seconds between two lines in a log.
LOG_INTERVAL = 15.0


class Progress:
    """Count ``unit``s towards ``total`` (None: unknown). A context manager; the last line gives count, rate and time.

    On a terminal tqdm draws a bar on standard error. Elsewhere (a log file, CI) a plain line is printed every
    15 seconds, so that a log stays readable and is never rewritten; a program's ``--log`` file gets them in either case. Where
    the run has a timetable (:mod:`pretrieve.base.timetable`), they say what is left of the whole.
    """

    def __init__(self, label: str, total: int | None = None, unit: str = "steps", initial: int = 0) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.count, self._initial = initial, initial
        self._begun = self._last = time.monotonic()
        self._note = ""
        self._bar = None
        if sys.stderr.isatty():
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
