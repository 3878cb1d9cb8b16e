"""A filled table in the layout of its paper: rows and columns as printed, and the sentences a reader needs below it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pretrieve.base.paths import parse_system
from pretrieve.references.cases import RECIPROCAL_RANK, is_case
from pretrieve.references.figures import OWN
from pretrieve.references.tables import STATISTICS, TEXT, Table, role_in_words, titled
from pretrieve.reporting.tables.comparisons import ROUNDS
from pretrieve.reporting.tables.contamination_notes import overlap_lines
from pretrieve.reporting.tables.filling import MEASURED, Line, count_statuses, tests_of
from pretrieve.reporting.tables.heads import column_heads, row_heads
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.shading import interval_of, shade_of

#: (largest corrected p-value, mark), the strictest first.
MARKS = ((0.01, "‡"), (0.05, "†"))
#: Behind a mark: the row is worse than the one that it is compared with.
WORSE = "↓"
#: Behind a value that guessing would have.
CHANCE = "≈ chance"
#: Status → sign behind a value. Below paper scale no value is judged, so it has none.
SIGNS = {"match": "✓", "close": "≈", "higher": "▲", "lower": "▼"}
#: Where the paper prints no value either.
NOTHING = "–"


@dataclass(frozen=True)
class Shown:
    """One value as shown. ``value`` is a number or a text, or the status where there is none.

    ``published`` has the paper's own mark behind it, which is not ``mark``, ours. ``guessed``: not beyond chance.
    ``interval`` and ``shade``: :mod:`pretrieve.reporting.tables.shading`, for HTML alone.
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
    return Page(
        heading=name[0].upper() + name[1:],
        title=table.title,
        source=table.source,
        caption=titled(table.caption, _in_place(lines, setting), table.paper == OWN),
        measured_on=_measured_on(lines, setting),
        warning=_warning(table, lines, setting),
        row_columns=table.row_columns,
        column_group=table.column_group,
        names=table.columns,
        columns=column_heads(table, lines, setting),
        has_wall=any(line.wall_s for line in lines),
        rows=_rows(table, lines, setting),
        notes=table.notes,
        legend=_legend(table, lines),
        provenance=_provenance(table, lines, setting),
        command=setting.command(f"{setting.root}/tables/{table.paper}/{table.name}.csv"),
    )


def _in_place(lines: Sequence[Line], setting: Setting) -> str:
    """What data and which models were measured in place of the paper's, for the title."""
    measured = [line for line in lines if line.status in MEASURED]
    data = setting.in_place_of(line.role for line in measured)
    return "; ".join(filter(None, (data, setting.bodies_in_place(line.system for line in measured))))


def _warning(table: Table, lines: Sequence[Line], setting: Setting) -> str:
    shown = [line for line in lines if line.status in MEASURED]
    if setting.scale == "paper" or not shown:
        return ""
    if all(line.system == STATISTICS for line in shown):
        return f"Counted on the data of the {setting.scale} scale, not on the paper's; no cell claims a match."
    warning = (
        f"Measured at the {setting.scale} scale: less data, smaller models and shorter training than at paper scale"
    )
    if any(line.published for line in lines):
        return f"{warning}. Compare rows with each other, not with the published values; no cell claims a match."
    return f"{warning}. Compare rows with each other."


def _measured_on(lines: Sequence[Line], setting: Setting) -> str:
    """What was measured in place of the paper's data, with its numbers; '' where that is the paper's."""
    measured = [line for line in lines if line.status in MEASURED]
    found = [
        f"{_role(role, lines, setting)}, in place of {role_in_words(role)}"
        for role in dict.fromkeys(line.role for line in measured)
        if role in setting.stand_ins
    ]
    return f"Measured here: {'; '.join(found)}." if found else ""


def _rows(table: Table, lines: Sequence[Line], setting: Setting) -> list[Row]:
    at = {(line.row, line.column): line for line in lines}
    best = _best(lines)
    heads = row_heads(table, lines, setting)
    rows = []
    for i, name in enumerate(table.rows):
        found = [at.get((name, column)) for column in table.columns]
        walls = sorted({round(float(line.wall_s)) for line in found if line and line.wall_s})
        rows.append(
            Row(
                heads=heads[i],
                spans=head_spans(heads, i),
                cells=[line and _shown(line, best) for line in found],
                wall="–".join(f"{wall:,}" for wall in dict.fromkeys((walls[0], walls[-1]))) if walls else "",
            )
        )
    return rows


def head_spans(heads: Sequence[list[str]], i: int) -> list[int]:
    """Rows that each head of row i covers: a first head that repeats is printed once, as papers do; others always."""
    spans = [1] * len(heads[i])
    if len(spans) > 1:
        if i and heads[i - 1][0] == heads[i][0]:
            spans[0] = 0
        else:
            same = (head[0] == heads[i][0] for head in heads[i:])
            spans[0] = next((n for n, equal in enumerate(same) if not equal), len(heads) - i)
    return spans


def _comparable(line: Line) -> tuple[str, str, str]:
    """Scores of equal size, data set and metric are of the same queries, wherever the paper prints them."""
    return parse_system(line.system).size, line.dataset, line.metric


def _best(lines: Sequence[Line]) -> dict[tuple[str, str, str], float]:
    best: dict[tuple[str, str, str], float] = {}
    for line in lines:
        if _scored(line) and not _guessed(line):
            key = _comparable(line)
            best[key] = max(best.get(key, float("-inf")), float(line.measured))
    return best


def _scored(line: Line) -> bool:
    """Whether the cell has a score, which can be compared with others': no statistic, and no single query of a case study."""
    return bool(line.measured) and line.system != STATISTICS and not is_case(line.metric)


def _guessed(line: Line) -> bool:
    return line.beyond_chance == "no"


def _mark(line: Line) -> str:
    """Sign of a difference from the baseline; none at chance. An arrow says that the row is the worse one."""
    mark = next((mark for level, mark in MARKS if line.p_holm and float(line.p_holm) < level), "")
    return "" if not mark or _guessed(line) else mark + (WORSE if line.effect.startswith("-") else "")


def _shown(line: Line, best: dict[tuple[str, str, str], float]) -> Shown:
    measured = line.measured if line.unit == TEXT else _grouped(line.measured)
    value = measured or (NOTHING if _prints_nothing(line) else line.status)
    scored = _scored(line)
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
        sign=SIGNS.get(line.status, ""),
        status=line.status,
        best=scored and not _guessed(line) and float(line.measured) == best[_comparable(line)],
        details="; ".join(f"{name} {text}" for name, text in facts if text),
        text=line.unit == TEXT,
        guessed=_guessed(line),
        interval=interval_of(line),
        shade=shade_of(line),
    )


def _prints_nothing(line: Line) -> bool:
    return line.status == "quoted" and not line.published


def _grouped(number: str) -> str:
    """Thousands separated: 1234567 → 1,234,567; 12.30 stays."""
    whole, point, fraction = number.partition(".")
    return f"{int(whole):,}{point}{fraction}" if whole.lstrip("-").isdigit() and abs(int(whole)) > 999 else number


def _legend(table: Table, lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Explain what the table shows, and nothing that it does not."""
    shown = [line for line in lines if line.measured]
    blank = [(NOTHING, "The paper prints no value there.")] if any(map(_prints_nothing, lines)) else []
    if not shown:
        return blank
    form = "measured" + (" ± sd" if any(line.sd for line in shown) else "")
    form += " (published)" if any(line.published for line in lines) else ""
    seeds = max((int(line.n_seeds) for line in shown if line.n_seeds), default=0)
    means = {0: "Whole data sets are counted.", 1: "One seed, so no deviation."}
    meaning = means.get(seeds, f"Mean and sample standard deviation over {seeds} seeds.")
    if seeds > 1 and any(line.n_seeds == "1" for line in shown):
        meaning += " BM25 draws nothing at random, so it runs once."
    legend = [(form, meaning), *blank]
    tests = len(tests_of(lines))
    if tests:
        levels = ", ".join(f"{mark} p < {level}" for level, mark in reversed(MARKS))
        legend.append(
            (
                levels,
                f"Better than {_in_words(table.baseline)}, or with {WORSE} worse, on the same queries (two-sided paired "
                f"randomisation test, {ROUNDS:,} rounds, Holm-corrected for the {tests} tests of this table). Rows of another "
                "body have no mark. The CSV has the comparison with BM25, too, where BM25 is a row.",
            )
        )
    if any(map(_guessed, shown)):
        legend.append((CHANCE, "No better than guessing; such a value is compared with no other."))
    signs = {line.status for line in lines} & set(SIGNS)
    if signs:
        text = {
            "match": "within the tolerance",
            "close": "within twice the tolerance",
            "higher": "above that",
            "lower": "below that",
        }
        tolerance = f"{table.tolerance['absolute']:g}" if "absolute" in table.tolerance else ""
        tolerance = tolerance or f"{table.tolerance['relative']:.0%} of the published value"
        sentence = ", ".join(f"{SIGNS[word]} {word}: {text[word]}" for word in SIGNS if word in signs)
        legend.append(("Against the published value", f"{sentence}. Tolerance: {tolerance}."))
    won = [line for line in shown if line.metric == RECIPROCAL_RANK and line.system == table.case_systems[0]]
    if any(float(line.measured) < 1 for line in won):
        said = "In some case the first system has no relevant document in first place: these are the best it has here."
        legend.append(("Cases", said))
    if any(map(_scored, shown)):
        legend.append(("Bold", "The highest of the values measured on the same queries."))
    if any(line.wall_s for line in lines):
        legend.append(
            (
                "Wall s",
                "Seconds of all stages that a row needs (pre-training, fine-tuning, embedding; or the search of BM25), "
                "mean over seeds; a range where its cells differ. A stage that rows share counts in full for each.",
            )
        )
    return legend


def _in_words(baseline: str) -> str:
    """``seed-mlm.{recipe}-{size}`` → seed-mlm of the same recipe and training-set size."""
    parts = baseline.removesuffix("-{size}").split(".")
    same = [part.strip("{}") for part in parts if part.startswith("{")]
    name = ".".join(part for part in parts if not part.startswith("{"))
    return f"{name} of the same {' and '.join([*same, 'training-set size'])}"


def _provenance(table: Table, lines: Sequence[Line], setting: Setting) -> list[tuple[str, str]]:
    counts = count_statuses(lines)
    provenance = [("Scale", setting.scale)]
    roles = dict.fromkeys(line.role for line in lines if line.role)
    provenance += [(f"Role {role}", _role(role, lines, setting)) for role in roles if role in setting.roles]
    provenance += overlap_lines(lines, setting)
    for start, encoders in setting.starts_of(line.system for line in lines if line.status in MEASURED).items():
        provenance.append(("Start", f"{', '.join(encoders)}: {start}"))
    if absent := [role for role in roles if role not in setting.roles]:
        provenance.append((f"Role{'s' * (len(absent) > 1)} {', '.join(absent)}", _no_data_set(setting)))
    if any(line.n_seeds for line in lines):
        provenance.append(("Seeds", ", ".join(map(str, setting.seeds))))
    provenance.append(("Cells", ", ".join(f"{n} {word}" for word, n in counts.items() if n)))
    notes = {(cell.row, cell.column): cell.note for cell in table.cells}
    reasons = Counter(
        (line.status, _reason(line, notes[line.row, line.column], setting))
        for line in lines
        if line.status in ("not-run", "failed")
    )
    for (status, note), n in reasons.items():
        provenance.append((status, f"{n} cell{'s' * (n > 1)}: {note}"))
    return provenance


def _no_data_set(setting: Setting) -> str:
    return f"no data set at the {setting.scale} scale"


def _reason(line: Line, note: str, setting: Setting) -> str:
    """Why a cell has no value, without the reference's own note and in one wording for all roles."""
    if line.status == "not-run" and line.role not in setting.roles:
        return f"{_no_data_set(setting)} takes the place of the paper's"
    return line.note.removeprefix(note).removeprefix("; ")


def _role(role: str, lines: Sequence[Line], setting: Setting) -> str:
    of_role = [line for line in lines if line.role == role and line.queries]
    name = setting.roles[role]
    means = len(setting.parts.get(name, ()))
    text = f"{name}, the mean of {means} data sets" if means else f"data set {name}"
    text = f"{setting.descriptions[name]} ({text})" if name in setting.descriptions else text
    sizes = {parse_system(line.system).size: line.queries for line in of_role}
    if sizes:
        text += ", test queries " + ", ".join(f"{int(n):,} ({size})" for size, n in sizes.items())
    candidates = sorted({int(line.candidates) for line in of_role if line.candidates})
    if candidates:
        text += f", candidates {' or '.join(f'{n:,}' for n in candidates)}"
    return text
