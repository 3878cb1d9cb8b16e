"""Blocks: an article's text cut into spans of nearly equal length, made of whole sentences.

BERT, RoBERTa, SEED-Encoder, Condenser and RetroMAE train on texts that fill the model's length: sentences are taken
in order as long as they fit, then the next block begins (luyug/Condenser, helper/create_train.py). coCondenser draws
its two spans of a document from such blocks. Within an article (titles are not part of it), with ``packing='whole'``::

    block 1           block 2     block 3: a sentence longer than a block is cut, its rest begins the next one
    [s1    s2   s3  ] [s4       ] [s5 ... ][... s5  s6 ]

Every token of a corpus is in exactly one block. With ``packing='fill'`` (RetroMAE, DupMAE: preprocess.py:36-44, 81-88, 124-132)
a sentence is added as long as the block is shorter than the limit, and what it then has too much is cut off and lost::

    [s1    s2   s3 s]4   [s5 ......]..   [s6 ]

(The Condenser code throws away what is too long: it draws a window
of an over-long sentence, and then masks positions of *another* window, because it draws twice, data.py:129 and 136.
Here a block is never longer than asked for, so there is nothing to draw.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pretrieve.text.packing import Packed, pack_spans
from pretrieve.text.token_store import TokenStore


@dataclass(frozen=True)
class Blocks:
    """n spans ``store.tokens[starts[i] : starts[i] + lengths[i]]`` in corpus order; all arrays (n,) int64."""

    starts: np.ndarray
    lengths: np.ndarray
    article: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def pack(self, store: TokenStore, chosen: np.ndarray) -> Packed:
        """``[CLS] block [SEP]`` for the blocks ``chosen`` (k,), in one segment."""
        return pack_spans(store, self.starts[chosen], self.lengths[chosen])


def article_bounds(store: TokenStore) -> np.ndarray:
    """(A+1,) int64: article a is ``store.tokens[bounds[a] : bounds[a + 1]]``."""
    bounds = np.asarray(store.article_starts)
    for starts in (store.section_starts, store.passage_starts, store.sentence_starts):
        bounds = np.asarray(starts)[bounds]
    return bounds


def build_blocks(store: TokenStore, length: int, short: float = 0.0, seed: int = 0, packing: str = "whole") -> Blocks:
    """All blocks of at most ``length`` tokens ([CLS] and [SEP] not counted) of a corpus.

    ``short``: share of blocks that are filled only up to a random length from 1 to ``length``, or to the end of their
    first sentence if that is longer (Condenser: 0.1, create_train.py:33), drawn from ``seed``. ``packing``: ``whole`` or
    ``fill``, as above.

    The next block of *all* articles is found at once, by a binary search among the ends of sentences: the cost is
    O(log sentences) for each block, and no step is taken for each sentence.
    """
    sentences = np.asarray(store.sentence_starts)
    bounds = article_bounds(store)
    rng = np.random.default_rng([seed, 111])
    article = np.flatnonzero(np.diff(bounds))
    start, end = bounds[article], bounds[article + 1]
    found = [(np.empty(0, dtype=np.int64),) * 3]
    while len(article):
        longest = np.minimum(start + length, end)
        target = longest
        if short:
            cut = start + rng.integers(1, length + 1, len(start))
            target = np.where(rng.random(len(start)) < short, np.minimum(cut, end), longest)
        if packing == "fill":
            stop = sentences[np.searchsorted(sentences, target)]  # the end of the sentence that reaches the target
        else:
            behind = np.searchsorted(sentences, target, side="right")  # the first sentence that begins after the target
            stop = sentences[behind - 1]
            # The end of the first sentence, where that alone is longer than the target.
            first = np.minimum(sentences[np.minimum(behind, len(sentences) - 1)], longest)
            stop = np.where(stop > start, stop, first)
        found.append((start, np.minimum(stop - start, length), article))
        more = stop < end
        start, end, article = stop[more], end[more], article[more]
    starts, lengths, articles = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(starts)
    return Blocks(starts[order], lengths[order], articles[order])
