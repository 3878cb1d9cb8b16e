"""torch.compile for what a Transformer layer does to each row by itself: residuals, norms, dropout, feed-forward.

Attention stays as it is: its groups have other shapes in every batch. The rest sees a matrix (T, d) whose T alone changes, so one
compiled graph serves all layers and batches. Dropout draws from torch's own generator, so it is that of the plain layer, and
the gradient cache (:mod:`pretrieve.training.step`) finds the same in both of its passes.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

from pretrieve.models.transformer import Layer


def compile_layers(module: nn.Module, backend: str = "inductor") -> bool:
    """Compile the layers of ``module`` in place; names and values of its weights stay. Returns whether it worked: where the
    backend fails (no compiler, no Triton), a line on standard error says so and the layers are left as they were."""
    layers = [part for part in module.modules() if isinstance(part, Layer)]
    try:
        options = {"fallback_random": True} if backend == "inductor" else None
        for layer in layers:
            layer.after_attention = torch.compile(layer.after_attention, dynamic=True, backend=backend, options=options)
        for layer in layers[:1]:  # forward and backward, so that what does not work fails here
            x = torch.zeros(3, layer.up.in_features, device=layer.up.weight.device, requires_grad=True)
            torch.autograd.grad(layer.after_attention(x, x).sum(), x)
    except Exception as error:  # backends raise whatever their compilers do
        for layer in layers:
            vars(layer).pop("after_attention", None)
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        print(f"--compile: not possible here ({why}); layers run as they are.", file=sys.stderr)
        return False
    return True
