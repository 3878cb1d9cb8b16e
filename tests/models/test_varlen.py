"""Variable-length attention: with a plain loop in place of the kernel, which runs on GPUs alone, the body's states and
gradients are those of groups. On a GPU: tests/models/test_on_gpu.py.

Seen to fail when: keys and values change places; the bounds of the rows that ask are those of all rows.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from pretrieve.models import transformer
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body
from pretrieve.models.transformer import Transformer, seeded
from pretrieve.text.packing import Packed, Part, pack

LENGTHS = np.array([9, 1, 5, 5, 12, 3])


def in_a_loop(query, key, value, query_bounds, key_bounds, longest_query, longest_key):
    """What torch.nn.attention.varlen.varlen_attn computes: (T_q, heads, size)."""
    assert query_bounds.dtype == key_bounds.dtype == torch.int32
    parts = []
    for n in range(len(key_bounds) - 1):
        own = query[query_bounds[n] : query_bounds[n + 1]]
        keys, values = (one[key_bounds[n] : key_bounds[n + 1]].transpose(0, 1) for one in (key, value))
        assert len(own) <= longest_query and keys.shape[1] <= longest_key
        parts.append(functional.scaled_dot_product_attention(own.transpose(0, 1), keys, values).transpose(0, 1))
    return torch.cat(parts)


def compute(body: Transformer, packed: Packed, reading: str) -> list[torch.Tensor]:
    """The states that are read, and the gradients of a sum over them."""
    body, batch = copy.deepcopy(body), Batch.of(packed)
    if reading == "nobody":
        asking = Asking.of(np.array([], dtype=np.int64), packed, batch)
        states = body(batch, asking=asking).index_select(0, asking.rows)
    elif reading == "asking":
        asking = Asking.of(np.array([0, 1, 3, 13, 14, 30]), packed, batch)
        states = body(batch, asking=asking).index_select(0, asking.rows)
    else:
        states = body(batch, first_only=reading == "first")
    (states * torch.randn(states.shape, generator=seeded(9))).sum().backward()
    return [states.detach(), *(parameter.grad for parameter in body.parameters())]


@pytest.mark.parametrize("reading", ["all", "first", "asking", "nobody"])
def test_states_are_those_of_groups(reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"hidden": 16, "layers": 2, "heads": 4, "feed_forward": 32, "max_positions": 16}
    body = make_body(BodyConfig(vocabulary_size=50, dropout=0.0, std=0.2, word_std=0.5, **shape), 1).eval()
    tokens = np.random.default_rng(1).integers(1, 50, LENGTHS.sum())
    packed = pack([Part(tokens, np.cumsum(LENGTHS) - LENGTHS, LENGTHS)])
    expected = compute(body, packed, reading)
    monkeypatch.setattr(transformer, "takes_varlen", lambda x, size, p: True)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", in_a_loop)
    for found, right in zip(compute(body, packed, reading), expected, strict=True):
        assert torch.allclose(found, right, atol=1e-5)
