"""Pairs as every sampler gives them, indices into the token store without text; and a mixture of samplers.

A pre-training pair is a query sentence and a document passage, of which one sentence may be omitted. Three integers and
a flag say it, so that a million pairs cost milliseconds and nothing is ever written to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining.objectives import PAIR_TASKS, pair_task
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
    """A pre-training task that draws positive (query, document) pairs; ``n_pairs``: how many different ones there are (table 1 of
    the paper)."""

    n_pairs: int

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


class Mixture:
    """Pairs from several tasks, mixed within a batch (paper ``pretraining_tasks`` §4.1: "each pair is uniformly sampled from the
    three tasks").

    ``by='task'``: each pair's task is drawn uniformly (our reading of the sentence above). ``by='pair'``: in proportion
    to the tasks' numbers of pairs, the other possible reading.
    """

    def __init__(self, samplers: Sequence[PairSampler], by: str = "task") -> None:
        self.samplers = list(samplers)
        weights = np.array([1.0 if by == "task" else sampler.n_pairs for sampler in samplers])
        self._weights = weights / weights.sum()
        self.n_pairs = sum(sampler.n_pairs for sampler in samplers)

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs; the tasks are shuffled within the batch."""
        counts = rng.multinomial(n, self._weights)
        pairs = Pairs.concatenate([s.sample(rng, int(c)) for s, c in zip(self.samplers, counts, strict=True)])
        return pairs[rng.permutation(n)]


def make_sampler(store: TokenStore, tasks: Sequence[str], ict_keep: float = 0.1, by: str = "task") -> PairSampler:
    """The sampler for one task, or the mixture for several.

    Raises ConfigError for an unknown task, or none.
    """
    if not tasks:
        raise ConfigError(f"pair tasks: none; choose from {', '.join(PAIR_TASKS)}.")
    samplers = [pair_task(task)(store, ict_keep) if task == "ict" else pair_task(task)(store) for task in tasks]
    return samplers[0] if len(samplers) == 1 else Mixture(samplers, by)
