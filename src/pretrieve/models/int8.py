"""Products of int8 in the layers of an encoder, for documents on a CPU.

    y = round(127 x / a) · round(63 W / c) · a c / (127 · 63) + b        a = max |x| of a token, c = max |w| of an output

A token has a scale of its own, so a vector does not depend on the texts beside it. Weights have 7 bits: with 8, sums of two
products overflow on CPUs without VNNI. The products are oneDNN's, by the operation that ``torch.compile`` makes of quantised
layers; torch has no public function for them.
"""

from __future__ import annotations

import copy

import torch
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.models.dual_encoder import core

INPUT, WEIGHT, ZERO = 127, 63, 128
#: Tokens that are scaled and multiplied at a time, so that they stay in the cache.
TOKENS = 512
TINY = torch.finfo(torch.float32).tiny


class Int8Linear(nn.Module):
    """The function of ``linear``, (T, in) → (T, out) float32, by int8; ``weight`` and ``bias`` are those of ``linear``."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        weight = linear.weight.detach()
        self._scales = weight.abs().amax(1).clamp_min(TINY) / WEIGHT
        whole = (weight / self._scales[:, None]).round().to(torch.int8)
        self._packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x.new_empty(len(x), len(self.weight))
        for tokens, out in zip(x.split(TOKENS), result.split(TOKENS), strict=True):
            scales = torch.maximum(tokens.amax(-1, keepdim=True), -tokens.amin(-1, keepdim=True)).clamp_min_(TINY)
            whole = (tokens * (INPUT / scales)).add_(ZERO + 0.5).to(torch.uint8)
            product = self._multiply(whole)
            if self.bias is None:
                torch.mul(product, scales, out=out)
            else:
                torch.addcmul(self.bias, product, scales, out=out)
        return result

    def _multiply(self, whole: torch.Tensor) -> torch.Tensor:
        """(T, out) float32 products of (T, in) uint8, which stand for (whole - 128) / 127."""
        weight = (self._packed, self._scales, self._zeros, None)
        plain = (1.0, 0, torch.float32, "none", [], "")  # the output: not quantised, and nothing after it
        return torch.ops.onednn.qlinear_pointwise(whole, 1 / INPUT, ZERO, *weight, *plain)


def in_int8(tower: nn.Module) -> nn.Module:
    """A copy of a tower (:mod:`pretrieve.models.dual_encoder`) whose layers multiply by int8, with the same weights in memory.

    For inference in fp32. What only the last layer's [CLS] asks for stays in fp32, as do word heads and projections, and a
    bag of words, which has no layers.

    Raises
    ------
    ConfigError
        on a GPU, or where torch has no oneDNN.
    """
    parameters = list(tower.parameters())
    devices = {parameter.device.type for parameter in parameters}
    if devices != {"cpu"} or not torch.backends.mkldnn.is_available():
        where = ", ".join(sorted(devices))
        raise ConfigError(f"int8 on {where}: needs a CPU and a torch with oneDNN; encode in bf16 or fp32.")
    tower = copy.deepcopy(tower, {id(parameter): parameter for parameter in parameters}).eval()
    for part in list(getattr(core(tower).body, "layers", nn.ModuleList()).modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear):
                setattr(part, name, Int8Linear(child))
    return tower
