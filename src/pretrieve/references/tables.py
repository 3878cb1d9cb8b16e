"""Published tables as data: ``references/{paper}/paper.yaml`` and one CSV line per cell, loaded and checked."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.paths import parse_system
from pretrieve.references.cases import is_case
from pretrieve.references.yaml_files import check, read_yaml

#: Columns of a reference CSV, in this order.
COLUMNS = ("row", "column", "system", "dataset", "metric", "published", "unit", "marker", "note")
#: Unit → digits behind the decimal point of a measured value. ``fraction`` is a metric in 0..1 and ``%`` the same times
#: 100, as the paper prints it; ``tokens`` is an average number of sub-words, ``average`` of anything else; ``count`` is a
#: whole number; ``text`` is no number at all.
UNITS = {"%": 2, "fraction": 4, "tokens": 2, "average": 2, "count": 0, "text": 0}
#: The unit of cells that print words, such as a query.
TEXT = "text"
#: The ``system`` of cells that are statistics of data and not scores.
STATISTICS = "statistics"
#: Separates the parts of a row's name: ``1%/99% | BM-25 | No Pretraining``.
ROW_SEPARATOR = " | "

_METRIC = re.compile(r"[a-z][a-z0-9_-]*(@[1-9][0-9]*)?")
_DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)*")
_NUMBER = re.compile(r"(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)([KMB]?)")
_FACTOR = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}


@dataclass(frozen=True)
class Cell:
    """One cell of a published table. ``dataset`` is a role, not a data set; ``published`` is text as printed."""

    row: str
    column: str
    system: str
    dataset: str
    metric: str
    published: str
    unit: str
    marker: str
    note: str

    @property
    def row_parts(self) -> list[str]:
        return self.row.split(ROW_SEPARATOR)

    @property
    def is_statistic(self) -> bool:
        return self.system == STATISTICS

    @property
    def is_text(self) -> bool:
        return self.unit == TEXT

    @property
    def is_case(self) -> bool:
        """Whether the cell is about one query of a case study (:mod:`pretrieve.reporting.tables.case_studies`)."""
        return bool(self.system) and is_case(self.metric)

    @property
    def published_value(self) -> float | None:
        """The published number in the cell's unit, or None when nothing, or a text, was published."""
        return parse_number(self.published) if self.published and not self.is_text else None


@dataclass(frozen=True)
class Table:
    """A published table: its cells in reading order and how they are measured and judged (see the schema)."""

    paper: str
    name: str
    title: str
    source: str
    caption: str
    row_columns: tuple[str, ...]
    baseline: str
    tolerance: Mapping[str, float]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    column_group: str = ""
    statistics: str = ""
    url: str = ""

    @cached_property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @cached_property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @cached_property
    def case_systems(self) -> list[str]:
        """The two systems of a table of case studies, the one that wins its cases first; [] of any other table."""
        return list(dict.fromkeys(cell.system for cell in self.cells if cell.is_case))

    def case_of(self, cell: Cell) -> int:
        """Which case a cell shows, from 0: a column is a case."""
        return list(dict.fromkeys(other.column for other in self.cells if other.is_case)).index(cell.column)

    @cached_property
    def measured_on(self) -> frozenset[tuple[str, str]]:
        """(system, role) of every cell that is not quoted."""
        return frozenset((cell.system, cell.dataset) for cell in self.cells if cell.system)

    def baseline_of(self, cell: Cell) -> str:
        """The system that ``cell`` is tested against; empty for a cell without a test.

        These are the baseline's own cells, statistics, texts, and cells whose baseline is no system of the table.
        """
        baseline = self.expected_baseline_of(cell)
        return baseline if (baseline, cell.dataset) in self.measured_on else ""

    def expected_baseline_of(self, cell: Cell) -> str:
        """``baseline`` with the parts of the cell's own system in its placeholders, whether the table has it or not."""
        if not self.baseline or not cell.system or cell.is_statistic or cell.is_text or cell.is_case:
            return ""
        baseline = self.baseline.format(**parse_system(cell.system)._asdict())
        return "" if baseline == cell.system else baseline

    def tolerance_of(self, cell: Cell) -> float | None:
        """Largest |measured - published| of a match in the cell's unit; None when nothing was published."""
        published = cell.published_value
        if published is None:
            return None
        if "absolute" in self.tolerance:
            return self.tolerance["absolute"]
        return round(abs(published) * self.tolerance["relative"], UNITS[cell.unit] + 2)


#: Words of roles as papers print them.
_WORDS = {
    **{"msmarco": "MS MARCO", "nq": "Natural Questions", "squad": "SQuAD", "trivia": "TriviaQA", "reqa": "ReQA"},
    **{"triviaqa": "TriviaQA", "hotpotqa": "HotpotQA", "searchqa": "SearchQA", "multireqa": "MultiReQA", "qa": "QA"},
    **{"dl19": "TREC DL 2019", "dl20": "TREC DL 2020", "mind": "MIND", "stsb": "STS-b", "glue": "GLUE", "beir": "BEIR"},
    **{"mnli": "MNLI", "qqp": "QQP", "qnli": "QNLI", "sst2": "SST-2"},
    **{"wiki": "Wikipedia", "pretraining": "pre-training"},
}


def role_in_words(role: str) -> str:
    """``msmarco-passage-dev`` → MS MARCO passage dev.

    >>> role_in_words("glue-qnli"), role_in_words("human-questions")
    ('GLUE QNLI', 'human questions')
    """
    return " ".join(_WORDS.get(word, word) for word in role.split("-"))


def titled(caption: str, here: str, own: bool = False) -> str:
    """A caption of the paper; where other data was measured (``here``), that stands first and the paper is quoted. An ``own``
    caption, of this project, is no quotation.

    >>> titled("Recall on SQuAD.", "questions of this project, in place of SQuAD")
    'Measured on questions of this project, in place of SQuAD. The paper: “Recall on SQuAD.”'
    >>> titled("Two controls.", "questions of this project, in place of SQuAD", own=True)
    'Two controls. Measured on questions of this project, in place of SQuAD.'
    """
    if own and here:
        return f"{caption} Measured on {here}."
    return f"Measured on {here}. The paper: “{caption}”" if here else caption


def parse_number(text: str) -> float:
    """Turn a number as printed into a value.

    >>> parse_number("97,888"), parse_number("50.2M"), parse_number("0.4102")
    (97888.0, 50200000.0, 0.4102)
    """
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a number; expected one such as 41.86, 97,888 or 11.2B")
    value = float(match[1].replace(",", ""))
    # 11.2 × 10⁹ is 11199999999.999998 in binary; what has a suffix is a whole number, or nearly. The rest stays as it is.
    return round(value * _FACTOR[match[2]], 3) if match[2] else value


def load_paper(path: Path | str) -> dict[str, Any]:
    """Read and validate a ``paper.yaml``.

    Raises ConfigError for a missing file, text that is not YAML, or a value the schema rejects; it names the key, and says
    what was found and what is allowed.
    """
    content = read_yaml(path, "the description of a paper's tables")
    check(content, str(path), "references")
    return content


def load_table(
    paper_file: Path | str, csv_file: Path | str, read: Callable[[Path | str], dict[str, Any]] = load_paper
) -> Table:
    """Read and validate one table: its entry in ``paper.yaml`` and its CSV, whose stem is the table's name. ``read``: another
    :func:`load_paper`, such as one that keeps what it read.

    Raises ConfigError when ``paper.yaml`` is not valid or lacks the table, or the baseline is no system of the table;
    DataError when the CSV has other columns, a repeated cell, an unknown unit, a system or metric name of the wrong form, a
    number that does not parse, or a quoted cell with neither a value nor a note; it names the line.
    """
    paper = read(paper_file)
    name = Path(csv_file).stem
    if name not in paper["tables"]:
        known = ", ".join(sorted(paper["tables"]))
        raise ConfigError(f"{paper_file}: no table '{name}' under the key 'tables'; it has {known}. Add an entry.")
    entry = paper["tables"][name]
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    own |= {key: paper[key] for key in ("paper", "title", "url") if key in paper}
    own |= {
        "source": f"{', '.join(paper['authors'])}. {paper['venue']} {paper['year']}.",
        "baseline": entry["baseline"] or "",
    }
    table = Table(name=name, cells=tuple(_read_cells(Path(csv_file), len(entry["row_columns"]))), **own)
    _check_whole(table, paper_file)
    return table


def cell_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of every line of a table's CSV below its head.

    Raises DataError for a missing file, what is no CSV in UTF-8, other columns, and a line with more or fewer fields.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets write a mark before the header
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; expected the published cells of a table.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text: {error}. Save it as UTF-8.") from None
    reader = csv.reader(io.StringIO(text))
    header = next(reader, [])
    if header != list(COLUMNS):
        raise DataError(f"{path}, line 1: columns are {','.join(header)}; expected {','.join(COLUMNS)}.")
    for fields in filter(None, reader):  # blank lines are none
        if len(fields) != len(COLUMNS):
            raise DataError(
                f"{path}, line {reader.line_num}: {len(fields)} fields; expected {len(COLUMNS)}. Quote values with a comma."
            )
        yield reader.line_num, fields


def _read_cells(path: Path, n_parts: int) -> list[Cell]:
    cells, seen = [], {}
    for number, fields in cell_lines(path):
        where = f"{path}, line {number}"
        cell = Cell(*fields)
        _check_cell(cell, where, n_parts)
        if (cell.row, cell.column) in seen:
            first = seen[cell.row, cell.column]
            raise DataError(f"{where}: row '{cell.row}', column '{cell.column}' is on line {first} already; drop one.")
        seen[cell.row, cell.column] = number
        cells.append(cell)
    if not cells:
        raise DataError(f"{path}: no cells; expected one line for each cell of the table.")
    return cells


def _check_cell(cell: Cell, where: str, n_parts: int) -> None:
    if len(cell.row_parts) != n_parts or not all(cell.row_parts) or not cell.column:
        raise DataError(
            f"{where}: row '{cell.row}', column '{cell.column}'; expected a column name and a row name of {n_parts} "
            f"part(s) separated by '{ROW_SEPARATOR}', as row_columns in paper.yaml says."
        )
    if cell.unit not in UNITS:
        raise DataError(f"{where}: unit '{cell.unit}' is not known; expected one of {', '.join(UNITS)}.")
    if not cell.system and not cell.published and not cell.note:
        raise DataError(
            f"{where}: neither a system nor a published value; a cell needs at least one of them, or a note that says "
            'what the paper prints there, such as: printed as "-"'
        )
    try:
        if cell.published and not cell.is_text:
            parse_number(cell.published)
        if cell.system and not cell.is_statistic:
            parse_system(cell.system)
    except ValueError as error:
        raise DataError(f"{where}: {error}.") from None
    if cell.system and not cell.dataset:
        raise DataError(f"{where}: system '{cell.system}' without a role in the column 'dataset'.")
    form = _DOTTED if cell.is_statistic else _METRIC
    if cell.system and not form.fullmatch(cell.metric):
        expected = "a dotted key such as ict.tokens" if cell.is_statistic else "a name such as recall@10"
        raise DataError(f"{where}: metric '{cell.metric}'; expected {expected}.")


def _check_whole(table: Table, paper_file: Path | str) -> None:
    key = f"{paper_file}: key tables.{table.name}"
    if not table.statistics and any(cell.is_statistic for cell in table.cells):
        raise ConfigError(
            f"{key}: has cells of system '{STATISTICS}' but no 'statistics: pairs' or 'statistics: tasks'."
        )
    cases = {(cell.dataset, cell.metric) for cell in table.cells if cell.is_case}
    if cases and (len(table.case_systems) != 2 or len({role for role, _ in cases}) != 1):
        raise ConfigError(
            f"{key}: has cells of a case study ({', '.join(sorted(metric for _, metric in cases))}) of "
            f"{len(table.case_systems)} system(s); expected two systems on one data set, of which the first wins the cases."
        )
    # A baseline outside the table would be a job that no cell asks for. A named one is there for every cell, or misspelt; one
    # that follows the cell's encoder or recipe need not be there for all of them, but it is for some.
    expected = {cell: table.expected_baseline_of(cell) for cell in table.cells}
    absent = [cell for cell, baseline in expected.items() if baseline and not table.baseline_of(cell)]
    follows = "{recipe}" in table.baseline or "{encoder}" in table.baseline
    if absent and (not follows or len(absent) == sum(map(bool, expected.values()))):
        raise ConfigError(
            f"{key}.baseline: '{table.baseline}' gives {expected[absent[0]]} on {absent[0].dataset} for "
            f"{absent[0].system}, which is no system of this table; name one that is."
        )
