"""Packed batches: sequences laid end to end without padding, in order of length.

A batch of n sequences is one array of all their T tokens. The Transformer's linear layers, norms and heads work on the
T rows as they are; only attention needs rectangles, and because the sequences are sorted by length it gets nearly full
ones (:meth:`Packed.groups`). ``order`` undoes the sorting for the pooled vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import NO_TOKEN


@dataclass(frozen=True)
class Packed:
    """n sequences end to end, longest first.

    tokens (T,) int64; segments (T,) int64 (0 first text, 1 second); lengths (n,) int64, non-increasing;
    order (n,) int64: packed sequence i is example ``order[i]`` of the caller.
    """

    tokens: np.ndarray
    segments: np.ndarray
    lengths: np.ndarray
    order: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """(n,) first row of each sequence."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def positions(self) -> np.ndarray:
        """(T,) position of each token in its sequence."""
        return np.arange(len(self.tokens)) - np.repeat(self.starts, self.lengths)

    def groups(self, waste: float = 0.15) -> list[tuple[int, int]]:
        """Consecutive sequence ranges ``(first, last+1)`` in each of which padding costs at most ``waste``."""
        bounds, first = [], 0
        for i, length in enumerate(self.lengths):
            if length < (1 - waste) * self.lengths[first]:
                bounds.append((first, i))
                first = i
        return [*bounds, (first, len(self.lengths))] if len(self.lengths) else []

    def slices(self, budget: int) -> list[tuple[int, int]]:
        """Consecutive sequence ranges ``(first, last+1)`` of at most ``budget`` tokens, or of a single sequence."""
        bounds, first, size = [], 0, 0
        for i, length in enumerate(self.lengths):
            if size and size + length > budget:
                bounds.append((first, i))
                first, size = i, 0
            size += int(length)
        return [*bounds, (first, len(self.lengths))] if len(self.lengths) else []

    def rows(self, first: int, last: int) -> slice:
        """The rows of the sequences ``first`` to ``last - 1``."""
        starts = self.starts
        return slice(int(starts[first]), int(starts[last - 1] + self.lengths[last - 1]))

    def part(self, first: int, last: int) -> Packed:
        """The sequences ``first`` to ``last - 1`` as a batch of their own, in packed order."""
        rows = self.rows(first, last)
        return Packed(self.tokens[rows], self.segments[rows], self.lengths[first:last], np.arange(last - first))


def ragged_arange(lengths: np.ndarray) -> np.ndarray:
    """``[0..l0), [0..l1), …`` as one array.

    >>> ragged_arange(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


@dataclass(frozen=True)
class Part:
    """One span of every example: ``source[starts[i] : starts[i] + lengths[i]]``, in segment ``segment``."""

    source: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    segment: int = 0


def constant(token: int, n: int, segment: int = 0, where: np.ndarray | None = None) -> Part:
    """The same special token in every example (or only in those where ``where`` is true).

    A vocabulary without that token (:data:`~pretrieve.text.vocabulary.NO_TOKEN`, as T5's without [CLS]) omits it.
    """
    lengths = np.ones(n, dtype=np.int64) if where is None else where.astype(np.int64)
    if token == NO_TOKEN:
        lengths[:] = 0
    return Part(np.array([token], dtype=np.int64), np.zeros(n, dtype=np.int64), lengths, segment)


def pack(parts: list[Part], max_length: int | None = None) -> Packed:
    """Lay the parts of each example one after another, cut to ``max_length``, and sort the examples by length.

    The last part is kept whole when an example is cut (it is the closing ``[SEP]``).

    Raises ValueError when an example has no token at all.
    """
    n = len(parts[0].starts)
    lengths = np.stack([part.lengths for part in parts], axis=1).astype(np.int64)  # (n, parts)
    if max_length is not None:
        room = max_length - lengths[:, -1:]
        before = np.cumsum(lengths[:, :-1], axis=1) - lengths[:, :-1]
        lengths[:, :-1] = np.minimum(lengths[:, :-1], np.maximum(room - before, 0))
    totals = lengths.sum(axis=1)
    if n and totals.min() == 0:
        raise ValueError(f"example {int(totals.argmin())} is empty: a sequence needs at least one token")
    order = np.argsort(-totals, kind="stable")
    totals = totals[order]
    begin = np.cumsum(totals) - totals
    tokens = np.empty(int(totals.sum()), dtype=np.int64)
    segments = np.zeros(len(tokens), dtype=np.int64)
    for column, part in enumerate(parts):
        length = lengths[order, column]
        inside = ragged_arange(length)
        rows = np.repeat(begin, length) + inside
        tokens[rows] = part.source[np.repeat(part.starts[order], length) + inside]
        if part.segment:
            segments[rows] = part.segment
        begin = begin + length
    return Packed(tokens, segments, totals, order)


def pack_sentences(store: TokenStore, sentences: np.ndarray, max_length: int) -> Packed:
    """``[CLS] sentence [SEP]`` for sentence ids (n,)."""
    starts = store.sentence_starts[sentences]
    return pack_spans(store, starts, store.sentence_starts[sentences + 1] - starts, max_length)


def pack_spans(store: TokenStore, starts: np.ndarray, lengths: np.ndarray, max_length: int | None = None) -> Packed:
    """``[CLS] span [SEP]`` for spans of ``store.tokens``, starts and lengths (n,); cut to ``max_length`` tokens in all."""
    n = len(starts)
    body = Part(store.tokens, np.asarray(starts), np.asarray(lengths))
    return pack([constant(store.special.cls, n), body, constant(store.special.sep, n)], max_length)


def passage_spans(store: TokenStore, passages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(starts, lengths) in ``store.tokens`` of passages (n,)."""
    starts = store.sentence_starts[store.passage_starts[passages]]
    return starts, store.sentence_starts[store.passage_starts[passages + 1]] - starts


def pack_passages(
    store: TokenStore,
    passages: np.ndarray,
    max_length: int,
    dropped: np.ndarray | None = None,
    titled: np.ndarray | None = None,
    articles: np.ndarray | None = None,
) -> Packed:
    """``[CLS] (title [SEP])? passage-without-a-sentence [SEP]``.

    passages (n,); dropped (n,) sentence id to omit or -1; titled (n,) bool: put the title of ``articles`` (n,) and a
    ``[SEP]`` in front, in segment 0, with the passage in segment 1 (paper ``pretraining_tasks`` §4.1; segments as in
    the ORQA code, BERT's habit for two texts). Without a title everything is segment 0.
    """
    n = len(passages)
    start, length = passage_spans(store, passages)
    cut_start = cut_end = end = start + length
    if dropped is not None:
        safe = np.maximum(dropped, 0)
        cut_start = np.where(dropped >= 0, store.sentence_starts[safe], end)
        cut_end = np.where(dropped >= 0, store.sentence_starts[safe + 1], end)
    cls, sep = constant(store.special.cls, n), constant(store.special.sep, n)
    body = [Part(store.tokens, start, cut_start - start), Part(store.tokens, cut_end, end - cut_end), sep]
    if titled is None or not titled.any():
        return pack([cls, *body], max_length)
    title_start = store.title_starts[articles]
    title_length = np.where(titled, store.title_starts[articles + 1] - title_start, 0)
    packed = pack(
        [cls, Part(store.title_tokens, title_start, title_length), constant(store.special.sep, n, where=titled), *body],
        max_length,
    )
    return second_segment(packed, title_length + 1 + (store.special.cls != NO_TOKEN), titled)


def second_segment(packed: Packed, first_row: np.ndarray, where: np.ndarray) -> Packed:
    """Segment 1 from position ``first_row[example]`` on, of the examples ``where`` it is true."""
    first_row = np.where(where, first_row, np.iinfo(np.int64).max)
    segments = (packed.positions >= np.repeat(first_row[packed.order], packed.lengths)).astype(np.int64)
    return Packed(packed.tokens, segments, packed.lengths, packed.order)
