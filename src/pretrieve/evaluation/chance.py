"""What guessing scores: the value of a metric that a ranking in random order, or a guessed label, is expected to have.

A small model after a short training may have learnt nothing. Then the differences of its scores are noise whatever their ratio
is, so metrics files carry these levels, and :mod:`pretrieve.reporting.claims.verdicts` uses no value that is not beyond them.
With N candidates of which r are relevant, in random order; k is at most the depth of the run, which is that of ``mrr``. R
documents are relevant in all: where only some candidates are ranked, R can be more than r.

===============  ===============================================================================================================
``recall@k``     k/N · r/R
``recall_cap``   k/N · r/min(k, R)
``precision@k``  r/N, less where the run is shorter than k
``hit_rate@k``   1 − C(N − r, k) / C(N, k)
``mrr``,         Σ_{j ≤ k} P(j)/j with P(j), that the first relevant one stands at rank j,
``mrr@k``        r/(N − j + 1) · Π_{i < j} (N − r − i + 1)/(N − i + 1)
``ndcg@k``       mean grade of all N · Σ_{j ≤ k} 1/log2(j + 1) / best DCG@k of the R
``accuracy``     of a class: the share of the most frequent one; of a triplet: 1/2
``auc``          1/2
``spearman``     0
MIND's ``mrr``   of an impression with N candidates: Σ_{j ≤ N} 1/j / N
MIND's ndcg@k    of an impression with r of N clicked: r/N · Σ_{j ≤ k} 1/log2(j + 1) / best DCG@k
===============  ===============================================================================================================

All others are permuted (:mod:`pretrieve.evaluation.metrics_record`). Contrastive entropy has its own level.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from pretrieve.evaluation.predictions import Prediction

_NAME = re.compile(r"(recall_cap|recall|precision|hit_rate|mrr|ndcg)(?:@([1-9][0-9]*))?")
#: One-sided: a mean that is this many of its standard errors above the level is beyond chance (p < 0.05).
_BEYOND = 1.645


def chance_levels(
    qrels: Mapping[str, Mapping[str, int]],
    candidates: int | Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    depth: int,
) -> dict[str, float]:
    """Metric → its expected mean over the queries of the qrels, for those of ``metrics`` that have a formula.

    candidates: how many documents every query is ranked against, or those of each query; depth: the most that a ranking has.
    """
    if not qrels or not depth:
        return {}
    pools = Counter(
        _pool(judged, candidates if isinstance(candidates, int) else candidates[q]) for q, judged in qrels.items()
    )
    if not any(pool.candidates for pool in pools):
        return {}
    levels = {}
    for name in metrics:
        if match := _NAME.fullmatch(name):
            sums = (n * _level(match[1], int(match[2] or 0), pool, depth) for pool, n in pools.items())
            levels[name] = sum(sums) / len(qrels)
    return levels


class _Pool(NamedTuple):
    """What a query's candidates are: grades above 0 of all judged documents and of those among the candidates, best first."""

    candidates: int
    grades: tuple[int, ...]
    found: tuple[int, ...]


def _pool(judged: Mapping[str, int], candidates: int | Sequence[str]) -> _Pool:
    grades = tuple(sorted((grade for grade in judged.values() if grade > 0), reverse=True))
    if isinstance(candidates, int):
        return _Pool(candidates, grades, grades)
    found = sorted((judged[name] for name in candidates if judged.get(name, 0) > 0), reverse=True)
    return _Pool(len(candidates), grades, tuple(found))


def _level(kind: str, at: int, pool: _Pool, depth: int) -> float:
    """at: the k of ``metric@k``, 0 without one."""
    n, relevant, in_all = pool.candidates, len(pool.found), len(pool.grades)
    if not relevant:
        return 0.0
    depth = min(depth, n)
    cut = min(at or depth, depth)
    k = at or cut
    if kind == "recall":
        return cut / n * relevant / in_all
    if kind == "recall_cap":
        return cut / n * relevant / min(k, in_all)
    if kind == "precision":
        return relevant / n * cut / k
    if kind == "ndcg":
        return sum(pool.found) / n * _discounts(cut).sum() / _best_dcg(pool.grades[:k])
    ranks = np.arange(1, cut + 1)
    # The chance that none of the first r is relevant: falls to 0 where fewer others are left.
    none = np.cumprod(np.clip((n - relevant - ranks + 1) / (n - ranks + 1), 0, None))
    if kind == "hit_rate":
        return float(1 - none[-1])
    return float((-np.diff(none, prepend=1.0) / ranks).sum())


def _discounts(count: int) -> np.ndarray:
    return 1 / np.log2(np.arange(2, count + 2))


def _best_dcg(gains: Sequence[int]) -> float:
    return float(np.dot(gains, _discounts(len(gains))))


def example_chance(kind: str, predictions: Sequence[Prediction]) -> dict[str, float]:
    """The same of a task of examples (:data:`pretrieve.evaluation.example_metrics.METRICS`)."""
    if kind == "classification":
        classes = Counter(int(prediction.labels[0]) for prediction in predictions)
        return {"accuracy": max(classes.values()) / len(predictions)}
    if kind == "clicks":
        levels = [_of_impression(len(p.scores), int((p.labels > 0).sum())) for p in predictions]
        return {"auc": 0.5} | {name: fmean(level[name] for level in levels) for name in levels[0]}
    return {"triplet": {"accuracy": 0.5}, "regression": {"spearman": 0.0}}[kind]


def _of_impression(n: int, clicked: int) -> dict[str, float]:
    levels = {"mrr": float((1 / np.arange(1, n + 1)).sum() / n)}
    for k in (5, 10):
        best = _best_dcg([1] * min(k, clicked))
        levels[f"ndcg@{k}"] = float(clicked / n * _discounts(min(k, n)).sum() / best)
    return levels


def beyond_chance(level: float, mean: float, scores: Sequence[float] | None, n: int) -> bool:
    """Whether a mean is above ``level`` by more than the spread of its queries explains (one-sided, p < 0.05).

    scores: of each query that has one; None for a rank correlation of ``n`` texts, whose standard error without any relation is
    1/√(n − 1).
    """
    n = len(scores) if scores else n
    if n < 2:
        return False
    error = stdev(scores) / math.sqrt(n) if scores else 1 / math.sqrt(n - 1)
    return (fmean(scores) if scores else mean) > level + _BEYOND * error
