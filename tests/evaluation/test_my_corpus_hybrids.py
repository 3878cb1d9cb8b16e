"""Hybrids of BM25 and dense rows, from a task and its stores to weights, runs and metrics; BM25 and the encoder are stand-ins.

Seen to fail when: a query that BM25 finds nothing for is refused; questions are embedded that choose nothing; the vectors of an
earlier embedding of the corpus are kept; test questions choose a weight.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base import paths
from pretrieve.commands import my_corpus_hybrids
from pretrieve.evaluation import retrieve
from pretrieve.retrieval.embeddings import EmbeddingWriter
from pretrieve.retrieval.trec_run import Run, read_trec, write_trec

N, TESTED = 40, 10
BM25, DENSE, HYBRID = "bm25.reqa-full", "published.as-it-is-full", "hybrid-published.as-it-is-full"
QUERIES, DOCUMENTS = [f"q{i:02}" for i in range(N)], [f"d{i:02}" for i in range(N)]


def write_store(folder: Path, name: str, matrix: np.ndarray, key: str) -> None:
    writer = EmbeddingWriter(folder, name, len(matrix), matrix.shape[1], key)
    for shard, start, stop in writer.pending():
        writer.write(shard, matrix[start:stop].astype("<f4"))
    writer.finish()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Document i answers query i, which dense vectors know and BM25 never does; it finds nothing for the first query."""
    task = Path(paths.task_dir(tmp_path, "mine"))
    task.mkdir(parents=True)
    pq.write_table(pa.table({"query_id": QUERIES, "text": QUERIES}), task / "queries.parquet")
    pq.write_table(pa.table({"doc_id": DOCUMENTS}), task / "corpus.parquet")
    judged = {"query_id": QUERIES, "doc_id": DOCUMENTS, "relevance": pa.array([1] * N, pa.int32())}
    pq.write_table(pa.table(judged), task / "qrels.parquet")
    write_store(Path(paths.embedding_dir(tmp_path, DENSE, "mine", 1)), "corpus", np.eye(N), "corpus")
    wrong = lexical(QUERIES[1:TESTED])
    right = Run(QUERIES[:TESTED], [[document] for document in DOCUMENTS[:TESTED]], [np.ones(1)] * TESTED)
    for system, seed, run in ((BM25, 0, wrong), (DENSE, 1, right)):
        write_trec(paths.run_file(tmp_path, system, "mine", seed), run, "x")
    return tmp_path


def lexical(queries: list[str]) -> Run:
    """BM25's two hits of each query, neither of which answers it; equal scores rank them first."""
    return Run(
        queries,
        [[f"d{(int(q[1:]) - more) % N:02}" for more in (1, 2)] for q in queries],
        [np.array([2, 1])] * len(queries),
    )


def fused(root: Path, monkeypatch: pytest.MonkeyPatch, development: int, **more: object) -> tuple[dict, list[tuple]]:
    """What is written of ``development`` questions, and what was embedded; ``more``: of the request."""
    split = ["test"] * TESTED + ["dev"] * (development - 2) + ["valid"] * 2
    table = {"size": ["full"] * len(split), "query_id": QUERIES[: len(split)], "split": split}
    pq.write_table(pa.table(table), Path(paths.task_dir(root, "mine")) / "splits.parquet")
    asked: list[tuple] = []

    def embed_queries(data, retriever, out, length, device, queries, code):
        asked.append((retriever, length, {name: rows.tolist() for name, rows in queries.items()}, code))
        for name, rows in queries.items():
            write_store(out, name, np.eye(N)[rows], code)

    monkeypatch.setattr(retrieve, "embed_queries", embed_queries)
    monkeypatch.setattr(retrieve.TaskSearch, "data", None)
    monkeypatch.setattr(
        my_corpus_hybrids.bm25, "search", lambda _, pairs, *more: lexical([query for query, _ in pairs])
    )
    rows = [
        {"kind": "bm25", "system": BM25, "seeds": [0]},
        {"kind": "as-is", "system": DENSE, "seeds": [1]},
        {"kind": "hybrid", "system": HYBRID, "seeds": [1], "dense": DENSE},
    ]
    request = {
        "root": str(root),
        "dataset": "mine",
        "trained_on": "mine",
        "metrics": ["ndcg@10"],
        "rows": rows,
        "size": "full",
        "systems": {"bm25": BM25},
        "index": "none",
        "depth": 5,
        "k1": 0.9,
        "b": 0.4,
        "start_reads_it": False,
    }
    request |= {"lengths": {"query_length": 7, "passage_length": 9}, **more}
    parser = argparse.ArgumentParser()
    my_corpus_hybrids.add_arguments(parser)
    my_corpus_hybrids.main(parser.parse_args(["--request", json.dumps(request), "--out", str(root / "hybrids.json")]))
    return json.loads((root / "hybrids.json").read_text())[HYBRID], asked


def test_development_questions_choose_the_weight(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, asked = fused(root, monkeypatch, 22)
    assert chosen["weight"] == 0.4 and chosen["questions"] == 22, "the most even one that ranks the answer first"
    retriever = Path(paths.retriever_dir(root, DENSE, "mine", 1))
    rows = {"development": list(range(TESTED, TESTED + 22))}
    assert asked == [(retriever, 7, rows, "corpus")], "once, for the vectors that the corpus has now"
    run = read_trec(paths.run_file(root, HYBRID, "mine", 1))
    assert sorted(run.query_ids) == QUERIES[:TESTED] and all(
        ids[0] == f"d{q[1:]}" for q, ids in zip(run.query_ids, run.doc_ids, strict=True)
    )
    record = json.loads(Path(paths.metrics_file(root, HYBRID, "mine", 1)).read_text())
    assert record["n_queries"] == TESTED and record["metrics"] == {"ndcg@10": 1.0}


def test_few_questions_are_not_embedded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, asked = fused(root, monkeypatch, 19)
    assert chosen == {"weight": 0.8, "questions": 19, "scores": {}} and asked == [], (
        "BM25 leads where the start is foreign"
    )
    assert len(read_trec(paths.run_file(root, HYBRID, "mine", 1))) == TESTED


def test_hybrids_are_scored_by_the_conventions_of_the_rest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fused(root, monkeypatch, 19, conventions=["drop-identical-ids"])
    record = json.loads(Path(paths.metrics_file(root, HYBRID, "mine", 1)).read_text())
    assert record["conventions"] == ["drop-identical-ids"]
