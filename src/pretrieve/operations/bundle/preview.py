"""Scores at a glance where ranx is not installed: what a slice shows, and sends home in its manifest.

By the definitions of :mod:`pretrieve.evaluation.metrics`, over the judgements that a bundle has with each task. The scores that
count are made of the runs at home, by the one evaluator that scores all runs; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import log2
from pathlib import Path

from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.trec_run import Run

_NAME = re.compile(r"(mrr|ndcg|precision|recall)(?:@(\d+))?")


def preview(run: Run, judgements: Path, queries: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
    """Metric → mean over ``queries``, 0 to 1, of those of the ``metrics`` that are known here.

    judgements: ``qrels.parquet`` of the task. {} where a query has none, and only answers.
    """
    wanted = set(queries)
    qrels: dict[str, dict[str, int]] = {}
    columns = read_table(judgements, ["query_id", "doc_id", "relevance"]).columns
    for query_id, doc_id, relevance in zip(*(column.to_pylist() for column in columns), strict=True):
        if query_id in wanted:
            qrels.setdefault(query_id, {})[doc_id] = relevance
    if len(qrels) < len(wanted):
        return {}
    hits = dict(zip(run.query_ids, run.doc_ids, strict=True))
    found = {}
    for metric in metrics:
        if match := _NAME.fullmatch(metric):
            depth = int(match[2]) if match[2] else None
            values = [_VALUES[match[1]](hits.get(query, [])[:depth], qrels[query], depth) for query in wanted]
            found[metric] = round(sum(values) / len(values), 10)
    return found


def _mrr(hits: Sequence[str], grades: Mapping[str, int], depth: int | None) -> float:
    return next((1 / rank for rank, document in enumerate(hits, 1) if grades.get(document, 0) > 0), 0.0)


def _recall(hits: Sequence[str], grades: Mapping[str, int], depth: int | None) -> float:
    relevant = sum(grade > 0 for grade in grades.values())
    return sum(grades.get(document, 0) > 0 for document in hits) / relevant if relevant else 0.0


def _precision(hits: Sequence[str], grades: Mapping[str, int], depth: int | None) -> float:
    size = len(hits) if depth is None else depth
    return sum(grades.get(document, 0) > 0 for document in hits) / size if size else 0.0


def _ndcg(hits: Sequence[str], grades: Mapping[str, int], depth: int | None) -> float:
    best = sorted(grades.values(), reverse=True)[:depth]
    ideal = sum(grade / log2(1 + rank) for rank, grade in enumerate(best, 1))
    gained = sum(grades.get(document, 0) / log2(1 + rank) for rank, document in enumerate(hits, 1))
    return gained / ideal if ideal else 0.0


_VALUES: dict[str, Callable[[Sequence[str], Mapping[str, int], int | None], float]] = {
    "mrr": _mrr,
    "recall": _recall,
    "precision": _precision,
    "ndcg": _ndcg,
}
