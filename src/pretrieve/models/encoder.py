"""An encoder: a body, how its states become one vector, and a linear projection; and the head for masked words."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from pretrieve.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.bow_mlp import BowMlp
from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import Transformer

POOLINGS = ("cls", "mean")


def seeded(*numbers: int) -> torch.Generator:
    """A CPU generator for a tuple of small numbers; different tuples give unrelated streams."""
    value = 0
    for number in numbers:
        value = (value * 1_000_003 + number + 1) % (2**63 - 1)
    return torch.Generator().manual_seed(value)


def make_body(config: BodyConfig, seed: int) -> Transformer | BowMlp:
    """A body with fresh weights; the same seed gives the same weights whatever else the process drew."""
    body = BowMlp(config) if config.kind == "bow-mlp" else Transformer(config)
    body.initialise(seeded(seed, 0))
    return body


class Encoder(nn.Module):
    """Text → vector: body, pooling, linear projection to ``dim`` (paper ``pretraining_tasks`` §4.1: "a linear layer on
    the hidden state of the [CLS] token")."""

    def __init__(self, config: BodyConfig, dim: int, pooling: str, seed: int) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ConfigError(f"pooling {pooling!r} is not allowed; choose from {list(POOLINGS)}.")
        self.config, self.dim, self.pooling = config, dim, pooling
        self.body = make_body(config, seed)
        self.projection = nn.Linear(config.hidden, dim)
        nn.init.normal_(self.projection.weight, std=config.hidden**-0.5, generator=seeded(seed, 1, dim))
        nn.init.zeros_(self.projection.bias)

    def pool(self, batch: Batch) -> torch.Tensor:
        """(n, hidden) in packed order."""
        if isinstance(self.body, BowMlp):
            return self.body(batch)
        if self.pooling == "cls":
            return self.body(batch, first_only=True)
        states = self.body(batch)
        total = states.new_zeros(len(batch), states.shape[1]).index_add(0, batch.sequence, states)
        return total / batch.lengths[:, None].to(states.dtype)

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, dim) vectors of L2 norm 1, in the caller's order of examples."""
        vectors = functional.normalize(self.projection(self.pool(batch)).float(), dim=-1)
        return vectors[batch.inverse]


class MaskedWordHead(nn.Module):
    """BERT's MLM head: dense, GELU, LayerNorm, then the word embeddings as output matrix, and a bias; (m, d) → (m, V)."""

    def __init__(self, config: BodyConfig, seed: int) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size))
        nn.init.normal_(self.transform.weight, std=config.std, generator=seeded(seed, 2))
        nn.init.zeros_(self.transform.bias)

    def forward(self, states: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Logits for the given states only; ``words`` is the (V, d) embedding matrix."""
        return functional.linear(self.norm(functional.gelu(self.transform(states))), words, self.bias)
