"""The sentences below a table: what its signs, intervals and shades mean, what was measured on what data from which start, what
encoders may have read of the test texts (:func:`overlaps_of`), and why cells are empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pretrieve.base.paths import parse_system
from pretrieve.references.cases import RECIPROCAL_RANK, is_case
from pretrieve.references.tables import STATISTICS, TEXT, Table
from pretrieve.reporting.tables.comparisons import ROUNDS
from pretrieve.reporting.tables.filling import MEASURED, Line, count_statuses, is_scored, tests_of
from pretrieve.reporting.tables.heads import split_head
from pretrieve.reporting.tables.results import ResultFiles, Setting

#: (largest corrected p-value, mark), the strictest first.
MARKS = ((0.01, "‡"), (0.05, "†"))
#: Behind a mark: the row is worse than the one that it is compared with.
WORSE = "↓"
#: Behind a value that guessing would have.
CHANCE = "≈ chance"
#: Status → sign behind a value. Below paper scale no value is judged, so it has none.
SIGNS = {"match": "✓", "close": "≈", "higher": "▲", "lower": "▼"}
#: Half widths of its interval from which a difference to the baseline has the next darker shade.
STEPS = (1.0, 2.0, 4.0)
#: Where the paper prints no value either.
NOTHING = "–"


def is_guessed(line: Line) -> bool:
    return line.beyond_chance == "no"


def prints_nothing(line: Line) -> bool:
    return line.status == "quoted" and not line.published


def legend_of(table: Table, lines: Sequence[Line]) -> list[tuple[str, str]]:
    """(sign, its meaning) of all that the table shows, and of nothing that it does not."""
    shown = [line for line in lines if line.measured]
    blank = [(NOTHING, "The paper prints no value there.")] if any(map(prints_nothing, lines)) else []
    if not shown:
        return blank
    form = "measured" + (" ± sd" if any(line.sd for line in shown) else "")
    form += " (published)" if any(line.published for line in lines) else ""
    seeds = max((int(line.n_seeds) for line in shown if line.n_seeds), default=0)
    means = {0: "Whole data sets are counted.", 1: "One seed, so no deviation."}
    meaning = means.get(seeds, f"Mean and sample standard deviation over {seeds} seeds.")
    if seeds > 1 and any(line.system.startswith("bm25.") for line in shown):
        meaning += " BM25 draws nothing at random, so it runs once."
    legend = [(form, meaning), *blank]
    if tests := len(tests_of(lines)):
        levels = ", ".join(f"{mark} p < {level}" for level, mark in reversed(MARKS))
        said = (
            f"Better than {_in_words(table.baseline)}, or with {WORSE} worse, on the same queries (two-sided paired "
            f"randomisation test, {ROUNDS:,} rounds, Holm-corrected for the {tests} tests of this table). Rows of another "
            "body have no mark. The CSV has the comparison with BM25, too, where BM25 is a row."
        )
        legend.append((levels, said))
    if any(map(is_guessed, shown)):
        legend.append((CHANCE, "No better than guessing; such a value has no mark, and is never bold."))
    if signs := {line.status for line in lines} & set(SIGNS):
        texts = ("within the tolerance", "within twice the tolerance", "above that", "below that")
        judged = zip(SIGNS.items(), texts, strict=True)
        sentence = ", ".join(f"{sign} {word}: {text}" for (word, sign), text in judged if word in signs)
        tolerance = f"{table.tolerance['absolute']:g}" if "absolute" in table.tolerance else ""
        tolerance = tolerance or f"{table.tolerance['relative']:.0%} of the published value"
        legend.append(("Against the published value", f"{sentence}. Tolerance: {tolerance}."))
    won = [line for line in shown if line.metric == RECIPROCAL_RANK and line.system == table.case_systems[0]]
    if any(float(line.measured) < 1 for line in won):
        said = "In some case the first system has no relevant document in first place: these are the best it has here."
        legend.append(("Cases", said))
    if any(map(is_scored, shown)):
        legend.append(("Bold", "The highest of the values measured on the same queries."))
    if any(line.wall_s for line in lines):
        said = (
            "Seconds of all stages that a row needs (pre-training, fine-tuning, embedding, search; or the search of BM25), "
            "mean over seeds; a range where its cells differ. A stage that rows share counts in full for each."
        )
        legend.append(("Wall s", said))
    return legend


def explain_cells(lines: Sequence[Line], columns: Sequence[str]) -> list[tuple[str, str]]:
    """(term, sentence) pairs for HTML pages: heads of ``columns``, intervals and shades, each where the table has it."""
    explained = []
    if any(split_head(column)[1] for column in columns):
        explained.append(("here …", "What was measured. The name above it is that of the published value."))
    if any(line.low for line in lines):
        said = "95 % interval of the mean over queries (Student's t). It says nothing of other seeds."
        explained.append(("[low, high]", said))
    if any(line.n_seeds and not line.low and line.unit != TEXT and not is_case(line.metric) for line in lines):
        explained.append(("No interval", "The metric is no mean over queries, such as a rank correlation."))
    if any(line.effect_low for line in lines):
        steps = f"{', '.join(f'{step:g}' for step in STEPS[:-1])} and {STEPS[-1]:g}"
        said = (
            f"The difference to the row's baseline: green above it, purple below it, darker beyond {steps} half widths of the "
            "difference's own 95 % interval over paired queries. No shade: nearer, at chance, or not compared. The published "
            "value has no part in it."
        )
        explained.append(("Shade", said))
    return explained


def _in_words(baseline: str) -> str:
    """``seed-mlm.{recipe}-{size}`` → seed-mlm of the same recipe and training-set size."""
    parts = baseline.removesuffix("-{size}").split(".")
    same = [part.strip("{}") for part in parts if part.startswith("{")]
    name = ".".join(part for part in parts if not part.startswith("{"))
    return f"{name} of the same {' and '.join([*same, 'training-set size'])}"


def provenance_of(table: Table, lines: Sequence[Line], setting: Setting) -> list[tuple[str, str]]:
    """(name, text): scale, data set of each role, overlap with the corpus, start, seeds, and reasons of empty cells."""
    provenance = [("Scale", setting.scale)]
    roles = dict.fromkeys(line.role for line in lines if line.role)
    provenance += [(f"Role {role}", role_of(role, lines, setting)) for role in roles if role in setting.roles]
    provenance += overlap_lines(lines, setting)
    for start, encoders in setting.starts_of(line.system for line in lines if line.status in MEASURED).items():
        provenance.append(("Start", f"{', '.join(encoders)}: {start}"))
    nothing = f"no data set at the {setting.scale} scale"
    if absent := [role for role in roles if role not in setting.roles]:
        provenance.append((f"Role{'s' * (len(absent) > 1)} {', '.join(absent)}", nothing))
    if any(line.n_seeds for line in lines):
        provenance.append(("Seeds", ", ".join(map(str, setting.seeds))))
    provenance.append(("Cells", ", ".join(f"{n} {word}" for word, n in count_statuses(lines).items() if n)))
    notes = {(cell.row, cell.column): cell.note for cell in table.cells}
    reasons = Counter[tuple[str, str]]()
    for line in lines:
        if line.status in ("not-run", "failed"):
            why = line.note.removeprefix(notes[line.row, line.column]).removeprefix("; ")
            if line.status == "not-run" and line.role not in setting.roles:  # in one wording for all roles
                why = f"{nothing} takes the place of the paper's"
            reasons[line.status, why] += 1
    return provenance + [(status, f"{n} cell{'s' * (n > 1)}: {why}") for (status, why), n in reasons.items()]


def role_of(role: str, lines: Sequence[Line], setting: Setting) -> str:
    """The data set that has a role, with its numbers of test queries and candidates."""
    of_role = [line for line in lines if line.role == role and line.queries]
    name = setting.roles[role]
    means = len(setting.parts.get(name, ()))
    text = f"{name}, the mean of {means} data sets" if means else f"data set {name}"
    text = f"{setting.descriptions[name]} ({text})" if name in setting.descriptions else text
    if sizes := {parse_system(line.system).size: line.queries for line in of_role}:
        text += ", test queries " + ", ".join(f"{int(n):,} ({size})" for size, n in sizes.items())
    if candidates := sorted({int(line.candidates) for line in of_role if line.candidates}):
        text += f", candidates {' or '.join(f'{n:,}' for n in candidates)}"
    return text


def overlaps_of(lines: Sequence[Line], setting: Setting) -> dict[str, dict[str, Any]]:
    """Data set → its numbers, of those that a table has measured scores on (counts of data need no encoder) and whose overlap the
    scale measures, in reading order; for a mean, its data sets.

    Raises DataError when a file is missing or damaged.
    """
    files = ResultFiles()
    scored = dict.fromkeys(line.dataset for line in lines if line.measured and line.system != STATISTICS)
    parts = dict.fromkeys(part for name in scored for part in setting.parts.get(name, (name,)))
    return {part: files.read(setting.overlaps[part]) for part in parts if part in setting.overlaps}


def overlap_lines(lines: Sequence[Line], setting: Setting) -> list[tuple[str, str]]:
    """(term, sentence) for each data set: what encoders may have read of its texts.

    The numbers are those of :mod:`pretrieve.corpora.contamination`, one file for each data set. All encoders of a table were
    pre-trained on the same corpus, so an overlap lifts all of them; BM25, which is not trained, it does not.
    """
    return [(f"Overlap {data}", overlap_sentence(one)) for data, one in overlaps_of(lines, setting).items()]


def overlap_sentence(numbers: dict[str, Any]) -> str:
    """How much of a test set the pre-training corpus holds.

    >>> overlap_sentence({"of": "texts of test examples", "corpus": "wiki", "test_paragraphs": 2000, "paragraphs": 0})
    'none of 2,000 texts of test examples is in the pre-training corpus wiki'
    """
    total, found = numbers["test_paragraphs"], numbers["paragraphs"]
    where = f"in the pre-training corpus {numbers['corpus']}"
    if not found:
        return f"none of {total:,} {numbers['of']} is {where}"
    how = f"{numbers['paragraphs_by_title']:,} by the title of the article, {numbers['paragraphs_by_text']:,} by text"
    return (
        f"{found:,} of {total:,} {numbers['of']} ({found / total:.0%}) are {where}: {how}; "
        f"{numbers['articles']:,} of its {numbers['corpus_articles']:,} articles, which are not excluded"
    )
