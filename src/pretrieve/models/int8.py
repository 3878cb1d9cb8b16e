"""Products of int8 in the layers of an encoder, for documents on a CPU.

    y = s c (q · v) + l (c · Σ v) + b        q = round((x - l) / s) of 0 … 172,  s = (max x - l) / 172,  l = min x  of a token
                                             v = round(w / c) of -95 … 95,       c = max |w| / 95               of an output

A token has a range of its own, so a vector does not depend on the texts beside it. The two numbers: 2 · 172 · 95 is the most that
fits into 16 bits, in which CPUs without VNNI add two products; of such pairs, these have about the least error. The products
are oneDNN's, by the operation that ``torch.compile`` makes of quantised layers; torch has no public function for them.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError
from pretrieve.models.dual_encoder import core

INPUT, WEIGHT = 172, 95
#: Tokens that are quantised and multiplied at a time, so that they stay in the cache.
TOKENS = 512
#: Least step, for tokens whose numbers are all the same; greater than what processors take for zero.
LEAST_STEP = 1e-20


class Int8Linear(nn.Module):
    """The function of ``linear``, (T, in) → (T, out) float32, by int8; ``weight`` and ``bias`` are those of ``linear``."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        weight = linear.weight.detach()
        self._scales = (weight.abs().amax(1) / WEIGHT).clamp_min(LEAST_STEP)
        whole = (weight / self._scales[:, None]).round()
        self._sums = whole.sum(1) * self._scales
        self._offset = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        self._packed = torch.ops.onednn.qlinear_prepack(whole.to(torch.int8), None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def forward(self, x: torch.Tensor, gelu: bool = False) -> torch.Tensor:
        result = x.new_empty(len(x), len(self.weight))
        for tokens, out in zip(x.split(TOKENS), result.split(TOKENS), strict=True):
            least = tokens.amin(-1, keepdim=True)
            steps = ((tokens.amax(-1, keepdim=True) - least) / INPUT).clamp_min_(LEAST_STEP)
            whole = torch.addcmul(0.5 - least / steps, tokens, 1 / steps).to(torch.uint8)
            torch.addcmul(self._offset, least, self._sums, out=out).addcmul_(self._multiply(whole), steps)
        return functional.gelu(result) if gelu else result

    def _multiply(self, whole: torch.Tensor) -> torch.Tensor:
        """(T, out) float32 products of (T, in) uint8 with the weights."""
        weight = (self._packed, self._scales, self._zeros, None)
        plain = (1.0, 0, torch.float32, "none", [], "")  # the output: not quantised, and nothing after it
        return torch.ops.onednn.qlinear_pointwise(whole, 1.0, 0, *weight, *plain)


def in_int8(tower: nn.Module) -> nn.Module:
    """A copy of a tower (:mod:`pretrieve.models.dual_encoder`) whose layers multiply by int8, with the same weights in memory.

    For inference in fp32. What only the last layer's [CLS] asks for stays in fp32, as do word heads and projections, and a
    bag of words, which has no layers.

    Raises ConfigError on a GPU, or where torch has no oneDNN.
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
