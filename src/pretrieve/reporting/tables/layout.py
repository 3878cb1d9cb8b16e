"""A filled table in the layout of its paper: rows and columns as printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from pretrieve.base.paths import parse_system
from pretrieve.references.figures import OWN
from pretrieve.references.tables import STATISTICS, TEXT, Table, role_in_words, titled
from pretrieve.reporting.tables import legend
from pretrieve.reporting.tables.filling import MEASURED, Line, is_scored
from pretrieve.reporting.tables.heads import column_heads, row_heads
from pretrieve.reporting.tables.legend import is_guessed
from pretrieve.reporting.tables.results import Setting


@dataclass(frozen=True)
class Shown:
    """One value as shown. ``value`` is a number or a text, or the status where there is none.

    ``published`` has the paper's own mark behind it, which is not ``mark``, ours. ``guessed``: not beyond chance.
    ``interval`` and ``shade`` (:func:`interval_of`, :func:`shade_of`): for HTML alone.
    """

    value: str
    sd: str
    published: str
    mark: str
    sign: str
    status: str
    best: bool
    details: str
    text: bool = False
    guessed: bool = False
    interval: str = ""
    shade: str = ""


@dataclass(frozen=True)
class Row:
    """``heads`` are the parts of the row's name, ``spans`` how many rows each covers (0: covered from above)."""

    heads: list[str]
    spans: list[int]
    cells: list[Shown | None]
    wall: str


@dataclass(frozen=True)
class Page:
    """What Markdown, HTML and LaTeX show. ``names`` are the columns as the paper has them; ``legend`` and ``provenance`` are
    (term, sentence) pairs."""

    heading: str
    title: str
    source: str
    caption: str
    measured_on: str
    warning: str
    row_columns: tuple[str, ...]
    column_group: str
    names: tuple[str, ...]
    columns: list[str]
    has_wall: bool
    rows: list[Row]
    notes: tuple[str, ...]
    legend: list[tuple[str, str]]
    provenance: list[tuple[str, str]]
    command: str


def make_page(table: Table, lines: Sequence[Line], setting: Setting) -> Page:
    """Arrange ``lines`` (one per cell, as :func:`~pretrieve.reporting.tables.filling.fill_table` gives them)."""
    name = re.sub(r"(?<=[a-z])(?=\d)", " ", table.name.replace("_", " "))
    measured = [line for line in lines if line.status in MEASURED]
    here = [setting.in_place_of(line.role for line in measured)]
    here.append(setting.bodies_in_place(line.system for line in measured))
    roles = (role for role in dict.fromkeys(line.role for line in measured) if role in setting.stand_ins)
    data = (f"{legend.role_of(role, measured, setting)}, in place of {role_in_words(role)}" for role in roles)
    measured_on = "; ".join(data)
    return Page(
        heading=name[0].upper() + name[1:],
        title=table.title,
        source=table.source,
        caption=titled(table.caption, "; ".join(filter(None, here)), table.paper == OWN),
        measured_on=measured_on and f"Measured here: {measured_on}.",
        warning=_warning(measured, any(line.published for line in lines), setting.scale),
        row_columns=table.row_columns,
        column_group=table.column_group,
        names=table.columns,
        columns=column_heads(table, lines, setting),
        has_wall=any(line.wall_s for line in lines),
        rows=_rows(table, lines, setting),
        notes=table.notes,
        legend=legend.legend_of(table, lines),
        provenance=legend.provenance_of(table, lines, setting),
        command=setting.command(f"{setting.root}/tables/{table.paper}/{table.name}.csv"),
    )


def _warning(measured: Sequence[Line], published: bool, scale: str) -> str:
    if scale == "paper" or not measured:
        return ""
    if all(line.system == STATISTICS for line in measured):
        return f"Counted on the data of the {scale} scale, not on the paper's; no cell claims a match."
    compare = "Compare rows with each other"
    compare += ", not with the published values; no cell claims a match." if published else "."
    return (
        f"Measured at the {scale} scale: less data, smaller models and shorter training than at paper scale. {compare}"
    )


def _rows(table: Table, lines: Sequence[Line], setting: Setting) -> list[Row]:
    at = {(line.row, line.column): line for line in lines}
    best: dict[tuple[str, str, str], float] = {}
    for line in lines:
        if is_scored(line) and not is_guessed(line):
            best[_comparable(line)] = max(best.get(_comparable(line), float("-inf")), float(line.measured))
    heads = row_heads(table, lines, setting)
    rows = []
    for i, name in enumerate(table.rows):
        found = [at.get((name, column)) for column in table.columns]
        walls = sorted({round(float(line.wall_s)) for line in found if line and line.wall_s})
        wall = "–".join(f"{wall:,}" for wall in dict.fromkeys((walls[0], walls[-1]))) if walls else ""
        rows.append(Row(heads[i], head_spans(heads, i), [line and _shown(line, best) for line in found], wall))
    return rows


def head_spans(heads: Sequence[list[str]], i: int) -> list[int]:
    """Rows that each head of row i covers: a first head that repeats is printed once, as papers do; others always."""
    spans = [1] * len(heads[i])
    if len(spans) > 1:
        covered = i > 0 and heads[i - 1][0] == heads[i][0]
        spans[0] = 0 if covered else len(list(takewhile(lambda head: head[0] == heads[i][0], heads[i:])))
    return spans


def _comparable(line: Line) -> tuple[str, str, str]:
    """Scores of equal size, data set and metric are of the same queries, wherever the paper prints them."""
    return parse_system(line.system).size, line.dataset, line.metric


def _mark(line: Line) -> str:
    """Sign of a difference from the baseline; none at chance. An arrow says that the row is the worse one."""
    mark = next((mark for level, mark in legend.MARKS if line.p_holm and float(line.p_holm) < level), "")
    return "" if not mark or is_guessed(line) else mark + (legend.WORSE if line.effect.startswith("-") else "")


def _shown(line: Line, best: dict[tuple[str, str, str], float]) -> Shown:
    is_number = line.measured and line.unit != TEXT
    measured = f"{Decimal(line.measured):,f}" if is_number else line.measured
    value = measured or (legend.NOTHING if legend.prints_nothing(line) else line.status)
    facts = [
        ("system", line.system if line.measured and line.system != STATISTICS else ""),
        ("difference", line.delta and f"{float(line.delta):+,.{len(line.delta.partition('.')[2])}f}"),
        ("p", line.p_value),
        ("corrected p", line.p_holm),
        ("against", line.baseline and f"{line.baseline}, {float(line.effect):+g}"),
        ("95 % over paired queries", line.effect_low and f"{line.effect_low} to {line.effect_high}"),
        ("against BM25", line.bm25_effect and f"{float(line.bm25_effect):+g}, corrected p {line.bm25_p_holm}"),
        ("95 % over queries", line.low and f"{line.low} to {line.high}"),
        ("chance", line.chance),
        ("training examples", line.train_examples and f"{int(line.train_examples):,}"),
        ("queries", line.queries and f"{int(line.queries):,}"),
        ("status", line.status),
        ("note", line.note),
    ]
    return Shown(
        value=value,
        sd=line.sd,
        published=line.published and line.published + line.marker,
        mark=_mark(line),
        sign=legend.SIGNS.get(line.status, ""),
        status=line.status,
        best=is_scored(line) and not is_guessed(line) and float(line.measured) == best[_comparable(line)],
        details="; ".join(f"{name} {text}" for name, text in facts if text),
        text=line.unit == TEXT,
        guessed=is_guessed(line),
        interval=interval_of(line),
        shade=shade_of(line),
    )


def interval_of(line: Line) -> str:
    """The 95 % interval over queries as ``[low, high]`` in the cell's unit; '' where a cell has none."""
    return f"[{line.low}, {line.high}]" if line.low else ""


def shade_of(line: Line) -> str:
    """``above-1`` … ``above-3`` or ``below-1`` … ``below-3``: the difference to the baseline by its own uncertainty over paired
    queries, in steps of :data:`~pretrieve.reporting.tables.legend.STEPS`. It is not corrected for all tests of the table, as the
    marks are. '' where the interval has 0 in it, at chance, and for a difference without an interval.
    """
    if not line.effect_low or is_guessed(line):
        return ""
    effect = float(line.effect)
    half = abs(effect - float(line.effect_low if effect > 0 else line.effect_high))  # on the side of 0
    level = sum(abs(effect) > step * half for step in legend.STEPS) if half else 0
    return f"{'above' if effect > 0 else 'below'}-{level}" if level else ""
