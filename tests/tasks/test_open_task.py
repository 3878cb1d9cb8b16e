"""Reading a task: its splits, titles in front of passages, and test questions that have answers and no judgement.

Seen to fail when: a validation question may be unjudged; answers of other questions pass; answers of an earlier task stay;
hits@k is refused for unjudged questions; titles stand in front of an untitled task's passages, or in front of its windows
and not of what is packed alone; titled vectors have the key of untitled ones; splits are read again for each call; an unknown
size that is needed has no message of its own.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small_body import small_body
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.squad_reqa import make_passage
from pretrieve.models.dual_encoder import dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.retriever_files import save_retriever
from pretrieve.retrieval.embed_task import TaskTexts, embed_task
from pretrieve.retrieval.search_task import TaskIds, search_task
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.tasks import split_table
from pretrieve.tasks.answers import Answers, read_answers
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.split_table import SplitTable
from pretrieve.tasks.splits import SplitRow
from pretrieve.tasks.task import Candidate, Judgement, Query, TaskContents, write_task
from pretrieve.text.packing import Packed
from pretrieve.training.device import Device

CPU = Device(torch.device("cpu"), bf16=False)
PASSAGES = [("Aardvark", "It digs burrows. It eats ants."), ("", "It has beads."), ("Amber", "It is yellow.")]


def contents(titled: bool = False) -> TaskContents:
    """Candidates p0 to p2 are passages, s the second sentence of the first; t trains, v validates, e and f test, unjudged."""
    found = TaskContents([make_passage(*passage) for passage in PASSAGES], titled=titled)
    found.candidates = [Candidate(f"p{i}", i, -1) for i in range(3)] + [Candidate("s", 0, 1)]
    found.queries = [Query(name, f"what is {name}?") for name in "tvef"]
    found.judgements = [Judgement("t", "p1"), Judgement("v", "p2")]
    parts = ["train", "valid", "test", "test"]
    found.splits = [SplitRow(size, *pair) for size in ("some", "all") for pair in zip("tvef", parts, strict=True)]
    found.answers = {"e": Answers(["ants"]), "f": Answers(["gold", "zebra"]), "t": Answers(["beads"])}
    return found


def shown(task: Dataset, packed: Packed, tokenizer: Tokenizer) -> list[tuple[list[str], int]]:
    """Words of each sequence, in the caller's order, and how many of them stand in segment 0."""
    result: list[tuple[list[str], int]] = [([], 0)] * len(packed.order)
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        own = slice(start, start + length)
        words = [tokenizer.id_to_token(int(token)) for token in packed.tokens[own]]
        segments = packed.segments[own].tolist()
        assert segments == sorted(segments)
        result[packed.order[i]] = (words, segments.count(0))
    return result


def words_of(tokenizer: Tokenizer, *texts: str) -> list[str]:
    """[CLS] first [SEP] second [SEP] …"""
    return ["[CLS]"] + [
        w for text in texts for w in (*tokenizer.encode(text, add_special_tokens=False).tokens, "[SEP]")
    ]


def test_titles_stand_in_front_of_passages(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for titled in (False, True):
        write_task(tmp_path / str(titled), contents(titled), tokenizer)
    task, plain = Dataset(tmp_path / "True"), Dataset(tmp_path / "False")
    assert (task.titled, plain.titled, task.form, plain.form) == (True, False, ["titled"], [])
    stats = [json.loads((tmp_path / name / "stats.json").read_text()) for name in ("True", "False")]
    assert stats[0] == stats[1] | {"titled": True} and "titled" not in stats[1]
    rows, text = np.array([2, 3, 0, 1]), dict(enumerate(text for _, text in PASSAGES))
    wanted = [
        words_of(tokenizer, "Amber", text[2]),
        words_of(tokenizer, "It eats ants.", text[0]),  # a sentence is a front already
        words_of(tokenizer, "Aardvark", text[0]),
        words_of(tokenizer, text[1]),  # no title, no [SEP] of its own
    ]
    fronts = [words.index("[SEP]") + 1 for words in wanted]
    found = shown(task, task.pack_candidates(rows, 64), tokenizer)
    assert found == list(zip(wanted, fronts, strict=True))
    assert shown(plain, plain.pack_candidates(rows[[0, 2]], 64), tokenizer) == [
        (words, len(words)) for words in (words_of(tokenizer, text[2]), words_of(tokenizer, text[0]))
    ]
    # A body of T5 has no [CLS]; the rest is the same.
    t5 = task.read_by("t5")
    assert [(w, n) for w, n in shown(t5, t5.pack_candidates(rows, 64), tokenizer)] == [
        (words[1:], front - 1) for words, front in zip(wanted, fronts, strict=True)
    ]
    assert min(len(words) for words in wanted) > 4


@pytest.mark.parametrize("titled", [False, True])
def test_the_first_window_is_the_candidate(tmp_path: Path, tokenizer: Tokenizer, titled: bool) -> None:
    write_task(tmp_path, contents(titled), tokenizer)
    task, length = Dataset(tmp_path), 14
    windows = task.windows(length, 4)
    owners = windows.windows.documents
    assert len(windows) > len(task.document_ids) == 4
    first = windows.pack(np.searchsorted(owners, np.arange(4)))
    assert shown(task, first, tokenizer) == shown(task, task.pack_candidates(np.arange(4), length), tokenizer)
    some = task.windows(length, 4, np.array([2, 0]))
    assert some.windows.documents.tolist() == [0] * (owners == 2).sum() + [1] * (owners == 0).sum()
    every = shown(task, windows.pack(np.arange(len(windows))), tokenizer)
    picked = [every[row] for document in (2, 0) for row in np.flatnonzero(owners == document)]
    assert shown(task, some.pack(np.arange(len(some))), tokenizer) == picked


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.answers.pop("e"), "1 queries have no relevant candidate and no answers, such as 'e'"),
        (lambda c: c.answers.clear(), "2 queries have no relevant candidate, such as 'e'"),
        (lambda c: c.judgements.pop(0), "1 queries that train or validate have answers but no .*'t'; remove them"),
        (lambda c: c.answers.update(v=Answers(["x"])) or c.judgements.pop(), "1 queries that train or validate .*'v'"),
        (lambda c: c.answers.update(x=Answers(["x"])), "answers of 1 unknown queries, such as 'x'"),
        (lambda c: c.answers.update(e=Answers([])), "question 'e' has no answer"),
    ],
)
def test_what_has_neither_is_refused(tmp_path: Path, tokenizer: Tokenizer, change, message: str) -> None:
    wrong = contents()
    wrong.check()
    change(wrong)
    with pytest.raises(DataError, match=message):
        write_task(tmp_path / "task", wrong, tokenizer)
    assert not (tmp_path / "task/stats.json").exists()


def test_answers_of_an_earlier_task_go(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_task(tmp_path, contents(), tokenizer)
    assert read_answers(tmp_path / "answers.parquet") == contents().answers
    judged = contents()
    judged.answers = {}
    judged.judgements += [Judgement("e", "p0"), Judgement("f", "p0")]
    write_task(tmp_path, judged, tokenizer)
    assert not (tmp_path / "answers.parquet").exists()


def test_unjudged_questions_are_searched_and_scored_by_hits(
    tmp_path, tokenizer: Tokenizer, monkeypatch, capsys
) -> None:
    """From the task to its metrics file; recall is refused, for the test questions alone."""
    task = tmp_path / "task"
    write_task(task, contents(), tokenizer)
    data = Dataset(task)
    assert data.positive.tolist() == [1, 2, -1, -1] and [own.tolist() for own in data.relevant] == [[1], [2], [], []]
    body = small_body(tokenizer.get_vocab_size(), (16, 1, 2, 32), 40, word_std=0.5)
    about = {"vocabulary_sha256": data.passages.meta["vocabulary_sha256"]}
    save_retriever(tmp_path / "retriever", dual_encoder(Encoder(body, 8, "mean", 1), "sde", 1), about=about)
    ids = TaskIds.read(task)
    rows = {"tested": ids.rows_of(["e", "f"])}
    embed_task(TaskTexts(data, 12, 20), tmp_path / "retriever", tmp_path / "stores", CPU, queries=rows)
    run = search_task(ids.store_of("tested", ["e", "f"]), tmp_path / "stores", 4)
    assert sorted(run.doc_ids[0]) == ["p0", "p1", "p2", "s"]
    write_trec(tmp_path / "run.trec.gz", run, "dense")

    def evaluate(*metrics: str) -> int:
        arguments = ["--task", task, "--runs", tmp_path / "run.trec.gz", "--sizes", "some"]
        arguments += ["--outputs", tmp_path / "m.json"]
        monkeypatch.setattr(sys, "argv", ["pretrieve", "evaluate", *map(str, arguments), "--metrics", *metrics])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("pretrieve", run_name="__main__")
        return end.value.code

    assert evaluate("hits@4", "recall@4") == 1 and not (tmp_path / "m.json").exists()
    message = (
        "ConfigError: metric 'recall@4' counts relevant documents, but 2 of 2 queries have no judgement, only answers"
    )
    assert message in capsys.readouterr().err
    assert evaluate("recall@4") == 1 and message in capsys.readouterr().err
    assert evaluate("hits@4") == 0
    assert json.loads((tmp_path / "m.json").read_text())["per_query"] == {"hits@4": {"e": 1.0, "f": 0.0}}


def test_titled_vectors_have_a_key_of_their_own(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Else shards that a killed run has left would be kept after the titles came."""
    keys = []
    for titled in (False, True):
        write_task(tmp_path / "task", contents(titled), tokenizer)
        data = Dataset(tmp_path / "task")
        config = small_body(data.passages.vocabulary_size, (16, 1, 2, 32), max_positions=40, dropout=0.1)
        about = {"vocabulary_sha256": data.passages.meta["vocabulary_sha256"]}
        save_retriever(tmp_path / "retriever", dual_encoder(Encoder(config, 8, "mean", 1), "sde", 1), about=about)
        embed_task(TaskTexts(data, 12, 20), tmp_path / "retriever", tmp_path / "stores", CPU)
        vectors = np.load(tmp_path / "stores/corpus-00000.npy")
        keys.append((json.loads((tmp_path / "stores/corpus.json").read_text())["key"], vectors))
    assert keys[0][0] != keys[1][0]
    changed = np.abs(keys[0][1] - keys[1][1]).max(axis=1) > 1e-3
    assert changed.tolist() == [True, False, True, False]  # p1 has no title, s is a sentence


def test_splits_are_read_once_and_what_is_missing_is_named(tmp_path: Path, tokenizer: Tokenizer, monkeypatch) -> None:
    write_task(tmp_path, contents(), tokenizer)
    reads, plain = [], split_table.read_rows
    monkeypatch.setattr(split_table, "read_rows", lambda path, columns: reads.append(path) or plain(path, columns))
    data = Dataset(tmp_path)
    for size in ("some", "all"):
        assert {part: data.split(size, part).tolist() for part in ("train", "valid", "test", "dev")} == {
            **{"train": [0], "valid": [1], "test": [2, 3]},
            "dev": [],
        }
    assert data.split("some", "dev").dtype == np.int64 and len(reads) == 1
    with pytest.raises(DataError, match=r"splits.parquet: no size '5pct'; it has \['all', 'some'\]"):
        data.split("5pct", "test")
    table = pq.read_table(tmp_path / "splits.parquet").to_pydict()
    pq.write_table(pa.table(table | {"query_id": [*table["query_id"][:-1], "zz"]}), tmp_path / "splits.parquet")
    assert data.split("all", "test").tolist() == [2, 3]
    with pytest.raises(DataError, match=r"splits.parquet: query 'zz' is not in the task; rebuild the task"):
        Dataset(tmp_path).split("all", "test")
    (tmp_path / "stats.json").unlink()
    with pytest.raises(DataError, match=r"stats.json: not a finished task \(FileNotFoundError\)"):
        Dataset(tmp_path)


def test_split_table(tmp_path: Path) -> None:
    path = tmp_path / "splits.parquet"
    rows = {"size": ["1pct", "1pct", "5pct"], "query_id": ["b", "a", "b"], "split": ["test", "test", "train"]}
    pq.write_table(pa.table(rows), path)
    table = SplitTable(path)
    assert table.needed("1pct") == table.ids("1pct", "test") == ["b", "a"] and table.sizes == ["1pct", "5pct"]
    assert table.ids("1pct", "train") == [] and table.needed("5pct", "train") == ["b"]
    with pytest.raises(DataError, match="no queries for size '5pct', split 'test'; found: 1pct/test, 5pct/train"):
        table.needed("5pct")
    with pytest.raises(DataError, match="no queries for size '9pct', split 'test'; found: 1pct/test, 5pct/train"):
        table.needed("9pct")
