"""Fill a published table with measured values: one CSV line per cell, with deviation, significance, cost and status."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import holm
from pretrieve.references.cases import RECIPROCAL_RANK, is_case
from pretrieve.references.tables import ROW_SEPARATOR, STATISTICS, TEXT, UNITS, Cell, Table
from pretrieve.reporting.tables.case_studies import CaseStudies
from pretrieve.reporting.tables.comparisons import against_baseline, against_bm25, per_query_mean, query_interval
from pretrieve.reporting.tables.results import Cost, ResultFiles, Setting, negatives_note, training_examples
from pretrieve.reporting.tables.rows import read_rows, text_tuple, write_rows

#: Words for a cell with a measured value. ``unpublished`` is a value at paper scale with nothing to compare it with.
MEASURED = ("match", "close", "higher", "lower", "scale-differs", "unpublished")
#: Words for a cell without one: published by others, left out with a reason, or expected and missing.
UNMEASURED = ("quoted", "not-run", "failed")


class Line(
    text_tuple(
        "Line",
        "paper table row column system dataset metric published measured sd n_seeds delta tolerance status p_value "
        "queries wall_s gpu_h peak_gb note role unit marker candidates p_holm",
        later="baseline effect chance beyond_chance train_examples low high published_value published_unit bm25_effect "
        "bm25_p bm25_p_holm effect_low effect_high bm25_low bm25_high seed_values",
    )
):
    """One line of a table's CSV, every field as text; empty where there is nothing to say.

    ``published``, ``measured``, ``sd``, ``delta`` and ``tolerance`` are in ``unit``; ``dataset`` is the data set that
    played the part of ``role``; ``p_value`` is of one test, ``p_holm`` corrected for all tests of the table.
    ``effect`` is what the row has more than ``baseline``, the system that it is tested against; ``bm25_effect``, ``bm25_p`` and
    ``bm25_p_holm`` are of the comparison with BM25, corrected for all such comparisons of the table. ``effect_low`` to
    ``bm25_high``: 95 % intervals of both effects over paired queries, other seeds left aside. ``chance`` is what guessing
    scores; ``beyond_chance`` is yes or no. ``train_examples``: labelled examples that the system was given. ``low`` and
    ``high``: the 95 % interval of the mean over queries, other seeds left aside. ``published_value``: the published value as a
    number. Effects, levels and bounds are in ``unit``, and the published number is in ``published_unit``.
    ``seed_values``: of several seeds, the value of each, in their order.
    """


def fill_table(table: Table, setting: Setting) -> list[Line]:
    """Measure every cell of ``table`` from the files under ``setting.root``.

    A score is the mean over seeds, ``sd`` their sample standard deviation. ``status`` is ``scale-differs`` for every
    measured value below paper scale. Costs are of all stages behind the score, mean over seeds; stages shared with
    other systems (the pre-training) count in full for each. A cell with a missing file is ``failed`` and says which.

    Raises DataError when a file that exists is damaged, lacks a key, or two runs to be compared have different queries.
    """
    files, cases = ResultFiles(), None
    shown = next((cell for cell in table.cells if cell.is_case and setting.files_of(table, cell)), None)
    if shown:
        cases = CaseStudies(setting.root, setting.roles[shown.dataset], setting.case_seeds(table), files)
    lines = [_fill(table, cell, setting, files, cases) for cell in table.cells]
    for p, p_holm in (("p_value", "p_holm"), ("bm25_p", "bm25_p_holm")):
        tests = tests_of(lines, p)
        corrected = dict(zip(tests, holm(list(tests.values())), strict=True))
        lines = [
            line._replace(**{p_holm: f"{corrected[_test(line)]:.4f}"}) if getattr(line, p) else line for line in lines
        ]
    return lines


def tests_of(lines: Sequence[Line], p: str = "p_value") -> dict[tuple[str, str, str], float]:
    """The distinct tests of a table, each with its p-value: what stands under two roles of one data set is one test."""
    return {_test(line): float(getattr(line, p)) for line in lines if getattr(line, p)}


def _test(line: Line) -> tuple[str, str, str]:
    return line.system, line.dataset, line.metric


def _fill(table: Table, cell: Cell, setting: Setting, files: ResultFiles, cases: CaseStudies | None) -> Line:
    tolerance, value = table.tolerance_of(cell), cell.published_value
    line = Line(**dict.fromkeys(Line._fields, ""))._replace(
        paper=table.paper,
        table=table.name,
        row=cell.row,
        column=cell.column,
        system=cell.system,
        dataset=setting.roles.get(cell.dataset, ""),
        metric=cell.metric,
        published=cell.published,
        tolerance="" if tolerance is None else f"{tolerance:.10g}",
        note=cell.note,
        role=cell.dataset,
        unit=cell.unit,
        marker=cell.marker,
        published_value="" if value is None else f"{value:.10g}",
        published_unit="" if value is None else cell.unit,
    )
    if not cell.system:
        return line._replace(status="quoted")
    if reason := setting.why_not_measured(table, cell):
        return line._replace(status="not-run", note=_join(cell.note, reason))
    paths = setting.files_of(table, cell)
    if missing := [path for path in paths if not Path(path).is_file()]:
        return line._replace(status="failed", note=_join(cell.note, f"missing: {', '.join(missing)}"))

    if cell.is_case:
        return _fill_case(line, table, cell, setting, files, cases)
    part = cell.metric.partition(".")[0]
    if cell.is_statistic and any(files.read(path).get(part) == {} for path in paths):
        return line._replace(status="not-run", note=_join(cell.note, f"the data set has no {part}"))
    values = values_of(cell, paths, files)
    digits = UNITS[cell.unit]
    # The rounded value is the one judged, so that the arithmetic of a line holds for its reader.
    measured = round(fmean(values), digits)
    delta = None if value is None else round(measured - value, digits)
    line = line._replace(
        measured=f"{measured:.{digits}f}",
        sd=f"{stdev(values):.{digits}f}" if len(values) > 1 else "",
        seed_values=" ".join(f"{value:.{digits}f}" for value in values) if len(values) > 1 else "",
        delta="" if delta is None else f"{delta + 0.0:.{digits}f}",
        status=judge(delta, tolerance, setting.scale),
    )
    if cell.is_statistic:  # statistics depend on no seed, have no queries to test on and no cost of their own
        return line
    ours, bm25 = (compare(table, cell, setting, files) for compare in (against_baseline, against_bm25))
    line = line._replace(
        n_seeds=str(len(values)),
        note=_join(cell.note, ours.reason),
        p_value=ours.p,
        baseline=ours.system,
        effect=ours.effect,
        effect_low=ours.low,
        effect_high=ours.high,
        bm25_p=bm25.p,
        bm25_effect=bm25.effect,
        bm25_low=bm25.low,
        bm25_high=bm25.high,
    )
    factor = 100 if cell.unit == "%" else 1
    if (level := files.chance(paths[0], cell.metric)) is not None:
        line = line._replace(
            chance=f"{level * factor:.{digits}f}", beyond_chance="no" if files.guessed(paths, cell.metric) else "yes"
        )
    scores = per_query_mean(paths, cell.metric, files)
    if scores and (bounds := query_interval(scores.values(), fmean(values) / factor)):
        low, high = (factor * bound for bound in bounds)
        line = line._replace(low=f"{max(low, 0):.{digits}f}", high=f"{min(high, factor):.{digits}f}")
    trained_on = setting.trained_on.get(line.dataset, line.dataset)
    examples = training_examples(setting.root, trained_on, cell.system)
    if examples is not None:
        few = negatives_note(setting.root, trained_on, cell.system, setting.seeds_of(cell), files)
        line = line._replace(train_examples=str(examples), note=_join(line.note, few))
    return _with_context(line, cell, paths, setting, files)


def _fill_case(line: Line, table: Table, cell: Cell, setting: Setting, files: ResultFiles, cases: CaseStudies) -> Line:
    """One cell of a case study. Its query is another one than the paper's, so nothing is judged by the published value."""
    case, (first, second) = table.case_of(cell), table.case_systems
    if case >= len(cases.queries):
        n = len(next(iter(cases.ranks.values())))
        reason = f"no such case: {first} is ahead of {second} for {len(cases.queries)} of {n} queries"
        return line._replace(status="not-run", note=_join(cell.note, reason))
    ranks, note = cases.rank(cell.system, case), ""
    if cell.metric == RECIPROCAL_RANK:
        digits = UNITS[cell.unit]
        line = line._replace(
            measured=f"{fmean(ranks):.{digits}f}",
            sd=f"{stdev(ranks):.{digits}f}" if len(ranks) > 1 else "",
            n_seeds=str(len(ranks)),
        )
    else:
        text = cases.text(cell.metric, cell.system, case)
        if not text:
            return line._replace(status="not-run", note=_join(cell.note, "the document that it ranks first has none"))
        note = "the document's id: the data set has no addresses" if cell.metric == "first-url" else ""
        # One ranking has a first document; of several seeds it is that of the first.
        line = line._replace(measured=text, n_seeds="" if cell.metric == "query" else "1")
    line = line._replace(
        status=judge(None, None, setting.scale), note=_join(cell.note, f"query {cases.queries[case]}", note)
    )
    metrics = [path for path in setting.files_of(table, cell) if path.endswith(".json")]
    return _with_context(line, cell, metrics, setting, files)


def _with_context(line: Line, cell: Cell, metrics: Sequence[str], setting: Setting, files: ResultFiles) -> Line:
    """A measured line with how much it was measured on, and what that took."""
    cost, no_cost = _mean_cost(cell, setting, files)
    return line._replace(
        queries=_same(metrics, "n_queries", files),
        candidates=_same(metrics, "n_candidates", files),
        wall_s=f"{cost.wall_s:.1f}" if cost else "",
        gpu_h=f"{cost.gpu_h:.4f}" if cost else "",
        peak_gb=f"{cost.peak_gb:.2f}" if cost else "",
        note=_join(line.note, no_cost),
    )


def judge(delta: float | None, tolerance: float | None, scale: str) -> str:
    """The status of a measured value that differs by ``delta`` from the published one (same unit as ``tolerance``).

    >>> judge(-1.5, 1.0, "paper"), judge(-1.5, 1.0, "demo")
    ('close', 'scale-differs')
    """
    if scale != "paper":
        return "scale-differs"
    if delta is None or tolerance is None:
        return "unpublished"
    if abs(delta) <= tolerance:
        return "match"
    if abs(delta) <= 2 * tolerance:
        return "close"
    return "higher" if delta > 0 else "lower"


def values_of(cell: Cell, paths: Sequence[str], files: ResultFiles) -> list[float]:
    """The cell's value in its unit from each file."""
    keys = cell.metric.split(".") if cell.is_statistic else ["metrics", cell.metric]
    factor = 100 if cell.unit == "%" else 1  # metrics are stored in 0..1
    return [files.number(path, *keys) * factor for path in paths]


def _same(paths: Sequence[str], key: str, files: ResultFiles) -> str:
    numbers = {round(files.number(path, key)) for path in paths}
    if len(numbers) > 1:
        raise DataError(f"{', '.join(paths)}: {key} is {sorted(numbers)}; expected one number for all seeds.")
    return str(numbers.pop())


def _mean_cost(cell: Cell, setting: Setting, files: ResultFiles) -> tuple[Cost | None, str]:
    """(mean over seeds, "") or (None, which file is missing): a partial sum would look like a cheaper system."""
    costs = []
    for seed in setting.seeds_of(cell):
        paths = setting.cost_files_of(cell, seed)
        if missing := [path for path in paths if not Path(path).is_file()]:
            return None, f"cost unknown, missing: {', '.join(missing)}"
        costs.append(files.cost(paths))
    return Cost(*map(fmean, zip(*costs, strict=True))), ""


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def write_lines(path: Path | str, lines: Sequence[Line], row_columns: Sequence[str] = ()) -> None:
    """Write a table's CSV; behind its fields a column for each part of a row's name, called ``row: NAME``."""
    heads = [line.row.split(ROW_SEPARATOR) for line in lines]
    write_rows(path, lines, Line, {name: [parts[i] for parts in heads] for i, name in enumerate(row_columns)})


def is_scored(line: Line) -> bool:
    """Whether the cell has a score, which can be compared with others': no statistic, and no single query of a case study."""
    return bool(line.measured) and line.system not in ("", STATISTICS) and not is_case(line.metric)


def read_lines(path: Path | str) -> list[Line]:
    """Read a CSV that :func:`write_lines` wrote. Raises DataError when it has other columns or a broken line, or a cell has an
    unknown status or is no number where it is measured."""
    lines = read_rows(path, Line, "table")
    for line in lines:
        number = line.unit != TEXT and line.status in MEASURED
        if line.status not in MEASURED + UNMEASURED or (number and not _is_number(line)):
            raise DataError(
                f"{path}: row '{line.row}', column '{line.column}': status {line.status!r}, measured {line.measured!r}; expected "
                f"one of {', '.join(UNMEASURED)}, or a number that is measured. Delete the file and make the table again."
            )
    return lines


def _is_number(line: Line) -> bool:
    try:
        return math.isfinite(float(line.measured))
    except ValueError:
        return False


def count_statuses(lines: Sequence[Any]) -> dict[str, int]:
    """Number of cells of a table, or of points of a figure, in each of ``measured``, ``quoted``, ``not-run`` and ``failed``."""
    counts = Counter("measured" if line.status in MEASURED else line.status for line in lines)
    return {word: counts.pop(word, 0) for word in ("measured", *UNMEASURED)}
