"""Case studies, before anything is read: which cells of a table are about single queries, and which queries are chosen.

A case study shows a query for which one system ranks a relevant document first and another one misses (paper ``seed_encoder``,
table 5: "winning cases" of SEED-Encoder over BERT). The paper picked its two by hand and does not say how. Here a rule picks
them, so that nobody can look for pretty ones:

1. A query is a case when the first system of the table is ahead of the second: its reciprocal rank, mean over seeds, is higher.
2. The better the first system, the earlier the case: those for which it ranks a relevant document first come before all others.
3. Of equal ones, the worse the second system, the earlier; and then by query id, in code-point order.

So the cases of a good retriever are those that it gets right with every seed and the other does not. A weak one may rank a
relevant document first for no query at all; the table then shows the best there is, and says at which rank.

The n-th column of the table is the n-th case. Its metrics:

=================  ==============================================================================================
``query``          the question itself
``rr@100``         reciprocal rank of the first relevant document within 100, mean over seeds: the query's part in MRR@100
``first-title``    of the document that the system ranks first, with the first seed
``first-snippet``  how its text begins (:mod:`pretrieve.reporting.tables.case_studies`)
``first-url``      the id of that document: no data set here keeps the addresses of its documents
=================  ==============================================================================================

Imported when the workflow is read: standard library only.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from pretrieve.base import paths

#: The measure of the paper's cases, under which metrics files keep the reciprocal rank of every query.
RANKED_BY = "mrr@100"
#: The same of one query, as a cell's metric.
RECIPROCAL_RANK = "rr@100"
#: Texts of a case.
CASE_TEXTS = ("query", "first-url", "first-title", "first-snippet")


def is_case(metric: str) -> bool:
    """Whether a cell's metric is about one query of a case study."""
    return metric == RECIPROCAL_RANK or metric in CASE_TEXTS


def scored_by(metric: str) -> str:
    """The metric of a metrics file that a cell's metric is taken from.

    >>> scored_by("first-title"), scored_by("recall@10")
    ('mrr@100', 'recall@10')
    """
    return RANKED_BY if is_case(metric) else metric


def case_files(root: str, systems: Mapping[str, Sequence[int]], dataset: str) -> list[str]:
    """What a table of case studies is made from. ``systems``: system → its seeds. Metrics for every seed, the run of the first,
    and the texts of the data set."""
    metrics = [paths.metrics_file(root, name, dataset, seed) for name, seeds in systems.items() for seed in seeds]
    runs = [paths.run_file(root, name, dataset, seeds[0]) for name, seeds in systems.items()]
    return [*metrics, *runs, *text_files(root, dataset)]


def text_files(root: str, dataset: str) -> list[str]:
    """Where a data set has the texts of its documents and queries."""
    return [f"{paths.task_dir(root, dataset)}/{name}.parquet" for name in ("corpus", "queries")]


def choose_cases(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> list[str]:
    """The queries of all cases, by the rule above. ``first``, ``second``: query → reciprocal rank with each seed, of the system
    that is to win and of the other; the same queries in both.

    >>> first = {"a": [1.0], "b": [0.5], "c": [0.5], "d": [1.0], "e": [1.0]}
    >>> choose_cases(first, {"a": [0.1], "b": [0.2], "c": [0.5], "d": [0.0], "e": [0.1]})
    ['d', 'a', 'e', 'b']
    """
    means = {query: (fmean(ranks), fmean(second[query])) for query, ranks in first.items()}
    ahead = [query for query, (ours, theirs) in means.items() if ours > theirs]
    return sorted(ahead, key=lambda query: (-means[query][0], means[query][1], query))
