"""A Transformer's linear layer, which is faster on a CPU where texts are only encoded.

There a product is oneDNN's, with GELU inside it and with weights that are laid out for it once. torch's own product in fp32 is
MKL's, which does not use all that AMD's processors have; in bf16 it lays the weights out for every batch; and its GELU reads and
writes the widest matrix of a layer once more. The operations are those that ``torch.compile`` makes of the layer; torch has no
public functions for them. A gradient needs the product without GELU, so training has torch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn
from torch.nn import functional

#: Rows from which it is faster: oneDNN makes a kernel for every number of rows, and for few that takes longer than the product.
ROWS = 256
#: Least inputs and outputs. Narrower layers gain less, and the demo's, of 128, keep the vectors of its published runs.
WIDTH = 256

#: What :func:`packed_weights` keeps, by place, shape and kind of a weight: weight and bias as the product takes them.
_packed: ContextVar[dict[tuple, tuple[torch.Tensor, torch.Tensor]] | None] = ContextVar("packed", default=None)


@contextmanager
def packed_weights() -> Iterator[None]:
    """Until its end, layers on a CPU are computed without a gradient, and their weights stay as they are."""
    before = _packed.set({})
    try:
        yield
    finally:
        _packed.reset(before)


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, gelu: bool = False) -> torch.Tensor:
    """(T, in) → (T, out): x · weightᵀ + bias, or GELU of that; in bf16 where autocast is on."""
    able = x.device.type == "cpu" and len(x) >= ROWS and min(weight.shape) >= WIDTH
    # Compiled code may not ask for a context.
    kept = _packed.get() if able and not torch.compiler.is_compiling() else None
    if kept is None or not torch.backends.mkldnn.is_available():
        found = functional.linear(x, weight, bias)
        return functional.gelu(found) if gelu else found
    kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
    place = (weight.data_ptr(), weight.shape, kind)
    if place not in kept:
        kept[place] = torch.ops.mkldnn._reorder_linear_weight(weight.to(kind), len(x)), bias.to(kind)
    return torch.ops.mkldnn._linear_pointwise(x.to(kind), *kept[place], "gelu" if gelu else "none", [], "none")


class Linear(nn.Linear):
    """torch's linear layer, by :func:`product`."""

    def forward(self, x: torch.Tensor, gelu: bool = False) -> torch.Tensor:
        return product(x, self.weight, self.bias, gelu)
