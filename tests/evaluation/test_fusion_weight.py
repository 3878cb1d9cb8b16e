"""The weight of BM25 in a hybrid, chosen on development questions.

Seen to fail when: the best mean decides where the questions do not tell; the weight is that of the second run.
"""

from __future__ import annotations

import numpy as np

from pretrieve.evaluation.fusion_weight import LEAST, WEIGHTS, choose_weight, nearest_to_even
from pretrieve.retrieval.trec_run import Run

QUERIES = [f"q{number}" for number in range(40)]
QRELS = {query: {"good": 1} for query in QUERIES}


def run(good: float, bad: float) -> Run:
    """The relevant document with one score, another one with the other, and one at the bottom."""
    return Run(QUERIES, [["good", "bad", "low"] for _ in QUERIES], [np.array([good, bad, 0.0]) for _ in QUERIES])


def test_a_run_that_is_always_right_gets_the_weight_that_it_needs() -> None:
    right, wrong = run(1.0, 0.2), run(0.2, 1.0)
    assert choose_weight(right, [wrong], QRELS, "ndcg@10").weight == 0.6
    found = choose_weight(wrong, [right], QRELS, "ndcg@10")
    assert found.weight == 0.4 and found.questions == 40
    assert found.scores["0.0"] == 1.0 > found.scores["1.0"], "weight 1 is the first run alone"


def test_where_the_questions_do_not_tell_the_sum_is_even() -> None:
    assert choose_weight(run(1.0, 0.2), [run(1.0, 0.5)], QRELS, "ndcg@10").weight == 0.5
    scores = np.zeros((len(WEIGHTS), 30))
    scores[9, :2] = 1.0  # two questions of thirty
    assert nearest_to_even(scores) == 0.9
    scores[9, 1] = 0.0  # one of thirty: its mean is one standard error above
    assert nearest_to_even(scores) == 0.5


def test_a_hit_that_is_the_query_itself_is_dropped_by_convention() -> None:
    own = Run(QUERIES, [[query, "good", "low"] for query in QUERIES], [np.array([1.0, 0.9, 0.0]) for _ in QUERIES])
    assert choose_weight(own, [own], QRELS, "mrr@10").scores["0.5"] == 0.5
    assert choose_weight(own, [own], QRELS, "mrr@10", conventions=["drop-identical-ids"]).scores["0.5"] == 1.0


def test_few_questions_choose_nothing() -> None:
    few = dict(list(QRELS.items())[: LEAST - 1])
    assert choose_weight(run(1.0, 0.2), [run(0.2, 1.0)], few, "ndcg@10", otherwise=0.8) == (0.8, LEAST - 1, {})
