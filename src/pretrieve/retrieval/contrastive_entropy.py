"""Contrastive entropy: how well a dense retriever tells a relevant document from sampled others.

With small models ``mrr@10`` is a handful of hits, and most queries have none. Fang et al. (2024, arXiv 2403.18684, section 3.2)
measure a dense retriever by what it is trained on instead: for query q, relevant document d and 256 others N(q),

    −log( e^{s(q, d)/τ} / (e^{s(q, d)/τ} + Σ_{n ∈ N(q)} e^{s(q, n)/τ}) )

s is the score that the search uses (inner product, joint score, best window) and τ the temperature of the recipe. Lower is
better. A retriever that scores all alike has log 257 = 5.549; one that is surely wrong has more. Of several relevant documents
the mean counts. N(q) depends on the query's id and the corpus alone: all systems and seeds see the same documents.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from pretrieve.retrieval.rerank import Windows, score_rows
from pretrieve.retrieval.search import Scorer

#: Of the paper.
OTHERS = 256


def sample_others(query_id: str, relevant: Collection[int], rows: int) -> np.ndarray:
    """Numbers (at most ``OTHERS``,) of documents 0..rows−1 that are not relevant; all of them where there are not more."""
    wanted = min(rows, OTHERS + len(relevant))
    seed = int.from_bytes(hashlib.sha256(query_id.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).choice(rows, wanted, replace=False)
    return drawn[~np.isin(drawn, list(relevant))][:OTHERS]


def contrastive_entropy(
    scorer: Scorer,
    query_ids: Sequence[str],
    doc_ids: Sequence[str],
    qrels: Mapping[str, Mapping[str, int]],
    documents: np.ndarray | None = None,
    temperature: float = 1.0,
) -> dict[str, tuple[float, float]]:
    """Query → (its entropy, that of a retriever that scores all alike); queries without a relevant document are omitted.

    scorer: made with the vectors of ``query_ids``; doc_ids: ids of the store's rows, or of the documents where its rows are
    windows; documents: (rows,) document of each window (:mod:`pretrieve.retrieval.window_search`).
    """
    number = {doc_id: i for i, doc_id in enumerate(doc_ids)}
    windows = None if documents is None else Windows(documents)
    found = {}
    for query, query_id in enumerate(query_ids):
        relevant = [number[name] for name, grade in qrels.get(query_id, {}).items() if grade > 0 and name in number]
        if not relevant:
            continue
        others = sample_others(query_id, relevant, len(doc_ids))
        rows, scores = score_rows(scorer, query, np.concatenate([np.array(relevant), others]), doc_ids, windows)
        logits, right = scores.astype(np.float64) / temperature, np.isin(rows, relevant)
        rest = np.logaddexp.reduce(logits[~right], initial=-np.inf)
        found[query_id] = (float((np.logaddexp(logits[right], rest) - logits[right]).mean()), math.log(1 + len(others)))
    return found
