"""Contrastive entropy against a direct computation.

Seen to fail when: a relevant document is among the others; the others depend on the system or the order of queries; the
temperature is not used; the relevant documents compete with each other; windows are taken for documents.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from pretrieve.evaluation.entropy_file import METRIC, add_entropy, write_entropy
from pretrieve.retrieval.contrastive_entropy import OTHERS, contrastive_entropy, sample_others
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.search import DenseScorer

N, DIM = 700, 8
DOCS = [f"d{i}" for i in range(N)]
QRELS = {"p": {"d3": 1, "d9": 2, "d4": 0}, "q": {"d5": 1, "elsewhere": 1}, "none": {"d1": 0}}


def scorer(directory: Path, corpus: np.ndarray, queries: np.ndarray) -> DenseScorer:
    writer = EmbeddingWriter(directory, "corpus", len(corpus), corpus.shape[1], "k")
    writer.write(0, corpus)
    writer.finish()
    return DenseScorer(EmbeddingReader(directory, "corpus"), queries)


def test_the_others_are_the_same_for_every_system_and_never_relevant() -> None:
    others = sample_others("p", [3, 9], N)
    assert len(set(others.tolist())) == OTHERS and not {3, 9} & set(others.tolist())
    assert (others == sample_others("p", [9, 3], N)).all() and set(others) != set(sample_others("q", [3, 9], N))
    assert sorted(sample_others("p", [1, 2], 6)) == [0, 3, 4, 5], "a small corpus has no more"


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_each_relevant_document_against_the_others_alone(tmp_path: Path, temperature: float) -> None:
    rng = np.random.default_rng(1)
    corpus, queries = (rng.normal(size=(n, DIM)).astype(np.float32) for n in (N, 3))
    found = contrastive_entropy(
        scorer(tmp_path, corpus, queries), ["q", "p", "none"], DOCS, QRELS, temperature=temperature
    )
    assert list(found) == ["q", "p"]
    for query, (name, relevant) in enumerate((("q", [5]), ("p", [3, 9]))):
        scores = corpus.astype(np.float64) @ queries[query] / temperature
        rest = np.exp(scores[sample_others(name, relevant, N)]).sum()
        expected = np.mean([-math.log(math.exp(scores[i]) / (math.exp(scores[i]) + rest)) for i in relevant])
        assert found[name] == (pytest.approx(expected, rel=1e-5), math.log(257))


def test_from_all_alike_to_certain(tmp_path: Path) -> None:
    corpus = np.zeros((N, DIM), np.float32)
    corpus[5, 0] = 1
    queries = np.zeros((3, DIM), np.float32)
    queries[1, 0], queries[2, 0] = 50, -50
    dense = scorer(tmp_path, corpus, queries)
    found = contrastive_entropy(dense, ["a", "b", "c"], DOCS, {name: {"d5": 1} for name in "abc"})
    assert found["a"][0] == pytest.approx(found["a"][1]) and found["b"][0] < 1e-9 and found["c"][0] > 50


def test_of_a_document_its_best_window_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    corpus, queries = (rng.normal(size=(n, DIM)).astype(np.float32) for n in (2 * N, 1))
    windows, best = np.repeat(np.arange(N), 2), (corpus @ queries[0]).reshape(N, 2).max(axis=1)
    found = contrastive_entropy(scorer(tmp_path, corpus, queries), ["q"], DOCS, QRELS, windows)["q"][0]
    rest = np.exp(best[sample_others("q", [5], N)].astype(np.float64)).sum()
    assert found == pytest.approx(math.log1p(rest / math.exp(best[5])), rel=1e-5)


@pytest.mark.parametrize("name", ["seed1.trec.gz", "by-hand.trec", "run.txt"])
def test_it_joins_the_record_of_its_run(tmp_path: Path, name: str) -> None:
    run, record = tmp_path / name, {"metrics": {}, "chance": {}, "per_query": {}}
    run.write_text("p Q0 d3 1 0.5 t\n")
    add_entropy(record, run)
    assert record == {"metrics": {}, "chance": {}, "per_query": {}}, "BM25 has none"
    write_entropy(run, {"p": (2.0, math.log(257)), "q": (4.0, math.log(3))})
    assert run.read_text() == "p Q0 d3 1 0.5 t\n"
    add_entropy(record, run)
    assert record["metrics"] == {METRIC: 3.0} and record["per_query"] == {METRIC: {"p": 2.0, "q": 4.0}}
    assert record["chance"][METRIC] == pytest.approx((math.log(257) + math.log(3)) / 2)
    assert json.dumps(record)
