"""Recipes that are made of other recipes, tasks of examples, and the export: each run once, in miniature.

Mutations seen to fail: `made_of_files` without the teacher (missing file); mining from the run's test questions; `trained_sizes`
without the closure (no rule for the first stage); the rerank setting searching the whole corpus.
"""

from __future__ import annotations

import gzip
import json

import pytest
from miniature import Workflow
from tiny_science import ENCODERS

ROOT = "results/demo"
MLM = ENCODERS[0]
HARD, THIRD, ANCE = (f"{MLM}.{recipe}-80pct" for recipe in ("dpr-hard", "dupmae-3stage", "ance"))
WHERE = "questions/seed1"


def read(workflow: Workflow, name: str) -> dict:
    return json.loads((workflow.folder / ROOT / name).read_text())


def test_every_recipe_of_a_chain_was_run_once(chained: Workflow) -> None:
    made = read(chained, f"retrievers/{THIRD}/{WHERE}/pretrieve.json")
    assert made["finetuning"]["loss"] == "distillation" and made["representation"] == "joint"
    for recipe, kind in (
        ("dupmae-1stage", "ranking"),
        ("dupmae-2stage", "ranking"),
        ("dupmae-teacher", "cross-encoder"),
    ):
        about = read(chained, f"retrievers/{MLM}.{recipe}-80pct/{WHERE}/pretrieve.json")
        assert about["finetuning"]["kind"] == kind
    cost = read(chained, f"retrievers/{THIRD}/{WHERE}/cost.json")
    assert len(cost["behind"]) == 3 and all((chained.folder / path).is_file() for path in cost["behind"])
    assert "Nothing to be done" in chained.plan(f"{ROOT}/metrics/{THIRD}/{WHERE}.json").text


def test_negatives_are_of_training_questions_and_not_relevant(chained: Workflow) -> None:
    import pyarrow.parquet as pq

    task = chained.folder / ROOT / "tasks/questions"
    splits = pq.read_table(task / "splits.parquet").to_pylist()
    may_train = {row["query_id"] for row in splits if row["size"] == "80pct" and row["split"] in ("train", "valid")}
    relevant = {(row["query_id"], row["doc_id"]) for row in pq.read_table(task / "qrels.parquet").to_pylist()}
    for source in ("bm25/questions/seed0", f"{MLM}.dpr-bm25-80pct/{WHERE}"):
        with gzip.open(chained.folder / ROOT / f"negatives/{source}.jsonl.gz", "rt") as stream:
            header, *lines = map(json.loads, stream)
        assert header["source"] in (source.split("/")[0], f"{MLM}.dpr-bm25-80pct")
        assert {line["query"] for line in lines} == may_train
        pairs = {(line["query"], document) for line in lines for document in line["documents"]}
        assert len(pairs) > 100 and not pairs & relevant


def test_scores_say_what_they_are_of(chained: Workflow) -> None:
    whole, some = (read(chained, f"metrics/{HARD}/{data}/seed1.json") for data in ("questions", "questions-rerank"))
    assert whole["n_queries"] == some["n_queries"] and "candidates_per_query" not in whole
    assert some["candidates_per_query"]["max"] <= 10 < whole["n_candidates"]
    glue = read(chained, f"metrics/{MLM}.glue-full/question-entailment/seed1.json")
    assert 0.3 < glue["metrics"]["accuracy"] <= 1 and glue["n_queries"] > 10
    assert len(list((chained.folder / ROOT / f"retrievers/{ANCE}/{WHERE}/negatives").iterdir())) >= 1


def test_the_export_is_loaded(chained: Workflow) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    directory = chained.folder / ROOT / f"exports/{HARD}/{WHERE}"
    model = sentence_transformers.SentenceTransformer(str(directory), device="cpu")
    assert model.encode_query(["What is river stone?"]).shape[1] == 16
    assert "dpr-hard" in (directory / "README.md").read_text()
