"""Inverse cloze task (Lee et al. 2019; paper ``pretraining_tasks`` §3): a sentence finds the passage it was taken from."""

from __future__ import annotations

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.pretraining.pairs.pair import Pairs, random_in_range
from pretrieve.text.token_store import TokenStore


class InverseClozeTask:
    """Query: a random sentence of a passage. Document: title [SEP] the passage's other sentences.

    In a share ``keep`` of the pairs the sentence stays in the document, so that a model also learns to match words (the
    ORQA code's ``mask_rate`` of 0.9; the paper does not state it). Passages of a single sentence are omitted: without
    it nothing would remain.
    """

    def __init__(self, store: TokenStore, keep: float = 0.1) -> None:
        self._starts = np.asarray(store.passage_starts)
        self._passages = np.flatnonzero(np.diff(self._starts) >= 2)
        self._keep = keep
        if not len(self._passages):
            raise DataError("no passage has two sentences: the inverse cloze task has nothing to draw from.")
        self.n_pairs = int(np.diff(self._starts)[self._passages].sum())

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs: a passage, then one of its sentences, both uniformly."""
        passage = self._passages[rng.integers(0, len(self._passages), n)]
        query = random_in_range(rng, self._starts[passage], self._starts[passage + 1])
        dropped = np.where(rng.random(n) < self._keep, -1, query)
        return Pairs(query, passage, dropped, np.ones(n, dtype=bool))
