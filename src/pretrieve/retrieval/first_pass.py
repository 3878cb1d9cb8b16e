"""The first pass of exact search: by faiss, or by torch where faiss is not installed.

The result of a search is the same (:mod:`pretrieve.retrieval.torch_search` says why), so the choice affects only the time.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np

from pretrieve.retrieval import index


@cache
def has_faiss() -> bool:
    """Whether faiss is installed."""
    return find_spec("faiss") is not None


def top_k(queries: np.ndarray, block: np.ndarray, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner-product top-k of ``queries`` (Q, dim) float32 in ``block`` (n, dim) float32, k <= n; ``threads``: for faiss.

    Returns scores (Q, k) float32 descending and rows (Q, k) int64; equal scores in any order.
    """
    if has_faiss():
        return index.top_k(queries, block, k, threads)
    from pretrieve.retrieval import torch_search  # a search with faiss needs no torch

    return torch_search.top_k(queries, block, k)
