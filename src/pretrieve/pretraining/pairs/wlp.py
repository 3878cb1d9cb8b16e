"""Wiki link prediction (paper ``pretraining_tasks`` §3): a sentence of a page's introduction finds passages of *other*
pages that link *to* that page."""

from __future__ import annotations

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.pretraining.pairs.bfs import first_section_passages
from pretrieve.pretraining.pairs.pair import Pairs, random_in_range
from pretrieve.text.token_store import TokenStore


class WikiLinkPrediction:
    """Query: a random sentence of the first section of page T. Document: a passage of another page with a link to T."""

    def __init__(self, store: TokenStore) -> None:
        first, last = first_section_passages(store)
        starts = np.asarray(store.passage_starts)
        self._lead_begin, self._lead_end = starts[first], starts[last]
        passages, articles = np.asarray(store.link_passages), np.asarray(store.link_articles)
        usable = self._lead_end[articles] > self._lead_begin[articles]
        self._passages, self._articles = passages[usable], articles[usable]
        if not len(self._passages):
            raise DataError("no passage links to a page with a first section: wiki link prediction has no pairs.")
        self.n_pairs = len(self._passages)

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs: a (passage, page it links to) uniformly, then a sentence of that page's first section."""
        link = rng.integers(0, len(self._passages), n)
        article = self._articles[link]
        query = random_in_range(rng, self._lead_begin[article], self._lead_end[article])
        return Pairs(query, self._passages[link], np.full(n, -1), np.zeros(n, dtype=bool))
