"""Variable-length attention on a GPU in bf16: FlashAttention without padding (torch.nn.attention.varlen).

It is one call for a whole packed batch. Groups of nearly equal lengths (:mod:`pretrieve.models.batch`) take some ten calls each,
and small models spend their time on calls. It has no dropout of the softmax and no mask; where these are wanted, groups do.
"""

from __future__ import annotations

import torch

from pretrieve.models.batch import Asking, Batch


def takes_varlen(x: torch.Tensor, size: int, p: float) -> bool:
    """Whether attention that comes as ``x``, with heads of ``size`` and a dropout of ``p``, is computed by :func:`attend_varlen`:
    where FlashAttention can, on GPUs from Ampere on."""
    able = x.is_cuda and x.dtype == torch.bfloat16 and not p and size % 8 == 0 and size <= 256
    return able and torch.cuda.get_device_capability(x.device) >= (8, 0)


def attend_varlen(
    query: torch.Tensor, joint: torch.Tensor, batch: Batch, heads: int, asking: Asking | None = None
) -> torch.Tensor:
    """softmax(Q·Kᵀ/√size)·V of each sequence and head: (T, d), or (m, d) of the rows ``asking``.

    query: (T, d) or (m, d); joint: keys and values side by side, (T, 2·d).
    """
    if not len(query):  # nobody asks; a part of ``joint``, so that its weights get a gradient of 0 and not none
        return joint[:0, : query.shape[1]]
    from torch.nn.attention.varlen import varlen_attn  # it loads torch's compiler, which takes a second

    size = query.shape[1] // heads
    key, value = joint.unflatten(1, (2, heads, size)).unbind(1)
    starts, longest = batch.cu_seqlens, batch.longest
    if asking is not None:  # how many of the rows that ask come before each sequence
        starts, longest = torch.searchsorted(asking.rows, starts.long(), out_int32=True), asking.widest
    query = query.unflatten(1, (heads, size))
    found = varlen_attn(query, key, value, starts, batch.cu_seqlens, longest, batch.longest)
    return found.flatten(1)
