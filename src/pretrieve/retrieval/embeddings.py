"""Stores of vectors as ``.npy`` shards (:mod:`pretrieve.retrieval.shards`): one float32 matrix, or sparse vectors.

An embedding store::

    corpus-00000.npy  corpus-00001.npy ...   (shard_rows, dim) float32 each, the last one shorter
    corpus.json                              rows, dim, dtype, key, shard_rows, shards: [{file, rows}]; written last
    corpus.plan.json                         the same without shards; written first

**The lexical part of a joint representation** (paper ``dupmae`` §3.2; :mod:`pretrieve.models.joint`). A document keeps the
``top`` words with the largest entries of its vector μ (V,): their ids and their values. Next to the dense store ``corpus`` is
``corpus-lexical``, with the same rows::

    corpus-lexical-00000.indices.npy ...   (shard_rows, top) int32: word ids, ascending in each row
    corpus-lexical-00000.values.npy ...    (shard_rows, top) float32: their entries of μ
    corpus-lexical.json                    rows, top, vocabulary, key, shard_rows, shards: [{file, rows}]; written last

A query keeps its whole μ: ``queries-lexical`` is an embedding store (rows, V). The lexical score of query q and document d is
then ``Σ_k μ_q[indices[d, k]] · values[d, k]`` (equation 12), the same number as the product with μ_d zeroed elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.retrieval.shards import ALONE, Part, ShardedRows, Shards, ShardWriter, open_store

DTYPE, WORDS = np.dtype("<f4"), np.dtype("<i4")
#: The file in a directory of stores that says which document a window belongs to.
DOCUMENTS = "corpus-documents.npy"


class EmbeddingWriter(ShardWriter):
    """Write a (rows, dim) matrix shard by shard, in any order.

    Usage::

        writer = EmbeddingWriter(directory, "corpus", rows, dim, key)
        for shard, start, stop in writer.pending():
            writer.write(shard, encode(texts[start:stop]))
        writer.finish()

    dim: 0 for a joint representation without its dense part.
    """

    def __init__(self, directory: Path | str, name: str, rows: int, dim: int, key: str, shards: Shards = ALONE) -> None:
        plan = {"rows": rows, "dim": dim, "dtype": "float32", "key": key}
        super().__init__(directory, name, plan, [Part("", dim, DTYPE)], shards)


class EmbeddingReader(ShardedRows):
    """A finished store as one matrix (rows, dim) float32 through memory maps; ``rows``, ``dim`` and ``key`` are
    attributes.

    Raises DataError when the meta file or a shard is missing, short or of another shape; the message says which and what to do.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        self.path = Path(directory) / f"{name}.json"
        meta, (matrix,) = open_store(directory, name, {"": ("dim", DTYPE)})
        super().__init__(*matrix)
        (self.rows, self.dim), self.key = self.shape, str(meta["key"])


class LexicalWriter(ShardWriter):
    """Write the sparse vectors of ``rows`` documents, ``top`` of ``vocabulary`` entries each, shard by shard.

    ``write(shard, indices, values)`` takes two arrays (rows of the shard, top); everything else is as in
    :class:`EmbeddingWriter`.
    """

    def __init__(
        self, directory: Path | str, name: str, rows: int, top: int, vocabulary: int, key: str, shards: Shards = ALONE
    ) -> None:
        plan = {"rows": rows, "top": top, "vocabulary": vocabulary, "key": key}
        super().__init__(directory, name, plan, [Part(".indices", top, WORDS), Part(".values", top, DTYPE)], shards)

    def write(self, shard: int, indices: np.ndarray, values: np.ndarray) -> None:
        """Write one shard: indices and values (rows of the shard, top).

        Raises DataError when a shape is wrong, a value is not finite, or an index is not a word; the message names the
        row.
        """
        bad = (indices < 0) | (indices >= self._plan["vocabulary"])
        if bad.any():
            row = self._shards[shard][0] + int(np.argmax(bad.any(axis=1)))
            raise DataError(
                f"{self._path(shard, self.parts[0])}: row {row} has a word outside 0..{self._plan['vocabulary'] - 1}; "
                "check the encoder."
            )
        super().write(shard, indices, values)


class LexicalReader:
    """Read a finished store through memory maps: ``rows``, ``top``, ``vocabulary`` and ``key`` are attributes.

    ``indices`` (rows, top) int32 and ``values`` (rows, top) float32 take slices and arrays of rows.

    Raises DataError when the meta file or a shard is missing, short or of another shape; the message says which and what to do.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        self.path = Path(directory) / f"{name}.json"
        parts = {".indices": ("top", WORDS), ".values": ("top", DTYPE)}
        meta, matrices = open_store(directory, name, parts, ["vocabulary"])
        self.indices, self.values = (ShardedRows(*matrix) for matrix in matrices)
        self.rows, self.top, self.key = int(meta["rows"]), int(meta["top"]), str(meta["key"])
        self.vocabulary = int(meta["vocabulary"])
