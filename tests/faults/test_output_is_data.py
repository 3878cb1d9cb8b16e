"""What comes from outside is data in every file that is written: a spreadsheet runs nothing of it, a browser neither.

Seen to fail on the commit before: every formula stood at the beginning of its cell; HTML and addresses passed Markdown.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.layout import Row, Shown
from pretrieve.reporting.tables.my_corpus_table import to_markdown
from pretrieve.reporting.tables.render import _markdown_table
from pretrieve.reporting.tables.rows import read_rows, to_markdown_text, write_rows

FORMULAS = [
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("http://x","y")',
    "@SUM(1+1)*cmd",
    "+1+cmd",
    "-1+cmd",
    "\t=1",
    "\r=1",
    "'=1",
    "＝1+1",
]
NUMBERS = [
    "-0.3",
    "+1.5",
    "1e-5",
    "-12,345.6",
    "99 %",
    "0",
    "-0.04; -0.06",
    "-0.04 > -0.06 > 1",
    "",
    "-",
    "a=b",
    "R@1",
    "'tis",
]
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[here](javascript:alert(1))",
    "![x](http://tracker/x.png)",
    "\\<b>x</b>",
    "\\[x\\](javascript:alert(1))",
    "<javascript:alert(1)>",
    "<!-- x -->",
    "line\n\n<div>x</div>",
    "a | b\n| c |",
]


class Two(NamedTuple):
    first: str
    second: str


def test_no_cell_of_a_file_is_a_formula(tmp_path: Path) -> None:
    rows = [Two(text, other) for text in FORMULAS for other in NUMBERS]
    write_rows(tmp_path / "table.csv", rows, Two)
    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as stream:
        cells = list(csv.reader(stream))[1:]
    assert all(first.startswith("'") for first, _ in cells)
    assert [second for _, second in cells] == [row.second for row in rows], "numbers and plain texts stay as they are"
    assert read_rows(tmp_path / "table.csv", Two) == rows


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    st.lists(
        st.text(st.sampled_from("'=+-@\t\r\n0.3%eE,a\"＝")), min_size=len(Line._fields), max_size=len(Line._fields)
    )
)
def test_every_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    place = tmp_path_factory.mktemp("rows") / "table.csv"
    write_rows(place, [Line(*texts)], Line)
    assert read_rows(place, Line) == [Line(*texts)]
    with open(place, newline="", encoding="utf-8") as stream:
        cells = list(csv.reader(stream))[1]
    number = re.compile(r"[+-]?[\d.,]*([eE][+-]?\d+)?\s*%?")
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n＝") and not number.fullmatch(cell)]


def rendered(text: str) -> str:
    """As a reader that passes HTML on and takes every address shows Markdown."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"html": True, "linkify": False})
    markdown.validateLink = lambda address: True
    return markdown.render(text)


def harmless(html: str) -> bool:
    return not re.search(r"<(script|img|div|b|a|!--)\b|<!--|javascript:[^<]*\">", html)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_what_was_there(text: str) -> None:
    assert not harmless(rendered(text)) or "|" in text or "\\" in text, "the reader is one that would run it"
    assert harmless(rendered(f"- {to_markdown_text(text)}")) and "\n" not in to_markdown_text(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_tables_of_texts(text: str) -> None:
    """A cell of a case study, and the page of a comparison on a folder with such a name."""
    cell = Shown(*[""] * 6, best=False, details="", text=True)
    row = Row([text], [1], [replace(cell, value=text)], "5")
    page = SimpleNamespace(row_columns=["row"], columns=[text], has_wall=False, rows=[row])
    table = _markdown_table(page)
    assert harmless(rendered(table)) and len(table.split("\n")) == 3
    assert rendered(table).count("<td") == 2, "two cells"
    page = {"folder": text, "sentences": ["s"], "heads": ["", "nDCG@10"], "notes": [], "rows": []}
    assert harmless(rendered(to_markdown(page)))
