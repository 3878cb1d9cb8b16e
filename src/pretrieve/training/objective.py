"""What the training loop asks of an objective; which examples a step has, and where it is cut into micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from pretrieve.text.packing import Packed
from pretrieve.training.memory import token_budgets

#: Tokens of one micro-batch. It bounds memory and does not change the result.
TOKEN_BUDGET = token_budgets(cpu=16_384, cuda=65_536)


@dataclass(frozen=True)
class MicroBatch:
    """Part of a global batch that is computed at once.

    data: the objective's own; counts: how many items each loss term sums over; tokens: real tokens of the encoder's input;
    ids: which examples these are, for error messages; rows: vectors that it gives a contrastive loss (0: none).
    """

    data: Any
    counts: dict[str, int]
    tokens: int
    ids: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rows: int = 0


class Trained(Protocol):
    """What every objective has.

    terms: loss term → its weight in the total; module: all trained parameters. Pre-training objectives put what they train
    beside the encoder under names of its own into an ``nn.ModuleDict``; ``word_terms`` are those of their loss terms that are the
    cross-entropy of a word, which begins near ln V.

    An objective whose later batches may depend on the weights (:mod:`pretrieve.finetuning.train_ance`) also has
    ``known_until(step)``: the last step whose batches can be made at ``step``. The loop prepares no batch beyond it.
    """

    module: nn.Module
    terms: dict[str, float]

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The global batch of a step, in at least ``parts`` parts where it has as many examples; a pure function of the
        step, and but for the cut the same for every ``parts``."""
        ...


class Objective(Trained, Protocol):
    """An objective whose losses are sums over examples, each of which is in one micro-batch alone."""

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Loss terms of a micro-batch, each *summed* over its ``counts``."""
        ...


@runtime_checkable
class ContrastiveObjective(Trained, Protocol):
    """An objective with a loss over vectors of the *whole* batch, which no micro-batch can compute by itself.

    The loop collects the vectors of all micro-batches and processes, and takes their gradients back
    (:mod:`pretrieve.training.step`). Each micro-batch has ``rows``.
    """

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(rows, k) vectors of a micro-batch, and its own loss terms, summed; {} unless ``with_losses``."""
        ...

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """The loss terms over the vectors of the whole batch, summed; vectors[i] (rows, k) belongs to batches[i]."""
        ...


def epoch_order(n: int, seed: int, position: int, count: int) -> np.ndarray:
    """``count`` items from an endless sequence of shuffled epochs over ``range(n)``, from ``position`` on.

    Each epoch has every item once; item ``position`` is the same however the sequence is cut into steps.
    """
    result = [np.empty(0, dtype=np.int64)]
    while count:
        epoch, offset = divmod(position, n)
        order = _shuffled(n, seed, epoch)[offset : offset + count]
        result.append(order)
        position += len(order)
        count -= len(order)
    return np.concatenate(result)


@lru_cache(maxsize=2)
def _shuffled(n: int, seed: int, epoch: int) -> np.ndarray:
    # Kept between steps: a step takes a few items, and to shuffle millions for each would cost more than the step.
    order = np.random.default_rng([seed, 101, epoch]).permutation(n)
    order.flags.writeable = False
    return order


def tokens_of_each(packed: Packed) -> np.ndarray:
    """(n,) tokens of each example, in the caller's order."""
    lengths = np.empty_like(packed.lengths)
    lengths[packed.order] = packed.lengths
    return lengths


def cut_step(
    items: Any, pack: Callable[[Any], MicroBatch], tokens: Callable[[Any], np.ndarray], budget: int, parts: int
) -> list[MicroBatch]:
    """Cut the items of a step into micro-batches, as :func:`cut_evenly`. items: n of them, indexable by an array of positions;
    pack: items → their micro-batch; tokens: the ``data`` of that of all items → tokens of each item (n,)."""
    whole = pack(items)
    pieces = cut_evenly(tokens(whole.data), budget, parts)
    return [whole] if len(pieces) == 1 else [pack(items[piece]) for piece in pieces]


def cut_evenly(tokens: np.ndarray, budget: int, parts: int) -> list[np.ndarray]:
    """Where a step is cut whose examples are several texts that stay together, such as a query with its group of documents.
    Pieces are consecutive and of nearly equal numbers of examples, so that a cut changes nothing but memory.

    Returns positions 0..n-1 in pieces of at most ``budget`` tokens, or of a single example; as many pieces for each of
    ``parts`` processes, where there are that many examples.

    tokens (n,): of each example.

    >>> [piece.tolist() for piece in cut_evenly(np.array([4, 4, 4, 4]), 8, 1)]
    [[0, 1], [2, 3]]
    >>> [piece.tolist() for piece in cut_evenly(np.array([4, 4, 4, 4]), 99, 3)]
    [[0, 1], [2], [3]]
    """
    pieces = parts * max(1, -(-int(tokens.sum()) // (budget * parts)))
    while pieces < len(tokens) and max(piece.sum() for piece in np.array_split(tokens, pieces)) > budget:
        pieces += parts
    return np.array_split(np.arange(len(tokens)), min(pieces, len(tokens)))
