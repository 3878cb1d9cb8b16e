"""Two rankings of the same queries as one: a weighted sum of normalised scores, or reciprocal rank fusion.

``weight`` is a number w from 0 to 1, the share of the first run::

    s(d) = w · n₁(d) + (1 − w) · n₂(d),   n(d) = (s(d) − min) / (max − min) over the hits of the query

A document that a run has not found gets 0 from it; if all hits of a query have equal scores, each gets 1. Without a weight::

    s(d) = 1 / (60 + rank₁(d)) + 1 / (60 + rank₂(d))

(Cormack, Clarke and Büttcher, SIGIR 2009; their constant is 60). Both are what ``ranx.fuse`` computes (``wsum`` of ``min-max``,
and ``rrf``; where all scores of a query are equal, ranx makes them 0), without its two seconds of imports and compiling, which
a search for one question cannot wait for.
"""

from __future__ import annotations

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval.trec_run import Run

RRF = 60


def fuse(first: Run, second: Run, weight: float | None = None, depth: int | None = None) -> Run:
    """The fused run: queries in the order of ``first``, at most ``depth`` hits each (None: all that either has).

    A query that ``second`` lacks is ranked by ``first`` alone.

    Raises ConfigError for a weight outside 0 to 1, and DataError when ``second`` has a query that ``first`` lacks.
    """
    if weight is not None and not 0 <= weight <= 1:
        raise ConfigError(f"fusion: weight {weight}; expected a share of the first run, from 0 to 1, or none.")
    places = {query: place for place, query in enumerate(second.query_ids)}
    unknown = places.keys() - set(first.query_ids)
    if unknown:
        raise DataError(f"fusion: query '{min(unknown)}' is in the second run only; search both for the same queries.")
    shares = (1.0, 1.0) if weight is None else (weight, 1 - weight)
    doc_ids, scores = [], []
    for place, query in enumerate(first.query_ids):
        total: dict[str, float] = {}
        for run, at, share in ((first, place, shares[0]), (second, places.get(query), shares[1])):
            if at is not None:
                ranks = np.arange(1, len(run.scores[at]) + 1)
                values = 1.0 / (RRF + ranks) if weight is None else _normalised(run.scores[at])
                for doc_id, value in zip(run.doc_ids[at], (share * values).tolist(), strict=True):
                    total[doc_id] = total.get(doc_id, 0.0) + value
        doc_ids.append(list(total))
        scores.append(np.fromiter(total.values(), np.float32, len(total)))
    fused = Run(list(first.query_ids), doc_ids, scores)
    return fused if depth is None else fused.cut(depth)


def _normalised(scores: np.ndarray) -> np.ndarray:
    values = scores.astype(np.float64)
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    return (values - low) / (high - low) if high > low else np.ones_like(values)
