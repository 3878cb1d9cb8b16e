"""Attention in tiles against attention of each sequence by itself, in float64 on the same bf16 numbers.

Tolerance: 2 % of the largest entry, as elsewhere for bf16.

Seen to fail when: padding is looked at; a row of padding is taken for a token's; the gradient of a token is that of another row;
rows that may not be looked at are; scores are not scaled; a tile has sequences of another length; dropout is left out; fused
attention has no mask, is that of training, or leaves out what else is barred.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_body import small_body
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from pretrieve.models.decoder import Decoder, span_mask
from pretrieve.models.linear import packed_weights
from pretrieve.models.tiles import Tiles, attend_in_tiles, barred, tile_rows
from pretrieve.models.transformer import seeded
from pretrieve.text.packing import Packed

HEADS, WIDTH = 3, 8
LENGTHS = [130, 128, 128, 97, 64, 40, 33, 32, 32, 32, 20, 2, 1]


def of(lengths: list[int]) -> Tiles:
    own = torch.tensor(lengths, dtype=torch.int64)
    return Tiles.of(own, own.cumsum(0) - own)


@pytest.mark.parametrize("lengths", [LENGTHS, [32] * 7, [5], [300, 299]])
def test_every_token_has_one_row(lengths: list[int]) -> None:
    tiles = of(lengths)
    assert torch.equal(tiles.source[tiles.place], torch.arange(sum(lengths)))
    assert len(tiles.source) == sum(n * rows for n, rows in tiles.shapes)
    assert sum(n for n, _ in tiles.shapes) == len(lengths) and tiles.longest == tile_rows(max(lengths))
    assert all(n & (n - 1) == 0 for n, _ in tiles.shapes)
    widths = [rows for n, rows in tiles.shapes for _ in range(n)]
    assert widths == [tile_rows(length) for length in lengths]


def test_no_sequence() -> None:
    tiles = of([])
    assert not tiles.shapes and tiles.longest == 0
    joint = torch.zeros(0, 3 * HEADS * WIDTH, dtype=torch.bfloat16)
    assert attend_in_tiles(joint, tiles, HEADS, 0.0).shape == (0, HEADS * WIDTH)


def test_batches_share_their_shapes() -> None:
    """What it is for: of many batches with all lengths up to 128, there are few shapes."""
    generator = seeded(3)
    drawn = [torch.randint(2, 129, (32,), generator=generator).sort(descending=True).values.tolist() for _ in range(50)]
    assert len({shape for lengths in drawn for shape in of(lengths).shapes}) <= 20
    assert len({length for lengths in drawn for length in lengths}) > 100


@pytest.mark.parametrize("span", [None, "all", 3])
def test_against_each_sequence_by_itself(span: int | str | None) -> None:
    generator, tokens, hidden = seeded(5), sum(LENGTHS), HEADS * WIDTH
    joint = torch.randn(tokens, 3 * hidden, generator=generator).to(torch.bfloat16).requires_grad_()
    upstream = torch.randn(tokens, hidden, generator=generator)
    allowed = None if span is None else span_mask(tile_rows(max(LENGTHS)), span)
    ours = attend_in_tiles(joint, of(LENGTHS), HEADS, 0.0, None if allowed is None else barred(allowed))
    exact, parts = joint.detach().double().requires_grad_(), []
    for part in exact.split(LENGTHS):
        query, key, value = part.view(-1, 3, HEADS, WIDTH).permute(1, 2, 0, 3).unbind(0)
        mask = None if allowed is None else allowed[: len(part), : len(part)]
        mixed = functional.scaled_dot_product_attention(query, key, value, mask)
        parts.append(mixed.transpose(0, 1).reshape(-1, hidden))
    right = torch.cat(parts)
    (gradient,), (wanted,) = (
        torch.autograd.grad(result, leaf, upstream.to(result.dtype)) for result, leaf in ((ours, joint), (right, exact))
    )
    for found, expected in ((ours.detach().double(), right.detach()), (gradient.double(), wanted)):
        largest = float(expected.abs().max())
        assert largest > 0.5 and float((found - expected).abs().max()) <= 0.02 * largest


@pytest.mark.parametrize("amx", [True, False])
def test_where_texts_are_encoded(monkeypatch: pytest.MonkeyPatch, amx: bool) -> None:
    """torch's fused attention, on a CPU with AMX alone and where nothing else is barred."""
    joint = torch.randn(sum(LENGTHS), 3 * HEADS * WIDTH, generator=seeded(6)).to(torch.bfloat16)
    wanted, bars = attend_in_tiles(joint, of(LENGTHS), HEADS, 0.0), barred(span_mask(tile_rows(max(LENGTHS)), 3))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": amx})
    calls = []
    for more in (None, bars):
        with torch.inference_mode(), packed_weights(), profile(activities=[ProfilerActivity.CPU]) as profiler:
            found = attend_in_tiles(joint, of(LENGTHS), HEADS, 0.0, more)
        calls.append(any("scaled_dot_product" in event.key for event in profiler.key_averages()))
        if more is None:
            assert float((found - wanted).abs().max()) <= 0.02 * float(wanted.abs().max())
    assert calls == [amx, False]


def test_dropout() -> None:
    """Of the softmax: with equal values, a row is the share of its weights that is kept, over 1 − p."""
    joint = torch.ones(64, 3 * HEADS * WIDTH, dtype=torch.bfloat16)
    torch.manual_seed(1)
    result = attend_in_tiles(joint, of([64]), HEADS, 0.5).float()
    assert float(result.mean()) == pytest.approx(1, abs=0.05) and float(result.std()) > 0.05


@pytest.mark.parametrize("span", [2, "all"])
def test_a_decoder_in_bf16(span: int | str) -> None:
    """SEED-Encoder's decoder goes through tiles in bf16 and not in float32: the same loss to one part in a hundred."""
    config = small_body(50, (24, 1, 3, 48), 140, std=0.3)
    decoder, words = Decoder(config, 2, span, 1), torch.randn(50, 24, generator=seeded(2)) * 0.3
    lengths = np.array(LENGTHS[:-1])
    tokens = np.random.default_rng(4).integers(0, 50, lengths.sum())
    packed = Packed(tokens, np.zeros_like(tokens), lengths, np.arange(len(lengths)))
    vectors = torch.randn(len(lengths), 24, generator=seeded(6))
    exact = decoder.loss(vectors, packed, tokens, words).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = decoder.loss(vectors, packed, tokens, words).item()
    assert low != exact and low == pytest.approx(exact, rel=0.01)
