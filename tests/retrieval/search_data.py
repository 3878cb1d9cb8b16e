"""Embeddings with awkward scores, stores of them, and the float64 ranking that every search is held against."""

import numpy as np

from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.shards import Shards

#: Kinds of corpora for :func:`embeddings`.
KINDS = ("random", "duplicates", "integers", "collapsed")


def write_store(directory, matrix, shard_rows=1000, name="corpus"):
    """An embedding store of (n, dim) ``matrix`` and its reader."""
    writer = EmbeddingWriter(directory, name, len(matrix), matrix.shape[1], "k", Shards(shard_rows))
    for shard, start, stop in writer.pending():
        writer.write(shard, matrix[start:stop])
    writer.finish()
    return EmbeddingReader(directory, name)


def written_out(lexical, rows=slice(None)):
    """(n, vocabulary) float32: rows of a ``LexicalReader`` with zeros written out."""
    indices, values = lexical.indices[rows], lexical.values[rows]
    out = np.zeros((len(indices), lexical.vocabulary), dtype=np.float32)
    np.put_along_axis(out, indices.astype(np.int64), values, axis=1)
    return out


def embeddings(kind, n=600, dim=16, q=20, seed=3):
    """Corpus (n, dim), queries (q, dim), and n ids in no order."""
    rng = np.random.default_rng(seed)
    ids = [f"d{i}" for i in rng.permutation(n)]
    corpus = {
        "random": lambda: rng.normal(size=(n, dim)),
        "duplicates": lambda: rng.normal(size=(7, dim))[rng.integers(0, 7, n)],
        "integers": lambda: rng.integers(-1, 2, size=(n, dim)),  # exact ties between different vectors
        "collapsed": lambda: np.ones((n, dim)),
        "close": lambda: (
            rng.normal(size=(1, dim)) + 1e-7 * rng.normal(size=(n, dim))
        ),  # closer than float32 products tell
    }[kind]()
    queries = rng.integers(-3, 4, size=(q, dim)) if kind == "integers" else rng.normal(size=(q, dim))
    return corpus.astype(np.float32), queries.astype(np.float32), ids


def products(queries, corpus):
    """Scores (Q, N): float64 products, rounded to float32."""
    return (queries.astype(np.float64) @ corpus.astype(np.float64).T).astype(np.float32)


def ranking(scores, ids, depth):
    """For each row of scores (Q, N) the best ``depth``: [(-score, id)], ties by id."""
    return [sorted(zip((-row).tolist(), ids, strict=True))[:depth] for row in scores]


def hits(run):
    """A run in the form of :func:`ranking`."""
    return [
        list(zip((-scores).tolist(), ids, strict=True)) for ids, scores in zip(run.doc_ids, run.scores, strict=True)
    ]
