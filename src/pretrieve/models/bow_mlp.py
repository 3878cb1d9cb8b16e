"""BoW-MLP, the shallow baseline of paper ``pretraining_tasks`` §4.2: unigram embeddings, averaged, through a two-layer MLP."""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig


class BowMlp(nn.Module):
    """Mean of word embeddings → tanh layer of width ``feed_forward`` → tanh layer of width ``hidden``; (n, hidden).

    The paper gives "a shallow two-layer MLP network with tanh activation"; the projection to the embedding's dimension
    after it is the same linear layer as for the Transformer. Special tokens are words like any other.
    """

    def __init__(self, config: BodyConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.hidden)
        self.inner = nn.Linear(config.hidden, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.hidden)

    def initialise(self, generator: torch.Generator) -> None:
        """Words as in the Transformer; the MLP's matrices with variance 1/fan-in, which keeps tanh out of saturation."""
        nn.init.normal_(self.words.weight, std=self.config.word_std, generator=generator)
        for linear in (self.inner, self.outer):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5, generator=generator)
            nn.init.zeros_(linear.bias)

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, hidden) in packed order."""
        total = self.words.weight.new_zeros(len(batch), self.config.hidden)
        total = total.index_add(0, batch.sequence, self.words(batch.tokens))
        mean = total / batch.lengths[:, None].to(total.dtype)
        return torch.tanh(self.outer(torch.tanh(self.inner(mean))))
