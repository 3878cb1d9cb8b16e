"""Heads first: for the first steps of a run only what is trained beside the body learns, then all.

A fresh word head or decoder sends a trained body large gradients that mean nothing yet, and the body loses what it knows before
the head has learnt to read it. So the ``heads_steps`` first steps keep the body as it is. Word embeddings that a head shares with
the body belong to the body. An own choice, equal for all objectives that are compared; no paper has it.

The two phases have one optimiser each, with moments and a schedule of its own: in the first one the rate rises over its first
tenth and stays, in the second one it is that of :func:`~pretrieve.training.optimiser.learning_rate_at` over the other steps.
Which phase a step is in follows from its number, so a killed run continues in the right one.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser


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
