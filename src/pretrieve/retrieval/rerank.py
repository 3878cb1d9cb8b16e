"""The rerank setting: only the candidates that a first stage gave for a query are scored and ranked.

This is how the paper ``seed_encoder`` reports MS MARCO besides full retrieval (tables 1-3): BM25's first 100 are ordered
by the model. Scores are those of :mod:`pretrieve.retrieval.search`, bit for bit, so a document has the
same score in both settings; only which documents take part differs.

Candidates are a TREC run, whose own scores are not used. It has no line for a query without hits; such a query has no
candidates here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.retrieval.search import Hits, Scorer, as_run, best_first
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import check_documents


def rerank(
    scorer: Scorer,
    candidates: Mapping[str, Sequence[str]],
    doc_ids: Sequence[str],
    query_ids: Sequence[str],
    documents: np.ndarray | None = None,
) -> Run:
    """Rank each query's candidates; a query without any has an empty ranking.

    scorer: made with the vectors of ``query_ids``. candidates: ids of the documents of each query; queries that are not
    in ``query_ids`` are omitted. doc_ids: N ids in row order of the store, or of the documents when its rows are
    windows. query_ids: Q ids in the order of the scorer's queries, which is that of the run. documents: (rows,)
    document of each window (:mod:`pretrieve.retrieval.window_search`); the best window counts.

    Raises DataError when a candidate is not in the corpus or is given twice; both ids are named.
    """
    if len(query_ids) != scorer.queries:
        raise DataError(f"rerank: {len(query_ids)} query ids for {scorer.queries} query vectors; expected one each.")
    if documents is None and len(doc_ids) != scorer.rows:
        raise DataError(f"rerank: {len(doc_ids)} document ids for {scorer.rows} embeddings; encode this corpus again.")
    number = {doc_id: i for i, doc_id in enumerate(doc_ids)}
    windows = None if documents is None else Windows(check_documents(documents, scorer.rows, doc_ids))
    hits = []
    for query, query_id in enumerate(query_ids):
        chosen = _numbers(query_id, candidates.get(query_id, ()), number)
        hits.append(score_rows(scorer, query, chosen, doc_ids, windows))
    return as_run(hits, doc_ids, query_ids)


def _numbers(query_id: str, chosen: Sequence[str], number: Mapping[str, int]) -> np.ndarray:
    unknown = next((doc_id for doc_id in chosen if doc_id not in number), None)
    if unknown is not None:
        raise DataError(
            f"rerank: candidate '{unknown}' of query '{query_id}' is not among the {len(number)} documents; "
            "take candidates of this corpus."
        )
    return np.array([number[doc_id] for doc_id in chosen], dtype=np.int64)


class Windows:
    """Rows of each document's windows, from the document of each row (rows,)."""

    def __init__(self, documents: np.ndarray) -> None:
        self._order = np.argsort(documents, kind="stable")
        self._first = np.concatenate([[0], np.cumsum(np.bincount(documents))])

    def rows(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All windows of the ``chosen`` documents (n,), document by document, and where each document's begin (n,)."""
        sizes = self._first[chosen + 1] - self._first[chosen]
        begin = np.cumsum(sizes) - sizes
        return self._order[np.arange(sizes.sum()) + np.repeat(self._first[chosen] - begin, sizes)], begin


def score_rows(
    scorer: Scorer, query: int, chosen: np.ndarray, doc_ids: Sequence[str], windows: Windows | None = None
) -> Hits:
    """The ``chosen`` documents (n,) of one query, ranked by their exact scores."""
    if not len(chosen):
        return chosen, np.empty(0, np.float32)
    rows, begin = (chosen, None) if windows is None else windows.rows(chosen)
    scores = scorer.exact(np.array([query]), rows[None])[0]
    if begin is not None:
        scores = np.maximum.reduceat(scores, begin)
    order = best_first(scores, chosen, doc_ids)
    return chosen[order], scores[order]
