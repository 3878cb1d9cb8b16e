"""Retrieval metrics: with ranx from relevance judgements, and hits@k from answers.

====================  =========================================================================================
name                  value of a query
====================  =========================================================================================
``recall@k``          relevant documents among the first k, as a share of all relevant ones
``precision@k``       the same as a share of k; P@1 is ``precision@1``
``mrr``, ``mrr@k``    1 / rank of the first relevant document, 0 after rank k
``ndcg@k``            sum of grade / log2(1 + rank) over the first k, divided by the best possible (trec_eval's)
``map``, ``map@k``    mean over all relevant documents of the precision at their ranks
``hit_rate@k``        1 if a relevant document is among the first k (trec_eval's success)
``hits@k``            1 if an **answer** is in one of the first k passages: :mod:`pretrieve.evaluation.answers`
``recall_cap@k``      recall divided by what k hits can reach: :func:`pretrieve.evaluation.conventions.capped_recall`
====================  =========================================================================================

``f1``, ``dcg``, ``dcg_burges``, ``ndcg_burges`` and ``r-precision`` are ranx's. Accuracy, AUC and Spearman's correlation
are of labelled examples and not of runs. What benchmarks count differently: :mod:`pretrieve.evaluation.conventions`.

ranx is given arrays of numbers, not its own Run and Qrels: the order of a ranking is then the one of
:class:`pretrieve.retrieval.trec_run.Run` to the last tie, ids are not hashed, and its compiled typed dictionaries (seconds
of start-up in every process) are not needed. The first call of a metric on a machine compiles it (1-4 s, cached).
"""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.given import given_texts
from pretrieve.corpora.tables import read_rows
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.conventions import capped_recall
from pretrieve.evaluation.ranx_metrics import ALONE, metric_of_ranx
from pretrieve.retrieval.trec_run import Run

#: Metrics of judgements that ranx computes; all but r-precision take a cut ``@k``, and all a lowest relevant grade
#: ``-lN`` (default 1). ranx has bpref too, but its value is NaN for queries that have no judged document of grade 0;
#: its ``hits`` is a count of relevant documents, and the name means another thing here.
_RANX = (
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
#: Every metric of a run.
METRICS = ("hits", "recall_cap", *_RANX)
_NO_CUT = ("r-precision",)
_NEEDS_CUT = ("hits", "recall_cap")
_OF_EXAMPLES = ("accuracy", "auc", "spearman")
#: What others call them, for messages. ``rr`` is the reciprocal rank of one query: that query's value of ``mrr``.
_ALSO_KNOWN_AS = {
    "p": "precision",
    "r": "recall",
    "rr": "mrr",
    "recip_rank": "mrr",
    "success": "hit_rate",
    "top": "hits",
    "r_cap": "recall_cap",
    "accuracy": "hit_rate",
}
#: Cuts and lowest grades are below this: ranx takes them as whole numbers of 64 bits, and a task's grades are below it.
_LIMIT = 2**31
#: Up to this grade a sum of 2 to the power of grades is a number of 64 bits, for up to 16 million documents.
_LARGEST_EXPONENT = 999
NAME = re.compile(r"(?P<base>[a-z_1-]+?)(@(?P<cut>[1-9][0-9]*))?(-l(?P<level>[1-9][0-9]*))?")


@dataclass(frozen=True)
class Scores:
    """``mean[metric]`` over all queries of the qrels, and ``per_query[metric][query_id]``, queries in qrels order."""

    mean: dict[str, float]
    per_query: dict[str, dict[str, float]]


def check_metric(name: str) -> None:
    """Accept a metric of runs such as ``recall@100``, ``hits@20``, ``mrr`` or ``map-l2``.

    Raises ConfigError naming the nearest metric that exists.
    """
    match = NAME.fullmatch(name)
    if match and match["base"] in METRICS:
        for what, number in (("cut", match["cut"]), ("lowest grade", match["level"])):
            if number and (len(number) > len(str(_LIMIT)) or int(number) >= _LIMIT):
                raise ConfigError(
                    f"metric '{name[:60]}': its {what} is {number[:20]}; expected a number below {_LIMIT:,}."
                )
        base = match["base"]
        cut_fits = base not in (_NO_CUT if match["cut"] else _NEEDS_CUT)
        if cut_fits and not (base == "hits" and match["level"]):  # answers have no grades
            return
    base, _, rest = name.partition("@")
    known = base.lower()
    near = _ALSO_KNOWN_AS.get(known) or difflib.get_close_matches(known, METRICS, n=1, cutoff=0.0)[0]
    cut = re.match(r"[1-9][0-9]*", rest)
    default = "@20" if near in _NEEDS_CUT else ""
    example = near + ("" if near in _NO_CUT else f"@{cut[0]}" if cut else default)
    what = "is of labelled examples and not of a run" if known in _OF_EXAMPLES else "is unknown"
    raise ConfigError(
        f"metric '{name}' {what}; nearest is '{example}'. Expected one of {', '.join(METRICS)}, with '@k' for a cut "
        f"(not {' or '.join(_NO_CUT)}; always {' and '.join(_NEEDS_CUT)})."
    )


def needs_answers(name: str) -> bool:
    """Whether a metric is computed from the answers of questions instead of judgements: ``hits@k``."""
    return name.partition("@")[0] == "hits"


def evaluate(
    run: Run, qrels: Mapping[str, Mapping[str, int]], metrics: Sequence[str], answers: TaskAnswers | None = None
) -> Scores:
    """Score a run against relevance judgements ``qrels[query_id][doc_id] = grade``, and ``hits@k`` against ``answers``.

    The qrels define the queries: one that is missing from the run, or has no hits, counts 0; one that only the run
    has is omitted. Documents of grade 0 are judged and not relevant. A query without relevant documents counts 0.

    Raises ConfigError when a metric is unknown or none is asked for, ``hits@k`` is and there are no ``answers``, or run or
    qrels are something else, and DataError when the qrels are empty or have no query of the run, an id is no text or a grade no
    whole number, a document repeats for a query, a question has no answers, or grades are so large that a metric is not finite.
    """
    if not (metrics := given_texts(metrics, "metrics")):
        raise ConfigError("no metric was asked for; give at least one, such as recall@100.")
    if not isinstance(run, Run):
        raise ConfigError(f"run is a {type(run).__name__}; expected a pretrieve.Run(query_ids, doc_ids, scores).")
    if not isinstance(qrels, Mapping):
        raise ConfigError(f"qrels are a {type(qrels).__name__}; expected query id → document id → grade.")
    for name in metrics:
        check_metric(name)
        if needs_answers(name) and answers is None:
            raise ConfigError(
                f"metric '{name}' needs the answers of the questions, the file answers.parquet of the task, and none "
                "were given; name the task, or leave the metric out."
            )
    _check_qrels(qrels)
    hits = {}
    for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True):
        if not all(isinstance(name, str) for name in (query_id, *doc_ids)):  # no qrels have it, so it would not count
            raise DataError(
                f"run: query {query_id!r} has an id that is no text, its own or a document's; expected texts."
            )
        if len(set(doc_ids)) < len(doc_ids):  # a run can be changed after its own check
            raise DataError(f"run: a document occurs twice for query '{query_id}'; every document counts once.")
        hits[query_id] = doc_ids
    refuse_other_queries(run, qrels)
    per_query = {name: dict.fromkeys(qrels, 0.0) for name in metrics}
    if of_ranx := [name for name in metrics if NAME.fullmatch(name)["base"] in _RANX]:
        for query_ids, judged, ranked in _rectangles(hits, qrels):
            for name in of_ranx:
                parts = NAME.fullmatch(name)
                # Where the best possible sum is infinite, a query's share of it is 0 and looks like a score.
                if parts["base"].endswith("_burges") and judged[:, :, 1].max() > _LARGEST_EXPONENT:
                    raise _too_large(name, qrels)
                with ALONE:
                    compute = metric_of_ranx()(parts["base"])
                    values = compute(judged, ranked, int(parts["cut"] or 0), int(parts["level"] or 1))
                per_query[name].update(zip(query_ids, values.tolist(), strict=True))
    if cuts := {name: int(name.partition("@")[2]) for name in metrics if needs_answers(name)}:
        found = answers.hits(run, list(qrels), list(cuts.values()))
        per_query |= {name: {q: float(hit) for q, hit in found[cut].items()} for name, cut in cuts.items()}
    for name in metrics:
        parts = NAME.fullmatch(name)
        if parts["base"] == "recall_cap":
            per_query[name] = capped_recall(run, qrels, int(parts["cut"]), int(parts["level"] or 1))
    with np.errstate(over="ignore", invalid="ignore"):  # then it is not finite
        mean = {name: float(np.mean(list(values.values()))) for name, values in per_query.items()}
    for name, value in mean.items():
        if not math.isfinite(value):
            raise _too_large(name, qrels)
    return Scores(mean, per_query)


def _too_large(name: str, qrels: Mapping[str, Mapping[str, int]]) -> DataError:
    largest = max(grade for grades in qrels.values() for grade in grades.values())
    return DataError(
        f"metric '{name}' is not finite: it takes 2 to the power of each grade, and the largest grade of the qrels is "
        f"{largest:,}; expected smaller grades: lower them, or take ndcg."
    )


def refuse_other_queries(run: Run, qrels: Mapping[str, object], name: object = "run") -> None:
    """Raise DataError where no query of a run is in the qrels: they do not belong together, and all scores would be 0."""
    if run.query_ids and not any(query_id in qrels for query_id in run.query_ids):
        raise DataError(
            f"{name}: none of its queries is in the qrels: its first is '{run.query_ids[0]}', theirs is '{next(iter(qrels))}'; "
            "score it with the qrels of its own task."
        )


def _check_qrels(qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Raise DataError for what would count as not relevant: an id that is no text, as no run has, or half a grade."""
    if not qrels:
        raise DataError("the qrels have no query; expected at least one judged query.")
    given_texts(qrels.keys(), "queries of the qrels")
    for query_id, grades in qrels.items():
        if not isinstance(grades, Mapping):
            raise DataError(f"qrels of query '{query_id}': {repr(grades)[:60]}; expected a grade for each document id.")
        given_texts(grades.keys(), f"qrels of query '{query_id}'")
        for doc_id, grade in grades.items():
            if not isinstance(grade, Real) or grade != grade // 1:
                raise DataError(
                    f"qrels of query '{query_id}': the grade of document '{doc_id}' is {repr(grade)[:40]}; expected a whole "
                    "number: multiply all grades until they are."
                )


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
        ranked[:, :, 1] = np.arange(n_ranked, 0, -1)  # the order is the run's; scores do not matter any more
        for i, query_id in enumerate(query_ids):
            # Numbers need to be equal for equal documents of one query only. Highest grade first, as ranx assumes.
            best_first = sorted(qrels[query_id].items(), key=lambda item: -item[1])
            number = {doc_id: n for n, (doc_id, _) in enumerate(best_first)}
            judged[i, :, 0] = np.arange(n_judged)
            judged[i, :, 1] = [grade for _, grade in best_first]
            unjudged = len(number)
            ranked[i, :, 0] = [number.get(doc_id, unjudged + n) for n, doc_id in enumerate(hits[query_id])]
        yield query_ids, judged, ranked


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read a task's ``qrels.parquet`` (query_id, doc_id, relevance); a pair judged twice is a DataError."""
    qrels: dict[str, dict[str, int]] = {}
    for row, (query_id, doc_id, grade) in enumerate(read_rows(path, ("query_id", "doc_id", "relevance"))):
        grades = qrels.setdefault(query_id, {})
        if doc_id in grades:
            raise DataError(
                f"{path}, row {row}: document '{doc_id}' is judged twice for query '{query_id}'; keep one judgement."
            )
        grades[doc_id] = grade
    return qrels
