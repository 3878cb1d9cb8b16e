"""A collection directory becomes a task: splits, sizes, titles, grades, and a corpus that is cut down but keeps what is judged.

Seen to fail when: training queries that a size does not draw test it; the dev queries that are drawn train as well; grade
0 is kept as relevant; a judged document is not drawn; the title stands in the text and in front of it; the store and
corpus.parquet differ in order; memory grows with the texts; BM25 reads no titles; a title that is all of a text is read twice;
a training query is held out although a share of 0 is asked for.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from store_sentences import sentence_of
from task_reader import Task, search_by_bm25
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.reading import build_task
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.retrieval.trec_run import read_trec
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_task import TITLES, build_collection_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.splits import Target

DOCUMENTS = 60


def make(place: Path, train: int = 40, dev: int = 6, test: int = 10, answers: bool = False) -> Path:
    """Query i of a split is answered by a document of its own, graded 1 to 3; d0 is judged and not relevant for all."""
    with CollectionWriter(place, "made up") as writer:
        writer.variant = "no titles"
        for i in range(DOCUMENTS):
            writer.add_document(
                f"d{i}", "Aardvark" if i % 2 else "", f"The aardvark number {i} digs burrows. It eats ants."
            )
        writer.add_document("untold", "Abacus", "")
        number = 0
        for split, count in (("train", train), ("dev", dev), ("test", test)):
            for _ in range(count):
                number += 1
                writer.add_query(f"q{number}", f"what digs burrow {number}?", split)
                writer.add_judgement(f"q{number}", f"d{number}", 1 + number % 3, split)
                writer.add_judgement(f"q{number}", "d0", 0, split)
                if answers:
                    writer.add_answers(f"q{number}", ["ants"])
    return place


def splits_of(task: Task) -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for row in task.splits.to_pylist():
        found.setdefault(row["size"], {}).setdefault(row["split"], set()).add(row["query_id"])
    return found


def test_official_splits_and_nested_sizes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    sizes = {"some": 10, "half": 0.5, "full": "all"}
    statistics = build_collection_task(make(tmp_path / "c"), Target(tokenizer, tmp_path / "t", sizes, 1))
    task = Task(tmp_path / "t")
    found = splits_of(task)
    official = {
        "train": {f"q{i}" for i in range(1, 41)},
        "dev": {f"q{i}" for i in range(41, 47)},
        "test": {f"q{i}" for i in range(47, 57)},
    }
    for size, drawn in {"some": 10, "half": 20, "full": 40}.items():
        assert found[size]["test"] == official["test"] and found[size]["dev"] == official["dev"]
        assert len(found[size]["train"]) == drawn * 9 // 10 and len(found[size]["valid"]) == drawn // 10
        assert found[size]["train"] | found[size]["valid"] <= official["train"]
        assert not found[size]["train"] & found[size]["valid"]
    assert found["some"]["train"] < found["half"]["train"] < found["full"]["train"]
    assert task.relevant()["q2"] == {"d2": 3} and task.relevant()["q3"] == {"d3": 1}
    assert statistics == task.stats
    assert (statistics["queries"], statistics["candidates"], statistics["tuples"]) == (56, DOCUMENTS + 1, 56)
    assert statistics["collection"] == {
        "reader": "made up",
        "variant": "no titles",
        "title": "none",
        "test": "test",
        "dev": "dev",
        "documents": DOCUMENTS + 1,
        "left_out": {},
    }
    # A size that does not need all queries has them all the same when another does; alone it does not.
    alone = build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "s", {"some": 10}, 1))
    assert alone["queries"] == 26 and splits_of(Task(tmp_path / "s"))["some"] == found["some"]


def test_tokens_and_table_have_the_same_texts_in_the_same_order(tmp_path: Path, tokenizer: Tokenizer) -> None:
    collection = make(tmp_path / "c")
    for title, expected in {
        "none": ("The aardvark number 1 digs", "Abacus"),
        "prefix": ("Aardvark The aardvark number 1 digs", "Abacus"),
        "separate": ("The aardvark number 1 digs", "Abacus"),
    }.items():
        build_collection_task(collection, Target(tokenizer, tmp_path / title, {"full": "all"}, 1), title=title)
        task = Task(tmp_path / title)
        rows = task.corpus.to_pylist()
        assert rows[1]["passage"].startswith(expected[0]) and rows[-1]["passage"] == expected[1]
        assert rows[0]["passage"].startswith("The aardvark number 0")
        assert [row["title"] for row in rows[:2]] == ["", "Aardvark"]
        assert {row["sentence_index"] for row in rows} == {-1}
        for row in rows:
            ids = tokenizer.encode(row["passage"], add_special_tokens=False).ids
            assert sentence_of(task.passages, row["passage_index"]).tolist() == ids
        data = Dataset(tmp_path / title)
        assert data.titled is (title == "separate")
        for query, text in zip(range(3), task.queries["text"].to_pylist(), strict=False):
            assert (
                sentence_of(task.query_tokens, query).tolist() == tokenizer.encode(text, add_special_tokens=False).ids
            )


def test_bm25_reads_titles_where_an_encoder_does(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """And has the title of a document without a text once."""
    with CollectionWriter(tmp_path / "c", "made up") as writer:
        for doc_id, title, text in (
            ("d1", "zebra", "lake"),
            ("d2", "", "zebra"),
            ("d3", "zebra", ""),
            ("d4", "", "fog"),
        ):
            writer.add_document(doc_id, title, text)
        writer.add_query("q", "zebra", "test")
        writer.add_judgement("q", "d1", 1, "test")
    runs = {}
    for title in TITLES:
        build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / title, {"full": "all"}, 1), title=title)
        run = read_trec(search_by_bm25(tmp_path / title)["runs"])
        runs[title] = run.doc_ids, [scores.tolist() for scores in run.scores]
    assert runs["separate"] == runs["prefix"]
    assert runs["separate"][0] == [["d2", "d3", "d1"]] and runs["none"][0] == [["d2", "d3"]]
    only_title = Dataset(tmp_path / "separate").pack_candidates(np.array([2]), 16)
    assert only_title.lengths[0] == len(tokenizer.encode("zebra", add_special_tokens=False).ids) + 2


def test_dev_queries_come_from_train_where_there_are_none(tmp_path: Path, tokenizer: Tokenizer) -> None:
    statistics = build_collection_task(
        make(tmp_path / "c", dev=0), Target(tokenizer, tmp_path / "t", {"full": "all"}, 1)
    )
    found = splits_of(Task(tmp_path / "t"))["full"]
    assert {split: len(ids) for split, ids in found.items()} == {"train": 32, "valid": 4, "dev": 4, "test": 10}
    assert len(set().union(*found.values())) == 50
    assert statistics["collection"]["dev"] == "drawn from train"
    build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "u", {"full": "all"}, 2))
    assert splits_of(Task(tmp_path / "u"))["full"]["dev"] != found["dev"]


def test_every_training_query_trains(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """With shares of 0, as MS MARCO at the scale ``paper``; a size without a share of its own has the usual one."""
    sizes = {"some": 10, "half": 0.5, "full": "all"}
    options = {"valid_share": {"half": 0, "full": 0}, "dev_share": 0}
    target = Target(tokenizer, tmp_path / "t", sizes, 1)
    statistics = build_task("collection", {"collection": make(tmp_path / "c", test=0)}, target, None, options)
    parts = {
        size: {part: len(ids) for part, ids in found.items()} for size, found in splits_of(Task(target.out)).items()
    }
    assert parts == {
        "some": {"train": 9, "valid": 1, "test": 6},
        "half": {"train": 20, "test": 6},
        "full": {"train": 40, "test": 6},
    }
    assert statistics["collection"]["dev"] == "none" and Dataset(target.out).split("full", "valid").tolist() == []
    found = splits_of(Task(target.out))
    assert found["some"]["train"] | found["some"]["valid"] < found["half"]["train"] < found["full"]["train"]
    search = TaskSearch(target.out, {}, 10)
    assert set(search.wanted("full", mined=True)) == found["full"]["train"]
    assert set(search.wanted("some", mined=True)) == found["some"]["train"] | found["some"]["valid"]


def test_dev_plays_test(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build_collection_task(make(tmp_path / "c"), Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), test="dev")
    found = splits_of(Task(tmp_path / "t"))["full"]
    assert found["test"] == {f"q{i}" for i in range(41, 47)} and len(found["dev"]) == 4
    assert not found["test"] & found["dev"] and "q50" not in Task(tmp_path / "t").relevant()


def test_without_train_queries_everything_tests(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build_collection_task(
        make(tmp_path / "c", train=0, dev=0), Target(tokenizer, tmp_path / "t", {"a": 0.5, "b": "all"}, 1)
    )
    found = splits_of(Task(tmp_path / "t"))
    assert found == {size: {"test": {f"q{i}" for i in range(1, 11)}} for size in ("a", "b")}


def test_a_smaller_corpus_keeps_what_is_judged(tmp_path: Path, tokenizer: Tokenizer) -> None:
    collection = make(tmp_path / "c", train=0, dev=0)
    chosen = {}
    for limit, seed in ((20, 1), (20, 2), (30, 1), (61, 1), (99, 1)):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, seed), max_documents=limit)
        ids = Task(tmp_path / "t").corpus["doc_id"].to_pylist()
        assert len(ids) == min(limit, DOCUMENTS + 1) and {f"d{i}" for i in range(11)} <= set(ids)
        assert ids == sorted(ids, key=lambda name: int(name[1:]) if name != "untold" else 999)
        chosen[limit, seed] = set(ids)
    assert chosen[20, 1] != chosen[20, 2] and chosen[20, 1] < chosen[30, 1]
    with pytest.raises(ConfigError, match="max_documents is 10, but 11 documents are judged"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), max_documents=10)


def test_queries_without_a_relevant_document_are_left_out(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with CollectionWriter(tmp_path / "c", "r") as writer:
        writer.add_document("d1", "", "The aardvark digs.")
        for name in ("q1", "q2"):
            writer.add_query(name, "what digs?", "test")
        writer.add_judgement("q1", "d1", 2, "test")
        writer.add_judgement("q2", "d1", 0, "test")
    statistics = build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    assert statistics["queries"] == 1
    assert statistics["collection"]["left_out"] == {"test queries without a relevant document": 1}


def test_answers_come_along(tmp_path: Path, tokenizer: Tokenizer) -> None:
    collection = make(tmp_path / "c", answers=True)
    build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), title="separate")
    assert (tmp_path / "t" / "answers.parquet").is_file()
    with pytest.raises(ConfigError, match="title 'prefix' would find them in titles"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), title="prefix")


def test_what_cannot_be_built(tmp_path: Path, tokenizer: Tokenizer) -> None:
    collection = make(tmp_path / "c", dev=0, test=0)
    with pytest.raises(ConfigError, match=r"split 'dev' cannot be tested; .*found: train 40, dev 0, test 0"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    with CollectionWriter(tmp_path / "lost", "made up") as writer:
        writer.add_document("d1", "", "It digs.")
        writer.add_document("d2", "", " ")
        for split, doc_id in (("train", "d1"), ("test", "d2")):
            writer.add_query(f"{split} query", "what digs?", split)
            writer.add_judgement(f"{split} query", doc_id, 1, split)
    with pytest.raises(ConfigError, match=r"split 'test' cannot be tested; .*found: train 1, dev 0, test 0"):
        build_collection_task(tmp_path / "lost", Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    with pytest.raises(ConfigError, match="split 'train' cannot be tested"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), test="train")
    collection = make(tmp_path / "d")
    for options, message in (
        ({"title": "front"}, "title is 'front'; expected one of none, prefix, separate"),
        ({"valid_share": 1.5}, "expected a share between 0 and 1"),
        ({"valid_share": "0.1"}, "valid_share is '0.1'; expected a share"),
    ):
        with pytest.raises(ConfigError, match=message):
            build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), **options)
    with pytest.raises(ConfigError, match="size 'x': 99 questions needs 99 training questions"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {"x": 99}, 1))
    with pytest.raises(ConfigError, match="no training-set size"):
        build_collection_task(collection, Target(tokenizer, tmp_path / "t", {}, 1))
    with pytest.raises(DataError, match="stats.json: no such file"):
        build_collection_task(tmp_path / "nothing", Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    assert not (tmp_path / "t").exists()


def test_the_programs(tmp_path: Path, tokenizer: Tokenizer, program) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "collection.tsv").write_text("".join(f"{i}\tThe aardvark number {i} digs.\n" for i in range(9)))
    (tmp_path / "queries.tsv").write_text("7\twhat digs?\n")
    (tmp_path / "qrels.tsv").write_text("7\t0\t3\t1\n")
    names = {"collection": "collection.tsv", "test_queries": "queries.tsv", "test_qrels": "qrels.tsv"}
    files = [f"{name}={tmp_path / file}" for name, file in names.items()]
    read = ["workflow_scripts/collection.py", "msmarco-passage", "--out", tmp_path / "c", "--log", tmp_path / "log"]
    read += ["--options", '{"official": false}', "--files"]
    done = program(*read, *files)
    assert done.returncode == 0, done.stderr
    assert "collection: 9 documents, 1 judgements" in done.stdout
    assert "collection: 9 documents" in (tmp_path / "log").read_text()
    build = ["workflow_scripts/task.py", "collection", "--files", f"collection={tmp_path / 'c'}", "--sizes", "full=all"]
    done = program(*build, "--tokenizer", tmp_path / "tokenizer.json", "--out", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == Task(tmp_path / "t").stats
    done = program(*read, files[0], files[0])
    twice, said = f"{tmp_path}/collection.tsv", done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert said == f"ConfigError: --files: 'collection' is given twice, as {twice} and {twice}; give each name once."
