"""The first pass and the search on a GPU: the best documents are those of float64, and runs are those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from pretrieve.retrieval import products
from pretrieve.retrieval.in_memory import search

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def made(documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (documents, 64) and queries (30, 64) float32."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((documents, 64), np.float32), rng.standard_normal((30, 64), np.float32)


@pytest.fixture(params=[False, True])
def tf32(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the process allows TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = before


def test_the_best_of_all(monkeypatch: pytest.MonkeyPatch, tf32: bool) -> None:
    """In several slices; a process that allows TF32 gets the same, and still allows it."""
    vectors, queries = made(2000)
    monkeypatch.setattr(products, "SLICE", 300)
    scores, rows = products.torch_top_k(queries, vectors, 100)
    true = queries.astype(np.float64) @ vectors.astype(np.float64).T
    best = -np.sort(-true, axis=1)[:, :100]
    assert torch.backends.cuda.matmul.allow_tf32 == tf32
    assert all(len(set(row)) == 100 for row in rows.tolist())
    np.testing.assert_allclose(scores, best, atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(true, rows, axis=1), best, atol=1e-4)


def test_runs_are_those_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more equal vectors than the margin holds."""
    vectors, queries = made(3000)
    vectors[::5] = vectors[0]
    monkeypatch.setattr(products, "SLICE", 700)
    monkeypatch.setattr(products, "has_faiss", lambda: False)
    found = search(queries, vectors, depth=50)
    with monkeypatch.context() as without:
        without.setattr(torch.cuda, "is_available", lambda: False)
        expected = search(queries, vectors, depth=50)
    assert found.doc_ids == expected.doc_ids
    assert all((one == other).all() for one, other in zip(found.scores, expected.scores, strict=True))
