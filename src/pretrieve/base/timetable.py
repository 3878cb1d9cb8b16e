"""How long a whole run still takes: what each of its jobs was expected to take, and which of them are finished.

A timetable is JSON: ``places``, how many jobs run at a time; ``jobs``, the cost file that a job leaves → expected seconds.
``PRETRIEVE_TIMETABLE`` names it for every job of a run. What finished jobs took against what was expected of them is the pace of
the others, so the figure is right on a busy machine too. A job that is running counts as a whole: less may be left.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

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
