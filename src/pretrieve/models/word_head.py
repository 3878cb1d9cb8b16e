"""BERT's head for masked words (Devlin et al. 2019): states → logits over the vocabulary, or directly their loss."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.config import BodyConfig
from pretrieve.models.initialisation import seeded
from pretrieve.models.word_loss import word_loss


class MaskedWordHead(nn.Module):
    """Dense, GELU, LayerNorm, then the word embeddings as output matrix, and a bias; (m, d) → (m, V)."""

    def __init__(self, config: BodyConfig, seed: int) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size))
        nn.init.normal_(self.transform.weight, std=config.std, generator=seeded(seed, 2))
        nn.init.zeros_(self.transform.bias)

    def states(self, states: torch.Tensor) -> torch.Tensor:
        """What is multiplied with the word embeddings, (m, d)."""
        return self.norm(functional.gelu(self.transform(states)))

    def forward(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Logits (m, V); ``words`` is the (V, d) embedding matrix."""
        return functional.linear(self.states(states), words, self.bias)

    def loss(self, states: torch.Tensor, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Summed cross-entropy of ``targets`` (m,); the logits are never held all at once."""
        return word_loss(self.states(states), words, self.bias, targets)
