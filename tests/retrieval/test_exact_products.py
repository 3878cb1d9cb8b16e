"""Exact products: the two loops against Python's fsum, whatever the parts, the threads and the place of a vector.

Seen to fail when: a part's first row is not taken off; a part begins too early; the order is not undone; products are float32; a
thread's last query is left out.
"""

import math

import numpy as np
import pytest

from pretrieve.retrieval import products as module
from pretrieve.retrieval.products import exact_products


@pytest.fixture(params=["compiled", "numpy"])
def loop(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(module, "_loop", lambda: module._in_numpy)
    else:
        pytest.importorskip("numba")


def parts(vectors, size):
    return [(first, vectors[first : first + size]) for first in range(0, len(vectors), size)]


@pytest.mark.parametrize("dim", [0, 1, 7, 100])
def test_products_are_exact(loop, dim):
    rng = np.random.default_rng(dim)
    vectors = rng.standard_normal((50, dim), dtype=np.float32) * 10.0 ** rng.integers(-6, 6, (50, 1)).astype(np.float32)
    queries = rng.standard_normal((9, dim), dtype=np.float32)
    rows = rng.integers(0, 50, (9, 13))
    expected = [
        [math.fsum(float(a) * float(b) for a, b in zip(query, vectors[row], strict=True)) for row in mine]
        for query, mine in zip(queries, rows, strict=True)
    ]
    for size, threads in ((50, 1), (7, 1), (50, 4), (7, 16)):
        found = exact_products(queries, rows, parts(vectors, size), threads)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


def test_equal_vectors_have_equal_products_anywhere(loop):
    rng = np.random.default_rng(0)
    vector = rng.standard_normal((1, 255), dtype=np.float32)
    vectors = np.concatenate([rng.standard_normal((1, 255), dtype=np.float32), np.repeat(vector, 40, axis=0)])
    queries = rng.standard_normal((5, 255), dtype=np.float32)
    found = exact_products(queries, np.tile(np.arange(1, 41), (5, 1)), parts(vectors, 6), 2)
    assert (found == found[:, :1]).all()


def test_no_queries_and_no_rows(loop):
    vectors = np.ones((3, 4), np.float32)
    assert exact_products(np.ones((0, 4), np.float32), np.empty((0, 2), np.int64), [(0, vectors)], 2).shape == (0, 2)
    assert exact_products(np.ones((2, 4), np.float32), np.empty((2, 0), np.int64), [(0, vectors)]).shape == (2, 0)
