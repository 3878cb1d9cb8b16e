"""Markdown and HTML show every value of the CSV in its place, and nothing that was not measured.

The tiny table of conftest.py, and every table under references/: with nothing measured, and with all of it.

Seen to fail when: a unit is unknown to the loader or has other digits; fractions are multiplied by 100; texts are measured; a
blank cell shows nothing, or the word of its status; a footnote mark is dropped, or shown as Markdown's list sign; the
reference's note is taken for a reason; a baseline's placeholder is left in the legend; a column is dropped.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.files import sha256_of, write_json
from pretrieve.base.paths import parse_system
from pretrieve.references.tables import Table, load_table
from pretrieve.reporting.tables.filling import Line, fill_table, read_lines, write_lines
from pretrieve.reporting.tables.layout import make_page
from pretrieve.reporting.tables.legend import SIGNS
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.results import Setting
from pretrieve.retrieval.trec_run import Run, write_trec

REFERENCES = Path(__file__).parents[2] / "references"
#: PAPER/TABLE of every table.
TABLES = sorted(f"{path.parent.name}/{path.stem}" for path in REFERENCES.glob("*/*.csv"))
#: What a measured value of each unit looks like.
FORMS = {
    "%": r"\d+\.\d{2}",
    "fraction": r"[01]\.\d{4}",
    "tokens": r"\d+\.\d{2}",
    "average": r"\d+\.\d{2}",
    "count": r"\d+",
}
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Grid(HTMLParser):
    """Collects the table's body as a full grid (row spans filled in) and checks that tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.rows, self.links, self.text = [], [], [], []
        self.covered: dict[int, tuple[int, str]] = {}
        self.span = 1
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [attributes[name] for name in ("src", "href", "action") if name in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._fill()
            self.span = int(attributes.get("rowspan", 1))
            self.rows[-1] += [""] * int(attributes.get("colspan", 1))

    def _fill(self):
        while len(self.rows[-1]) in self.covered:
            column = len(self.rows[-1])
            left, text = self.covered.pop(column)
            self.rows[-1].append(text)
            if left > 1:
                self.covered[column] = (left - 1, text)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag == "tr":
            self._fill()
        if tag in ("td", "th") and self.span > 1:
            self.covered[len(self.rows[-1]) - 1] = (self.span - 1, self.rows[-1][-1])

    def handle_data(self, data):
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def html_rows(html: str, table: Table) -> tuple[list[str], list[list[str]]]:
    """The last row of heads, and the body in the table's own order: rows without a measured value are shown last."""
    rows = Grid(html).rows
    label = next((i for i, row in enumerate(rows) if row[-1].startswith("Not measured here")), None)
    body = rows[-len(table.rows) - (label is not None) :]
    head = rows[rows.index(body[0]) - 1]
    if label is not None:
        body.remove(rows[label])
    left = len(table.row_columns)
    return head, sorted(body, key=lambda row: table.rows.index(" | ".join(row[:left])))


def markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[field.strip() for field in line.strip("|").split(" | ")] for line in lines]


@pytest.fixture
def filled(table, setting):
    return table, fill_table(table, setting), setting


def test_markdown_has_every_value_in_its_place(filled):
    table, lines, _ = filled
    rows = markdown_rows(to_markdown(*filled))
    head, body = rows[0], rows[2 : 2 + len(table.rows)]
    assert head == [*table.row_columns, *table.columns, "Wall s"]
    for line in lines:
        row = body[table.rows.index(line.row)]
        cell = row[head.index(line.column)]
        assert cell.replace("*", "").startswith(line.measured or line.status)
        assert (f"± {line.sd}" in cell) == bool(line.sd)
        assert f"({line.published})" in cell
        assert row[1] == line.row.split(" | ")[1]
    assert [row[0] for row in body] == ["1%", "", "", "", "5%", "", "", ""]


def test_markdown_lines_of_the_table_are_equally_wide(filled):
    text = to_markdown(*filled)
    block = next(block for block in text.split("\n\n") if block.startswith("| ratio"))
    assert len({len(line) for line in block.splitlines()}) == 1


def test_html_is_balanced_and_has_the_same_grid(filled):
    table, lines, _ = filled
    _, body = html_rows(to_html(*filled), table)
    width = len(table.row_columns) + len(table.columns) + 1
    assert all(len(row) == width for row in body)
    for line in lines:
        row = body[table.rows.index(line.row)]
        assert row[:2] == line.row.split(" | ")
        assert row[2 + table.columns.index(line.column)].startswith(line.measured or line.status)


def test_html_loads_nothing_and_escapes(filled):
    table, lines, setting = filled
    lines = [lines[0]._replace(note='<script>alert("x")</script>', status="failed", measured=""), *lines[1:]]
    text = to_html(table, lines, setting)
    grid = Grid(text)
    assert (
        grid.links == ["table9.csv", "table9.manifest.json"]
        and "http" not in text
        and "url(" not in text
        and "@import" not in text
    )
    assert "<script" not in text and '<script>alert("x")</script>' in "".join(grid.text)
    assert "Recall &lt;at&gt; k." in text
    assert 'lang="en"' in text and "<caption>" in text and "prefers-color-scheme: dark" in text


def test_below_paper_scale_a_warning_and_no_verdict(filled):
    for text in (to_markdown(*filled), to_html(*filled)):
        assert "no cell claims a match" in text
        assert not any(sign in text for sign in SIGNS.values())


def test_at_paper_scale_verdicts_with_their_legend(table, setting):
    setting = replace(setting, scale="paper")
    lines = fill_table(table, setting)
    assert {line.status for line in lines if line.measured} == {"match", "higher", "lower"}
    text = to_markdown(table, lines, setting)
    assert "no cell claims" not in text
    for word, sign in SIGNS.items():
        assert (f"{sign} {word}:" in text) == (word in ("match", "higher", "lower"))


def test_marks_follow_the_corrected_p_value(filled):
    table, lines, setting = filled
    for p_holm, mark in (("0.0099", "‡"), ("0.0499", "†"), ("0.0500", ""), ("", "")):
        page = make_page(table, [line._replace(p_holm=p_holm, p_value="0.0001") for line in lines], setting)
        assert {cell.mark for row in page.rows for cell in row.cells if cell} == {mark}


def test_the_best_of_comparable_values_is_bold(filled):
    page = make_page(*filled)
    best = {(row.heads[1], i) for row in page.rows for i, cell in enumerate(row.cells) if cell and cell.best}
    assert best == {("Ours", 0), ("Ours", 1)}  # 100 against 0 and 45 against 40


def test_reasons_roles_seeds_and_command_are_named(filled):
    text = to_markdown(*filled)
    for expected in (
        "encoder other is not configured at the demo scale",
        "no data set at the demo scale",
        "data set questions, test queries 10 (1pct), candidates 2,000",
        "| Seeds | 1, 2 |",
        "snakemake results/demo/tables/tiny/table9.csv",
        "Better than bm25.reqa of the same training-set size",
        "Holm-corrected for the 2 tests",
        "over 2 seeds. BM25 draws nothing at random, so it runs once.",
    ):
        assert expected in text


def test_one_seed_shows_no_deviation(table, setting):
    setting = replace(setting, seeds=(1,))
    text = to_markdown(table, fill_table(table, setting), setting)
    assert "±" not in text and "One seed, so no deviation." in text


def test_equal_input_gives_equal_bytes(filled):
    assert to_markdown(*filled) == to_markdown(*filled) and to_html(*filled) == to_html(*filled)


@cache
def load(name: str) -> Table:
    return load_table(REFERENCES / name.split("/")[0] / "paper.yaml", REFERENCES / f"{name}.csv")


def empty_setting(root: Path | str = "results/empty") -> Setting:
    return Setting(root=str(root), scale="demo", seeds=(1,), roles={}, encoders=frozenset(), recipes=frozenset())


def full_setting(table: Table, root: Path) -> Setting:
    """One that has every role, encoder and recipe of a table."""
    systems = [parse_system(cell.system) for cell in table.cells if cell.system and not cell.is_statistic]
    return replace(
        empty_setting(root),
        scale="paper",
        roles={cell.dataset: cell.dataset for cell in table.cells if cell.dataset},
        encoders=frozenset(system.encoder for system in systems),
        recipes=frozenset(system.recipe for system in systems),
    )


def measure(table: Table, setting: Setting) -> None:
    """Write each file that a full setting asks for; every score is that of three queries, which differ by system."""
    files: dict[str, dict] = {}
    if table.case_systems:
        write_cases(table, setting)
    for cell in table.cells:
        for path in setting.files_of(table, cell) if not cell.is_case else ():
            if cell.is_statistic:
                inner = files.setdefault(path, {})
                *above, last = cell.metric.split(".")
                for key in above:
                    inner = inner.setdefault(key, {})
                inner[last] = 123
            else:
                score = len(cell.system) / 100
                values = {f"q{i}": score for i in range(3)}
                file = files.setdefault(path, {"n_queries": 3, "n_candidates": 9, "metrics": {}, "per_query": {}})
                file["metrics"][cell.metric] = score
                file["per_query"][cell.metric] = values
    for path, value in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value))


def write_cases(table: Table, setting: Setting) -> None:
    """Three queries for which the first system of a table of case studies is always right, and the second never."""
    dataset = next(cell.dataset for cell in table.cells if cell.is_case)
    queries = [f"q{i}" for i in range(3)]
    for system, rank, document in zip(table.case_systems, (1.0, 0.0), ("d1", "d2"), strict=True):
        path = Path(setting.root, f"runs/{system}/{dataset}/seed1.trec.gz")
        write_trec(path, Run(queries, [[document]] * 3, [[1.0]] * 3), "dense")
        record = {"run_sha256": sha256_of(path), "n_queries": 3, "n_candidates": 9}
        record |= {"metrics": {"mrr@100": rank}, "per_query": {"mrr@100": dict.fromkeys(queries, rank)}}
        write_json(Path(setting.root, f"metrics/{system}/{dataset}/seed1.json"), record)
    task = Path(setting.root, f"tasks/{dataset}")
    task.mkdir(parents=True)
    pq.write_table(pa.table({"query_id": queries, "text": ["a question"] * 3}), task / "queries.parquet")
    texts = {"title": ["A title"] * 2, "sentence": [""] * 2, "passage": ["Some text."] * 2}
    pq.write_table(pa.table({"doc_id": ["d1", "d2"], **texts}), task / "corpus.parquet")


def assert_shown_everywhere(table: Table, lines: list[Line], setting: Setting, path: Path) -> None:
    """CSV, Markdown and HTML have every cell in its place, and nothing where the paper has no cell."""
    write_lines(path, lines)
    assert read_lines(path) == lines
    assert [(line.row, line.column) for line in lines] == [(cell.row, cell.column) for cell in table.cells]
    markdown = markdown_rows(to_markdown(table, lines, setting))
    left = len(table.row_columns)
    assert markdown[0] == [*table.row_columns, *table.columns]
    head, html = html_rows(to_html(table, lines, setting), table)
    assert head[:left] == list(table.row_columns)
    grids = (markdown[2 : 2 + len(table.rows)], html)
    at = {(line.row, line.column): line for line in lines}
    for grid in grids:
        assert len(grid) == len(table.rows) and {len(row) for row in grid} == {left + len(table.columns)}
        for name, row in zip(table.rows, grid, strict=True):
            assert row[left - 1] == name.split(" | ")[-1]
            for column, text in zip(table.columns, row[left:], strict=True):
                line = at.get((name, column))
                if line is None:
                    assert text == ""
                    continue
                value = line.measured or ("–" if line.status == "quoted" and not line.published else line.status)
                text = text.replace("\\*", "⁎").replace("*", "") if grid is grids[0] else text.replace("*", "⁎")
                assert text.startswith(value), (name, column, text)
                printed = line.published and f"({line.published}{line.marker.replace('*', '⁎')})"
                assert (printed in text) if printed else "(" not in text


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_shown_when_nothing_is_measured(name, tmp_path):
    table, setting = load(name), empty_setting()
    lines = fill_table(table, setting)
    assert_shown_everywhere(table, lines, setting, tmp_path / "table.csv")
    for cell, line in zip(table.cells, lines, strict=True):
        reason = f"the demo scale has no data set for the role {cell.dataset}"
        assert (line.status, line.measured) == ("not-run" if cell.system else "quoted", "")
        assert line.note == "; ".join(note for note in (cell.note, reason if cell.system else "") if note)
    text = to_markdown(table, lines, setting)
    n = sum(bool(cell.system) for cell in table.cells)
    assert f"| not-run | {n} cells: no data set at the demo scale takes the place of the paper's |" in text
    assert text.count("\n| not-run |") == 1
    assert ("**–** The paper prints no value there." in text) == any(
        not (cell.system or cell.published) for cell in table.cells
    )
    assert not re.search(r"^- \*", text.replace("- **", ""), flags=re.MULTILINE), "a note that opens a list in a list"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_shown_when_all_of_it_is_measured(name, tmp_path):
    table = load(name)
    setting = full_setting(table, tmp_path / "results")
    measure(table, setting)
    lines = fill_table(table, setting)
    assert_shown_everywhere(table, lines, setting, tmp_path / "table.csv")
    for cell, line in zip(table.cells, lines, strict=True):
        if not cell.system:
            assert (line.status, line.measured) == ("quoted", "")
            continue
        if cell.is_case:  # of another query than the paper's, so it is not judged by what is printed
            assert line.measured and (line.status, line.delta) == ("unpublished", "")
            continue
        assert not cell.is_text
        assert re.fullmatch(FORMS[cell.unit], line.measured)
        value = 123 if cell.is_statistic else len(cell.system) * (1 if cell.unit == "%" else 0.01)
        assert float(line.measured) == pytest.approx(value)
        assert (line.status == "unpublished") == (not cell.published)
        assert bool(line.p_value) == bool(table.baseline_of(cell))
    text = to_markdown(table, lines, setting)
    assert ("Better than" in text) == bool(table.baseline) == any(line.p_value for line in lines)
    assert "{" not in text


def test_a_table_is_tested_where_a_baseline_of_the_same_recipe_is(tmp_path):
    table = load("seed_encoder/table1")
    setting = full_setting(table, tmp_path / "results")
    measure(table, setting)
    lines = fill_table(table, setting)
    text = to_markdown(table, lines, setting)
    assert "Better than seed-mlm of the same recipe and training-set size, or with ↓ worse, on the same queries" in text
    assert {line.system for line in lines if line.p_value} == {
        "base.seed-pairwise-full",
        "optimus.seed-pairwise-full",
        "seed-3-2.seed-pairwise-full",
        "seed-3-2.ance-full",
    }


def test_why_a_cell_has_no_value_is_said_without_the_references_note(tmp_path):
    """The note is in the CSV and the tooltip; in the list of reasons it would part cells that have the same reason."""
    table = load("seed_encoder/table5")
    # A case compares two systems: without one of them no cell of the table has a value.
    setting = replace(full_setting(table, tmp_path), encoders=frozenset({"seed-3-2"}))
    lines = fill_table(table, setting)
    noted = [line for line in lines if "parted by content" in line.note]
    assert noted and all(line.note.endswith("encoder seed-mlm is not configured at the paper scale") for line in noted)
    text = to_markdown(table, lines, setting)
    assert "| not-run | 18 cells: encoder seed-mlm is not configured at the paper scale |" in text
