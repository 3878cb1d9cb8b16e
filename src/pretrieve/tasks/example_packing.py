"""How the texts of examples become token sequences: two texts, or what a user has clicked.

Two texts are ``[CLS] a [SEP] b [SEP]`` with b in segment 1. When they are too long, tokens are taken one by one from
the end of the longer of the two (from b when they are equally long), as BERT's own fine-tuning code does
(google-research/bert, run_classifier.py, ``_truncate_seq_pair``).

A user's history is the titles that they clicked with [SEP] between them, "using as many recent titles as possible
within the 512 length limit" (paper ``seed_encoder`` §4.4): whole titles, in the order of the clicks, the oldest left
out.

[CLS] stands where the store has one: T5's texts have none (:meth:`pretrieve.text.token_store.TokenStore.read_by`).
"""

from __future__ import annotations

import numpy as np

from pretrieve.text.packing import Packed, Part, constant, pack, passage_spans, ragged_arange
from pretrieve.text.token_store import TokenStore


def pair_lengths(first: np.ndarray, second: np.ndarray, room: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (n,) kept of each of two texts of this many tokens (n,) when there is room for ``room`` in all.

    >>> pair_lengths(np.array([9, 9, 2, 3]), np.array([9, 1, 9, 4]), 7)
    (array([4, 6, 2, 3]), array([3, 1, 5, 4]))
    """
    room = np.maximum(room, 0)
    kept = np.minimum(first, np.maximum(room - second, -(-room // 2)))
    return kept, np.minimum(second, room - kept)


def pack_pairs(store: TokenStore, first: np.ndarray, second: np.ndarray, length: int) -> Packed:
    """``[CLS] a [SEP] b [SEP]`` for texts ``first`` and ``second`` (n,); second -1: ``[CLS] a [SEP]``."""
    n, has = len(first), second >= 0
    begin = constant(store.special.cls, n)
    (first_start, first_length), (second_start, second_length) = (
        passage_spans(store, np.maximum(texts, 0)) for texts in (first, second)
    )
    second_length = np.where(has, second_length, 0)
    first_length, second_length = pair_lengths(first_length, second_length, length - begin.lengths - 1 - has)
    return pack(
        [
            begin,
            Part(store.tokens, first_start, first_length),
            constant(store.special.sep, n, where=has),
            Part(store.tokens, second_start, second_length, segment=1),
            # The closing [SEP] is of the last text's segment; one of two parts is empty.
            constant(store.special.sep, n, segment=0, where=~has),
            constant(store.special.sep, n, segment=1, where=has),
        ],
        length,
    )


def pack_histories(store: TokenStore, texts: np.ndarray, starts: np.ndarray, counts: np.ndarray, length: int) -> Packed:
    """``[CLS] t1 [SEP] t2 [SEP] … tk [SEP]``: user i clicked ``texts[starts[i] : starts[i] + counts[i]]``, oldest
    first.

    The newest titles that fit whole are kept; when not even the newest does, it is cut; an empty history is
    ``[CLS] [SEP]``.
    """
    n = len(starts)
    begin = constant(store.special.cls, n)
    owner = np.repeat(np.arange(n), counts)
    clicked = texts[np.repeat(starts, counts) + ragged_arange(counts)]
    token_start, token_length = passage_spans(store, clicked)
    cost = token_length + 1  # a title and the [SEP] after it
    # What a title and everything newer cost: the user's total but for what is older.
    before = np.cumsum(cost) - cost
    first = np.cumsum(counts) - counts
    totals = np.bincount(owner, weights=cost, minlength=n).astype(np.int64)
    older = before - before[np.minimum(first, max(len(cost) - 1, 0))][owner] if len(cost) else before
    newest = np.arange(len(cost)) == (first + counts - 1)[owner]
    kept = (totals[owner] - older <= length - begin.lengths[owner]) | newest
    owner, token_start, token_length, cost = owner[kept], token_start[kept], token_length[kept], cost[kept]
    source = np.full(int(cost.sum()), store.special.sep, dtype=np.int64)
    inside = ragged_arange(token_length)
    source[np.repeat(np.cumsum(cost) - cost, token_length) + inside] = store.tokens[
        np.repeat(token_start, token_length) + inside
    ]
    sizes = np.bincount(owner, weights=cost, minlength=n).astype(np.int64)
    # The last [SEP] is a part of its own, so that it stays when a single long title is cut.
    body = Part(source if len(source) else store.tokens, np.cumsum(sizes) - sizes, np.maximum(sizes - 1, 0))
    return pack([begin, body, constant(store.special.sep, n)], length)
