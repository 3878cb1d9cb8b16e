"""What guessing scores, against all orders of a few documents that the metrics themselves score.

Seen to fail when: the cut is not limited by the number of candidates, or by the run's depth; relevant documents are drawn with
replacement; the best DCG has more documents than are relevant; a grade of 0 counts as relevant; the rarest class is taken; the
error of a mean is that of one query.
"""

from __future__ import annotations

from itertools import permutations
from statistics import fmean

import numpy as np
import pytest

from pretrieve.evaluation.chance import beyond_chance, chance_levels, example_chance
from pretrieve.evaluation.example_metrics import evaluate_examples
from pretrieve.evaluation.metrics import evaluate
from pretrieve.evaluation.predictions import Prediction
from pretrieve.retrieval.trec_run import Run

METRICS = [
    "recall@2",
    "recall@9",
    "precision@2",
    "precision@9",
    "hit_rate@2",
    "mrr",
    "mrr@2",
    "mrr@9",
    "ndcg@2",
    "ndcg@9",
    "recall_cap@2",
    "recall_cap@9",
]
DOCUMENTS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "grades", [{"a": 1}, {"a": 1, "c": 1}, {"a": 2, "b": 1, "e": 3}, {"a": 1, "b": 0}, dict.fromkeys(DOCUMENTS, 1)]
)
def test_the_mean_over_all_orders(grades):
    orders = list(permutations(DOCUMENTS))
    ids = [f"q{i}" for i in range(len(orders))]
    scores = np.arange(len(DOCUMENTS), 0, -1)
    run = Run(ids, [list(order) for order in orders], [scores] * len(orders))
    expected = evaluate(run, dict.fromkeys(ids, grades), METRICS).mean
    assert chance_levels({"q": grades}, len(DOCUMENTS), METRICS, 1000) == pytest.approx(expected)
    cut = evaluate(run.cut(3), dict.fromkeys(ids, grades), METRICS).mean
    assert chance_levels({"q": grades}, len(DOCUMENTS), METRICS, 3) == pytest.approx(cut)


@pytest.mark.parametrize("grades", [{"a": 1, "x": 1}, {"a": 2, "b": 1, "x": 3}, {"x": 1}])
def test_of_candidates_the_relevant_ones_among_them_can_be_found(grades):
    """Reranking: x is relevant and not among the candidates."""
    orders = list(permutations(DOCUMENTS))
    ids = [f"q{i}" for i in range(len(orders))]
    run = Run(ids, [list(order) for order in orders], [np.arange(len(DOCUMENTS), 0, -1)] * len(orders))
    expected = evaluate(run.cut(4), dict.fromkeys(ids, grades), METRICS).mean
    assert chance_levels({"q": grades}, {"q": DOCUMENTS}, METRICS, 4) == pytest.approx(expected)
    both = chance_levels({"q": grades, "empty": {"a": 1}}, {"q": DOCUMENTS, "empty": []}, ["mrr"], 4)["mrr"]
    assert both == pytest.approx(expected["mrr"] / 2)


@pytest.mark.parametrize("clicks", [[1, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1, 1]])
def test_impressions_over_all_orders(clicks):
    orders = set(permutations(clicks))
    ranked = [Prediction(str(i), np.arange(len(o), 0, -1.0), np.array(o)) for i, o in enumerate(orders)]
    expected, _ = evaluate_examples("clicks", ranked)
    assert example_chance("clicks", ranked[:1]) == pytest.approx(expected)


def test_queries_are_averaged_and_what_has_no_level_is_left_out():
    one, other = {"a": 1}, {"a": 1, "b": 1}
    levels = [chance_levels({"q": grades}, 10, ["mrr@3"], 10)["mrr@3"] for grades in (one, other)]
    both = chance_levels({"p": one, "q": other}, 10, ["mrr@3", "map", "hits@20", "mrr@3-l2"], 10)
    assert both == {"mrr@3": pytest.approx(fmean(levels))}
    assert chance_levels({}, 10, ["mrr"], 10) == chance_levels({"q": one}, 0, ["mrr"], 10) == {}
    assert chance_levels({"q": one}, 10, ["mrr"], 0) == {}  # a run without a hit
    assert chance_levels({"q": {"a": 0}}, 10, ["mrr", "ndcg@3"], 10) == {"mrr": 0, "ndcg@3": 0}


def test_examples():
    classes = [Prediction(str(i), np.zeros(3), np.array([label])) for i, label in enumerate([0, 1, 1, 2, 1])]
    assert example_chance("classification", classes) == {"accuracy": 0.6}
    assert example_chance("triplet", classes) == {"accuracy": 0.5}
    assert example_chance("regression", classes) == {"spearman": 0}


def test_beyond_is_further_than_the_error_of_the_mean():
    # 60 of 100: 0.1 above a half, the error is 0.0492, so 2.03 of them; 57 of 100: 1.4 of them.
    assert beyond_chance(0.5, 0.6, [1.0] * 60 + [0.0] * 40, 100)
    assert not beyond_chance(0.5, 0.57, [1.0] * 57 + [0.0] * 43, 100)
    # A rank correlation of 101 examples: the error is 0.1.
    assert beyond_chance(0, 0.17, None, 101) and not beyond_chance(0, 0.16, None, 101)
    assert not beyond_chance(0, 1.0, [1.0], 1)


def test_the_error_is_that_of_the_queries_with_a_score():
    """Of 100 queries 4 have one: mean 1 with an error of 0.41, and of one nothing is known."""
    assert not beyond_chance(0.5, 1.0, [0.0, 1.0, 1.0, 2.0], 100)
    assert not beyond_chance(0.5, 1.0, [1.0], 100)


def test_a_constant_guess_is_never_beyond_one_half():
    false = sum(
        beyond_chance(0.5, 0, np.random.default_rng(seed).integers(0, 2, 200).tolist(), 200) for seed in range(400)
    )
    assert 5 <= false <= 36  # 5 % of 400 is 20
