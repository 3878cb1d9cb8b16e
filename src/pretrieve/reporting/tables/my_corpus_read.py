"""The rows of a corpus of one's own as they were measured: scores of every seed and query, and what a row costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import Estimate, crossed_draws, query_variance, simultaneous_tail
from pretrieve.reporting.tables.results import Cost, ResultFiles, negatives_note

#: Kinds of rows that are trained here, and of rows whose score is that of one dense retriever.
TRAINED = ("fine-tuned", "continued", "scratch")
DENSE = ("as-is", *TRAINED)
NAMES = {"ndcg": "nDCG", "mrr": "MRR", "recall": "Recall"}
#: From the cheapest kind of row to the dearest: how much is trained, then how much runs. A hybrid comes behind its dense row.
EFFORT = {"bm25": 0, "as-is": 1, "fine-tuned": 2, "continued": 3, "scratch": 4, "rerank": 5}


class Score(NamedTuple):
    """Mean over seeds and sample standard deviation (None for one seed), 0 to 1."""

    mean: float
    sd: float | None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.sd is None else f" ± {self.sd:.3f}")


class Difference(NamedTuple):
    """effect: a mean less another one; low, high: its interval."""

    effect: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.effect:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def may_be_nothing(self) -> bool:
        return self.low <= 0 <= self.high


class Running(NamedTuple):
    """What a row costs when it is used: milliseconds of a question on one core, bytes of its indexes and models."""

    ms: float
    disk: int


@dataclass(frozen=True)
class Row:
    """One way to search. kind: of :data:`EFFORT`, or ``hybrid``; dense: of a hybrid, its dense system. values: (seeds, queries)
    of the first metric; cost: of one seed; gain: over BM25, None of BM25 itself. weight: of BM25 in a hybrid.
    note: on its training."""

    kind: str
    label: str
    system: str
    seeds: tuple[int, ...]
    scores: Mapping[str, Score]
    values: np.ndarray
    cost: Cost
    running: Running
    dense: str = ""
    dense_kind: str = ""
    weight: float | None = None
    gain: Difference | None = None
    note: str = ""

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def effort(self) -> tuple[int, int, float]:
        """What makes one row dearer than another: kind, a second search beside the dense one, seconds of building."""
        hybrid = self.kind == "hybrid"
        return EFFORT[self.dense_kind if hybrid else self.kind], int(hybrid), self.cost.wall_s


@dataclass(frozen=True)
class Comparison:
    """All rows, BM25 first, on the same queries. metric: the first one."""

    rows: tuple[Row, ...]
    metric: str

    @property
    def bm25(self) -> Row:
        return self.rows[0]

    @property
    def queries(self) -> int:
        return self.bm25.values.shape[1]

    @cached_property
    def tail(self) -> float:
        """With which the intervals of all rows over BM25 hold at once (:func:`simultaneous_tail`)."""
        means = [row.values.mean(0, keepdims=True) for row in self.rows]
        draws = crossed_draws(means, [row.system for row in self.rows])
        return simultaneous_tail(draws[:, 1:] - draws[:, :1]) if len(self.rows) > 1 else 0.025

    @cached_property
    def between_seeds(self) -> tuple[float, int]:
        """(variance between seeds of a row's score, its degrees of freedom), pooled over the rows that have several: they are
        trained alike, and two seeds of one row alone would say next to nothing about it (one degree of freedom)."""
        spreads = [(row.values.mean(1).var(ddof=1), len(row.seeds) - 1) for row in self.rows if len(row.seeds) > 1]
        freedom = sum(df for _, df in spreads)
        return (sum(variance * df for variance, df in spreads) / freedom, freedom) if freedom else (0.0, 1)

    def difference(self, row: Row, other: Row) -> Difference:
        """``row`` less ``other``, with the error that other seeds and queries would give it: the ledger's parts (variance,
        degrees of freedom; :class:`Estimate`), that of the seeds pooled over rows. Rows with one seed have no such part."""
        queries = row.values.mean(0) - other.values.mean(0)
        variance, freedom = self.between_seeds
        seeds = sum(variance / len(one.seeds) for one in (row, other) if len(one.seeds) > 1)
        of_queries = query_variance(queries)
        found = Estimate(float(queries.mean()), (of_queries, (seeds, freedom)), len(queries))
        low, high = (bound if math.isfinite(bound) else found.effect for bound in found.interval(self.tail))
        if not of_queries[0] and 0.5 ** len(queries) > self.tail:
            low, high = min(low, 0.0), max(high, 0.0)  # a few queries with one and the same difference
        return Difference(found.effect, low, high)

    def with_gains(self) -> Comparison:
        gained = (replace(row, gain=self.difference(row, self.bm25)) for row in self.rows[1:])
        return Comparison((self.bm25, *gained), self.metric)


def read_rows(request: Mapping[str, Any], weights: Mapping[str, Any], speed: Mapping[str, Any]) -> Comparison:
    """The rows of a request (:func:`pretrieve.workflow.my_corpus_rows.table_request`), compared with BM25.

    weights: what my_corpus_hybrids.py wrote; speed: what my_corpus_speed.py wrote.

    Raises DataError when a file is missing or damaged, or two rows have other queries.
    """
    files, metric = ResultFiles(), request["metrics"][0]
    kinds = {entry["system"]: entry["kind"] for entry in request["rows"]}
    rows, queries = [], None
    for entry in request["rows"]:
        found = [files.per_query(file, metric) or {} for file in _metrics(request, entry)]
        queries = queries if queries is not None else sorted(found[0])
        for seed, values in zip(entry["seeds"], found, strict=True):
            if values.keys() != set(queries):
                raise DataError(
                    f"{entry['system']}, seed {seed}: {len(values)} queries with {metric}, {rows[0].system if rows else 'BM25'} "
                    f"has {len(queries)}; expected the same. Evaluate both again."
                )
        values = np.array([[values[query] for query in queries] for values in found])
        row = _row(entry, request, files, values, running_of(entry, speed))
        if row.kind == "hybrid":
            row = replace(row, dense_kind=kinds[row.dense], weight=weights[row.system]["weight"])
        rows.append(row)
    return Comparison(tuple(rows), metric).with_gains()


def _metrics(request: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """The metrics files of a row, one for each seed."""
    return [paths.metrics_file(request["root"], entry["system"], request["dataset"], seed) for seed in entry["seeds"]]


def _row(
    entry: Mapping[str, Any], request: Mapping[str, Any], files: ResultFiles, values: np.ndarray, running: Running
) -> Row:
    system, seeds, scores = entry["system"], tuple(entry["seeds"]), {}
    for metric in request["metrics"]:
        numbers = [files.number(file, "metrics", metric) for file in _metrics(request, entry)]
        scores[metric] = Score(fmean(numbers), stdev(numbers) if len(numbers) > 1 else None)
    costs = [files.cost(entry["costs"][str(seed)]) for seed in seeds]
    trained = entry["kind"] in TRAINED
    return Row(
        kind=entry["kind"],
        label=entry["label"],
        system=system,
        seeds=seeds,
        scores=scores,
        values=values,
        cost=Cost(*map(fmean, zip(*costs, strict=True))),
        running=running,
        dense=entry.get("dense", ""),
        note=negatives_note(request["root"], request["trained_on"], system, seeds, files) if trained else "",
    )


def running_of(entry: Mapping[str, Any], speed: Mapping[str, Any]) -> Running:
    """What a question of a row costs, of the parts that were measured."""
    lexical = Running(speed["bm25_ms"], speed["bm25_bytes"])
    dense = Running(speed["encode_ms"] + speed["search_ms"], speed["vectors_bytes"] + speed["model_bytes"])
    if entry["kind"] == "bm25":
        return lexical
    if entry["kind"] == "rerank":
        return Running(lexical.ms + speed["rerank_ms"], lexical.disk + speed["model_bytes"])
    return Running(lexical.ms + dense.ms, lexical.disk + dense.disk) if entry["kind"] == "hybrid" else dense


def metric_name(metric: str) -> str:
    """``ndcg@10`` → ``nDCG@10``."""
    name, at, depth = metric.partition("@")
    return f"{NAMES.get(name, name)}{at}{depth}"


def counted(number: int, noun: str) -> str:
    """``1`` and ``query`` → ``1 query``; ``2`` → ``2 queries``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def best_of(rows: Sequence[Row]) -> Row:
    """The row with the highest mean; of equal ones the cheapest."""
    return max(rows, key=lambda row: (row.mean, [-part for part in row.effort]))
