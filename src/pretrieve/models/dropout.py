"""Dropout that is cheap on a CPU: ``y = x · kept / q``, with ``kept`` true with probability q = 1 − p, each entry by itself.

torch draws a random number for every entry and keeps the mask in float32; on a CPU that was a tenth of a training step
(``benchmarks/c1_mlm_step.py``). Here 64 bits decide about four entries and the mask takes a byte an entry. A share of
15 bits is q = k / 32,768: the nearest to 1 − p is at most 0.00002 away, and y is divided by that q, so its expectation
is x exactly. Draws come from torch's generator, so ``torch.manual_seed`` fixes them as it fixes torch's own.

Elsewhere than on a CPU this is torch's dropout, which is one fused kernel there.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

#: Shares that a decision can have: 15 bits, as the lowest of the 64 is always 0 (see :func:`kept_entries`).
STEPS = 1 << 15
#: On a CPU, attention of fewer scores (sequences · heads · m · L) than this is computed in float32, if it comes in bf16.
SCORES_IN_BF16 = 1 << 19


def kept_entries(shape: torch.Size, p: float) -> tuple[torch.Tensor, float]:
    """bool of this shape, true with probability q, and q: the multiple of 1/:data:`STEPS` nearest to 1 − p."""
    lost, size = min(round(p * STEPS), STEPS - 1), shape.numel()
    # random_ gives 63 bits; shifted, each 16 of them are uniform over the even numbers at least.
    bits = torch.empty((size + 3) // 4, dtype=torch.int64).random_().mul_(2)
    return (bits.view(torch.int16)[:size] >= 2 * lost - STEPS).view(shape), 1 - lost / STEPS


def _keep(x: torch.Tensor, kept: torch.Tensor, scale: float) -> torch.Tensor:
    # torch.where and products with bool take 3 to 6 times as long. The scale comes last: rounded to bf16 it would be biased.
    return kept.view(torch.uint8).to(x.dtype).mul_(x).mul_(scale)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        kept, q = kept_entries(x.shape, p)
        ctx.save_for_backward(kept)
        ctx.scale = 1 / q
        return _keep(x, kept, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        (kept,) = ctx.saved_tensors
        return _keep(upstream, kept, ctx.scale), None


def dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """x of any shape with each entry 0 with probability p, and the others divided by 1 − p; of the same shape and type.

    >>> sorted(set(dropout(torch.ones(100), 0.75).tolist()))
    [0.0, 4.0]
    """
    if not p:
        return x
    return _Dropout.apply(x, p) if x.device.type == "cpu" else functional.dropout(x, p)


class Dropout(nn.Module):
    """:func:`dropout` when training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return dropout(x, self.p) if self.training else x


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    p: float = 0.0,
    causal: bool = False,
) -> torch.Tensor:
    """``dropout(softmax(Q·Kᵀ/√d + M))·V``: torch's scaled dot-product attention, with this dropout on a CPU.

    In bf16 on a CPU, small ones are computed in float32: oneDNN makes a kernel for every shape of a product in bf16, which takes
    longer than to use it, and packed batches have hundreds. Large ones are written out: torch's own, with its gradient, takes
    three to four times as long on passages of 72 to 128 tokens, and as long on 512 (``benchmarks/attention.py``).

    query (..., m, d), key and value (..., L, d); mask: bool, broadcast to (..., m, L), True where a row may look, at one
    column at least; causal: row i looks at columns 0 … i, with no mask.
    """
    low = query.device.type == "cpu" and query.dtype == torch.bfloat16
    if low and query.shape[:-1].numel() * key.shape[-2] < SCORES_IN_BF16:
        with torch.autocast("cpu", enabled=False):
            return attend(query.float(), key.float(), value.float(), mask, p, causal).to(query.dtype)
    if query.device.type != "cpu" or not (p or low):
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=p, is_causal=causal)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return dropout(scores.softmax(-1, torch.float32).to(value.dtype), p) @ value
