"""Scores at a glance are those of the project's evaluator, on random rankings.

Seen to fail when: nDCG's ideal is not cut; a query without hits is left out.
"""

from __future__ import annotations

import numpy as np
import pytest

from pretrieve.evaluation.metrics import evaluate
from pretrieve.operations.bundle.programs import preview
from pretrieve.retrieval.trec_run import Run

METRICS = ["mrr", "mrr@3", "recall@2", "recall@10", "precision@1", "precision@5", "ndcg@3", "ndcg@10"]
QUERIES = [f"q{number}" for number in range(30)]


@pytest.fixture
def qrels() -> dict[str, dict[str, int]]:
    draw = np.random.default_rng(5)
    qrels = {}
    for query in QUERIES:
        documents = draw.choice(40, draw.integers(1, 9), replace=False)
        grades = draw.integers(0, 4, len(documents))
        grades[0] = max(grades[0], 1)
        qrels[query] = {f"d{document}": int(grade) for document, grade in zip(documents, grades, strict=True)}
    return qrels


def test_scores_are_the_evaluators(qrels: dict) -> None:
    draw = np.random.default_rng(6)
    hits = [[f"d{document}" for document in draw.permutation(40)[: 4 * (number % 6)]] for number in range(30)]
    run = Run(QUERIES, hits, [-np.arange(len(found), dtype=np.float32) for found in hits])
    found = preview(run, qrels, QUERIES, [*METRICS, "hits@5", "map"])
    assert found == pytest.approx(evaluate(run, qrels, METRICS).mean, abs=1e-9)
    assert len(set(found.values())) > 5 and min(found.values()) > 0
    few = QUERIES[:7]
    part = Run(few, hits[:7], run.scores[:7])
    assert preview(part, qrels, few, ["mrr"])["mrr"] == pytest.approx(
        evaluate(part, {query: qrels[query] for query in few}, ["mrr"]).mean["mrr"]
    )


def test_queries_without_judgements_are_not_scored(qrels: dict) -> None:
    run = Run(["other"], [["d1"]], [np.zeros(1)])
    assert preview(run, qrels, ["other"], METRICS) == {}
