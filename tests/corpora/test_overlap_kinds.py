"""What counts as a test text where nobody judged passages, and of tasks without retrieval.

Seen to fail when: an unjudged task counts nothing; texts of training examples count; a text that two examples share counts twice;
the kind is told by the directory alone.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, build_corpus
from pretrieve.corpora.contamination import kind_of, measure_overlap, read_test_paragraphs
from pretrieve.corpora.wikitext import Paragraph, Section

PARAGRAPH = "one two three four five six seven eight nine ten eleven twelve"


def tables(directory: Path, **named: dict[str, list]) -> Path:
    directory.mkdir()
    for name, columns in named.items():
        table = pa.table({key: values if values else pa.array(values, pa.string()) for key, values in columns.items()})
        pq.write_table(table, directory / f"{name}.parquet")
    return directory


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    articles = [
        Article("Counting", [Section("", 1, [Paragraph(PARAGRAPH)])]),
        Article("Other", [Section("", 1, [Paragraph("Nothing that anybody asks about.")])]),
    ]
    build_corpus(articles, tmp_path / "corpus")
    return tmp_path / "corpus"


def test_without_judgements_all_that_is_searched_counts(tmp_path: Path, corpus: Path) -> None:
    """A task of questions with answers, over passages that nobody judged."""
    task = tables(
        tmp_path / "task",
        corpus={
            "doc_id": ["0-0", "1-0", "9-0"],
            "title": ["Counting", "Else", "Away"],
            "passage": ["x", PARAGRAPH, "far from all of it, in another corpus and in other words"],
        },
        qrels={"query_id": [], "doc_id": [], "relevance": []},
        splits={"query_id": ["q"], "split": ["test"]},
    )
    numbers, titles = measure_overlap(corpus, task)
    assert numbers["of"] == "passages that are searched" and titles == ["Counting"]
    assert (numbers["test_paragraphs"], numbers["paragraphs_by_title"], numbers["paragraphs_by_text"]) == (3, 1, 1)
    assert (numbers["paragraphs"], numbers["corpus"], numbers["corpus_articles"]) == (2, "corpus", 2)


def test_texts_of_test_examples(tmp_path: Path, corpus: Path) -> None:
    task = tables(
        tmp_path / "pairs",
        texts={"text": ["short", PARAGRAPH, "of a training example only", PARAGRAPH.upper(), "short"]},
        examples={"example_id": ["a", "b", "c"], "texts": [[0, 1], [2, 0], [4, 3]]},
        splits={"query_id": ["a", "b", "c"], "split": ["test", "train", "test"]},
    )
    assert [paragraph.text for paragraph in read_test_paragraphs(task)] == ["short", PARAGRAPH, PARAGRAPH.upper()]
    numbers, _ = measure_overlap(corpus, task)
    assert numbers["of"] == "texts of test examples"
    assert (numbers["test_paragraphs"], numbers["paragraphs"], numbers["paragraphs_short"]) == (3, 2, 1)


def test_kinds_and_what_is_none(tmp_path: Path) -> None:
    judged = tables(tmp_path / "judged", qrels={"query_id": ["q"], "doc_id": ["d"], "relevance": [1]})
    assert kind_of(judged) == "passages that answer a test question"
    assert kind_of(tmp_path / "dev.json") == "paragraphs of the file"
    with pytest.raises(DataError, match=r"neither collection\.parquet, corpus\.parquet nor examples\.parquet in it"):
        read_test_paragraphs(judged)
