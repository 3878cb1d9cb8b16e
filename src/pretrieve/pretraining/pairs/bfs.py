"""Body first selection (paper ``pretraining_tasks`` §3): a sentence of the introduction finds the page's passages."""

from __future__ import annotations

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.pretraining.pairs.pair import Pairs, random_in_range
from pretrieve.text.token_store import TokenStore


def first_section_passages(store: TokenStore) -> tuple[np.ndarray, np.ndarray]:
    """(first, last + 1) passage of the first section of each article, both (A,); equal where it has none."""
    section = np.asarray(store.article_starts)[:-1]
    starts = np.asarray(store.section_starts)
    return starts[section], starts[section + 1]


class BodyFirstSelection:
    """Query: a random sentence of an article's first section. Document: a random passage of the same article.

    The passage that holds the query is never its document: it would be the inverse cloze task with the sentence kept.
    So a passage is a document when its article's first section has a sentence outside it.
    """

    def __init__(self, store: TokenStore) -> None:
        first, last = first_section_passages(store)
        self._starts = np.asarray(store.passage_starts)
        self._article = store.passage_article()
        self._lead_begin = self._starts[first]
        lead = self._starts[last] - self._lead_begin
        passages = np.arange(store.n_passages)
        in_lead = (passages >= first[self._article]) & (passages < last[self._article])
        self._inside = np.where(in_lead, np.diff(self._starts), 0)
        self._choices = lead[self._article] - self._inside
        self._documents = np.flatnonzero(self._choices > 0)
        if not len(self._documents):
            raise DataError("no article has a first section and a second passage: body first selection has no pairs.")
        self.n_pairs = len(self._documents)

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs: a document uniformly, then a sentence of its article's first section outside it."""
        passage = self._documents[rng.integers(0, len(self._documents), n)]
        begin = self._lead_begin[self._article[passage]]
        query = random_in_range(rng, begin, begin + self._choices[passage])
        query = query + np.where(query >= self._starts[passage], self._inside[passage], 0)
        return Pairs(query, passage, np.full(n, -1), np.zeros(n, dtype=bool))
