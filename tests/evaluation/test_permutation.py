"""Levels of permuted rankings against what guessing is expected to score.

Seen to fail when: a query keeps its own ranking; candidates of a query are taken from another one; the depth is not kept.
"""

from __future__ import annotations

import numpy as np
import pytest

from pretrieve.evaluation.chance import chance_levels
from pretrieve.evaluation.metrics_record import permuted_levels
from pretrieve.retrieval.trec_run import Run

QUERIES = [f"q{i}" for i in range(300)]
DOCUMENTS = [f"d{i}" for i in range(300)]
QRELS = {f"q{i}": {f"d{i}": 1} for i in range(300)}
METRICS = ["recall@30", "mrr@30", "map"]


def run_of(lists: list[list[str]]) -> Run:
    return Run(QUERIES, lists, [np.arange(len(docs), 0, -1, dtype=np.float32) for docs in lists])


def test_a_perfect_run_is_guessing_for_another_query() -> None:
    rng = np.random.default_rng(3)
    lists = [[f"d{i}", *(DOCUMENTS[j] for j in rng.permutation(300)[:40] if j != i)][:30] for i in range(300)]
    levels = permuted_levels(run_of(lists), QRELS, 300, METRICS)
    expected = chance_levels(QRELS, 300, METRICS, 30)
    assert levels["recall@30"] == pytest.approx(expected["recall@30"], abs=0.03)
    assert levels["mrr@30"] == pytest.approx(expected["mrr@30"], abs=0.01)
    assert levels["map"] == pytest.approx(levels["mrr@30"]), "with one relevant document each"


def test_popular_documents_for_every_query_are_guessing() -> None:
    lists = [DOCUMENTS[:30]] * 300
    assert permuted_levels(run_of(lists), QRELS, 300, ["recall@30"])["recall@30"] == pytest.approx(0.1)


def test_candidates_stay_with_their_query_in_random_order() -> None:
    pools = {f"q{i}": [f"d{(i + j) % 300}" for j in range(10)] for i in range(300)}
    lists = [[f"d{i}", f"d{(i + 1) % 300}"] for i in range(300)]
    levels = permuted_levels(run_of(lists), QRELS, pools, ["recall@2", "recall@9", "mrr"])
    assert levels["recall@2"] == levels["recall@9"] == pytest.approx(0.2, abs=0.04)
    assert levels["mrr"] == pytest.approx(chance_levels(QRELS, pools, ["mrr"], 2)["mrr"], abs=0.03)


def test_a_single_query_or_no_hit_has_none() -> None:
    one = Run(["q0"], [["d0"]], [np.ones(1, np.float32)])
    assert permuted_levels(one, {"q0": {"d0": 1}}, 300, ["map"]) == {}
    assert permuted_levels(run_of([[]] * 300), QRELS, 300, ["map"]) == {}
