"""Optimisers, learning-rate schedules, and the two phases of a training that begins with its heads.

``adamw``      with linear warm-up and linear decay, as BERT was trained (Devlin et al. 2019, appendix A.2).
``lamb``       SEED-Encoder's fine-tuning, see :class:`Lamb`.
``adafactor``  T5's dual encoders (paper ``dual_encoders`` §4; t5x_retrieval configs/runs/finetune.gin: decay rate 0.8).

**Adafactor** (Shazeer & Stern 2018) is :class:`torch.optim.Adafactor` with the constants of t5x/adafactor.py:176-194. For a
parameter x with gradient g, at step t = 1, 2, …::

    v ← β v + (1 − β) g²,  β = 1 − t^(−0.8)      of a matrix only the means of g² over rows and over columns are kept:
                                                 v_ij = row_i · col_j / mean(row)
    u = g / √v,  u ← u / max(1, RMS(u))          an update is at most of size 1
    x ← x − lr · max(1e-3, RMS(x)) · u           T5X: multiply_by_parameter_scale; the step is relative to the weights

No momentum and no step size of its own. What differs from T5X: matrices with a side below 128 are factored too (T5X keeps their
full v); query, key and value are one matrix, with one size and common row and column means (T5X: three); a floor of 1e-30 under
v instead of 1e-30 added to g²; torch takes min(lr, 1/√t) for lr, which is lr for the first 1/lr² steps (a million at 1e-3). T5X
decays no weights and clips no gradient: give ``weight_decay=0, clip=0`` for that.

**Heads first**: for the first ``heads_steps`` steps only what is trained beside the body learns, then all. A fresh word head or
decoder sends a trained body large gradients that mean nothing yet, and the body loses what it knows before the head has learnt to
read it. Word embeddings that a head shares with the body belong to the body. An own choice, equal for all objectives that are
compared; no paper has it. The two phases have one optimiser each, with moments and a schedule of its own: in the first one the
rate rises over its first tenth and stays, in the second one it is that of :func:`learning_rate_at` over the other steps. Which
phase a step is in follows from its number, so a killed run continues in the right one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import torch
from torch import nn

from pretrieve.base.errors import ConfigError, check_choice

OPTIMISERS = ("adamw", "adafactor", "lamb")
SCHEDULES = ("linear", "constant", "t5x")
#: T5X never lets the learning rate fall below this (t5x/utils.py, create_learning_rate_scheduler, min_learning_rate).
T5X_LEAST_RATE = 1e-8
#: LAMB's φ ends here in the PyTorch version that SEED-Encoder used; the paper names none.
LARGEST_NORM = 10.0
#: T5X's floors: under v (its root is what torch is given) and under the size of the weights.
ADAFACTOR_EPS = (1e-15, 1e-3)


@dataclass(frozen=True)
class OptimiserConfig:
    """steps, peak learning rate, share of steps that warm up, AdamW's constants, gradient-norm clip (0: none).

    name: one of ``OPTIMISERS``; LAMB uses AdamW's constants, Adafactor only ``weight_decay``. schedule: one of ``SCHEDULES``.
    schedule_steps: the step at which the schedule ends, warm-up being a share of it; 0: ``steps``. SEED-Encoder's and ANCE's
    released checkpoints are from before the end of theirs. heads_steps, heads_rate: the first
    of ``steps``, in which the body stays as it is, and their peak rate (0: learning_rate).

    Raises ConfigError for an unknown word or a value out of its range.
    """

    steps: int
    learning_rate: float
    warmup: float = 0.1
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 1.0
    name: str = "adamw"
    schedule: str = "linear"
    schedule_steps: int = 0
    heads_steps: int = 0
    heads_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.heads_steps and (not 0 < self.heads_steps < self.steps or self.heads_rate < 0 or self.schedule_steps):
            raise ConfigError(
                f"heads_steps={self.heads_steps}, heads_rate={self.heads_rate}, steps={self.steps}, "
                f"schedule_steps={self.schedule_steps}: expected fewer heads_steps than steps, heads_rate >= 0, and no "
                "schedule_steps."
            )
        if self.steps < 0 or self.learning_rate <= 0 or not 0 <= self.warmup <= 1:
            raise ConfigError(
                f"steps={self.steps}, learning_rate={self.learning_rate}, warmup={self.warmup}: "
                "expected steps >= 0, learning_rate > 0, 0 <= warmup <= 1."
            )
        if self.schedule_steps and self.schedule_steps < self.steps:
            raise ConfigError(
                f"schedule_steps={self.schedule_steps}, steps={self.steps}: the learning rate would be 0 before the end; "
                "expected at least as many as steps, or 0."
            )
        check_choice("optimiser", self.name, OPTIMISERS)
        check_choice("schedule", self.schedule, SCHEDULES)


def learning_rate_at(config: OptimiserConfig, step: int) -> float:
    """Learning rate of step ``step`` (counted from 0).

    linear: rises linearly to the peak, then falls linearly to 0.
    constant: rises in the same way, then stays.
    t5x: its linear_decay, ``min(step/warm, 1 + f·(warm − step))`` of the peak (t5x/utils.py, create_learning_rate_scheduler),
    with the f that leads to 0 after the last step: ``linear`` but for the rise, which begins at (nearly) 0.

    >>> [learning_rate_at(OptimiserConfig(10, 1.0, warmup=0.2), s) for s in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 0.125]
    >>> [learning_rate_at(OptimiserConfig(10, 1.0, warmup=0.2, schedule="constant"), s) for s in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    >>> [learning_rate_at(OptimiserConfig(10, 1.0, warmup=0.2, schedule="t5x"), s) for s in (0, 1, 2, 9)]
    [1e-08, 0.5, 1.0, 0.125]
    """
    steps = config.schedule_steps or config.steps
    warmup = round(steps * config.warmup)
    if config.schedule == "t5x":
        factor = 1 / max(steps - warmup, 1)
        rise = step / warmup if warmup else 1.0
        return max(config.learning_rate * min(rise, 1 + factor * (warmup - step)), T5X_LEAST_RATE)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * (steps - step) / max(steps - warmup, 1)


class Lamb(torch.optim.Optimizer):
    """LAMB: Adam's direction, with a step as long as the weights it moves (You et al. 2020, *Large Batch Optimization for Deep
    Learning: Training BERT in 76 minutes*, algorithm 2).

    For each parameter tensor x with gradient g, at each step, with ``lr`` as η::

        m ← β1 m + (1 − β1) g                       v ← β2 v + (1 − β2) g²
        r = m / (√v + ε)                            elementwise, Adam's direction
        u = r + λ x                                 λ: weight decay
        x ← x − η · φ(‖x‖) / ‖u‖ · u                φ(z) = min(z, 10); the factor is 1 when either norm is 0

    SEED-Encoder's fine-tuning (drivers/run_warmup.py, run_ann.py) calls ``Lamb(parameters, lr, eps=1e-8)`` of its file
    utils/lamb.py, the PyTorch version by cybertronai. It has no bias correction, cuts φ at 10, decays no weights, and takes each
    tensor as a layer, biases and LayerNorms too. So does this one; the paper corrects m and v for their start at 0. Query, key
    and value have a tensor each there; here they are one (``joined``), whose thirds are three layers.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        joined: Collection[torch.Tensor] = (),
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._joined = frozenset(joined)

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    def _move(self, parameter: torch.Tensor, group: dict) -> None:
        state, gradient, (beta1, beta2) = self.state[parameter], parameter.grad, group["betas"]
        if not state:
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        mean = state["mean"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        square = state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        update = mean / (square.sqrt() + group["eps"])
        update.add_(parameter, alpha=group["weight_decay"])
        layers = [(parameter, update)]
        if parameter in self._joined:
            layers = zip(parameter.chunk(3), update.chunk(3), strict=True)
        for layer, step in layers:
            # Norms stay on the device: to ask for them would make the processor wait at every parameter.
            weights, length = layer.norm().clamp(max=LARGEST_NORM), step.norm()
            ratio = torch.where((weights > 0) & (length > 0), weights / length, torch.ones_like(weights))
            layer.sub_(group["lr"] * ratio * step)


def make_optimiser(module: nn.Module, config: OptimiserConfig) -> torch.optim.Optimizer:
    """The optimiser of the trainable parameters; biases and LayerNorm weights are not decayed (BERT's rule)."""
    decay, no_decay = [], []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (no_decay if name.endswith("bias") or "norm" in name else decay).append(parameter)
    groups = [{"params": decay, "weight_decay": config.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if config.name == "adafactor":
        return torch.optim.Adafactor(groups, lr=config.learning_rate, beta2_decay=-0.8, eps=ADAFACTOR_EPS, d=1.0)
    betas = (config.beta1, config.beta2)
    if config.name == "lamb":
        joined = [parameter for name, parameter in module.named_parameters() if "qkv" in name.split(".")]
        return Lamb(groups, config.learning_rate, betas, config.eps, joined=joined)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, eps=config.eps, fused=True)


def rate_of(config: OptimiserConfig, step: int) -> float:
    """Learning rate of a step, whichever phase it is in.

    >>> config = OptimiserConfig(12, 1.0, warmup=0.2, heads_steps=2, heads_rate=3.0)
    >>> [rate_of(config, step) for step in (0, 1, 2, 3, 11)]
    [3.0, 3.0, 0.5, 1.0, 0.125]
    """
    if step < config.heads_steps:
        alone = OptimiserConfig(config.heads_steps, config.heads_rate or config.learning_rate, schedule="constant")
        return learning_rate_at(alone, step)
    both = replace(config, steps=config.steps - config.heads_steps, heads_steps=0)
    return learning_rate_at(both, step - config.heads_steps)


class Phases:
    """The phases of a run that begins at step ``first``. :meth:`reach` is to be called when that many steps are done;
    ``optimiser`` is that of the next step.

    Raises ConfigError when nothing is trained beside the body.
    """

    def __init__(self, module: nn.Module, config: OptimiserConfig, first: int) -> None:
        self._module, self._config = module, config
        trained = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
        self._body = [one for name, one in trained if "body" in name.split(".")]
        if config.heads_steps and len(self._body) == len(trained):
            raise ConfigError(
                f"heads_steps: {config.heads_steps}, but this objective trains nothing besides the body; expected 0."
            )
        self._begin(first < config.heads_steps)

    def _begin(self, frozen: bool) -> None:
        for parameter in self._body:
            parameter.requires_grad_(not frozen)
        self.optimiser = make_optimiser(self._module, self._config)

    def reach(self, done: int) -> None:
        """With the last step of the heads, all begin to learn."""
        if done == self._config.heads_steps:
            self._begin(False)

    def set_rate(self, step: int) -> float:
        """Give the optimiser the learning rate of a step; returns it."""
        rate = rate_of(self._config, step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        return rate
