"""The embedding store: one float32 matrix as ``.npy`` shards (:mod:`pretrieve.retrieval.shards`).

::

    corpus-00000.npy  corpus-00001.npy ...   (shard_rows, dim) float32 each, the last one shorter
    corpus.json                              rows, dim, dtype, key, shard_rows, shards: [{file, rows}]; written last
    corpus.plan.json                         the same without shards; written first
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pretrieve.retrieval.shards import ALONE, Part, ShardedRows, Shards, ShardWriter, open_store

DTYPE = np.dtype("<f4")
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

    def __init__(
        self,
        directory: Path | str,
        name: str,
        rows: int,
        dim: int,
        key: str,
        shards: Shards = ALONE,
    ) -> None:
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
