"""The metrics file of a run: its scores, what guessing scores, and what they were computed from.

Where no formula says what guessing scores, the same metrics of permuted rankings do: ``hits@k`` depends on how many passages
have an answer, ``map`` and ``f1`` on whole rankings. Where all queries search one corpus, each query gets the ranking of another
one; where each has its own candidates, they are put into random order. The first is the stricter guess: a system that finds the
same popular passages for every query is not beyond it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.chance import chance_levels
from pretrieve.evaluation.conventions import check_conventions, drop_identical_ids, msmarco_mrr, read_ranks
from pretrieve.evaluation.metrics import NAME, Scores, evaluate, needs_answers, refuse_other_queries
from pretrieve.retrieval.trec_run import Run, read_trec

#: The level is the mean over so many permutations, which are the same for every system.
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
    means = []
    for lists in permuted:
        scores = [np.arange(len(docs), 0, -1, dtype=np.float32) for docs in lists]
        means.append(evaluate(Run(names, lists, scores), qrels, metrics, answers).mean)
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


def metrics_record(
    run_path: Path,
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    candidates: int | pa.ChunkedArray | Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    answers: TaskAnswers | None = None,
    conventions: Sequence[str] = (),
) -> dict:
    """The content of a metrics file: scores of one run on ``query_ids``, and what they were computed from.

    Numbers are rounded to 10 decimals, so that equal runs give equal bytes on any machine. ``run`` is the path as
    given.

    candidates: the number of documents that were searched, or the ids of them all, to check the run's ids against. Where each
    query had its own, as in reranking, those of each query: then ``n_candidates`` is the mean of their numbers, and
    ``candidates_per_query`` has ``min``, ``median`` and ``max``.
    answers: of the task, for ``hits@k``. Queries need judgements only where another metric is asked for.
    conventions: names of :data:`pretrieve.evaluation.conventions.CONVENTIONS`; written into the record.

    Raises ConfigError when a metric or convention is unknown, ``hits@k`` is asked for without ``answers``, or a metric of
    judgements for queries that have only answers, and DataError when a query has no judgement, which would silently count 0,
    or no list of candidates, or when the run is a pipe, or shares no query or no document with the task. Documents of the run
    that the corpus lacks, and queries that the run lacks, are reported on standard error.
    """
    check_conventions(conventions)
    if Path(run_path).is_fifo():  # what is read once has no checksum afterwards
        raise DataError(f"{run_path}: is a pipe, and a metrics file names the run that it scores; write the run first.")
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
    of_msmarco = [variant for variant in ("passage", "document") if f"msmarco-{variant}-mrr" in conventions]
    run = read_trec(run_path, three_columns=bool(of_msmarco))
    refuse_other_queries(run, judged, run_path)
    if without := judged.keys() - run.query_ids:
        counts = f"{len(without):,} of {len(judged):,} queries have no hit in it, such as '{min(without)}'"
        print(f"{run_path}: {counts}: they count as 0.", file=sys.stderr)
    if isinstance(candidates, pa.ChunkedArray):
        _report_unknown_documents(run, candidates, run_path)
        candidates = len(candidates)
    if "drop-identical-ids" in conventions:
        run = drop_identical_ids(run)
    scores = evaluate(run, judged, metrics, answers)
    for variant in of_msmarco:
        _count_as_msmarco(scores, run_path, judged, variant)
    pool = _pool(run_path, candidates, query_ids)
    levels = chance_levels(judged, candidates, metrics, max(map(len, run.doc_ids), default=0))
    levels |= permuted_levels(run, judged, candidates, [name for name in metrics if name not in levels], answers)
    return {
        "run": Path(run_path).as_posix(),
        "run_sha256": sha256_of(Path(run_path)),
        "n_queries": len(query_ids),
        **pool,
        "metrics": {name: round(value, 10) for name, value in scores.mean.items()},
        "chance": {name: round(value, 10) for name, value in levels.items()},
        "per_query": {
            name: {query_id: round(value, 10) for query_id, value in values.items()}
            for name, values in scores.per_query.items()
        },
        **({"conventions": list(conventions)} if conventions else {}),
    }


def _report_unknown_documents(run: Run, searched: pa.ChunkedArray, run_path: Path) -> None:
    """Report documents that the corpus lacks: ids that another program changed, ``007`` to ``7``, lower the scores in silence."""
    found = pa.array(set(chain.from_iterable(run.doc_ids)), pa.string())
    others = found.filter(pc.invert(pc.is_in(found, value_set=searched))).to_pylist()
    if others:
        said = f"{run_path}: {len(others):,} of its {len(found):,} documents are not in the corpus, such as '{min(others)}'"
        if len(others) == len(found):
            raise DataError(f"{said}; score it on its own task.")
        print(f"{said}: they count as not relevant.", file=sys.stderr)


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
