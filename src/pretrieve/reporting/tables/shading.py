"""What a cell of an HTML page shows beside its value: its interval, and as a shade how far it is from its baseline.

A shade has this one meaning. The interval is that of the cell's mean over queries, so a shade measures a difference by the
uncertainty of the cell; whether chance explains the difference is tested on paired queries, and the marks † and ‡ say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from pretrieve.references.cases import is_case
from pretrieve.references.tables import TEXT
from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.heads import split_head

#: Half widths of a cell's interval from which its difference to the baseline has the next darker shade.
STEPS = (1.0, 2.0, 4.0)


def interval_of(line: Line) -> str:
    """The 95 % interval over queries as ``[low, high]`` in the cell's unit; '' where a cell has none."""
    return f"[{line.low}, {line.high}]" if line.low else ""


def half_width(line: Line) -> float:
    """Half of the interval in the cell's unit, 0 without one. A bound that is cut at 0 or 100 % is near, so the other counts."""
    if not (line.low and line.measured):
        return 0.0
    low, value, high = (float(text) for text in (line.low, line.measured, line.high))
    return max(value - low, high - value)


def shade_of(line: Line) -> str:
    """``above-1`` … ``above-3`` or ``below-1`` … ``below-3``: the difference to the baseline in steps of :data:`STEPS`.

    '' below the first step, at chance, and for a cell without a baseline or without an interval.
    """
    half = half_width(line)
    if not line.effect or not half or line.beyond_chance == "no":
        return ""
    effect = float(line.effect)
    level = sum(abs(effect) >= step * half for step in STEPS)
    return f"{'above' if effect > 0 else 'below'}-{level}" if level else ""


def explain_cells(lines: Sequence[Line], columns: Sequence[str]) -> list[tuple[str, str]]:
    """(term, sentence) pairs for a legend: heads of ``columns``, intervals and shades, each where the table has it."""
    explained = []
    if any(split_head(column)[1] for column in columns):
        explained.append(("here …", "What was measured. The name above it is that of the published value."))
    if any(line.low for line in lines):
        explained.append(
            ("[low, high]", "95 % interval of the mean over queries (Student's t). It says nothing of other seeds.")
        )
    if any(line.n_seeds and not line.low and line.unit != TEXT and not is_case(line.metric) for line in lines):
        explained.append(("No interval", "The metric is no mean over queries, such as a rank correlation."))
    if any(line.effect for line in lines):
        steps = f"{', '.join(f'{step:g}' for step in STEPS[:-1])} and {STEPS[-1]:g}"
        explained.append(
            (
                "Shade",
                "The difference to the row's baseline: green above it, purple below it, darker from "
                f"{steps} half widths of the cell's interval. A cell has no shade if it is nearer, at chance, or not "
                "compared. The published value has no part in it.",
            )
        )
    return explained
