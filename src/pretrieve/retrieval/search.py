"""Exact retrieval whose result is a function of the embeddings alone.

faiss gives float32 scores whose last bits depend on where a vector lies in a block, and cuts ties as it likes, so two
equal passages may swap with the batch size, the shards or the number of threads. Here:

1. faiss finds ``depth + MARGIN`` candidates for each query, shard by shard; the best so far are kept, so memory is
   O(queries x depth) and never grows with the corpus. Without faiss torch does (:mod:`pretrieve.retrieval.products`).
2. Candidates that may reach the cut are scored again in float64 and rounded to float32: equal vectors get equal scores.
   Ranking is by (score descending, document id ascending), see :mod:`pretrieve.retrieval.trec_run`.
3. A query is settled when its hit number ``depth`` beats the worst candidate by more than the rounding of step 1 could
   hide. The others (more ties at the cut than MARGIN: repeated passages, or a collapsed encoder) are scored against
   everything in float64, block by block, with ids deciding ties.

The three steps (:func:`rank_rows`) know nothing of the score but a :class:`Scorer`: here the inner product of two
vectors, in :mod:`pretrieve.retrieval.joint_search` DupMAE's score of two vectors and a bag of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.index import is_exact, load_faiss
from pretrieve.retrieval.products import exact_products, top_k
from pretrieve.retrieval.trec_run import Run, rank_order

#: Candidates beyond ``depth``, so that ties and near ties at the cut are settled without a second pass.
MARGIN = 32
#: Queries handled at a time; the result does not depend on it.
BATCH = 1024
#: Rows that the second pass scores at a time: bounds its memory at queries x BLOCK float64.
BLOCK = 4096
#: What one query found: rows (n,) int64 and scores (n,) float32, best first.
Hits = tuple[np.ndarray, np.ndarray]


class Scorer(Protocol):
    """The scores of ``queries`` queries with ``rows`` rows. ``part`` is an array of query numbers, (q,)."""

    rows: int
    queries: int

    def candidates(self, part: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield float32 scores, descending, and rows, each (q, <= k), of one part of the corpus after another."""

    def slack(self, part: np.ndarray) -> np.ndarray:
        """(q,) how far a score of :meth:`candidates` may be from the true one; asked for after them."""

    def exact(self, part: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(q, n) float32 scores, rounded from float64, of ``rows`` (q, n): for each query its own."""

    def exact_blocks(self, part: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, scores (q, <= BLOCK) float32 as from :meth:`exact`) in row order."""


def search(
    index_or_reader,
    query_embeddings: np.ndarray,
    doc_ids: Sequence[str],
    depth: int,
    query_ids: Sequence[str] | None = None,
    threads: int = 1,
) -> Run:
    """Rank all documents by inner product for every query.

    index_or_reader: an :class:`EmbeddingReader` (streamed from disk, N rows) or a flat faiss index of N vectors.
    query_embeddings: (Q, dim) float32, finite. doc_ids: N unique ids in row order. depth: hits for each query; all N
    documents when N is smaller. query_ids: Q ids, by default '0', '1', ... threads: for faiss.

    Raises DataError when shapes or counts do not fit together, or an embedding is not finite, and ConfigError when
    ``depth`` or ``threads`` is below 1, or the index is an approximate one.
    """
    return ranked_run(DenseScorer(index_or_reader, query_embeddings, threads), doc_ids, depth, query_ids)


def ranked_run(scorer: Scorer, doc_ids: Sequence[str], depth: int, query_ids: Sequence[str] | None = None) -> Run:
    """The run of a scorer whose rows are documents; arguments as in :func:`search`."""
    return as_run(rank_rows(scorer, depth, doc_ids), doc_ids, query_ids)


def as_run(hits: Sequence[Hits], doc_ids: Sequence[str], query_ids: Sequence[str] | None) -> Run:
    """A run from numbers of documents; queries are called '0', '1', ... where they have no ids."""
    names = list(query_ids) if query_ids is not None else [str(i) for i in range(len(hits))]
    return Run(
        names, [list(map(doc_ids.__getitem__, rows.tolist())) for rows, _ in hits], [scores for _, scores in hits]
    )


class DenseScorer:
    """Inner products of queries (Q, dim) with a reader or a flat faiss index; arguments as in :func:`search`."""

    def __init__(self, index_or_reader, query_embeddings: np.ndarray, threads: int = 1) -> None:
        if threads < 1:
            raise ConfigError(f"dense search: threads={threads}; expected 1 or more.")
        self.threads, self._source = threads, index_or_reader
        self._is_index = not isinstance(index_or_reader, EmbeddingReader)
        if not self._is_index:
            self.rows, self.dim = index_or_reader.rows, index_or_reader.dim
        elif is_exact(index_or_reader):
            self.rows, self.dim = index_or_reader.ntotal, index_or_reader.d
        else:
            raise ConfigError(
                f"dense search: found an approximate index ({type(index_or_reader).__name__}), expected a reader or a "
                "Flat index; search it with pretrieve.retrieval.approximation.search_index."
            )
        self.vectors = check_queries(query_embeddings, self.dim)
        self.queries = len(self.vectors)

    def candidates(self, part: np.ndarray, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        queries = self.vectors[part]
        if self._is_index:
            load_faiss(self.threads, self.dim)
            yield self._source.search(queries, k)
            return
        unknown, squares = _known_length(self._source, self.rows) is None, []
        for first, shard in self._source.shards():
            if unknown:  # in this pass: a corpus larger than the memory is read from the disk each time
                squares.append(_longest_square(shard))
            scores, rows = top_k(queries, shard, min(k, len(shard)), self.threads)
            yield scores, rows + first
        if unknown:
            self._keep_length(squares)

    def slack(self, part: np.ndarray) -> np.ndarray:
        longest = _known_length(self._source, self.rows)
        if longest is None:
            longest = self._keep_length([_longest_square(block) for _, block in self.blocks()])
        return rounding(self.dim, self.vectors[part]) * longest

    def _keep_length(self, squares: Sequence[np.float32]) -> float:
        """The length for :func:`_known_length`, from the greatest squares of all blocks; a NaN or an overflow shows too."""
        norm = float(np.sqrt(np.max(squares, initial=0.0)))  # np.max keeps a NaN, max() loses it
        if not np.isfinite(norm):
            found = ((first, np.isfinite(_squares(block))) for first, block in self.blocks())
            row = next(first + int(np.argmin(finite)) for first, finite in found if not finite.all())
            raise DataError(f"dense search: the embedding of row {row} is not finite or too large; check the encoder.")
        _norms[self._source] = self.rows, norm
        return norm

    def exact(self, part: np.ndarray, rows: np.ndarray) -> np.ndarray:
        queries = self.vectors[part]
        if not self._is_index:
            return exact_products(queries, rows, self._source.shards(), self.threads).astype(np.float32)
        scores = np.empty(rows.shape, np.float32)
        step = max(1, BLOCK // max(1, rows.shape[1]))
        for start in range(0, len(part), step):  # an index returns copies: of few rows at a time
            chosen, mine = slice(start, start + step), rows[start : start + step]
            copied = [(0, self._source.reconstruct_batch(mine.ravel()))]
            scores[chosen] = exact_products(queries[chosen], np.arange(mine.size).reshape(mine.shape), copied)
        return scores

    def exact_blocks(self, part: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        wide = self.vectors[part].astype(np.float64)
        for first, block in self.blocks():
            yield first, (wide @ block.astype(np.float64).T).astype(np.float32)

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, (<= BLOCK, dim) float32) in row order."""
        if self._is_index:
            for first in range(0, self.rows, BLOCK):
                yield first, self._source.reconstruct_n(first, min(BLOCK, self.rows - first))
            return
        for first, shard in self._source.shards():
            for start in range(0, len(shard), BLOCK):
                yield first + start, shard[start : start + BLOCK]


def check_queries(query_embeddings: np.ndarray, dim: int) -> np.ndarray:
    """Query vectors (Q, dim) as contiguous float32; another width or a NaN is a DataError."""
    queries = np.ascontiguousarray(query_embeddings, dtype=np.float32)
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise DataError(f"dense search: queries of shape {queries.shape}, expected (queries, {dim}).")
    if not np.isfinite(queries).all():
        raise DataError("dense search: a query embedding is not finite; check the encoder.")
    return queries


#: Of each reader or index: its rows and its longest vector, so that a second search need not read everything again.
_norms: WeakKeyDictionary = WeakKeyDictionary()


def _known_length(source, rows: int) -> float | None:
    """Length of the longest vector, which bounds the rounding error of any score; None before all were looked at."""
    seen, norm = _norms.get(source, (None, 0.0))
    return norm if seen == rows else None


def _squares(block: np.ndarray) -> np.ndarray:
    """Squared length of each vector (n, dim)."""
    return np.einsum("ij,ij->i", block, block)


def _longest_square(block: np.ndarray) -> np.float32:
    """Greatest squared length of the vectors (n, dim); NaN if one has a NaN."""
    return np.max(_squares(block), initial=0.0)


def rounding(terms: int, queries: np.ndarray) -> np.ndarray:
    """(Q,) error of a float32 product of ``terms`` numbers with a vector of length 1: at most terms * 2**-24 * |q| in
    any order of summation."""
    return (terms + 1) * 2.0**-24 * np.linalg.norm(queries.astype(np.float64), axis=1)


def rank_rows(
    scorer: Scorer, depth: int, names: Sequence[str] | None = None, chosen: np.ndarray | None = None
) -> list[Hits]:
    """The best ``depth`` rows of every query (all of them when there are fewer), by steps 1-3 of this module.

    names: of the rows; they decide ties. None: the lower row is the better one. chosen: numbers of the queries wanted,
    by default all.

    Raises ConfigError when ``depth`` is below 1, and DataError when there is not one name for each row.
    """
    if depth < 1:
        raise ConfigError(f"dense search: depth={depth}; expected 1 or more.")
    if names is not None and len(names) != scorer.rows:
        raise DataError(
            f"dense search: {len(names)} document ids for {scorer.rows} embeddings; "
            "expected one each, so encode this corpus again."
        )
    chosen = np.arange(scorer.queries) if chosen is None else chosen
    hits: list[Hits] = []
    for start in range(0, len(chosen), BATCH):
        hits += _rank_batch(scorer, chosen[start : start + BATCH], min(depth, scorer.rows), names)
    return hits


def _rank_batch(scorer: Scorer, part: np.ndarray, depth: int, names: Sequence[str] | None) -> list[Hits]:
    if depth == 0:
        return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in part]
    wanted = min(depth + MARGIN, scorer.rows)
    approximate, rows = _merge(scorer.candidates(part, wanted), len(part), wanted)
    slack = scorer.slack(part)
    # A candidate that is further than this below number `depth` cannot be a hit, and needs no exact score.
    able = approximate >= approximate[:, depth - 1 : depth] - 2 * slack[:, None]
    rows = rows[:, : able.sum(axis=1).max(initial=depth)]
    scores = scorer.exact(part, rows)
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    for i in np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1)):
        order[i] = best_first(scores[i], rows[i], names)
    best = np.take_along_axis(rows, order, axis=1)[:, :depth]
    hits = list(zip(best, ranked[:, :depth], strict=True))
    if wanted == scorer.rows:
        return hits
    unsettled = np.flatnonzero(~(ranked[:, depth - 1] > approximate[:, -1] + slack)).tolist()
    if unsettled:
        for i, hit in zip(unsettled, _exhaustive(scorer, part[unsettled], depth, names), strict=True):
            hits[i] = hit
    return hits


def best_first(scores: np.ndarray, rows: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    """Positions (n,) that sort hits by score descending, then by name, or by row where there are no names."""
    if names is None:
        return np.lexsort((rows, -scores))
    return rank_order(scores, lambda position: names[rows[position]])


def _merge(parts: Iterator[tuple[np.ndarray, np.ndarray]], count: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Running top-k over the parts, best first: scores and rows (count, k)."""
    best = np.empty((count, 0), np.float32)
    best_rows = np.empty((count, 0), np.int64)
    for scores, rows in parts:
        if best.shape[1] == 0 and scores.shape[1] <= k:  # the first part, which is sorted
            best, best_rows = scores, rows
            continue
        best, best_rows = np.hstack([best, scores]), np.hstack([best_rows, rows])
        keep = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, best_rows = np.take_along_axis(best, keep, axis=1), np.take_along_axis(best_rows, keep, axis=1)
    return best, best_rows


def _exhaustive(scorer: Scorer, part: np.ndarray, depth: int, names: Sequence[str] | None) -> list[Hits]:
    """Exact hits of each query, from all rows, in memory O(queries x (depth + BLOCK) + N)."""
    place = np.arange(scorer.rows)  # of each row, in ascending order of names
    if names is not None:
        place[sorted(range(scorer.rows), key=names.__getitem__)] = np.arange(scorer.rows)
    kept_scores = [np.empty(0, np.float32) for _ in part]
    kept_rows = [np.empty(0, np.int64) for _ in part]
    for first, scores in scorer.exact_blocks(part):
        rows = np.arange(first, first + scores.shape[1])
        for i, mine in enumerate(scores):
            candidates = rows
            if len(kept_scores[i]) == depth:  # only what ranks before the last one kept
                last, last_place = kept_scores[i][-1], place[kept_rows[i][-1]]
                able = (mine > last) | ((mine == last) & (place[rows] < last_place))
                mine, candidates = mine[able], rows[able]
            all_scores = np.concatenate([kept_scores[i], mine])
            all_rows = np.concatenate([kept_rows[i], candidates])
            best = np.lexsort((place[all_rows], -all_scores))[:depth]
            kept_scores[i], kept_rows[i] = all_scores[best], all_rows[best]
    return list(zip(kept_rows, kept_scores, strict=True))
