"""Masked language model (Devlin et al. 2019): the token-level baseline of all five papers.

``L_MLM = mean over the masked positions i of −log softmax(head(h_i))[x_i]``, with h (T, d) the encoder's last states. Logits are
computed at masked positions only: the (T, V) matrix that a plain implementation builds is the largest part of its cost, and
85 % of it is never looked at.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pretrieve.pretraining.examples import Masked, MaskedExamples, Setting
from pretrieve.training.objective import MicroBatch


class MaskedLanguageModel:
    """BERT's objective without next-sentence prediction; also the base class of the objectives that predict masked words. A
    subclass adds modules, loss terms with their counts, and losses."""

    terms = {"mlm": 1.0}
    word_terms = ("mlm",)

    def __init__(self, setting: Setting, examples: MaskedExamples | None = None) -> None:
        """examples: other ones than the passages or blocks of the setting."""
        self.body, self.head, self.device = setting.encoder.body, setting.word_head(), setting.device
        self.examples = setting.passages() if examples is None else examples
        self.module = nn.ModuleDict({"body": self.body, "mlm": self.head})

    def counts(self, masked: Masked) -> dict[str, int]:
        """What each term is a mean over; here the masked words."""
        return {"mlm": len(masked.positions)}

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """Examples of a step."""
        return self.examples.micro_batches(step, parts, self.device, self.counts)

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words."""
        packed = batch.data.batch(self.device)
        return {"mlm": self.word_loss(self.body(packed, asking=batch.data.asking(packed, cls=False)), batch.data)}

    def word_loss(self, states: torch.Tensor, masked: Masked) -> torch.Tensor:
        """Summed cross-entropy of the masked words, from states (T, d), times the weights of their sequences where there are
        any."""
        words = self.body.words.weight
        rows, targets = masked.targets(self.device)
        if masked.weights is None:
            return self.head.loss(states[rows], words, targets)
        weights = torch.from_numpy(np.repeat(masked.weights, masked.words)).to(self.device)
        parts = [(float(weight), weights == weight) for weight in np.unique(masked.weights[masked.words > 0])]
        return sum(weight * self.head.loss(states[rows[own]], words, targets[own]) for weight, own in parts)


build = MaskedLanguageModel
