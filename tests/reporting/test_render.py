"""Markdown and HTML show every value of the CSV in its place, and nothing that was not measured."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pretrieve.reporting.layout import SIGNS, make_page
from pretrieve.reporting.render import to_html, to_markdown
from pretrieve.reporting.tables import fill_table

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
            self.rows[-1].append("")

    def _fill(self):
        while len(self.rows[-1]) in self.covered:
            column = len(self.rows[-1])
            left, text = self.covered.pop(column)
            self.rows[-1].append(text)
            if left > 1:
                self.covered[column] = (left - 1, text)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag in ("td", "th") and self.span > 1:
            self.covered[len(self.rows[-1]) - 1] = (self.span - 1, self.rows[-1][-1])

    def handle_data(self, data):
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


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
    grid = Grid(to_html(*filled))
    body = grid.rows[-len(table.rows) :]
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
    assert grid.links == [] and "http" not in text and "url(" not in text and "@import" not in text
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
        "Different from bm25.reqa of the same training-set size",
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
