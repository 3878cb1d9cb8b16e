"""Inner products of queries and vectors: the best in float32, fast, and those of a few vectors in float64, exact.

**In float32** (:func:`top_k`), by faiss, or by torch where faiss is not installed. :mod:`pretrieve.retrieval.search` takes
candidates from this first pass, scores them again in float64, and settles every query that the rounding of the first pass could
have changed. So its result does not depend on the library of the first pass, as long as that is float32 with products of full
precision: the choice affects only the time. TF32 would round the factors to 10 bits, which the bound of
:func:`pretrieve.retrieval.search.rounding` does not cover; it is switched off for the product
(https://docs.pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere).

**In float64** (:func:`exact_products`), the result does not depend on where a vector lies. A product of two float32 numbers is
exact in float64, and a sum of float64 has 29 bits more than a score keeps. All products are summed in one order, so that equal
vectors get equal scores. numba compiles the loop. Where it is not installed, NumPy does the same, but copies all vectors to
float64 first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec

import numpy as np

from pretrieve.retrieval import index

#: Documents whose scores torch holds at a time: 1,024 queries x 65,536 float32 are 256 MB.
SLICE = 65_536
#: Numbers that the NumPy loop widens to float64 at a time: 1 MB, which stays in the cache.
WIDE = 1 << 17


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


def exact_products(
    queries: np.ndarray, rows: np.ndarray, parts: Iterable[tuple[int, np.ndarray]], threads: int = 1
) -> np.ndarray:
    """Inner products (q, n) float64 of ``queries`` (q, dim) float32 with ``rows`` (q, n) int64, for each query its own.

    ``parts``: (first row, matrix (m, dim) float32) for all rows, as a store's shards.
    """
    parts = [(first, np.asarray(matrix)) for first, matrix in parts]
    order = np.argsort(rows, axis=1) if len(parts) > 1 else None  # rows of one part side by side
    if order is not None:
        rows = np.take_along_axis(rows, order, axis=1)
    found = np.empty(rows.shape, np.float64)
    loop = _loop()

    def compute(start: int, stop: int) -> None:
        mine = rows[start:stop]
        for first, vectors in parts:
            begins, ends = ((mine < row).sum(axis=1) for row in (first, first + len(vectors)))
            loop(queries[start:stop], vectors, mine - first, begins, ends, found[start:stop])

    bounds = np.linspace(0, len(rows), threads + 1).astype(int).tolist()
    if threads == 1:
        compute(*bounds)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(compute, bounds[:-1], bounds[1:]))
    if order is None:
        return found
    result = np.empty_like(found)
    np.put_along_axis(result, order, found, axis=1)
    return result


@cache
def _loop() -> Callable:
    return _compiled() if find_spec("numba") else _in_numpy


def _in_numpy(
    queries: np.ndarray, vectors: np.ndarray, rows: np.ndarray, begins: np.ndarray, ends: np.ndarray, out: np.ndarray
) -> None:
    """Write to ``out`` the products of each query with its ``rows``, from column ``begins`` until before ``ends``."""
    columns = np.arange(rows.shape[1])
    number, column = np.nonzero((columns >= begins[:, None]) & (columns < ends[:, None]))
    step = max(1, WIDE // max(1, queries.shape[1]))
    for start in range(0, len(number), step):
        mine, place = number[start : start + step], column[start : start + step]
        wide = vectors[rows[mine, place]].astype(np.float64)
        out[mine, place] = np.einsum("nd,nd->n", queries[mine].astype(np.float64), wide)


def _compiled() -> Callable:
    """The same loop, compiled once for a machine, or once for a process where numba's cache cannot be written."""
    import numba

    # Four vectors at a time, because reading them takes longest. Where fewer are left, the last is read again: another loop
    # would sum in another order. reassoc: several partial sums, as a vector unit has them, the same for every vector.
    def loop(queries, vectors, rows, begins, ends, out):
        wide = np.empty(queries.shape[1], np.float64)
        for i in range(rows.shape[0]):
            for d in range(wide.shape[0]):
                wide[d] = queries[i, d]
            last = ends[i] - 1
            for j in range(begins[i], ends[i], 4):
                k, m, n = min(j + 1, last), min(j + 2, last), min(j + 3, last)
                one, two = vectors[rows[i, j]], vectors[rows[i, k]]
                three, four = vectors[rows[i, m]], vectors[rows[i, n]]
                sum_one = sum_two = sum_three = sum_four = 0.0
                for d in range(wide.shape[0]):
                    sum_one += wide[d] * np.float64(one[d])
                    sum_two += wide[d] * np.float64(two[d])
                    sum_three += wide[d] * np.float64(three[d])
                    sum_four += wide[d] * np.float64(four[d])
                out[i, j], out[i, k], out[i, m], out[i, n] = sum_one, sum_two, sum_three, sum_four

    try:
        return numba.njit(nogil=True, cache=True, fastmath={"reassoc"})(loop)
    except RuntimeError:  # "no locator available"
        return numba.njit(nogil=True, fastmath={"reassoc"})(loop)
