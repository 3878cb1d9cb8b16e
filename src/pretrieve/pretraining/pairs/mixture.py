"""Several pair tasks as one (paper ``pretraining_tasks`` §4.1: "each pair is uniformly sampled from the three tasks")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining.objectives import PAIR_TASKS, pair_task
from pretrieve.pretraining.pairs.pair import Pairs, PairSampler
from pretrieve.text.token_store import TokenStore


class Mixture:
    """Pairs from several tasks, mixed within a batch.

    ``by='task'``: each pair's task is drawn uniformly (our reading of the sentence above). ``by='pair'``: in proportion
    to the tasks' numbers of pairs, the other possible reading.
    """

    def __init__(self, samplers: Sequence[PairSampler], by: str = "task") -> None:
        if by not in ("task", "pair"):
            raise ConfigError(f"sampling: {by!r} is not allowed; use 'task' or 'pair'.")
        self.samplers = list(samplers)
        self.name = "+".join(sampler.name for sampler in samplers)
        weights = np.array([1.0 if by == "task" else sampler.n_pairs for sampler in samplers])
        self._weights = weights / weights.sum()

    @property
    def n_pairs(self) -> int:
        return sum(sampler.n_pairs for sampler in self.samplers)

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        """Draw n pairs; the tasks are shuffled within the batch."""
        counts = rng.multinomial(n, self._weights)
        pairs = Pairs.concatenate([s.sample(rng, int(c)) for s, c in zip(self.samplers, counts, strict=True)])
        return pairs[rng.permutation(n)]


def make_sampler(store: TokenStore, tasks: Sequence[str], ict_keep: float = 0.1, by: str = "task") -> PairSampler:
    """The sampler for one task, or the mixture for several.

    Raises
    ------
    ConfigError
        for an unknown task, or none.
    """
    if not tasks:
        raise ConfigError(f"pair tasks: none; choose from {', '.join(PAIR_TASKS)}.")
    samplers = [pair_task(task)(store, ict_keep) if task == "ict" else pair_task(task)(store) for task in tasks]
    return samplers[0] if len(samplers) == 1 else Mixture(samplers, by)
