"""What guessing scores: the value of a metric that a ranking in random order, or a guessed label, is expected to have.

A small model after a short training may have learnt nothing. Then the differences of its scores are noise whatever their ratio
is, so metrics files carry these levels, and :mod:`pretrieve.reporting.verdicts` takes no value for a finding that is not beyond
them. With N candidates of which R are relevant, in random order; k is at most the depth of the run, which is that of ``mrr``:

===============  ===============================================================================================================
``recall@k``     k / N
``precision@k``  R/N, less where the run is shorter than k
``hit_rate@k``   1 − C(N − R, k) / C(N, k)
``mrr``,         Σ_{r ≤ k} P(r)/r with P(r), that the first relevant one stands at rank r,
``mrr@k``        R/(N − r + 1) · Π_{i < r} (N − R − i + 1)/(N − i + 1)
``ndcg@k``       mean grade of all N · Σ_{r ≤ k} 1/log2(r + 1) / best DCG@k
``accuracy``     of a class: the share of the most frequent one; of a triplet: 1/2
``auc``          1/2
``spearman``     0
===============  ===============================================================================================================

Others (``map``, ``hits@k``, ``f1``, MIND's ``mrr`` and ``ndcg@k``) have none here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import numpy as np

from pretrieve.evaluation.predictions import Prediction

_NAME = re.compile(r"(recall|precision|hit_rate|mrr|ndcg)(?:@([1-9][0-9]*))?")
#: One-sided: a mean that is further above the level than so many of its standard errors is beyond chance (p < 0.05).
_BEYOND = 1.645


def chance_levels(
    qrels: Mapping[str, Mapping[str, int]], candidates: int, metrics: Sequence[str], depth: int
) -> dict[str, float]:
    """Metric → its expected mean over the queries of the qrels, for those of ``metrics`` that have a level.

    candidates: documents that every query is ranked against; depth: so many of them a ranking has at most.
    """
    depth = min(depth, candidates)
    if not qrels or not depth:
        return {}
    grades = Counter(tuple(sorted((g for g in judged.values() if g > 0), reverse=True)) for judged in qrels.values())
    levels = {}
    for name in metrics:
        if match := _NAME.fullmatch(name):
            kind, cut = match[1], min(int(match[2] or depth), depth)
            sums = (n * _level(kind, cut, int(match[2] or cut), relevant, candidates) for relevant, n in grades.items())
            levels[name] = sum(sums) / len(qrels)
    return levels


def _level(kind: str, cut: int, k: int, grades: Sequence[int], n: int) -> float:
    relevant = len(grades)
    if not relevant:
        return 0.0
    if kind == "recall":
        return cut / n
    if kind == "precision":
        return relevant / n * cut / k
    if kind == "ndcg":
        discounts = 1 / np.log2(np.arange(2, cut + 2))
        best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades[:k], 1))
        return float(sum(grades) / n * discounts.sum() / best)
    ranks = np.arange(1, cut + 1)
    # The chance that none of the first r is relevant: falls to 0 where fewer others are left.
    none = np.cumprod(np.clip((n - relevant - ranks + 1) / (n - ranks + 1), 0, None))
    if kind == "hit_rate":
        return float(1 - none[-1])
    return float((-np.diff(none, prepend=1.0) / ranks).sum())


def example_chance(kind: str, predictions: Sequence[Prediction]) -> dict[str, float]:
    """The same of a task of examples (:data:`pretrieve.evaluation.example_metrics.METRICS`)."""
    if kind == "classification":
        classes = Counter(int(prediction.labels[0]) for prediction in predictions)
        return {"accuracy": max(classes.values()) / len(predictions)}
    return {"triplet": {"accuracy": 0.5}, "clicks": {"auc": 0.5}, "regression": {"spearman": 0.0}}[kind]


def beyond_chance(level: float, mean: float, scores: Sequence[float] | None, n: int) -> bool:
    """Whether a mean is above ``level`` by more than the spread of its ``n`` queries explains (one-sided, p < 0.05).

    scores: of each query; None for a rank correlation, whose standard error without any relation is 1/√(n − 1).
    """
    if n < 2:
        return False
    error = stdev(scores) / math.sqrt(n) if scores else 1 / math.sqrt(n - 1)
    return (fmean(scores) if scores else mean) > level + _BEYOND * error
