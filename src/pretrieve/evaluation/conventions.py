"""What benchmarks count differently from a textbook, each as one small function.

Which is applied where: a task lists names of :data:`CONVENTIONS`, and :func:`pretrieve.evaluation.metrics_record.metrics_record`
applies them and writes them into the record.

======================  ==============================  ==========================================================
name or function        used for                        what it changes
======================  ==============================  ==========================================================
msmarco-passage-mrr     MS MARCO passages, retrieval    ``mrr@k`` counts as the official passage script does
                        and reranking
msmarco-document-mrr    MS MARCO documents              ``mrr@k`` counts as the official document script does
drop-identical-ids      every BEIR task                 a hit whose document id is the query id is dropped from
                                                        the run; ArguAna's nDCG@10 is 0.414 with it, else 0.315
:func:`mean_of_means`   BEIR's CQADupStack, and the     twelve records become one, each forum with equal weight
                        mean over all BEIR tasks
:func:`capped_recall`   metric ``recall_cap@k``         recall divided by what k hits can reach
======================  ==============================  ==========================================================

BEIR reports the split ``dev`` (6,980 queries) of MS MARCO, and ``test`` of all others; MS MARCO's own ``test`` files are another
thing, on which BM25 scores twice as high (beir-cellar/beir, issue 74).

For a run that this project wrote, whose ranks follow its scores, and qrels of grade 1 only, both MRR conventions give
the ordinary ``mrr@k``: they matter for the runs of others, for ties, and for lists shorter than k.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval.trec_run import Run, ids_of, run_lines

#: Names that a task may list.
CONVENTIONS = ("msmarco-passage-mrr", "msmarco-document-mrr", "drop-identical-ids")

#: Ranks that the official passage script keeps for a query.
_RANKS = 1000


def check_conventions(names: Sequence[str]) -> None:
    """Raise ConfigError for an unknown convention, naming the nearest, and for two at a time: none goes with another."""
    for name in names:
        if name not in CONVENTIONS:
            near = difflib.get_close_matches(name, CONVENTIONS, n=1, cutoff=0.0)[0]
            raise ConfigError(
                f"convention '{name}' is unknown; nearest is '{near}'. Expected one of {', '.join(CONVENTIONS)}."
            )
    if len(set(names)) > 1:
        raise ConfigError(f"conventions {', '.join(names)} exclude each other; expected at most one for a task.")


def drop_identical_ids(run: Run) -> Run:
    """The run without hits whose document id is the query's id.

    In ArguAna each query is itself a document of the corpus, and the first hit of a good model; the argument
    that is wanted is another one. BEIR drops such hits in **every** task (beir/retrieval/evaluation.py, ``evaluate``,
    ``ignore_identical_ids=True``), where ids of queries and documents may be equal by chance too. It does so before
    it cuts the list (exact_search.py:114), so search one document deeper than the largest cut.
    """
    keep = [
        [i for i, doc_id in enumerate(doc_ids) if doc_id != query_id]
        for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True)
    ]
    return Run(
        list(run.query_ids),
        [[ids[i] for i in rows] for ids, rows in zip(run.doc_ids, keep, strict=True)],
        [scores[rows] for scores, rows in zip(run.scores, keep, strict=True)],
    )


def msmarco_mrr(
    hits: Mapping[str, Sequence[tuple[int, str]]],
    relevant: Mapping[str, Collection[str]],
    cut: int = 10,
    variant: str = "passage",
) -> dict[str, float]:
    """Reciprocal rank of every reference query, as MS MARCO's official scripts count; their mean is the official MRR.

    ``hits`` are (rank, document id) as a file has them (:func:`read_ranks`), ``relevant`` the reference's documents.
    From ``msmarco_passage_eval.py`` and ``msmarco_doc_eval.py`` (castorini/anserini-tools@5b819c1, ``compute_metrics``):

    * The mean is over all reference queries (6,980 in ``qrels.dev.small``); one that the run lacks counts 0. Queries
      that only the run has are omitted. No query in common is an error.
    * The **file's rank** decides, not the score. All documents of the reference are relevant, whatever their grade.
    * ``passage``: ranks are slots. A later line of the same rank replaces the earlier, and a slot that no line fills
      holds passage **0**, which is a real passage: if it is relevant, an unfilled rank counts as a hit. The script
      reads ids as numbers; here they are compared as text, so they must be written without leading zeros.
    * ``document``: hits are sorted by (rank, id) and numbered again, so gaps close and nothing is filled. The script
      does not cut; it asks for at most 100 hits. Here ``cut`` does it.
    """
    if not 1 <= cut <= _RANKS:
        raise ConfigError(f"MS MARCO's MRR with a cut of {cut}; expected 1 to {_RANKS}.")
    if not any(query_id in relevant for query_id in hits):
        raise DataError("MS MARCO's MRR: no query of the run is in the qrels; check that they belong together.")
    values = dict.fromkeys(relevant, 0.0)
    for query_id, ranked in hits.items():
        if query_id not in relevant:
            continue
        if variant == "passage":
            slots = ["0"] * cut
            for rank, doc_id in ranked:
                if rank <= cut:
                    slots[rank - 1] = doc_id
        else:
            slots = [doc_id for _, doc_id in sorted(ranked)[:cut]]
        values[query_id] = next((1 / rank for rank, doc in enumerate(slots, 1) if doc in relevant[query_id]), 0.0)
    return values


def read_ranks(path: Path | str) -> dict[str, list[tuple[int, str]]]:
    """(rank, document id) of every query in file order, from a TREC run (6 columns) or MS MARCO's (3: query, document,
    rank); plain or ``.gz``.

    Raises DataError when the file is missing or damaged, or a line is malformed or has a rank below 1; file and line are
    named. (The passage script takes rank 0 for rank 1,000.)
    """
    hits: dict[str, list[tuple[int, str]]] = {}
    for number, line in run_lines(Path(path)):
        words = line.split()
        doc, rank = (2, 3) if len(words) == 6 else (1, 2)
        if len(words) not in (3, 6) or not words[rank].isdecimal() or int(words[rank]) < 1:
            raise DataError(
                f"{path}, line {number}: found '{line.rstrip()[:120]}', expected 'query document rank' or "
                "'query Q0 document rank score tag' with ranks from 1. Write the run again."
            )
        query_id, doc_id = ids_of(words[0], words[1] if doc == 2 else "", words[doc])
        hits.setdefault(query_id, []).append((int(words[rank]), doc_id))
    return hits


def capped_recall(run: Run, qrels: Mapping[str, Mapping[str, int]], cut: int, level: int = 1) -> dict[str, float]:
    """Recall@k divided by what k hits can reach, per query of the qrels (beir/retrieval/custom_metrics.py, recall_cap)

        (relevant documents among the first k) / min(k, relevant documents)

    Relevant is a grade of at least ``level``. BEIR made it for TREC-COVID, where a query has hundreds of relevant
    documents. A query without any is a division by zero there and counts 0 here; equal scores are ordered by id
    instead of by insertion.
    """
    ranked = dict(zip(run.query_ids, run.doc_ids, strict=True))
    values = {}
    for query_id, grades in qrels.items():
        relevant = {doc_id for doc_id, grade in grades.items() if grade >= level}
        found = len(relevant.intersection(ranked.get(query_id, [])[:cut]))
        values[query_id] = found / min(len(relevant), cut) if relevant else 0.0
    return values


def mean_of_means(parts: Mapping[str, Mapping[str, Any]], expected: Sequence[str]) -> dict[str, Any]:
    """Join the metrics records of several tasks: each task weighs the same, however many queries it has.

    So CQADupStack is the sum of twelve nDCG@10 divided by 12 (github.com/beir-cellar/beir/issues/9), and not the mean
    over its 13,145 queries. A record of this kind may be a part as well. ``n_candidates`` is the mean over queries;
    ``chance`` the mean of the parts' levels, where all of them have one.

    ``per_query`` has every query under ``part/query_id``. With N queries in all and K parts, a value of a part with n
    queries is multiplied by N/(K·n), so that the mean over all queries **is** the metric: a paired test on these values,
    whose statistic is the mean difference, tests the mean of means, and weighs tasks as it does. Such a value is no
    score of a query; that is in the part's own record. The standard error that their spread gives is never too small:
    it has the spread of the parts' means in it.

    Raises DataError as :func:`joinable`.
    """
    records = joinable(parts, expected)
    first = records[expected[0]]
    n_queries = sum(record["n_queries"] for record in records.values())
    pool = sum(record["n_candidates"] * record["n_queries"] for record in records.values()) / n_queries
    weights = {name: n_queries / (len(records) * record["n_queries"]) for name, record in records.items()}
    levels = [name for name in first["metrics"] if all(name in r.get("chance", {}) for r in records.values())]

    def means(key: str, names: Iterable[str]) -> dict[str, float]:
        return {n: round(sum(r[key][n] for r in records.values()) / len(records), 10) for n in names}

    kept = ("run", "run_sha256", "parts", "n_queries", "n_candidates", "metrics")
    joined = {
        "parts": {name: {key: record[key] for key in kept if key in record} for name, record in records.items()},
        "n_queries": n_queries,
        "n_candidates": int(pool) if pool == int(pool) else round(pool, 10),
        "metrics": means("metrics", first["metrics"]),
        "chance": means("chance", levels),
        "per_query": {
            name: {
                f"{part}/{query_id}": round(weights[part] * value, 10)
                for part, record in records.items()
                for query_id, value in record["per_query"][name].items()
            }
            for name in first["metrics"]
        },
    }
    if first.get("conventions"):
        joined["conventions"] = list(first["conventions"])
    return joined


def joinable(parts: Mapping[str, Mapping[str, Any]], expected: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The metrics records in the order of ``expected``.

    Raises DataError when a part of ``expected`` is missing, one too many is there, a part lacks a number, or their metrics or
    conventions differ.
    """
    if set(parts) != set(expected):
        missing, extra = sorted(set(expected) - set(parts)), sorted(set(parts) - set(expected))
        raise DataError(f"mean of means: missing {missing}, not expected {extra}; give each of {list(expected)} once.")
    records = {name: parts[name] for name in expected}
    first = records[expected[0]]
    for name, record in records.items():
        if lacking := [key for key in ("n_queries", "n_candidates", "metrics", "per_query") if not record.get(key)]:
            raise DataError(
                f"mean of means: '{name}' has no {lacking[0]}; expected a metrics record. Evaluate it again."
            )
        for key in ("metrics", "conventions"):
            ours, theirs = (list(r.get(key, ())) for r in (record, first))
            if ours != theirs:
                raise DataError(
                    f"mean of means: '{name}' has {key} {ours}, '{expected[0]}' has {theirs}; expected the same."
                )
    return records
