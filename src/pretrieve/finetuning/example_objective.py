"""What the objectives on examples have in common: which examples a step has, and how they are cut to fit.

Every loss here belongs to one example alone (there are no in-batch negatives), so a step is cut into micro-batches and
shared by processes without any exchange of vectors. An epoch has every example once; which ones a step has, and what is
drawn for them, is a function of (seed, step, example).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from pretrieve.base.errors import DataError
from pretrieve.tasks.example_task import ExampleData
from pretrieve.text.packing import Packed
from pretrieve.training.objective import TOKEN_BUDGET, MicroBatch, cut_step, epoch_order, tokens_of_each


class ExampleObjective:
    """Mean loss over ``options['batch']`` examples a step. A subclass says how they are packed and what the loss is.

    rows (n,): the training examples; budget: tokens of a micro-batch, by default what the device holds.

    Raises ConfigError when the task is of another kind than the objective, or :meth:`prepare` finds that something does not go
    together, and DataError when there is no training example.
    """

    kind: str

    def __init__(
        self,
        model: nn.Module,
        data: ExampleData,
        rows: np.ndarray,
        options: Mapping[str, Any],
        seed: int,
        device: torch.device,
        budget: int | None = None,
    ) -> None:
        data.check_kind(self.kind)
        self.module = self.model = model
        self.terms = {self.kind: 1.0}
        self.data, self.options, self.seed, self.device = data, options, seed, torch.device(device)
        self.prepare()
        self._items = self.items(np.asarray(rows, dtype=np.int64))
        if not len(self._items):
            raise DataError(f"{data.directory}/splits.parquet: no training example; take a larger training-set size.")
        self._batch = min(options["batch"], len(self._items))
        self._budget = budget or TOKEN_BUDGET[self.device.type]

    def prepare(self) -> None:
        """Check that model, task and options go together, and keep what the loss needs; before the examples are read."""

    def __len__(self) -> int:
        """What an epoch has: examples, or what the objective makes of them."""
        return len(self._items)

    def items(self, rows: np.ndarray) -> np.ndarray:
        """(m, …) what is trained on, made of example rows (n,); here the rows themselves."""
        return rows

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """Packed texts of items (m, …); each has a whole number of texts for every item: all first ones, then all
        second ones, … ``draw``: a number that differs in each step, to draw from."""
        raise NotImplementedError

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        """Summed loss of items (m, …)."""
        raise NotImplementedError

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The examples of a step, without replacement within an epoch."""
        # An epoch's end and the next one's start can hold the same example: once is enough.
        chosen = np.unique(epoch_order(len(self._items), self.seed, step * self._batch, self._batch))
        return self._cut(self._items[chosen], step + 1, parts)

    def _cut(self, items: np.ndarray, draw: int, parts: int) -> list[MicroBatch]:
        def pack(some: np.ndarray) -> MicroBatch:
            packs = self.packs(some, draw)
            ids = some.reshape(len(some), -1)[:, 0]
            return MicroBatch((packs, some), {self.kind: len(some)}, sum(len(one.tokens) for one in packs), ids)

        def tokens(data: tuple[tuple[Packed, ...], np.ndarray]) -> np.ndarray:
            return sum(tokens_of_each(packed).reshape(-1, len(items)).sum(axis=0) for packed in data[0])

        return cut_step(items, pack, tokens, self._budget, parts)

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed over the examples of a micro-batch."""
        return {self.kind: self.loss(*batch.data)}

    @torch.no_grad()
    def mean_loss(self, rows: np.ndarray) -> float:
        """Mean loss of other examples, rows (n,), without dropout: what chooses between snapshots. What is drawn for an
        example is always the same here. The model is left in the mode it was in."""
        was_training = self.module.training
        self.module.eval()
        items = self.items(np.asarray(rows, dtype=np.int64))
        total = sum(float(self.loss(*batch.data)) for batch in self._cut(items, 0, 1))
        self.module.train(was_training)
        return total / len(items)
