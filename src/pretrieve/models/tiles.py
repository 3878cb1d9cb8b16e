"""Attention of a packed batch in bf16 on a CPU: on rectangles of a few shapes that come again in every batch.

oneDNN makes a kernel for every shape of a bf16 product, which takes longer than to use it once, and groups of equal lengths have
new shapes in each batch. So sequences are laid out in tiles: as many rows as the next multiple of :data:`STEP`, and 1, 2, 4, …
sequences in each. Their kernels are made once; then products in bf16 gain what they should (``benchmarks/c12_small_bert.py``).
Padding is masked, and its rows are dropped, so states are the same as without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from pretrieve.models.dropout import dropout
from pretrieve.models.linear import encoding

#: Rows of a tile are a multiple of this up to :data:`FINE` rows, above that of twice, four times, … as much.
STEP, FINE = 32, 128
#: Sequences of a tile times the square of their rows, at most, if they are several: what a cache holds.
SQUARES = 1 << 16


def tile_rows(length: int) -> int:
    """Rows of a tile for a sequence of that length.

    >>> [tile_rows(length) for length in (1, 32, 33, 128, 129, 300)]
    [32, 32, 64, 128, 192, 384]
    """
    step, fine = STEP, FINE
    while length > fine:
        step, fine = 2 * step, 2 * fine
    return -(-length // step) * step


@dataclass(frozen=True)
class Tiles:
    """P rows in all, tile after tile, of a batch with T tokens.

    source (P,) int64: the token that stands in a row, any one in a row of padding; place (T,) int64: the row of a token; shapes:
    of each tile ``(n, rows)``; shut: of each tile (n, 1, 1, rows), what is added to scores: −inf where a row is padding; or None.
    """

    source: torch.Tensor
    place: torch.Tensor
    shapes: list[tuple[int, int]]
    shut: list[torch.Tensor | None]

    @classmethod
    def of(cls, lengths: torch.Tensor, starts: torch.Tensor) -> Tiles:
        """Of sequences end to end, longest first: their lengths (n,) and first rows (n,)."""
        rows = [tile_rows(length) for length in lengths.tolist()]
        shapes, first = [], 0
        while first < len(rows):
            room = max(1, SQUARES // rows[first] ** 2)
            alike = min(room, rows[first:].count(rows[first]))
            shapes.append((1 << (alike.bit_length() - 1), rows[first]))
            first += shapes[-1][0]
        sources, places, shut, first, before = [], [], [], 0, 0
        for n, width in shapes:
            own, column = lengths[first : first + n, None], torch.arange(width)
            inside = column < own
            sources.append((starts[first : first + n, None] + torch.minimum(column, own - 1)).flatten())
            places.append(before + inside.flatten().nonzero()[:, 0])
            shut.append(None if bool(inside.all()) else barred(inside)[:, None, None, :])
            first, before = first + n, before + n * width
        return cls(torch.cat([starts[:0], *sources]), torch.cat([starts[:0], *places]), shapes, shut)

    @property
    def longest(self) -> int:
        """Rows of the longest tile."""
        return max((rows for _, rows in self.shapes), default=0)


class _Spread(torch.autograd.Function):
    """(T, k) → (P, k). Rows of padding have a gradient of 0, so that of a token is its own row's."""

    @staticmethod
    def forward(ctx, x, source, place):
        ctx.save_for_backward(place)
        return x.index_select(0, source)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        (place,) = ctx.saved_tensors
        return upstream.index_select(0, place), None, None


class _Gather(torch.autograd.Function):
    """(P, k) → (T, k)."""

    @staticmethod
    def forward(ctx, x, place):
        ctx.save_for_backward(place)
        ctx.rows = len(x)
        return x.index_select(0, place)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        (place,) = ctx.saved_tensors
        return upstream.new_zeros(ctx.rows, upstream.shape[1]).index_copy_(0, place, upstream), None


def barred(visible: torch.Tensor) -> torch.Tensor:
    """0 where ``visible``, −inf elsewhere; bf16."""
    return torch.zeros(visible.shape, dtype=torch.bfloat16).masked_fill_(~visible, -torch.inf)


def in_tiles(x: torch.Tensor) -> bool:
    """Whether attention that comes as ``x`` is computed in tiles."""
    return x.device.type == "cpu" and x.dtype == torch.bfloat16


def attend_in_tiles(
    joint: torch.Tensor, tiles: Tiles, heads: int, p: float, more: torch.Tensor | None = None
) -> torch.Tensor:
    """(T, d): softmax(Q·Kᵀ/√size)·V of each sequence and head, from queries, keys and values side by side, (T, 3·d).

    p: dropout of the softmax; more (L, L): what is added to scores as well, L as long as the longest tile (:func:`barred`).
    Where the CPU has AMX, texts are encoded with torch's fused attention; with a gradient, or up to 128 tokens on other CPUs,
    that is the slower one (``benchmarks/attention.py``).
    """
    hidden = joint.shape[1] // 3
    if not tiles.shapes:
        return joint[:, :hidden]
    parts = _Spread.apply(joint, tiles.source, tiles.place).split([n * rows for n, rows in tiles.shapes])
    results, fused = [], more is None and encoding() and torch.cpu.get_capabilities().get("amx_bf16", False)
    for part, (n, rows), shut in zip(parts, tiles.shapes, tiles.shut, strict=True):
        query, key, value = part.view(n, rows, 3, heads, hidden // heads).permute(2, 0, 3, 1, 4).unbind(0)
        if fused:
            context = functional.scaled_dot_product_attention(query, key, value, attn_mask=shut)
            results.append(context.transpose(1, 2).reshape(n * rows, hidden))
            continue
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        for one in (shut, None if more is None else more[:rows, :rows]):
            if one is not None:
                scores += one  # filling by a mask, and its gradient, take several times as long
        results.append((dropout(scores.softmax(-1), p) @ value).transpose(1, 2).reshape(n * rows, hidden))
    return _Gather.apply(torch.cat(results), tiles.place)
