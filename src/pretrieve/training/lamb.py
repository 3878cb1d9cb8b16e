"""LAMB: Adam's direction, with a step as long as the weights it moves (You et al. 2020, *Large Batch Optimization for Deep
Learning: Training BERT in 76 minutes*, algorithm 2).

For each parameter tensor x with gradient g, at step t = 1, 2, …::

    m ← β1 m + (1 − β1) g                       v ← β2 v + (1 − β2) g²
    m̂ = m / (1 − β1^t),  v̂ = v / (1 − β2^t)     only with bias_correction; else m and v themselves
    r = m̂ / (√v̂ + ε)                            elementwise, Adam's direction
    u = r + λ x                                 λ: weight decay
    x ← x − η · φ(‖x‖) / ‖u‖ · u                φ(z) = min(z, largest_norm); the factor is 1 when either norm is 0

SEED-Encoder's fine-tuning (drivers/run_warmup.py, run_ann.py) calls ``Lamb(parameters, lr, eps=1e-8)`` of its file
utils/lamb.py, the PyTorch version by cybertronai. It has no bias correction, cuts φ at 10, decays no weights, and takes each
tensor as a layer, biases and LayerNorms too. So do the defaults here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

#: φ's upper bound in the PyTorch version that SEED-Encoder used; the paper names none.
LARGEST_NORM = 10.0


class Lamb(torch.optim.Optimizer):
    """``lr`` is η; ``largest_norm`` may be ``math.inf``.

    The state of a parameter is its step count and two moments of its shape.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = False,
        largest_norm: float = LARGEST_NORM,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"bias_correction": bias_correction, "largest_norm": largest_norm})

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None) -> torch.Tensor | None:
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)
        return loss

    def _move(self, parameter: torch.Tensor, group: dict) -> None:
        state, gradient, (beta1, beta2) = self.state[parameter], parameter.grad, group["betas"]
        if not state:
            state["step"] = torch.zeros(())  # on the CPU: it is only counted
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        mean = state["mean"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        square = state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if group["bias_correction"]:
            mean, square = (
                moment / (1 - beta ** state["step"].item()) for moment, beta in ((mean, beta1), (square, beta2))
            )
        update = mean / (square.sqrt() + group["eps"])
        update.add_(parameter, alpha=group["weight_decay"])
        # Norms stay on the device: to ask for them would make the processor wait at every parameter.
        weights, length = parameter.norm().clamp(max=group["largest_norm"]), update.norm()
        ratio = torch.where((weights > 0) & (length > 0), weights / length, torch.ones_like(weights))
        parameter.sub_(group["lr"] * ratio * update)
