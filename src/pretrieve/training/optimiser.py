"""AdamW with linear warm-up and linear decay, as BERT was trained (Devlin et al. 2019, appendix A.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pretrieve.errors import ConfigError


@dataclass(frozen=True)
class OptimiserConfig:
    """steps, peak learning rate, share of steps that warm up, AdamW's constants, gradient-norm clip (0: none)."""

    steps: int
    learning_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0 or self.learning_rate <= 0 or not 0 <= self.warmup <= 1:
            raise ConfigError(
                f"steps={self.steps}, learning_rate={self.learning_rate}, warmup={self.warmup}: "
                "expected steps >= 0, learning_rate > 0, 0 <= warmup <= 1."
            )


def learning_rate_at(config: OptimiserConfig, step: int) -> float:
    """Learning rate of step ``step`` (counted from 0): rises linearly to the peak, then falls linearly to 0.

    >>> [learning_rate_at(OptimiserConfig(10, 1.0, warmup=0.2), s) for s in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 0.125]
    """
    warmup = round(config.steps * config.warmup)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    return config.learning_rate * (config.steps - step) / max(config.steps - warmup, 1)


def make_optimiser(module: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """AdamW over the trainable parameters; biases and LayerNorm weights are not decayed (BERT's rule)."""
    decay, no_decay = [], []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (no_decay if name.endswith("bias") or "norm" in name else decay).append(parameter)
    groups = [{"params": decay, "weight_decay": config.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
