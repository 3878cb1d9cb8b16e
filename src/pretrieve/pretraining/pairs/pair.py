"""What every pair sampler gives: index triples over the token store, no text.

A pre-training pair is a query sentence and a document passage, of which one sentence may be omitted. Three integers and
a flag say it, so that a million pairs cost milliseconds and nothing is ever written to disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pretrieve.text.packing import Packed, pack_passages, pack_sentences
from pretrieve.text.token_store import TokenStore


@dataclass(frozen=True)
class Pairs:
    """n pairs: query sentence ids, document passage ids, sentence ids excluded from the document (-1: none), whether the
    document carries its article's title; all (n,)."""

    query: np.ndarray
    passage: np.ndarray
    dropped: np.ndarray
    titled: np.ndarray

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, index: np.ndarray | slice) -> Pairs:
        return Pairs(self.query[index], self.passage[index], self.dropped[index], self.titled[index])

    @staticmethod
    def concatenate(parts: list[Pairs]) -> Pairs:
        """All pairs of several batches one after another."""
        return Pairs(*(np.concatenate(column) for column in zip(*(vars(part).values() for part in parts), strict=True)))


class PairSampler(Protocol):
    """A pre-training task that draws positive (query, document) pairs."""

    name: str

    @property
    def n_pairs(self) -> int:
        """Number of different pairs there are (the paper's table 1)."""
        ...

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs, with replacement; the same generator state gives the same pairs."""
        ...


def random_in_range(rng: np.random.Generator, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """One uniform integer from each ``[start, stop)``, (n,)."""
    return start + (rng.random(len(start)) * (stop - start)).astype(np.int64)


def pack_pairs(
    store: TokenStore, articles: np.ndarray, pairs: Pairs, query_length: int, passage_length: int
) -> tuple[Packed, Packed]:
    """Token ids of the queries and of the documents; ``articles`` (P,) is the article of each passage."""
    queries = pack_sentences(store, pairs.query, query_length)
    documents = pack_passages(
        store, pairs.passage, passage_length, pairs.dropped, pairs.titled, articles[pairs.passage]
    )
    return queries, documents
