"""What objectives are built from: a setting, and the masked examples that all word-predicting ones share, from the same
corpus, in the same order, with the same cut to micro-batches.

A step's examples, their masks and what is put in place of the masked words are drawn for the *whole* step, from
(seed, step) alone. Only then they are cut into micro-batches; so neither the token budget nor the number of
processes, nor a kill, changes what is learnt from. Micro-batches differ in their number of masked words: an objective
gives sums, and the loop divides by the count of the whole step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.encoder_options import check_together
from pretrieve.pretraining.masking import Masking, choose_positions, corrupt
from pretrieve.text.blocks import build_blocks
from pretrieve.text.packing import Packed, pack_passages
from pretrieve.text.token_store import TokenStore
from pretrieve.training.objective import TOKEN_BUDGET, MicroBatch, epoch_order


@dataclass(frozen=True)
class Setting:
    """options: of the objective, as :func:`pretrieve.pretraining.presets.resolve` gives them, with ``length`` (or the
    two lengths of pairs); batch: examples a step; encoder: what is pre-trained; seed: of weights, order, masks and
    pairs; token_budget: tokens of a micro-batch (None: the device's default; it changes no result).

    Raises ConfigError for options that do not go together."""

    options: dict[str, Any]
    batch: int
    encoder: Encoder
    store: TokenStore
    seed: int
    device: torch.device
    token_budget: int | None = None

    def __post_init__(self) -> None:
        check_together(self.options)

    def masking(self) -> Masking:
        """The encoder's masks."""
        return Masking(*(self.options[name] for name in ("unit", "rate", "of", "mask", "random", "unk")))

    def passages(self) -> MaskedPassages:
        """The masked examples that all word-predicting objectives share."""
        texts = TextForm(*(self.options[name] for name in ("length", "examples", "short", "packing")))
        return MaskedPassages(self.store, self.seed, self.batch, texts, self.masking(), self.token_budget)

    def word_head(self) -> MaskedWordHead:
        """A fresh word head; the same for every objective of a seed."""
        return MaskedWordHead(self.encoder.config, self.seed)


@dataclass(frozen=True)
class Masked:
    """n masked sequences, T tokens.

    corrupted: what the encoder reads; original (T,) int64: the tokens as they were; positions (m,): rows to predict,
    sorted; draws (n,) int64: a number for each sequence that is its own in the whole run, to draw from; weights (n,): of the
    loss of each sequence's masked words, or None for 1.
    """

    corrupted: Packed
    original: np.ndarray
    positions: np.ndarray
    draws: np.ndarray
    weights: np.ndarray | None = None

    @property
    def words(self) -> np.ndarray:
        """(n,) number of masked words of each sequence."""
        bounds = np.append(self.corrupted.starts, len(self.original))
        return np.diff(np.searchsorted(self.positions, bounds))

    def batch(self, device: torch.device | str) -> Batch:
        """The corrupted sequences on a device."""
        return Batch.of(self.corrupted, device)

    def asking(self, batch: Batch, cls: bool) -> Asking:
        """Where the last states are read: at the masked words and, with ``cls``, at each sequence's first token."""
        rows = np.union1d(self.positions, self.corrupted.starts) if cls else self.positions
        return Asking.of(rows, self.corrupted, batch)

    def targets(self, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
        """(m,) rows to predict and (m,) the words there."""
        rows = torch.from_numpy(self.positions)
        return rows.to(device), torch.from_numpy(self.original[self.positions].astype(np.int64)).to(device)


class MaskedExamples:
    """``batch`` masked sequences a step; which ones, a subclass says in :meth:`sequences`."""

    def __init__(self, store: TokenStore, seed: int, batch: int, masking: Masking, budget: int | None = None) -> None:
        self.store, self.masking = store, masking
        self._seed, self._batch, self._budget = seed, batch, budget

    def sequences(self, step: int) -> tuple[Packed, np.ndarray]:
        """A step's sequences, not yet masked, and an id of each (n,) in *packed* order, for messages."""
        raise NotImplementedError

    def draw(self, step: int) -> tuple[Masked, np.ndarray]:
        """All examples of a step, in packed order, and their ids (n,)."""
        packed, ids = self.sequences(step)
        rng = np.random.default_rng([self._seed, 102, step])
        positions = choose_positions(packed, self.store, self.masking, rng)
        corrupted = corrupt(packed.tokens, positions, self.store, self.masking, rng)
        draws = step * self._batch + packed.order
        return Masked(replace(packed, tokens=corrupted), packed.tokens, positions, draws), ids

    def micro_batches(
        self, step: int, parts: int, device: torch.device | str, counts: Callable[[Masked], dict[str, int]]
    ) -> list[MicroBatch]:
        """A step's examples, cut at the token budget into at least ``parts`` parts; ``counts`` of each part."""
        masked, ids = self.draw(step)
        budget = self._budget or TOKEN_BUDGET[torch.device(device).type]
        return [
            MicroBatch(piece, counts(piece), len(piece.original), ids[first:last])
            for first, last, piece in cut(masked, budget, parts)
        ]


@dataclass(frozen=True)
class TextForm:
    """Texts of the corpus of at most ``length`` tokens with [CLS] and [SEP].

    examples: ``passages``, each cut to ``length``: what is searched later; or ``blocks`` of whole sentences of an
    article that fill it, as BERT, SEED-Encoder, Condenser and RetroMAE were trained; ``short`` and ``packing`` as in
    :func:`pretrieve.text.blocks.build_blocks`. Raises ConfigError for a length below 3.
    """

    length: int
    examples: str = "passages"
    short: float = 0.0
    packing: str = "whole"

    def __post_init__(self) -> None:
        if self.length < 3:
            raise ConfigError(f"length={self.length}: expected texts of at least 3 tokens with [CLS] and [SEP].")


class MaskedPassages(MaskedExamples):
    """``batch`` texts a step, without replacement within an epoch. Ids are numbers of passages, or of blocks.

    Raises DataError when the corpus has no token.
    """

    def __init__(
        self, store: TokenStore, seed: int, batch: int, texts: TextForm, masking: Masking, budget: int | None = None
    ) -> None:
        super().__init__(store, seed, batch, masking, budget)
        self._length, self._blocks = texts.length, None
        if texts.examples == "blocks":
            self._blocks = build_blocks(store, texts.length - 2, texts.short, seed, texts.packing)
            self._items = np.arange(len(self._blocks))
        else:
            passage_starts = np.asarray(store.passage_starts)
            self._items = np.flatnonzero(np.diff(np.asarray(store.sentence_starts)[passage_starts]) > 0)
        if not len(self._items):
            raise DataError(f"{store.directory}: no passage has a token; there is nothing to predict.")

    def __len__(self) -> int:
        """Texts of an epoch."""
        return len(self._items)

    def sequences(self, step: int) -> tuple[Packed, np.ndarray]:
        """A step's texts, and their numbers (n,)."""
        chosen = self._items[epoch_order(len(self._items), self._seed, step * self._batch, self._batch)]
        if self._blocks is not None:
            packed = self._blocks.pack(self.store, chosen)
        else:
            packed = pack_passages(self.store, chosen, self._length)
        return packed, chosen[packed.order]


def cut(masked: Masked, budget: int, parts: int) -> list[tuple[int, int, Masked]]:
    """``(first sequence, last + 1, examples)`` of at most ``budget`` tokens each, or of a single sequence; as many
    pieces for each of ``parts`` processes, where there are that many sequences."""
    packed = masked.corrupted
    pieces = []
    for first, last in _split(packed, packed.slices(min(budget, -(-len(packed.tokens) // parts))), parts):
        rows = packed.rows(first, last)
        begin, end = np.searchsorted(masked.positions, [rows.start, rows.stop])
        positions = masked.positions[begin:end] - rows.start
        piece = Masked(packed.part(first, last), masked.original[rows], positions, masked.draws[first:last])
        pieces.append((first, last, piece))
    return pieces


def _split(packed: Packed, slices: list[tuple[int, int]], parts: int) -> list[tuple[int, int]]:
    """Halve the largest slices until their number is a multiple of ``parts``, or each has one sequence."""
    ends = np.concatenate([[0], np.cumsum(packed.lengths)])
    wanted = min(-(-len(slices) // parts) * parts, len(packed.lengths))
    while len(slices) < wanted:
        divisible = [number for number, (first, last) in enumerate(slices) if last - first > 1]
        number = max(divisible, key=lambda i: ends[slices[i][1]] - ends[slices[i][0]])
        first, last = slices[number]
        middle = first + int(np.searchsorted(ends[first + 1 : last - 1], (ends[first] + ends[last]) / 2)) + 1
        slices = [*slices[:number], (first, middle), (middle, last), *slices[number + 1 :]]
    return slices
