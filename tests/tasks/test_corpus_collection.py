"""Articles cut into passages of 100 words, and the questions that they can answer.

Seen to fail when: blocks overlap or go over two articles; the rest of an article is dropped; white space is not made one
blank; the lead of an article with a page is read; a share draws passages and not articles; questions without an answer
stay; answers are looked for in titles; a task without judgements is refused.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from task_reader import Task
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.corpus_collection import blocks_of_words, split_articles
from pretrieve.benchmarks.reading import build_collection
from pretrieve.corpora.tables import SCHEMAS, TableWriter
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.retrieval.trec_run import Run
from pretrieve.tasks.collection_tables import Collection
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.splits import Target

ARTICLES = {  # title → (full page?, [(source, paragraph)])
    "Aardvark": (
        True,
        [("lead", "The aardvark digs."), ("page", "The aardvark\u00a0digs  burrows."), ("page", "It eats\nants.")],
    ),
    "Empty": (True, []),
    "Counting frame": (False, [("lead", "An abacus has beads. " * 3)]),
}


def write_corpus(directory: Path) -> dict[str, Path]:
    files = {name: directory / f"{name}.parquet" for name in ("articles", "passages")}
    with TableWriter(files["articles"], SCHEMAS["articles"]) as articles:
        for number, (title, (has_page, _)) in enumerate(ARTICLES.items()):
            articles.append((number, number, title, "", "", has_page, not has_page))
    with TableWriter(files["passages"], SCHEMAS["passages"]) as passages:
        rows = [(n, row) for n, (_, rows) in enumerate(ARTICLES.values()) for row in rows]
        for passage, (article, (source, text)) in enumerate(rows):
            passages.append((passage, article, article, source, text, [0], [len(text)]))
    return files


def test_blocks_of_words() -> None:
    text = " ".join(str(n) for n in range(250))
    blocks = blocks_of_words(text.replace("7 ", "7\n\t "))
    assert [len(block.split()) for block in blocks] == [100, 100, 50]
    assert " ".join(blocks) == text
    assert blocks_of_words(" \n") == []


def test_articles(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    assert [tuple(passage) for passage in split_articles(files["articles"], files["passages"], words=4)] == [
        ("0-0", "Aardvark", "The aardvark digs burrows."),
        ("0-1", "Aardvark", "It eats ants."),
        ("2-0", "Counting frame", "An abacus has beads."),
        ("2-1", "Counting frame", "An abacus has beads."),
        ("2-2", "Counting frame", "An abacus has beads."),
    ]
    with pytest.raises(DataError, match="no such file"):
        list(split_articles(files["articles"], tmp_path / "missing.parquet"))


def test_a_share_of_the_articles(tmp_path: Path) -> None:
    """Whole articles, told by their titles: a larger share has the articles of a smaller one."""
    files = write_corpus(tmp_path)
    whole = {passage.title for passage in split_articles(files["articles"], files["passages"])}
    taken = [
        {passage.title for passage in split_articles(files["articles"], files["passages"], share=share)}
        for share in (0.5, 0.8, 0.9, 1)
    ]
    assert taken[-1] == whole and taken[0] == set()
    assert all(small <= large for small, large in pairwise(taken)) and len(set(map(len, taken))) == 3


QUESTIONS = [
    ("what does it dig", ["caves", "burrows"]),
    ("what is it called", ["aardvark burrows"]),  # not next to each other
    ("who has’em", ["BEADS"]),
    ("what do they eat", ["burrows. It eats"]),  # over two blocks of four words
    ("which animal", ["Abacus"]),
    ("what is in a title alone", ["counting frame"]),
]


def build(tmp_path: Path, **options: object) -> Collection:
    (tmp_path / "dev.jsonl").write_text(
        "\n".join(json.dumps({"question": text, "answer": answers}) for text, answers in QUESTIONS)
    )
    (tmp_path / "test.csv").write_text("zero\t['no such thing']\none\t['eats ants']\n")
    files = write_corpus(tmp_path) | {"dev": tmp_path / "dev.jsonl", "test": tmp_path / "test.csv"}
    return build_collection("corpus", files, tmp_path / "out", options)


def test_the_collection(tmp_path: Path) -> None:
    collection = build(tmp_path, words=4)
    assert list(collection.documents())[1] == ("0-1", "Aardvark", "It eats ants.")
    assert collection.table("queries").to_pylist() == [
        {"query_id": "dev-0", "text": "what does it dig", "split": "dev"},
        {"query_id": "dev-2", "text": "who has'em", "split": "dev"},
        {"query_id": "dev-4", "text": "which animal", "split": "dev"},
        {"query_id": "test-1", "text": "one", "split": "test"},
    ]
    assert collection.table("answers").to_pylist()[0] == {
        "query_id": "dev-0",
        "answers": ["caves", "burrows"],
        "regex": False,
    }
    assert collection.table("qrels").num_rows == 0
    warning = collection.stats["warnings"]["question without an answer in any passage"]
    assert warning["count"] == 4
    assert warning["first"] == f"{tmp_path}/dev.jsonl, line 2"
    assert "4 words" in collection.stats["variant"]
    assert "dev-3" in build(tmp_path, words=100).table("queries")["query_id"].to_pylist()


def test_patterns(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    (tmp_path / "curated.jsonl").write_text(
        '{"question": "q", "answer": ["bur+ow(s|z)"]}\n{"question": "r", "answer": ["z+"]}'
    )
    files["test"] = tmp_path / "curated.jsonl"
    collection = build_collection("corpus", files, tmp_path / "out", {"regular_expressions": True})
    assert collection.table("answers").to_pylist() == [
        {"query_id": "test-0", "answers": ["bur+ow(s|z)"], "regex": True}
    ]


def test_the_task_of_answers_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path, words=4)
    build_collection_task(tmp_path / "out", Target(tokenizer, tmp_path / "task", {"full": "all"}, 1), "separate")
    task = Task(tmp_path / "task")
    assert [row["doc_id"] for row in task.corpus.to_pylist()] == ["0-0", "0-1", "2-0", "2-1", "2-2"]
    assert task.qrels.num_rows == 0
    parts = {row["query_id"]: row["split"] for row in task.splits.to_pylist()}
    assert parts == {"dev-0": "dev", "dev-2": "dev", "dev-4": "dev", "test-1": "test"}
    run = Run(["test-1"], [["2-0", "0-1"]], [np.array([2.0, 1.0])])
    assert TaskAnswers(tmp_path / "task").hits(run, ["test-1"], [1, 2]) == {1: {"test-1": 0}, 2: {"test-1": 1}}


def test_messages(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    with pytest.raises(DataError, match="no questions; expected a file of questions as train, dev or test"):
        build_collection("corpus", files, tmp_path / "out")
    (tmp_path / "test.csv").write_text("zero\t['no such thing']\n")
    files["test"] = tmp_path / "test.csv"
    with pytest.raises(DataError, match=r"no answer of the 1 questions of .*test\.csv stands in a passage"):
        build_collection("corpus", files, tmp_path / "out")
    assert not (tmp_path / "out").exists()
