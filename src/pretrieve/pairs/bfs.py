"""Body first selection (paper ``pretraining_tasks`` §3): a sentence of the introduction finds the page's passages."""

from __future__ import annotations

import numpy as np

from pretrieve.pairs.pair import Pairs, random_in_range
from pretrieve.text.token_store import TokenStore


def first_section_passages(store: TokenStore) -> tuple[np.ndarray, np.ndarray]:
    """(first, last + 1) passage of the first section of each article, both (A,); equal where it has none."""
    section = np.asarray(store.article_starts)[:-1]
    starts = np.asarray(store.section_starts)
    return starts[section], starts[section + 1]


class BodyFirstSelection:
    """Query: a random sentence of an article's first section. Document: a random passage of the same article.

    The passage that holds the query is never its document: it would be the inverse cloze task with the sentence kept.
    So an article needs a first section and a second passage.
    """

    name = "bfs"

    def __init__(self, store: TokenStore) -> None:
        first, last = first_section_passages(store)
        articles = np.asarray(store.article_starts)
        passages = np.asarray(store.section_starts)
        self._begin, self._end = passages[articles[:-1]], passages[articles[1:]]
        self._sentence_starts = np.asarray(store.passage_starts)
        self._lead_begin, self._lead_end = self._sentence_starts[first], self._sentence_starts[last]
        self._articles = np.flatnonzero((self._lead_end > self._lead_begin) & (self._end - self._begin >= 2))
        if not len(self._articles):
            raise ValueError("no article has a first section and a second passage: body first selection has no pairs")
        # Articles are drawn by their number of documents, so that every (article, passage) pair is equally likely.
        self._cumulative = np.cumsum((self._end - self._begin)[self._articles])

    @property
    def n_pairs(self) -> int:
        return int(self._cumulative[-1])

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs: a document uniformly, then a sentence of its article's first section outside it."""
        drawn = np.searchsorted(self._cumulative, rng.integers(0, self._cumulative[-1], n), side="right")
        article = self._articles[drawn]
        query = random_in_range(rng, self._lead_begin[article], self._lead_end[article])
        holder = np.searchsorted(self._sentence_starts, query, side="right") - 1
        passage = random_in_range(rng, self._begin[article], self._end[article] - 1)
        passage = passage + (passage >= holder)
        return Pairs(query, passage, np.full(n, -1), np.zeros(n, dtype=bool))
