"""What a cell of an HTML page shows beside its value: its interval, and as a shade how far it is from its baseline.

A shade has this one meaning: the difference to the baseline by its own uncertainty over paired queries. Whether chance explains
the largest of a table's differences is another question: the marks † and ‡ are corrected for all tests of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pretrieve.references.cases import is_case
from pretrieve.references.tables import TEXT
from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.heads import split_head

#: Half widths of its interval from which a difference to the baseline has the next darker shade.
STEPS = (1.0, 2.0, 4.0)


def interval_of(line: Line) -> str:
    """The 95 % interval over queries as ``[low, high]`` in the cell's unit; '' where a cell has none."""
    return f"[{line.low}, {line.high}]" if line.low else ""


def shade_of(line: Line) -> str:
    """``above-1`` … ``above-3`` or ``below-1`` … ``below-3``: the difference to the baseline in steps of :data:`STEPS`.

    '' below the first step, at chance, and for a difference without an interval.
    """
    if not line.effect_low or line.beyond_chance == "no":
        return ""
    effect = float(line.effect)
    half = (float(line.effect_high) - float(line.effect_low)) / 2
    level = sum(abs(effect) >= step * half for step in STEPS) if half else 0
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
    if any(line.effect_low for line in lines):
        steps = f"{', '.join(f'{step:g}' for step in STEPS[:-1])} and {STEPS[-1]:g}"
        explained.append(
            (
                "Shade",
                "The difference to the row's baseline: green above it, purple below it, darker from "
                f"{steps} half widths of the difference's own 95 % interval over paired queries. No shade: nearer, at chance, "
                "or not compared. The published value has no part in it.",
            )
        )
    return explained
