"""A Transformer's linear layer, faster when texts are encoded on a CPU without a gradient.

Encoding uses oneDNN's product, with GELU inside it and weights that are packed once. torch's own product is slower: in fp32 it is
MKL's, which does not use all of AMD's processors; in bf16 it packs the weights again for every batch; and GELU reads and writes
the widest matrix of a layer once more. ``torch.compile`` makes the same operations of the layer; torch has no public functions
for them. Training keeps torch's product, since a gradient needs the product without GELU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch import nn
from torch.nn import functional

#: Rows from which it is faster: oneDNN makes a kernel for every number of rows, and for few that takes longer than the product.
ROWS = 256
#: Least inputs and outputs. Narrower layers gain less, and the demo's, of 128, keep the vectors of its published runs.
WIDTH = 256
#: Packed weights within :func:`packed_weights`, by address, shape and type.
_packed: ContextVar[dict[tuple, torch.Tensor] | None] = ContextVar("packed", default=None)


def encoding() -> bool:
    """Whether this is within :func:`packed_weights`."""
    return _packed.get() is not None


@contextmanager
def packed_weights() -> Iterator[None]:
    """Within this context, weights are packed at their first use; they must not change, and there is no gradient."""
    before = _packed.set({})
    try:
        yield
    finally:
        _packed.reset(before)


def product(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, gelu: bool = False) -> torch.Tensor:
    """(T, in) → (T, out): x · weightᵀ + bias, or GELU of that; in bf16 where autocast is on."""
    able = x.device.type == "cpu" and len(x) >= ROWS and min(weight.shape) >= WIDTH
    kept = _packed.get() if able else None
    kind = torch.get_autocast_dtype("cpu") if kept is not None and torch.is_autocast_enabled("cpu") else x.dtype
    if kept is None or not _packs(kind):
        found = functional.linear(x, weight, bias)
        return functional.gelu(found) if gelu else found
    place = (weight.data_ptr(), weight.shape, kind)
    if place not in kept:
        kept[place] = torch.ops.mkldnn._reorder_linear_weight(weight.to(kind), len(x))
    given = (x.to(kind), kept[place], bias.to(kind))
    return torch.ops.mkldnn._linear_pointwise(*given, "gelu" if gelu else "none", [], "none")


@cache
def _packs(kind: torch.dtype) -> bool:
    """Whether oneDNN packs weights of this type here: in bf16 only for a CPU that converts it (AVX512, AVX-NE-CONVERT)."""
    if not torch.backends.mkldnn.is_available():
        return False
    return kind != torch.bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Linear(nn.Linear):
    """torch's linear layer, by :func:`product`."""

    def forward(self, x: torch.Tensor, gelu: bool = False) -> torch.Tensor:
        return product(x, self.weight, self.bias, gelu)
