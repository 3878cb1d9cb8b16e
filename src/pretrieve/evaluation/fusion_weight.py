"""Which weight BM25 gets beside a dense retriever: chosen on development questions, and near one half where these do not decide.

Of the weights 0, 0.1, …, 1 the one nearest to 0.5 is taken whose mean score is not below the best one's by more than the standard
error of that difference over the questions (the one-standard-error rule of Breiman et al., *Classification and Regression Trees*,
1984, §3.4.3, with the even sum as the simplest model): a few questions cannot say more. Fewer than :data:`LEAST`
questions choose nothing. The weight is then :data:`EVEN`, or :data:`FOREIGN` where the encoder was not trained in the language of
the texts: benchmarks/hybrid_shares.py has both beside all others, and beside reciprocal rank fusion, which is lower than a sum in
most corpora and far lower than BM25 alone where the encoder is weak, as in a language that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pretrieve.evaluation.conventions import drop_identical_ids
from pretrieve.evaluation.metrics import evaluate
from pretrieve.retrieval.fusion import fuse
from pretrieve.retrieval.trec_run import Run

WEIGHTS = tuple(step / 10 for step in range(11))
LEAST = 20
EVEN, FOREIGN = 0.5, 0.8


class Choice(NamedTuple):
    """weight: of the first run (BM25); questions: that chose it, if they were enough; scores: weight → mean."""

    weight: float
    questions: int
    scores: dict[str, float]


def choose_weight(
    first: Run,
    seconds: Sequence[Run],
    qrels: Mapping[str, Mapping[str, int]],
    metric: str,
    otherwise: float = EVEN,
    conventions: Sequence[str] = (),
) -> Choice:
    """The weight of ``first`` beside the runs ``seconds`` (one for each seed, whose scores are averaged), all of the same
    development questions, those of ``qrels``; metric: such as ``ndcg@10``; otherwise: the weight if these are too few;
    conventions: of these only ``drop-identical-ids`` counts here."""
    if len(qrels) < LEAST:
        return Choice(otherwise, len(qrels), {})
    table = []
    for weight in WEIGHTS:
        fused = [fuse(first, second, weight) for second in seconds]
        if "drop-identical-ids" in conventions:
            fused = [drop_identical_ids(run) for run in fused]
        values = [evaluate(run, qrels, [metric]).per_query[metric] for run in fused]
        table.append([np.mean([one[query] for one in values]) for query in qrels])
    return Choice(
        nearest_to_even(np.array(table)),
        len(qrels),
        dict(zip(map(str, WEIGHTS), np.mean(table, 1).tolist(), strict=True)),
    )


def nearest_to_even(scores: np.ndarray) -> float:
    """The rule of the module for ``scores`` (weights, questions).

    >>> nearest_to_even(np.array([[1.0, 1.0]] * 8 + [[0.0, 1.0]] * 3))  # 0 to 0.7 are equal
    0.5
    """
    best = scores[scores.mean(1).argmax()]
    behind = best - scores
    near = behind.mean(1) <= behind.std(1, ddof=1) / np.sqrt(scores.shape[1]) + 1e-12
    return min((weight for weight, fits in zip(WEIGHTS, near, strict=True) if fits), key=lambda w: (abs(w - 0.5), w))
