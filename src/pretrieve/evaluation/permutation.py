"""What guessing scores for metrics without a formula: the same metrics of permuted rankings.

``hits@k`` depends on how many passages have an answer, ``map`` and ``f1`` on whole rankings. So the rankings are permuted and
scored again: where all queries search one corpus, each query gets the ranking of another one; where each has its own candidates,
they are put into random order. The first is the stricter guess: a system that finds the same popular passages for every query
is not beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.metrics import evaluate
from pretrieve.retrieval.trec_run import Run

#: The level is the mean over this many permutations, which are the same for every system.
PERMUTATIONS = 4


def permuted_levels(
    run: Run,
    qrels: Mapping[str, Mapping[str, int]],
    candidates: int | Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    answers: TaskAnswers | None = None,
) -> dict[str, float]:
    """Metric → its mean over the permuted rankings of the queries of ``qrels``; empty for a single query in a whole corpus.

    candidates: of each query, in the rerank setting; else only their number, and rankings change places.
    """
    asked = [i for i, query_id in enumerate(run.query_ids) if query_id in qrels]
    names, ranked = [run.query_ids[i] for i in asked], [run.doc_ids[i] for i in asked]
    if isinstance(candidates, Mapping):
        permuted = _shuffled([candidates[name] for name in names], list(map(len, ranked)))
    else:
        permuted = _exchanged(ranked)
    if not metrics or not any(ranked):
        return {}
    means = [evaluate(_as_run(names, lists), qrels, metrics, answers).mean for lists in permuted]
    return {name: fmean(mean[name] for mean in means) for name in metrics} if means else {}


def _exchanged(ranked: list[list[str]]) -> Iterator[list[list[str]]]:
    """Every list moves on by some places, so that no query keeps its own."""
    count = len(ranked)
    for shift in sorted({1 + i * (count - 1) // PERMUTATIONS for i in range(PERMUTATIONS)} if count > 1 else ()):
        yield ranked[shift:] + ranked[:shift]


def _shuffled(pools: Sequence[Sequence[str]], depths: Sequence[int]) -> Iterator[list[list[str]]]:
    for seed in range(PERMUTATIONS):
        rng = np.random.default_rng(seed)
        yield [[pool[i] for i in rng.permutation(len(pool))[:depth]] for pool, depth in zip(pools, depths, strict=True)]


def _as_run(names: list[str], lists: list[list[str]]) -> Run:
    return Run(names, lists, [np.arange(len(docs), 0, -1, dtype=np.float32) for docs in lists])
