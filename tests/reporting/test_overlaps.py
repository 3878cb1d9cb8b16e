"""What the pre-training corpus holds of the test texts, under each table.

Seen to fail when: a table of counts names an overlap; a data set without a measured score is named; the manifest lacks it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.reporting.tables.filling import fill_table
from pretrieve.reporting.tables.legend import overlap_lines, overlap_sentence, overlaps_of
from pretrieve.reporting.tables.manifest import make_manifest
from pretrieve.reporting.tables.render import to_html, to_markdown

NUMBERS = {
    "of": "passages that answer a test question", "corpus": "wiki", "corpus_articles": 16436, "test_paragraphs": 2067,
    "paragraphs": 1150, "paragraphs_by_title": 1144, "paragraphs_by_text": 366, "articles": 35,
}  # fmt: skip
SENTENCE = (
    "1,150 of 2,067 passages that answer a test question (56%) are in the pre-training corpus wiki: 1,144 by the title of the "
    "article, 366 by text; 35 of its 16,436 articles, which are not excluded"
)


def test_sentence() -> None:
    assert overlap_sentence(NUMBERS) == SENTENCE


def test_in_markdown_html_and_manifest(table, setting) -> None:
    places = {name: f"results/demo/overlap/wiki/{name}/stats.json" for name in ("questions", "unused")}
    Path(places["questions"]).parent.mkdir(parents=True)
    write_json(Path(places["questions"]), NUMBERS)
    measured = replace(setting, overlaps=places)
    lines = fill_table(table, measured)
    assert overlap_lines(lines, measured) == [("Overlap questions", SENTENCE)]
    assert f"| Overlap questions | {SENTENCE} |" in to_markdown(table, lines, measured)
    assert SENTENCE in to_html(table, lines, measured)
    assert make_manifest(table, lines, measured, "hash")["overlap"] == {"questions": NUMBERS}
    # At a scale that does not measure it nothing is said.
    assert "Overlap" not in to_markdown(table, lines, setting)
    assert make_manifest(table, lines, setting, "hash")["overlap"] == {}


@pytest.fixture
def measured(setting):
    place = "results/demo/overlap/wiki/questions/stats.json"
    write_json(place, NUMBERS)
    return replace(setting, overlaps={"questions": place})


def test_counts_of_data_name_none(table, measured) -> None:
    counts = [line for line in fill_table(table, measured) if line.system == "statistics"]
    assert counts and overlaps_of(counts, measured) == {}


def test_only_what_was_measured_is_named(table, measured) -> None:
    lines = [line for line in fill_table(table, measured) if line.dataset == "questions"]
    assert overlaps_of(lines, measured) == {"questions": NUMBERS}
    assert overlaps_of([line._replace(measured="", status="failed") for line in lines], measured) == {}


def test_a_missing_file(table, setting) -> None:
    measured = replace(setting, overlaps={"questions": "results/demo/overlap/wiki/questions/stats.json"})
    with pytest.raises(DataError, match=r"overlap/wiki/questions/stats\.json: no such file\. Make it with: snakemake"):
        to_markdown(table, fill_table(table, measured), measured)
