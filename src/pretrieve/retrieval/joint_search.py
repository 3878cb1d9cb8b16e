"""DupMAE's joint score (paper ``dupmae`` §3.2, equations 10-12), exact and in two steps.

A document d has a short dense vector and the ``top`` largest entries of its vocabulary vector μ_d, at the words I_d; a
query q has a short dense vector and its whole μ_q::

    ĥ = W h_[CLS]                                             (10)  (cls_dim,), 384 in the paper
    I_d = the top-N words of μ_d                              (11)  N = 384, or 260 for the same storage as 768 floats
    score(q, d) = ĥ_q·ĥ_d + Σ_{i in I_d} μ_q[i] μ_d[i]        (12)

Only documents are made sparse. So the score is the inner product of (ĥ_q, μ_q) with (ĥ_d, μ_d zeroed outside I_d), and
it is computed here without ever writing these zeros.

* :class:`JointScorer` scores everything. A block of documents at a time goes through ``embedding_bag`` (a sum of rows of
  the table μ_q^T (V, queries) with weights μ_d), 2-4 times as fast as a product with a sparse matrix of scipy. Candidates
  and ties are settled in float64 by :func:`pretrieve.retrieval.search.rank_rows`. Memory does not grow with the corpus;
  time is 2 x N x top operations for each query.
* :meth:`JointScorer.two_step_run` takes candidates by ĥ alone and scores these exactly. What it misses is measured by
  :mod:`pretrieve.retrieval.approximation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn import functional

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import search as dense_search
from pretrieve.retrieval.embeddings import EmbeddingReader, LexicalReader
from pretrieve.retrieval.products import WIDE, exact_products
from pretrieve.retrieval.search import DenseScorer, Hits, as_run, best_first, check_queries, rank_rows, rounding
from pretrieve.retrieval.trec_run import Run

#: Documents that the first pass scores at a time: 25 MB of indices when they keep 384 words.
BLOCK = 16_384
#: Queries that :meth:`JointScorer.two_step_run` handles at a time; the result does not depend on it.
BATCH = 256
#: Queries for which a table of their μ (V, 64) stays in the processor's cache.
_TABLE = 64


class JointScorer:
    """Equation 12 for the steps of :func:`pretrieve.retrieval.search.rank_rows`.

    reader: dense part of N documents, width c; c may be 0 (``parts: ot``). lexical: kept entries of N documents; of
    them ``indices`` (N, top) int32, no word twice in a row, and ``values`` are read. query_embeddings: (Q, c) float32;
    query_lexical: (Q, V) float32. threads: for the first pass.

    Raises DataError when shapes do not fit together, a number is not finite, or a word is not below V.
    """

    def __init__(
        self,
        reader: EmbeddingReader,
        lexical: LexicalReader,
        query_embeddings: np.ndarray,
        query_lexical: np.ndarray,
        threads: int = 1,
    ) -> None:
        self._reader, self._lexical, self._threads = reader, lexical, threads
        self.rows, self.dim = reader.rows, reader.dim
        shape = tuple(lexical.indices.shape)
        if len(shape) != 2 or shape[0] != self.rows or tuple(lexical.values.shape) != shape:
            raise DataError(
                f"joint search: kept words of shape {shape} with values {tuple(lexical.values.shape)} beside "
                f"{self.rows} dense rows, expected ({self.rows}, top) twice; encode this corpus again."
            )
        self.top = shape[1]
        self._vectors = check_queries(query_embeddings, self.dim)
        self.queries = len(self._vectors)
        self._words = np.asarray(query_lexical, dtype=np.float32)
        if self._words.ndim != 2 or len(self._words) != self.queries:
            raise DataError(
                f"joint search: vocabulary vectors of shape {self._words.shape} for {self.queries} queries, expected "
                f"({self.queries}, vocabulary); encode the queries again."
            )
        if not np.isfinite(self._words).all():
            raise DataError("joint search: a vocabulary vector of a query is not finite; check the encoder.")
        self._norms: tuple[float, float] | None = None

    def candidates(self, part: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        self.slack(part)  # looks at every document: numbers that are not finite, words that do not exist
        with _threads(self._threads):
            groups = (part[i : i + _TABLE] for i in range(0, len(part), _TABLE))
            tables = [torch.from_numpy(np.ascontiguousarray(self._words[group].T)) for group in groups]
            vectors = torch.from_numpy(self._vectors[part])
            for first, dense, indices, values in self._blocks(BLOCK):
                scores = vectors @ torch.from_numpy(dense).T
                scores += torch.cat([_bags(indices, values, table) for table in tables], dim=1).T
                best, rows = torch.topk(scores, min(k, len(dense)), dim=1)
                yield best.numpy(), rows.numpy() + first

    def slack(self, part: np.ndarray) -> np.ndarray:
        if self._norms is None:
            self._norms = self._longest()
        terms = self.dim + self.top + 1
        dense, words = self._norms
        return rounding(terms, self._vectors[part]) * dense + rounding(terms, self._words[part]) * words

    def exact(self, part: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scores = exact_products(self._vectors[part], rows, self._reader.shards(), self._threads)
        step = max(1, WIDE // max(1, rows.shape[1] * self.top))
        for start in range(0, len(part), step):
            mine = rows[start : start + step]
            indices = np.asarray(self._lexical.indices[mine.ravel()]).reshape(len(mine), -1)
            values = np.asarray(self._lexical.values[mine.ravel()]).reshape(*mine.shape, self.top)
            gathered = np.take_along_axis(self._words[part[start : start + step]], indices.astype(np.int64), axis=1)
            gathered = gathered.reshape(values.shape).astype(np.float64)
            scores[start : start + step] += np.einsum("qnt,qnt->qn", gathered, values.astype(np.float64))
        return scores.astype(np.float32)

    def exact_blocks(self, part: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        vectors = torch.from_numpy(self._vectors[part].astype(np.float64))
        table = torch.from_numpy(np.ascontiguousarray(self._words[part].T.astype(np.float64)))
        with _threads(self._threads):
            for first, dense, indices, values in self._blocks(dense_search.BLOCK):
                scores = vectors @ torch.from_numpy(dense.astype(np.float64)).T
                yield first, (scores + _bags(indices, values.astype(np.float64), table).T).float().numpy()

    def two_step_run(
        self, doc_ids: Sequence[str], depth: int, candidates: int = 1000, query_ids: Sequence[str] | None = None
    ) -> Run:
        """Rank, by equation 12, the ``candidates`` documents with the largest ĥ_q·ĥ_d; both steps are exact.

        ``candidates`` is at least ``depth``. Raises ConfigError when there is no dense part to take them by.
        """
        if self.dim == 0:
            raise ConfigError(
                f"two-step search: {self._reader.path} has no dense part to find candidates by; search exactly."
            )
        dense = DenseScorer(self._reader, self._vectors, self._threads)
        self.slack(np.arange(0))  # looks at every document, which the dense scores alone do not
        hits: list[Hits] = []
        for start in range(0, self.queries, BATCH):
            part = np.arange(start, min(start + BATCH, self.queries))
            rows = np.stack([found for found, _ in rank_rows(dense, candidates, doc_ids, part)])
            for mine, scores in zip(rows, self.exact(part, rows), strict=True):
                order = best_first(scores, mine, doc_ids)[:depth]
                hits.append((mine[order], scores[order]))
        return as_run(hits, doc_ids, query_ids)

    def _blocks(self, size: int) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (first row, dense (n, c), indices (n, top), values (n, top)), copies of at most ``size`` rows."""
        for first in range(0, self.rows, size):
            stop = min(first + size, self.rows)
            indices = np.array(self._lexical.indices[first:stop], dtype=np.int32)
            values = np.array(self._lexical.values[first:stop], dtype=np.float32)
            yield first, self._reader[first:stop], indices, values

    def _longest(self) -> tuple[float, float]:
        """Lengths of the longest dense vector and of the longest row of values; every document is read once."""
        squares: list[tuple[float, float]] = [(0.0, 0.0)]
        vocabulary = self._words.shape[1]
        for first, dense, indices, values in self._blocks(BLOCK):
            bad = (indices < 0) | (indices >= vocabulary)
            if bad.any():
                row = first + int(np.argmax(bad.any(axis=1)))
                raise DataError(
                    f"joint search: row {row} keeps a word outside 0..{vocabulary - 1}, the vocabulary of the queries; "
                    "encode both with the same retriever."
                )
            squares.append(tuple(np.einsum("ij,ij->i", part, part).max() for part in (dense, values)))
        dense_norm, words_norm = np.sqrt(np.max(squares, axis=0)).tolist()  # np.max keeps a NaN, max() loses it
        if not np.isfinite(dense_norm + words_norm):
            raise DataError("joint search: a document's representation is not finite or too large; check the encoder.")
        return dense_norm, words_norm


def _bags(indices: np.ndarray, values: np.ndarray, table: torch.Tensor) -> torch.Tensor:
    """(n, q): Σ_t values[d, t] table[indices[d, t]] for each document d."""
    bags, weights = torch.from_numpy(indices), torch.from_numpy(values)
    return functional.embedding_bag(bags, table, per_sample_weights=weights, mode="sum")


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
