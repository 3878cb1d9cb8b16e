"""LAMB: Adam's direction, with a step as long as the weights it moves (You et al. 2020, *Large Batch Optimization for Deep
Learning: Training BERT in 76 minutes*, algorithm 2).

For each parameter tensor x with gradient g, at each step::

    m ← β1 m + (1 − β1) g                       v ← β2 v + (1 − β2) g²
    r = m / (√v + ε)                            elementwise, Adam's direction
    u = r + λ x                                 λ: weight decay
    x ← x − η · φ(‖x‖) / ‖u‖ · u                φ(z) = min(z, 10); the factor is 1 when either norm is 0

SEED-Encoder's fine-tuning (drivers/run_warmup.py, run_ann.py) calls ``Lamb(parameters, lr, eps=1e-8)`` of its file
utils/lamb.py, the PyTorch version by cybertronai. It has no bias correction, cuts φ at 10, decays no weights, and takes each
tensor as a layer, biases and LayerNorms too. So does this one; the paper corrects m and v for their start at 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

#: φ's upper bound in the PyTorch version that SEED-Encoder used; the paper names none.
LARGEST_NORM = 10.0


class Lamb(torch.optim.Optimizer):
    """``lr`` is η. The state of a parameter is two moments of its shape."""

    def __init__(
        self,
        params: Iterable,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

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
        # Norms stay on the device: to ask for them would make the processor wait at every parameter.
        weights, length = parameter.norm().clamp(max=LARGEST_NORM), update.norm()
        ratio = torch.where((weights > 0) & (length > 0), weights / length, torch.ones_like(weights))
        parameter.sub_(group["lr"] * ratio * update)
