"""MaxP: a document is cut into windows, and its score is that of its best window (Dai & Callan 2019; ANCE's MaxP).

A store of windows has one row for each, and ``corpus-documents.npy`` (rows,) int64 says whose window a row is.
Searching windows and keeping each document's first one is right only when enough windows were found:

1. The best ``m`` windows are ranked exactly. A document among them has its exact score, that of its first window; a
   document that is not among them scores at most what window number ``m`` does.
2. So the best ``depth`` documents are known when the last of them scores *more* than window number ``m``, or when every
   document has been seen. Otherwise ``m`` grows fourfold, for the queries that need it.
3. Queries that are still open after :data:`TRIES` rounds (documents of very many windows; a collapsed encoder) are
   scored against all windows, block by block.

Ties between documents are decided by their ids, as in :mod:`pretrieve.retrieval.trec_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.retrieval.embeddings import DOCUMENTS
from pretrieve.retrieval.search import BATCH, MARGIN, Hits, Scorer, best_first, rank_rows

#: Rounds of step 2.
TRIES = 3
#: Scores that step 3 holds at a time, one for each query and document: 64 MB.
_HELD = 1 << 24


def read_documents(directory: Path | str) -> np.ndarray | None:
    """Which document each row of the store ``corpus`` belongs to, (rows,) int64; None for a store without windows.

    Raises DataError when the file is damaged or is not a list of whole numbers.
    """
    path = Path(directory) / DOCUMENTS
    if not path.exists():
        return None
    try:
        documents = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: damaged ({error}), expected a document for each window; embed again.") from error
    if documents.ndim != 1 or documents.dtype.kind not in "iu":
        raise DataError(
            f"{path}: found {documents.dtype} of shape {documents.shape}, expected (rows,) int64; embed again."
        )
    return documents.astype(np.int64)


def rank_documents(
    scorer: Scorer, documents: np.ndarray | None, doc_ids: Sequence[str], depth: int, chosen: np.ndarray | None = None
) -> list[Hits]:
    """The best ``depth`` documents (numbers) of every query of any scorer, by the steps of this module.

    documents: (rows,) the document, 0..N-1, of each of the scorer's rows; None: the rows are the documents; doc_ids: N ids;
    otherwise as :func:`pretrieve.retrieval.search.rank_rows`.

    Raises DataError when a document has no window, or counts do not fit together.
    """
    if documents is None:
        return rank_rows(scorer, depth, doc_ids, chosen)
    documents = check_documents(documents, scorer.rows, doc_ids)
    chosen = np.arange(scorer.queries) if chosen is None else chosen
    hits: dict[int, Hits | None] = dict.fromkeys(chosen.tolist())
    still_open = chosen
    count = -(-depth * scorer.rows // max(1, len(doc_ids))) + MARGIN
    for _ in range(TRIES):
        found = rank_rows(scorer, count, None, still_open)
        for query, windows in zip(still_open.tolist(), found, strict=True):
            hits[query] = _documents_of(windows, documents, doc_ids, depth, count >= scorer.rows)
        still_open = np.array([query for query in still_open.tolist() if hits[query] is None], dtype=np.int64)
        if not len(still_open):
            break
        count *= 4
    at_once = min(BATCH, max(1, _HELD // max(1, len(doc_ids))))
    for start in range(0, len(still_open), at_once):
        part = still_open[start : start + at_once]
        for query, hit in zip(part.tolist(), _exhaustive(scorer, part, documents, doc_ids, depth), strict=True):
            hits[query] = hit
    return list(hits.values())  # type: ignore[arg-type]  # no query is open any more


def check_documents(documents: np.ndarray, rows: int, doc_ids: Sequence[str]) -> np.ndarray:
    """``documents`` as (rows,) int64; a wrong length, an unknown document or one without a window is a DataError."""
    documents = np.asarray(documents, dtype=np.int64)
    if documents.shape != (rows,):
        raise DataError(
            f"MaxP: window documents of shape {documents.shape}, expected ({rows},), one for each window; "
            "embed this corpus again."
        )
    if rows and not (documents.min() >= 0 and documents.max() < len(doc_ids)):
        raise DataError(
            f"MaxP: windows of documents {documents.min()}..{documents.max()}, expected 0..{len(doc_ids) - 1}; "
            "embed this corpus again."
        )
    windows = np.bincount(documents, minlength=len(doc_ids))
    if (windows == 0).any():
        raise DataError(f"MaxP: document '{doc_ids[int(np.argmin(windows))]}' has no window; embed this corpus again.")
    return documents


def _documents_of(
    windows: Hits, documents: np.ndarray, doc_ids: Sequence[str], depth: int, all_windows: bool
) -> Hits | None:
    """The best documents from the best windows, or None when others might be better."""
    rows, scores = windows
    found, first = np.unique(documents[rows], return_index=True)
    values = scores[first]
    order = best_first(values, found, doc_ids)[:depth]
    settled = all_windows or len(found) == len(doc_ids)
    if settled or (len(order) == depth and values[order[-1]] > scores[-1]):
        return found[order], values[order]
    return None


def _exhaustive(
    scorer: Scorer, part: np.ndarray, documents: np.ndarray, doc_ids: Sequence[str], depth: int
) -> list[Hits]:
    best = np.full((len(part), len(doc_ids)), -np.inf, np.float32)
    for first, scores in scorer.exact_blocks(part):
        mine = documents[first : first + scores.shape[1]]
        order = np.argsort(mine, kind="stable")
        found, starts = np.unique(mine[order], return_index=True)
        best[:, found] = np.maximum(best[:, found], np.maximum.reduceat(scores[:, order], starts, axis=1))
    numbers = np.arange(len(doc_ids))
    orders = (best_first(row, numbers, doc_ids)[:depth] for row in best)
    return [(numbers[order], row[order]) for order, row in zip(orders, best, strict=True)]
