"""Exact dense retrieval whose result is a function of the embeddings alone.

faiss gives float32 scores whose last bits depend on where a vector lies in a block, and cuts ties as it likes, so two
equal passages may swap with the batch size, the shards or the number of threads. Here:

1. faiss finds ``depth + MARGIN`` candidates for each query, shard by shard; the best so far are kept, so memory is
   O(queries x depth) and never grows with the corpus.
2. Candidates are scored again in float64 and rounded to float32: equal vectors get equal scores. Ranking is by
   (score descending, document id ascending), see :mod:`pretrieve.retrieval.run`.
3. A query is settled when its hit number ``depth`` beats the worst candidate by more than the rounding of step 1 could
   hide. The others (more ties at the cut than MARGIN: repeated passages, or a collapsed encoder) are scored against
   everything in float64, block by block, with ids deciding ties.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from pretrieve.errors import ConfigError, DataError
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.index import load_faiss, top_k
from pretrieve.retrieval.run import Run, rank_order

#: Candidates beyond ``depth``, so that ties and near ties at the cut are settled without a second pass.
MARGIN = 32

#: Rows that the second pass scores at a time: bounds its memory at queries x BLOCK float64.
BLOCK = 4096


def search(
    index_or_reader,
    query_embeddings: np.ndarray,
    doc_ids: Sequence[str],
    depth: int,
    batch: int = 1024,
    query_ids: Sequence[str] | None = None,
    threads: int = 1,
) -> Run:
    """Rank all documents by inner product for every query.

    Parameters
    ----------
    index_or_reader : an :class:`EmbeddingReader` (streamed from disk, N rows) or a flat faiss index of N vectors
    query_embeddings : (Q, dim) float32, finite
    doc_ids : N unique ids in row order
    depth : hits for each query; all N documents when N is smaller
    batch : queries handled at a time; the result does not depend on it
    query_ids : Q ids, by default '0', '1', ...
    threads : for faiss

    Raises
    ------
    DataError
        when shapes or counts do not fit together, or an embedding is not finite.
    ConfigError
        when ``depth`` or ``batch`` is below 1.
    """
    if depth < 1 or batch < 1:
        raise ConfigError(f"dense search: depth={depth}, batch={batch}; expected 1 or more.")
    source = _Source(index_or_reader, threads)
    queries = np.ascontiguousarray(query_embeddings, dtype=np.float32)
    if queries.ndim != 2 or queries.shape[1] != source.dim:
        raise DataError(f"dense search: queries of shape {queries.shape}, expected (queries, {source.dim}).")
    if not np.isfinite(queries).all():
        raise DataError("dense search: a query embedding is not finite; check the encoder.")
    if len(doc_ids) != source.rows:
        raise DataError(
            f"dense search: {len(doc_ids)} document ids for {source.rows} embeddings; "
            "expected one each, so encode this corpus again."
        )
    if query_ids is None:
        query_ids = [str(i) for i in range(len(queries))]
    hits: list[tuple[list[str], np.ndarray]] = []
    for start in range(0, len(queries), batch):
        hits += _search_batch(source, queries[start : start + batch], doc_ids, min(depth, source.rows))
    return Run(list(query_ids), [ids for ids, _ in hits], [scores for _, scores in hits])


def select_queries(
    reader: EmbeddingReader, query_ids: Sequence[str], wanted: Collection[str]
) -> tuple[list[str], np.ndarray]:
    """Ids and vectors (n, dim) of the ``wanted`` queries, in row order; ``query_ids`` are those of the reader's rows.

    Raises
    ------
    DataError
        when the store has another number of rows, or a wanted query is not in it.
    """
    if len(query_ids) != reader.rows:
        raise DataError(f"{reader.path}: {reader.rows} rows, expected {len(query_ids)} queries; encode them again.")
    wanted = set(wanted)
    missing = sorted(wanted.difference(query_ids))
    if missing:
        raise DataError(f"{reader.path}: {len(missing)} queries are not among its rows, the first is '{missing[0]}'.")
    rows = [row for row, query_id in enumerate(query_ids) if query_id in wanted]
    return [query_ids[row] for row in rows], reader.take(np.array(rows, dtype=np.int64))


class _Source:
    """One view of a reader and of a faiss index: size, candidates, and vectors by row."""

    def __init__(self, index_or_reader, threads: int) -> None:
        self._threads = threads
        if isinstance(index_or_reader, EmbeddingReader):
            self._reader, self._index = index_or_reader, None
            self.rows, self.dim = index_or_reader.rows, index_or_reader.dim
        else:
            self._reader, self._index = None, index_or_reader
            self.rows, self.dim = index_or_reader.ntotal, index_or_reader.d
            load_faiss(threads)
        self.take: Callable = self._reader.take if self._reader is not None else self._reconstruct
        # The longest vector bounds the rounding error of any score; a NaN or an overflow shows here too.
        self.max_norm = max(
            (float(np.sqrt(np.einsum("ij,ij->i", block, block).max())) for _, block in self.blocks()), default=0.0
        )
        if not np.isfinite(self.max_norm):
            raise DataError("dense search: a document embedding is not finite or too large; check the encoder.")

    def _reconstruct(self, rows: np.ndarray) -> np.ndarray:
        return self._index.reconstruct_batch(rows)

    def candidates(self, queries: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (scores, rows), each (Q, <= k), for one part of the corpus after another."""
        if self._index is not None:
            yield self._index.search(queries, k)
            return
        for first, shard in self._reader.shards():
            scores, rows = top_k(queries, shard, min(k, len(shard)), self._threads)
            yield scores, rows + first

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, (<= BLOCK, dim) float32) in row order."""
        if self._index is not None:
            for first in range(0, self.rows, BLOCK):
                yield first, self._index.reconstruct_n(first, min(BLOCK, self.rows - first))
            return
        for first, shard in self._reader.shards():
            for start in range(0, len(shard), BLOCK):
                yield first + start, shard[start : start + BLOCK]


def _search_batch(
    source: _Source, queries: np.ndarray, doc_ids: Sequence[str], depth: int
) -> list[tuple[list[str], np.ndarray]]:
    """Hits (ids, scores) of each query of one batch."""
    if depth == 0:
        return [([], np.empty(0, np.float32)) for _ in queries]
    wanted = min(depth + MARGIN, source.rows)
    approximate, rows = _merge(source.candidates(queries, wanted), len(queries), wanted)
    # A float32 dot product of n terms is off by at most n * 2**-24 * |q| * |d| in any order of summation.
    slack = (source.dim + 1) * 2.0**-24 * np.linalg.norm(queries.astype(np.float64), axis=1) * source.max_norm
    hits: list[tuple[list[str], np.ndarray]] = []
    unsettled = []
    for i, query in enumerate(queries):
        scores = _exact(source.take(rows[i]), query)
        ids = [doc_ids[row] for row in rows[i]]
        order = rank_order(scores, ids)[:depth]
        hits.append(([ids[j] for j in order], scores[order]))
        if wanted < source.rows and not scores[order[-1]] > approximate[i].min() + slack[i]:
            unsettled.append(i)
    if unsettled:
        for i, hit in zip(unsettled, _exhaustive(source, queries[unsettled], doc_ids, depth), strict=True):
            hits[i] = hit
    return hits


def _merge(parts: Iterator[tuple[np.ndarray, np.ndarray]], count: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Running top-k over the parts, best first: scores and rows (count, k)."""
    best = np.empty((count, 0), np.float32)
    best_rows = np.empty((count, 0), np.int64)
    for scores, rows in parts:
        best, best_rows = np.hstack([best, scores]), np.hstack([best_rows, rows])
        keep = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, best_rows = np.take_along_axis(best, keep, axis=1), np.take_along_axis(best_rows, keep, axis=1)
    return best, best_rows


def _exact(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Scores (n,) float32 of (n, dim) vectors, summed in float64: 29 bits more than the result keeps."""
    return (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)


def _exhaustive(
    source: _Source, queries: np.ndarray, doc_ids: Sequence[str], depth: int
) -> list[tuple[list[str], np.ndarray]]:
    """Exact hits of each query, from all rows, in memory O(queries x (depth + BLOCK) + N)."""
    order = sorted(range(len(doc_ids)), key=doc_ids.__getitem__)
    place = np.empty(len(order), np.int64)  # of each row, in ascending order of ids
    place[order] = np.arange(len(order))
    kept_scores = [np.empty(0, np.float32) for _ in queries]
    kept_rows = [np.empty(0, np.int64) for _ in queries]
    wide = queries.astype(np.float64)
    for first, block in source.blocks():
        scores = (wide @ block.astype(np.float64).T).astype(np.float32)
        rows = np.arange(first, first + len(block))
        for i in range(len(queries)):
            mine = scores[i]
            if len(kept_scores[i]) == depth:  # only what ranks before the last one kept
                last, last_place = kept_scores[i][-1], place[kept_rows[i][-1]]
                able = (mine > last) | ((mine == last) & (place[rows] < last_place))
                mine, candidates = mine[able], rows[able]
            else:
                candidates = rows
            all_scores = np.concatenate([kept_scores[i], mine])
            all_rows = np.concatenate([kept_rows[i], candidates])
            best = np.lexsort((place[all_rows], -all_scores))[:depth]
            kept_scores[i], kept_rows[i] = all_scores[best], all_rows[best]
    return [([doc_ids[row] for row in rows], scores) for rows, scores in zip(kept_rows, kept_scores, strict=True)]
