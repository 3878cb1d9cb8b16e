"""Retrieval metrics with ranx.

ranx is given arrays of numbers, not its own Run and Qrels: the order of a ranking is then the one of
:class:`pretrieve.retrieval.run.Run` to the last tie, ids are not hashed, and its compiled typed dictionaries (seconds
of start-up in every process) are not needed. The first call of a metric on a machine compiles it (1-4 s, cached).
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrieve.corpora.tables import read_table
from pretrieve.errors import ConfigError, DataError
from pretrieve.retrieval.run import Run, read_trec

#: Metric names; all but r-precision take a cut ``@k``, and all a lowest relevant grade ``-lN`` (default 1). ranx has
#: bpref too, but its value is NaN for queries that have no judged document of grade 0.
METRICS = (
    "hits",
    "hit_rate",
    "precision",
    "recall",
    "f1",
    "mrr",
    "map",
    "dcg",
    "dcg_burges",
    "ndcg",
    "ndcg_burges",
    "r-precision",
)
_NO_CUT = ("r-precision",)
_NAME = re.compile(r"(?P<base>[a-z_1-]+?)(@(?P<cut>[1-9][0-9]*))?(-l(?P<level>[1-9][0-9]*))?")


@dataclass(frozen=True)
class Scores:
    """``mean[metric]`` over all queries of the qrels, and ``per_query[metric][query_id]``, queries in qrels order."""

    mean: dict[str, float]
    per_query: dict[str, dict[str, float]]


def check_metric(name: str) -> None:
    """Accept a metric in ranx's notation such as ``recall@100``, ``ndcg@10`` or ``map-l2``.

    Raises
    ------
    ConfigError
        naming the nearest metric that exists.
    """
    match = _NAME.fullmatch(name)
    if match and match["base"] in METRICS and not (match["cut"] and match["base"] in _NO_CUT):
        return
    base, _, rest = name.partition("@")
    near = difflib.get_close_matches(base.lower(), METRICS, n=1, cutoff=0.0)[0]
    cut = re.match(r"[1-9][0-9]*", rest)
    example = near + (f"@{cut[0]}" if cut and near not in _NO_CUT else "")
    raise ConfigError(
        f"metric '{name}' is unknown; nearest is '{example}'. "
        f"Expected one of {', '.join(METRICS)}, with '@k' for a cut (not {' or '.join(_NO_CUT)})."
    )


def evaluate(run: Run, qrels: Mapping[str, Mapping[str, int]], metrics: Sequence[str]) -> Scores:
    """Score a run against relevance judgements ``qrels[query_id][doc_id] = grade``.

    The qrels define the queries: one that is missing from the run, or has no hits, counts 0; one that only the run
    has is left out. Documents of grade 0 are judged and not relevant. A query without relevant documents counts 0.

    Raises
    ------
    ConfigError
        when a metric is unknown or none is asked for.
    DataError
        when the qrels are empty, or a document repeats for a query.
    """
    if not metrics:
        raise ConfigError("no metric was asked for; give at least one, such as recall@100.")
    for name in metrics:
        check_metric(name)
    if not qrels:
        raise DataError("the qrels have no query; expected at least one judged query.")
    hits = {}
    for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True):
        if len(set(doc_ids)) < len(doc_ids):  # a run can be changed after its own check
            raise DataError(f"run: a document occurs twice for query '{query_id}'; every document counts once.")
        hits[query_id] = doc_ids
    per_query = {name: dict.fromkeys(qrels, 0.0) for name in metrics}
    for query_ids, judged, ranked in _rectangles(hits, qrels):
        for name, values in _ranx(judged, ranked, metrics).items():
            per_query[name].update(zip(query_ids, values.tolist(), strict=True))
    mean = {name: float(np.mean(list(values.values()))) for name, values in per_query.items()}
    return Scores(mean, per_query)


def _rectangles(hits: Mapping[str, list[str]], qrels: Mapping[str, Mapping[str, int]]):
    """Group queries by number of judged and of ranked documents, so that arrays need no padding (which some metrics
    would count). Yields (ids, judged (n, j, 2), ranked (n, r, 2)) of float64 rows (document number, grade or score).
    """
    groups: dict[tuple[int, int], list[str]] = defaultdict(list)
    for query_id, grades in qrels.items():
        if grades and hits.get(query_id):
            groups[len(grades), len(hits[query_id])].append(query_id)
    for (n_judged, n_ranked), query_ids in groups.items():
        judged = np.empty((len(query_ids), n_judged, 2))
        ranked = np.empty((len(query_ids), n_ranked, 2))
        ranked[:, :, 1] = np.arange(n_ranked, 0, -1)  # the order is the run's; scores play no part any more
        for i, query_id in enumerate(query_ids):
            # Numbers need to be equal for equal documents of one query only. Highest grade first, as ranx assumes.
            best_first = sorted(qrels[query_id].items(), key=lambda item: -item[1])
            number = {doc_id: n for n, (doc_id, _) in enumerate(best_first)}
            judged[i, :, 0] = np.arange(n_judged)
            judged[i, :, 1] = [grade for _, grade in best_first]
            unjudged = len(number)
            ranked[i, :, 0] = [number.get(doc_id, unjudged + n) for n, doc_id in enumerate(hits[query_id])]
        yield query_ids, judged, ranked


def _ranx(judged: np.ndarray, ranked: np.ndarray, metrics: Sequence[str]) -> dict[str, np.ndarray]:
    import ranx  # two seconds (scipy.stats, matplotlib, pandas, ...), so only where a run is really evaluated

    names = list(metrics) * (2 if len(metrics) == 1 else 1)  # ranx 0.3.21 loses the name of a single metric
    return ranx.evaluate(judged, ranked, names, return_mean=False, threads=1)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read a task's ``qrels.parquet`` (query_id, doc_id, relevance); a pair judged twice is a DataError."""
    table = read_table(path, ["query_id", "doc_id", "relevance"])
    qrels: dict[str, dict[str, int]] = {}
    columns = (table[name].to_pylist() for name in ("query_id", "doc_id", "relevance"))
    for row, (query_id, doc_id, grade) in enumerate(zip(*columns, strict=True)):
        grades = qrels.setdefault(query_id, {})
        if doc_id in grades:
            raise DataError(
                f"{path}, row {row}: document '{doc_id}' is judged twice for query '{query_id}'; keep one judgement."
            )
        grades[doc_id] = grade
    return qrels


def metrics_record(
    run_path: Path,
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    candidates: int,
    metrics: Sequence[str],
) -> dict:
    """The content of a metrics file: scores of one run on ``query_ids``, and what they were computed from.

    Numbers are rounded to 10 decimals, so that equal runs give equal bytes on any machine. ``run`` is the path as
    given. A query without any judgement is a DataError: it would silently count 0.
    """
    unjudged = [query_id for query_id in query_ids if query_id not in qrels]
    if unjudged:
        raise DataError(
            f"{run_path}: {len(unjudged)} of {len(query_ids)} queries have no judgement, the first is '{unjudged[0]}'; "
            "expected every test query in the qrels."
        )
    scores = evaluate(read_trec(run_path), {query_id: qrels[query_id] for query_id in query_ids}, metrics)
    return {
        "run": Path(run_path).as_posix(),
        "run_sha256": hashlib.sha256(Path(run_path).read_bytes()).hexdigest(),
        "n_queries": len(query_ids),
        "n_candidates": candidates,
        "metrics": {name: round(value, 10) for name, value in scores.mean.items()},
        "per_query": {
            name: {query_id: round(value, 10) for query_id, value in values.items()}
            for name, values in scores.per_query.items()
        },
    }
