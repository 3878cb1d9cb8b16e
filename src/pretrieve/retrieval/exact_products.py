"""Inner products in float64, whose result does not depend on where a vector lies.

A product of two float32 numbers is exact in float64, and a sum of float64 has 29 bits more than a score keeps. All products
are summed in one order, so that equal vectors get equal scores. numba compiles the loop, at three times the speed of NumPy,
which makes float64 copies of all vectors; NumPy takes its place where numba is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec

import numpy as np

#: Numbers that the NumPy loop widens to float64 at a time: 1 MB, which stays in the cache.
WIDE = 1 << 17


def exact_products(
    queries: np.ndarray, rows: np.ndarray, parts: Iterable[tuple[int, np.ndarray]], threads: int = 1
) -> np.ndarray:
    """Inner products (q, n) float64 of ``queries`` (q, dim) float32 with ``rows`` (q, n) int64, for each query its own.

    ``parts``: (first row, matrix (m, dim) float32) for all rows, as a store's shards.
    """
    out = np.empty(rows.shape, np.float64)
    loop = _compiled() if find_spec("numba") else _numpy_loop
    for first, matrix in parts:
        vectors = np.asarray(matrix)

        def some(start: int, stop: int, first: int = first, vectors: np.ndarray = vectors) -> None:
            loop(queries[start:stop], vectors, first, rows[start:stop], out[start:stop])

        bounds = np.linspace(0, len(rows), threads + 1).astype(int).tolist()
        if threads == 1:
            some(*bounds)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(some, bounds[:-1], bounds[1:]))
    return out


def _numpy_loop(queries: np.ndarray, vectors: np.ndarray, first: int, rows: np.ndarray, out: np.ndarray) -> None:
    number, column = np.nonzero((rows >= first) & (rows < first + len(vectors)))
    step = max(1, WIDE // max(1, queries.shape[1]))
    for start in range(0, len(number), step):
        mine, place = number[start : start + step], column[start : start + step]
        wide = vectors[rows[mine, place] - first].astype(np.float64)
        out[mine, place] = np.einsum("nd,nd->n", queries[mine].astype(np.float64), wide)


@cache
def _compiled() -> Callable:
    """The same loop, compiled once for a machine, or once for a process where numba's cache cannot be written."""
    import numba

    # reassoc: several sums at a time, as a vector unit has them; for every vector in the same order. Four vectors at a time,
    # because reading them takes longest; the last ones are read again where fewer are left, so that the order stays the same.
    def loop(queries, vectors, first, rows, out):
        stop, count = vectors.shape[0], rows.shape[1]
        place = np.zeros(4, np.int64)
        row = np.zeros(4, np.int64)
        wide = np.empty(queries.shape[1], np.float64)
        for i in range(rows.shape[0] if stop else 0):
            for d in range(wide.shape[0]):
                wide[d] = queries[i, d]
            for j in range(0, count, 4):
                for lane in range(4):
                    place[lane] = min(j + lane, count - 1)
                    row[lane] = rows[i, place[lane]] - first
                one, two = vectors[max(0, row[0]) % stop], vectors[max(0, row[1]) % stop]
                three, four = vectors[max(0, row[2]) % stop], vectors[max(0, row[3]) % stop]
                sum_one = sum_two = sum_three = sum_four = 0.0
                for d in range(wide.shape[0]):
                    sum_one += wide[d] * np.float64(one[d])
                    sum_two += wide[d] * np.float64(two[d])
                    sum_three += wide[d] * np.float64(three[d])
                    sum_four += wide[d] * np.float64(four[d])
                for lane, total in enumerate((sum_one, sum_two, sum_three, sum_four)):
                    if 0 <= row[lane] < stop:
                        out[i, place[lane]] = total

    try:
        return numba.njit(nogil=True, cache=True, fastmath={"reassoc"})(loop)
    except RuntimeError:  # "no locator available"
        return numba.njit(nogil=True, fastmath={"reassoc"})(loop)
