"""From a pooled state to the vector of a text."""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.errors import ConfigError
from pretrieve.models.config import BodyConfig
from pretrieve.models.random import seeded

HEADS = ("linear", "orqa")


class OrqaProjection(nn.Module):
    """BERT's tanh pooler, a dense layer to ``dim``, LayerNorm, dropout 0.1: the ICT model of ORQA (Lee et al. 2019;
    google-research/language, ict_model.py:44-48); (n, hidden) → (n, dim)."""

    def __init__(self, config: BodyConfig, dim: int, seed: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.hidden, config.hidden)
        self.dense = nn.Linear(config.hidden, dim)
        self.norm = nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(0.1)
        for number, linear in enumerate((self.pooler, self.dense)):
            nn.init.normal_(linear.weight, std=config.std, generator=seeded(seed, 4, number, dim))
            nn.init.zeros_(linear.bias)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(self.dense(torch.tanh(self.pooler(pooled)))))


def make_projection(head: str, config: BodyConfig, dim: int, seed: int) -> nn.Module:
    """``linear``: one linear layer, as paper ``pretraining_tasks`` §4.1 has it; ``orqa``: :class:`OrqaProjection`.

    Raises
    ------
    ConfigError
        for another word.
    """
    if head == "orqa":
        return OrqaProjection(config, dim, seed)
    if head != "linear":
        raise ConfigError(f"head {head!r} is not allowed; choose from {list(HEADS)}.")
    projection = nn.Linear(config.hidden, dim)
    nn.init.normal_(projection.weight, std=config.hidden**-0.5, generator=seeded(seed, 1, dim))
    nn.init.zeros_(projection.bias)
    return projection
