"""Negatives that a publisher ships become a file of negatives that training reads.

Seen to fail when: the file's order is lost; a relevant document is kept; a document that the task did not draw is kept; one that
stands twice counts twice, also where a query's rows stand in two places; the depth is not kept; queries that only test get some.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.readers import ships_negatives
from pretrieve.benchmarks.reading import build_collection
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.finetuning.groups import Groups
from pretrieve.finetuning.recipes import resolve_recipe
from pretrieve.retrieval.negatives import read_negatives
from pretrieve.retrieval.published_negatives import published_negatives
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.splits import Target

#: Query → what the publisher gives it, in order. q0's rows stand in two places.
SHIPPED = [
    ("q0", "d7"),
    ("q0", "d3"),
    ("q1", "d1"),
    ("q1", "d9"),
    ("q0", "d7"),
    ("q0", "d5"),
    ("q2", "d4"),
    ("q30", "d4"),
]


def make(place: Path, shipped: list[tuple[str, str]]) -> Path:
    with CollectionWriter(place, "made up") as writer:
        for i in range(40):
            writer.add_document(f"d{i}", "", f"anchor chain number {i}")
        for i in range(34):
            split = "train" if i < 30 else "test"
            writer.add_query(f"q{i}", "which chain is it?", split)
            writer.add_judgement(f"q{i}", f"d{i}", 1, split)
        for query, document in shipped:
            writer.add_negative(query, document)
    return place


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, vocabulary: Tokenizer) -> Path:
    place = tmp_path_factory.mktemp("shipped")
    build_collection_task(make(place / "c", SHIPPED), Target(vocabulary, place / "t", {"full": "all"}, 1))
    return place / "t"


def test_what_is_kept(task: Path) -> None:
    qrels, collection = read_qrels(task / "qrels.parquet"), task.parent / "c"
    found = published_negatives(collection, task, ["q0", "q1", "q2"], qrels, depth=200)
    assert dict(zip(found.query_ids, found.doc_ids, strict=True)) == {
        "q0": ["d7", "d3", "d5"],
        "q1": ["d9"],
        "q2": ["d4"],
    }
    assert [scores.tolist() for scores in found.scores] == [[-1.0, -2.0, -3.0], [-1.0], [-1.0]]
    assert found.about["relevant"] == 1 and found.about["without_negatives"] == 0
    cut = published_negatives(collection, task, ["q0", "q5"], qrels, depth=2)
    assert cut.doc_ids == [["d7", "d3"], []] and cut.about["without_negatives"] == 1


def test_documents_that_were_not_drawn(tmp_path: Path, vocabulary: Tokenizer) -> None:
    shipped = [("q1", "d36"), ("q1", "d37"), ("q1", "d38"), ("q1", "d39"), ("q1", "d2")]
    collection = make(tmp_path / "c", shipped)
    build_collection_task(collection, Target(vocabulary, tmp_path / "t", {"full": "all"}, 1), max_documents=35)
    found = published_negatives(collection, tmp_path / "t", ["q1"], read_qrels(tmp_path / "t/qrels.parquet"), 200)
    there = set(Dataset(tmp_path / "t").document_row)
    assert found.doc_ids == [[d for _, d in shipped if d in there]] and found.about["unknown"] >= 3


def test_the_program_and_the_training_that_reads_it(task: Path, tmp_path: Path, program) -> None:
    """From the command to the groups of a recipe that names them."""
    out = tmp_path / "negatives/seed0.jsonl.gz"
    made = tmp_path / "c"
    collection = make(made, [(f"q{i}", f"d{(i + 1 + j) % 40}") for i in range(30) for j in range(3)])
    words = ["--collection", collection, "--task", task, "--out", out, "--depth", 2]
    ended = program("workflow_scripts/published_negatives.py", *words)
    assert ended.returncode == 0, ended.stderr
    negatives = read_negatives(out)
    assert len(negatives) == 27  # a tenth of the training queries is dev
    assert negatives.about["source"] == "published"
    cost = json.loads((out.parent / "seed0.cost.json").read_text())
    assert cost["stage"] == "mine"
    recipe = resolve_recipe("dpr", {"recipe": "dpr-bm25", "options": {"negatives": ["published"]}}, {})
    assert recipe["negatives"] == ["published"]
    data = Dataset(task)
    rows = data.split("full", "train")
    groups = Groups(data, rows, {**recipe, "group": 3, "pool": 2}, [negatives], seed=1)
    for row in rows.tolist():
        own = int(data.query_ids[row].removeprefix("q"))
        assert groups.pools[0][row].tolist() == [data.document_row[f"d{(own + place) % 40}"] for place in (1, 2)]


def test_messages(task: Path, tmp_path: Path) -> None:
    qrels = read_qrels(task / "qrels.parquet")
    with pytest.raises(
        DataError, match=r"negatives\.parquet: no such file; expected the negatives of a data set whose"
    ):
        published_negatives(make(tmp_path / "none", []), task, ["q1"], qrels, 10)
    with pytest.raises(DataError, match=r"no negative of any of the 2 training queries of .* do they belong together"):
        published_negatives(task.parent / "c", task, ["q8", "q9"], qrels, 10)
    with pytest.raises(ConfigError, match="negatives"):
        resolve_recipe("dpr", {"recipe": "dpr-bm25", "options": {"negatives": ["publishd"]}}, {})


def test_hard_negatives_of_dpr(tmp_path: Path, vocabulary: Tokenizer) -> None:
    context = [{"title": f"T{i}", "text": f"a chain and an anchor {i}", "passage_id": str(i)} for i in range(30)]
    questions = [
        {
            "question": f"which anchor {i}?",
            "answers": ["chain"],
            "positive_ctxs": [context[i]],
            "hard_negative_ctxs": [context[(i + 2) % 30], context[(i + 1) % 30]],
            "negative_ctxs": [context[(i + 9) % 30]],
        }
        for i in range(30)
    ]
    (tmp_path / "train.json").write_text(json.dumps(questions))
    (tmp_path / "dev.json").write_text(json.dumps(questions[:4]))
    files = {"train": tmp_path / "train.json", "dev": tmp_path / "dev.json"}
    build_collection("dpr", files, tmp_path / "c", {})
    build_collection_task(tmp_path / "c", Target(vocabulary, tmp_path / "t", {"full": "all"}, 1))
    found = published_negatives(
        tmp_path / "c", tmp_path / "t", ["train-3"], read_qrels(tmp_path / "t/qrels.parquet"), 9
    )
    assert found.doc_ids == [["5", "4"]]


def test_who_ships_negatives() -> None:
    assert ships_negatives({"reader": "msmarco-passage", "files": {"collection": "c", "negatives": "triples"}})
    assert not ships_negatives({"reader": "msmarco-passage", "files": {"collection": "c"}})
    dpr = {"reader": "dpr", "files": {"train": "biencoder.json", "test": "qa.csv"}}
    assert ships_negatives(dpr) and not ships_negatives(dpr | {"reader_options": {"negatives": "none"}})
    assert not ships_negatives({"reader": "beir", "files": {"corpus": "c", "queries": "q"}})
    assert not ships_negatives({"reader": "squad"})
