"""The first pass in torch: runs are those of faiss, with equal passages, a slice's end in the middle, and few documents.

Seen to fail when: faiss is asked for where it is not installed; `first` is not added to the rows of a later slice; the best so
far are not kept; products in bf16.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pretrieve.retrieval import index, products, search
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.shards import Shards


@pytest.mark.parametrize(("documents", "size"), [(3000, 700), (500, 500), (40, 64)])
def test_runs_are_those_of_faiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: int, size: int) -> None:
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((documents, 24)).astype(np.float32)
    vectors[::5] = vectors[0]  # more equal passages than the margin holds
    reader = _store(tmp_path, vectors)
    queries = generator.standard_normal((30, 24)).astype(np.float32)
    ids = [f"d{i:05d}" for i in generator.permutation(documents)]
    expected = search.search(reader, queries, ids, 50)
    monkeypatch.setattr(products, "SLICE", size)
    monkeypatch.setattr(products, "has_faiss", lambda: False)
    monkeypatch.setattr(index, "load_faiss", None)  # it is not asked any more
    found = search.search(reader, queries, ids, 50)
    assert found.doc_ids == expected.doc_ids
    assert all((one == other).all() for one, other in zip(found.scores, expected.scores, strict=True))


def test_rows_are_those_of_the_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would mend wrong candidates by scoring everything; here they are looked at themselves."""
    generator = np.random.default_rng(4)
    block = generator.standard_normal((900, 16)).astype(np.float32)
    queries = generator.standard_normal((20, 16)).astype(np.float32)
    monkeypatch.setattr(products, "SLICE", 130)
    scores, rows = products.torch_top_k(queries, block, 200)
    true = queries.astype(np.float64) @ block.T.astype(np.float64)
    assert (rows == np.argsort(-true, axis=1)[:, :200]).all()
    np.testing.assert_allclose(scores, np.take_along_axis(true, rows, axis=1), atol=1e-5)


def _store(directory: Path, vectors: np.ndarray) -> EmbeddingReader:
    writer = EmbeddingWriter(directory, "corpus", *vectors.shape, "key", Shards(len(vectors) // 2 + 1))
    for shard, start, stop in writer.pending():
        writer.write(shard, vectors[start:stop])
    writer.finish()
    return EmbeddingReader(directory, "corpus")
