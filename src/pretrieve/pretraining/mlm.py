"""Masked language model (Devlin et al. 2019), the token-level baseline of paper ``pretraining_tasks`` §3.

``L = mean over the masked positions i of −log softmax(head(h_i))[x_i]``. Logits are computed at masked positions only: the
(T, V) matrix that a plain implementation builds is the largest part of its cost, and 85 % of it is never looked at.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder, MaskedWordHead
from pretrieve.pretraining.masking import choose_positions, corrupt
from pretrieve.text.packing import pack_passages
from pretrieve.text.token_store import TokenStore
from pretrieve.training.loop import MicroBatch


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


class MaskedLanguageModel:
    """Each passage of the corpus, cut to ``length`` tokens, is one sequence; ``batch`` passages make a step.

    ``token_budget`` bounds the tokens of a micro-batch, and so the memory; it does not change the result.
    """

    terms = {"mlm": 1.0}

    def __init__(
        self,
        encoder: Encoder,
        head: MaskedWordHead,
        store: TokenStore,
        seed: int,
        batch: int,
        length: int,
        rate: float = 0.15,
        token_budget: int = 16_384,
        device: torch.device | str = "cpu",
    ) -> None:
        self.encoder, self.head, self.store, self.device = encoder, head, store, device
        self.module = nn.ModuleDict({"body": encoder.body, "head": head})
        self._seed, self._batch, self._length, self._rate, self._budget = seed, batch, length, rate, token_budget
        self._passages = np.flatnonzero(
            np.diff(np.asarray(store.sentence_starts)[np.asarray(store.passage_starts)]) > 0
        )

    def micro_batches(self, step: int) -> list[MicroBatch]:
        """Passages of a step, without replacement within an epoch, sorted by length and cut at the token budget."""
        chosen = self._passages[epoch_order(len(self._passages), self._seed, step * self._batch, self._batch)]
        rng = np.random.default_rng([self._seed, 102, step])
        packed = pack_passages(self.store, chosen, self._length)
        # Masks are drawn for the whole step, so that they do not depend on where it is cut.
        positions = choose_positions(packed, self.store.special, self._rate, rng)
        corrupted = replace(
            packed, tokens=corrupt(packed.tokens, positions, self.store.special, self.store.vocabulary_size, rng)
        )
        batches = []
        for first, last in packed.slices(self._budget):
            rows = packed.rows(first, last)
            inside = positions[(positions >= rows.start) & (positions < rows.stop)]
            data = (corrupted.part(first, last), inside - rows.start, packed.tokens[inside])
            batches.append(MicroBatch(data, {"mlm": len(inside)}, rows.stop - rows.start))
        return batches

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words."""
        packed, positions, targets = batch.data
        states = self.encoder.body(Batch.of(packed, self.device))
        chosen = states[torch.from_numpy(positions).to(self.device)]
        logits = self.head(chosen, self.encoder.body.words.weight)
        target = torch.from_numpy(targets).to(self.device)
        return {"mlm": functional.cross_entropy(logits.float(), target, reduction="sum")}
