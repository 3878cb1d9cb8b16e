"""The masked examples that all word-predicting objectives share: same corpus, same order, same cut to micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from pretrieve.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.pretraining.masking import Masking, choose_positions, corrupt
from pretrieve.text.packing import Packed, pack_passages
from pretrieve.text.token_store import TokenStore
from pretrieve.training.objective import MicroBatch

#: Tokens of one micro-batch. It bounds memory and does not change the result.
TOKEN_BUDGET = {"cpu": 16_384, "cuda": 65_536}


def epoch_order(n: int, seed: int, position: int, count: int) -> np.ndarray:
    """``count`` items from an endless sequence of shuffled epochs over ``range(n)``, from ``position`` on."""
    result = []
    while count:
        epoch, offset = divmod(position, n)
        order = np.random.default_rng([seed, 101, epoch]).permutation(n)[offset : offset + count]
        result.append(order)
        position += len(order)
        count -= len(order)
    return np.concatenate(result)


@dataclass(frozen=True)
class Masked:
    """n masked sequences, T tokens.

    corrupted: what the encoder reads; original (T,) int64: the tokens as they were; positions (m,): rows to predict, sorted;
    draws (n,) int64: a number for each sequence that is its own in the whole run, to draw from.
    """

    corrupted: Packed
    original: np.ndarray
    positions: np.ndarray
    draws: np.ndarray

    def batch(self, device: torch.device | str) -> Batch:
        """The corrupted sequences on a device."""
        return Batch.of(self.corrupted, device)

    def targets(self, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
        """(m,) rows to predict and (m,) the words there."""
        rows = torch.from_numpy(self.positions)
        return rows.to(device), torch.from_numpy(self.original[self.positions].astype(np.int64)).to(device)


class MaskedPassages:
    """``batch`` passages of the corpus a step, each cut to ``length`` tokens with [CLS] and [SEP]; without replacement
    within an epoch. Masks are drawn for the whole step, so that they do not depend on where it is cut."""

    def __init__(
        self, store: TokenStore, seed: int, batch: int, length: int, masking: Masking, budget: int | None = None
    ) -> None:
        self.store, self.masking = store, masking
        self._seed, self._batch, self._length, self._budget = seed, batch, length, budget
        self._passages = np.flatnonzero(
            np.diff(np.asarray(store.sentence_starts)[np.asarray(store.passage_starts)]) > 0
        )
        if not len(self._passages):
            raise DataError(f"{store.directory}: no passage has a token; there is nothing to predict.")

    def draw(self, step: int) -> tuple[Masked, np.ndarray]:
        """All examples of a step, in packed order, and the passages (n,) that they are."""
        chosen = self._passages[epoch_order(len(self._passages), self._seed, step * self._batch, self._batch)]
        packed = pack_passages(self.store, chosen, self._length)
        return self.mask(packed, step), chosen[packed.order]

    def mask(self, packed: Packed, step: int) -> Masked:
        """Mask sequences of a step."""
        rng = np.random.default_rng([self._seed, 102, step])
        positions = choose_positions(packed, self.store, self.masking, rng)
        corrupted = corrupt(packed.tokens, positions, self.store, self.masking, rng)
        draws = step * self._batch + packed.order
        return Masked(replace(packed, tokens=corrupted), packed.tokens, positions, draws)

    def micro_batches(
        self, step: int, parts: int, device: torch.device | str, counts: Callable[[Masked], dict[str, int]]
    ) -> list[MicroBatch]:
        """A step's examples, cut at the token budget into at least ``parts`` parts; ``counts`` as in :class:`MicroBatch`."""
        masked, passages = self.draw(step)
        budget = self._budget or TOKEN_BUDGET[torch.device(device).type]
        return [
            MicroBatch(piece, counts(piece), len(piece.original), passages[first:last])
            for first, last, piece in cut(masked, budget, parts)
        ]


def cut(masked: Masked, budget: int, parts: int) -> list[tuple[int, int, Masked]]:
    """``(first sequence, last + 1, examples)`` of at most ``budget`` tokens each, in at least ``parts`` pieces."""
    packed = masked.corrupted
    budget = min(budget, -(-len(packed.tokens) // parts))
    pieces = []
    for first, last in packed.slices(budget):
        rows = packed.rows(first, last)
        begin, end = np.searchsorted(masked.positions, [rows.start, rows.stop])
        positions = masked.positions[begin:end] - rows.start
        piece = Masked(packed.part(first, last), masked.original[rows], positions, masked.draws[first:last])
        pieces.append((first, last, piece))
    return pieces
