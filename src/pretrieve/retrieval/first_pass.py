"""The first pass of exact search: by faiss, or by torch where faiss is not installed.

:mod:`pretrieve.retrieval.search` takes candidates from a first pass in float32, scores them again in float64, and settles every
query that the rounding of the first pass could have changed. So its result does not depend on the library of the first pass, as
long as that is float32 with products of full precision: the choice affects only the time.

TF32 would round the factors to 10 bits, which the bound of :func:`pretrieve.retrieval.search.rounding` does not cover; it is
switched off for the product (https://docs.pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np

from pretrieve.retrieval import index

#: Documents whose scores torch holds at a time: 1,024 queries x 65,536 float32 are 256 MB.
SLICE = 65_536


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
    return torch_top_k(queries, block, k)


def torch_top_k(queries: np.ndarray, block: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same in torch, on the GPU where there is one, else with torch's own number of threads."""
    import torch  # a search with faiss needs none

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wanted = torch.tensor(queries, dtype=torch.float32, device=device)
    best = torch.empty((len(queries), 0), dtype=torch.float32, device=device)
    rows = torch.empty((len(queries), 0), dtype=torch.int64, device=device)
    tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        for first in range(0, len(block), SLICE):
            part = torch.tensor(np.asarray(block[first : first + SLICE]), dtype=torch.float32, device=device)
            scores, found = (wanted @ part.T).topk(min(k, len(part)), dim=1)
            best, rows = torch.cat([best, scores], dim=1), torch.cat([rows, found + first], dim=1)
            best, order = best.topk(min(k, best.shape[1]), dim=1)
            rows = rows.gather(1, order)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
    return best.cpu().numpy(), rows.cpu().numpy()
