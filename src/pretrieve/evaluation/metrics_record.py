"""The metrics file of a run: its scores, what guessing scores, and what they were computed from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.chance import chance_levels
from pretrieve.evaluation.conventions import check_conventions, drop_identical_ids, msmarco_mrr, read_ranks
from pretrieve.evaluation.metrics import NAME, Scores, evaluate, needs_answers
from pretrieve.evaluation.permutation import permuted_levels
from pretrieve.retrieval.trec_run import read_trec


def metrics_record(
    run_path: Path,
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    candidates: int | Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    answers: TaskAnswers | None = None,
    conventions: Sequence[str] = (),
) -> dict:
    """The content of a metrics file: scores of one run on ``query_ids``, and what they were computed from.

    Numbers are rounded to 10 decimals, so that equal runs give equal bytes on any machine. ``run`` is the path as
    given.

    candidates: how many documents were searched. Where each query had its own, as in reranking, those of each query: then
    ``n_candidates`` is the mean of their numbers, and ``candidates_per_query`` has ``min``, ``median`` and ``max``.
    answers: of the task, for ``hits@k``. Queries need judgements only where another metric is asked for.
    conventions: names of :data:`pretrieve.evaluation.conventions.CONVENTIONS`; written into the record.

    Raises ConfigError when a metric or convention is unknown, ``hits@k`` is asked for without ``answers``, or a metric of
    judgements for queries that have only answers, and DataError when a query has no judgement, which would silently count 0,
    or no list of candidates.
    """
    check_conventions(conventions)
    unjudged = [query_id for query_id in query_ids if query_id not in qrels]
    of_judgements = [name for name in metrics if not needs_answers(name)]
    if unjudged and of_judgements:
        if answers is not None and answers.known(unjudged):
            raise ConfigError(
                f"metric '{of_judgements[0]}' counts relevant documents, but {len(unjudged)} of {len(query_ids)} queries have no "
                f"judgement, only answers (the first is '{unjudged[0]}'); ask for hits@k alone for {answers.directory}."
            )
        raise DataError(
            f"{run_path}: {len(unjudged)} of {len(query_ids)} queries have no judgement, the first is '{unjudged[0]}'; "
            "expected every test query in the qrels."
        )
    judged = {query_id: qrels.get(query_id, {}) for query_id in query_ids}
    run = read_trec(run_path)
    if "drop-identical-ids" in conventions:
        run = drop_identical_ids(run)
    scores = evaluate(run, judged, metrics, answers)
    for variant in ("passage", "document"):
        if f"msmarco-{variant}-mrr" in conventions:
            _count_as_msmarco(scores, run_path, judged, variant)
    pool = _pool(run_path, candidates, query_ids)
    levels = chance_levels(judged, candidates, metrics, max(map(len, run.doc_ids), default=0))
    levels |= permuted_levels(run, judged, candidates, [name for name in metrics if name not in levels], answers)
    record = {
        "run": Path(run_path).as_posix(),
        "run_sha256": hashlib.sha256(Path(run_path).read_bytes()).hexdigest(),
        "n_queries": len(query_ids),
        **pool,
        "metrics": {name: round(value, 10) for name, value in scores.mean.items()},
        "chance": {name: round(value, 10) for name, value in levels.items()},
        "per_query": {
            name: {query_id: round(value, 10) for query_id, value in values.items()}
            for name, values in scores.per_query.items()
        },
    }
    return record | ({"conventions": list(conventions)} if conventions else {})


def _count_as_msmarco(scores: Scores, run_path: Path, qrels: Mapping[str, Mapping[str, int]], variant: str) -> None:
    """Replace every ``mrr@k`` by MS MARCO's official value."""
    hits = read_ranks(run_path)
    for name in scores.mean:
        parts = NAME.fullmatch(name)
        if parts["base"] == "mrr" and parts["cut"] and not parts["level"]:
            values = msmarco_mrr(hits, qrels, int(parts["cut"]), variant)
            scores.per_query[name] = values
            scores.mean[name] = float(np.mean(list(values.values())))


def _pool(run_path: Path, candidates: int | Mapping[str, Sequence[str]], query_ids: Sequence[str]) -> dict:
    """The record's keys that say how many documents a query was ranked against."""
    if not isinstance(candidates, Mapping):
        return {"n_candidates": candidates}
    missing = [query_id for query_id in query_ids if query_id not in candidates]
    if missing:
        raise DataError(
            f"{run_path}: {len(missing)} of {len(query_ids)} queries have no list of candidates, the first is "
            f"'{missing[0]}'; expected one for every test query."
        )
    sizes = np.array([len(candidates[query_id]) for query_id in query_ids])
    mean, median = round(float(sizes.mean()), 10), float(np.median(sizes))
    return {
        "n_candidates": _whole(mean),
        "candidates_per_query": {"min": int(sizes.min()), "median": _whole(median), "max": int(sizes.max())},
    }


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value
