"""Search that may miss documents, and how many it misses.

An IVF, HNSW or PQ index (:mod:`pretrieve.retrieval.index`) gives *candidates*: ``depth * k_factor + MARGIN`` of them. Their
scores are computed again from the store, as in :mod:`pretrieve.retrieval.search`; so a document that is found has its exact
score, a quantised index only chooses the candidates, and ties are settled among these. What it misses is
measured, never assumed::

    recall@k = mean over queries of |{found, rank <= k, score >= s_k}| / k        s_k: score number k of exact search

Both runs have exact scores, so a document that ties with number ``k`` counts: of repeated passages any may be found.
With fewer than ``k`` documents all are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.retrieval.index import load_faiss
from pretrieve.retrieval.rerank import Windows, score_rows
from pretrieve.retrieval.search import BATCH, MARGIN, DenseScorer, Hits, as_run
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import check_documents

#: Ranks at which recall is measured, as far as the depth reaches.
CUTS = (1, 10, 100, 1000)


def search_index(
    index,
    scorer: DenseScorer,
    doc_ids: Sequence[str],
    depth: int,
    query_ids: Sequence[str] | None = None,
    documents: np.ndarray | None = None,
    k_factor: int = 1,
) -> Run:
    """Rank what ``index`` finds for the queries of ``scorer``, whose store it was built from, by exact scores.

    ``k_factor``: rows asked of the index for each hit, and ``MARGIN`` more; more of them correct a coarse quantisation.
    ``documents``: rows are windows (:mod:`pretrieve.retrieval.window_search`); a document that is found is scored by all its
    windows. Otherwise as :func:`pretrieve.retrieval.search.search`. A query may have fewer than ``depth`` hits: IVF sees
    only the cells it looks into.

    Raises DataError when index, store, queries and ids do not fit together.
    """
    if (index.ntotal, index.d) != (scorer.rows, scorer.dim):
        raise DataError(
            f"index search: {scorer.rows} rows of {scorer.dim}, but the index has {index.ntotal} of {index.d}; "
            "build the index again."
        )
    windows = None
    share = 1.0  # windows for each document
    if documents is not None:
        windows = Windows(check_documents(documents, scorer.rows, doc_ids))
        share = scorer.rows / max(1, len(doc_ids))
    elif len(doc_ids) != scorer.rows:
        raise DataError(f"index search: {scorer.rows} rows, expected {len(doc_ids)} as there are ids; encode again.")
    wanted = min(int(np.ceil(depth * share * k_factor)) + MARGIN, scorer.rows)
    hits: list[Hits] = []
    for start in range(0, scorer.queries, BATCH):
        load_faiss(scorer.threads, scorer.dim)
        _, rows = index.search(scorer.vectors[start : start + BATCH], max(1, wanted))
        for query, found in enumerate(rows, start):
            found = found[found >= 0].astype(np.int64)
            found = np.unique(documents[found]) if documents is not None else found
            numbers, scores = score_rows(scorer, query, found, doc_ids, windows)
            hits.append((numbers[:depth], scores[:depth]))
    return as_run(hits, doc_ids, query_ids)


def recall_at(found: Run, exact: Run, k: int) -> np.ndarray:
    """recall@k of each query (Q,), see the module; both runs have the same queries in the same order and exact scores.

    >>> exact = Run(["q"], [["a", "b", "c"]], [np.array([3.0, 2.0, 2.0])])
    >>> recall_at(Run(["q"], [["a", "d"]], [np.array([3.0, 1.0])]), exact, 2)
    array([0.5])
    >>> recall_at(Run(["q"], [["a", "c"]], [np.array([3.0, 2.0])]), exact, 2)
    array([1.])
    """
    if found.query_ids != exact.query_ids:
        raise DataError("recall: the two runs have other queries or another order; search the same queries twice.")
    shares = []
    for mine, best in zip(found.scores, exact.scores, strict=True):
        wanted = min(k, len(best))
        shares.append(float((mine[:k] >= best[wanted - 1]).sum()) / wanted if wanted else 1.0)
    return np.array(shares)


def measure(
    found: Run,
    exact: Callable[[np.ndarray], Run],
    depth: int,
    sample: int = 200,
    seed: int = 0,
    about: dict | None = None,
    path: Path | str | None = None,
) -> dict:
    """Recall of a run against exact search, on ``sample`` of its queries; printed, written, returned.

    found: ``depth`` hits of each query; exact: called with numbers of the run's queries (n,), ascending, returns the
    exact run of these, ``depth`` hits each; about: what was measured, for the file and the line that is printed; path:
    of the JSON file, None: none is written.

    Returns ``{queries, of, seed, depth, recall: {k: mean}, worst: {k: least of a query}, short: queries with fewer hits
    than exact search has, **about}``, with ``k`` those of :data:`CUTS` that are below ``depth``, and ``depth``; a
    function of its inputs: nothing is timed.
    """
    chosen = np.sort(np.random.default_rng(seed).choice(len(found), min(sample, len(found)), replace=False))
    mine, best = found.restrict([found.query_ids[row] for row in chosen]), exact(chosen)
    shares = {str(k): recall_at(mine, best, k) for k in sorted({*(k for k in CUTS if k < depth), depth})}
    short = sum(len(some) < len(theirs) for some, theirs in zip(mine.doc_ids, best.doc_ids, strict=True))
    result = {
        **(about or {}),
        "queries": len(chosen),
        "of": len(found),
        "seed": seed,
        "depth": depth,
        "recall": {k: round(float(values.mean()), 6) for k, values in shares.items()},
        "worst": {k: round(float(values.min()), 6) for k, values in shares.items()},
        "short": short,
    }
    text = " · ".join(f"@{k} {value:.4f}" for k, value in result["recall"].items())
    what = ", ".join(f"{name}: {value}" for name, value in (about or {}).items())
    print(f"recall against exact search ({len(chosen)} of {len(found)} queries{', ' + what if what else ''}): {text}")
    if path is not None:
        write_json(path, result)
    return result
