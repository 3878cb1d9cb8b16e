"""Dropout on a CPU: shares, draws and gradients; and attention with it, against torch's.

Seen to fail when: the lowest bit of the 64 is not shifted in (one of four entries is dropped by half as often); the scale is
1/(1 − p) of another p; the gradient has a mask of its own; the mask of attention is left out or turned over; scores are not
divided by √d; autocast stays on where attention in bf16 is computed in float32; the causal mask leaves out the diagonal; dropout
acts outside training.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from pretrieve.models import dropout as module
from pretrieve.models.dropout import STEPS, Dropout, attend, dropout, kept_entries
from pretrieve.models.transformer import seeded


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_shares(p: float) -> None:
    """Every entry is kept as often as it should be, wherever it stands among the four of one draw."""
    torch.manual_seed(1)
    n = 100_000
    kept, q = kept_entries(torch.Size([n, 4]), p)
    assert kept.dtype == torch.bool and abs(q - (1 - p)) <= 0.5 / STEPS
    deviation = math.sqrt(p * (1 - p) / n)
    assert float((kept.double().mean(0) - q).abs().max()) < 5 * deviation
    # Neighbours know nothing of each other, those of the next draw neither.
    centred = kept.flatten().double() - q
    for distance in range(1, 6):
        covariance = float((centred[distance:] * centred[:-distance]).mean())
        assert abs(covariance) < 5 * p * (1 - p) / math.sqrt(4 * n)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 4), ()])
def test_values_and_gradients(shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    x = (torch.rand(shape, generator=seeded(1)) + 1).requires_grad_()
    y = dropout(x, 0.4)
    q = 1 - round(0.4 * STEPS) / STEPS
    kept = y.detach() != 0
    assert y.shape == x.shape and torch.allclose(y, torch.where(kept, x / q, 0.0))
    upstream = torch.rand(shape, generator=seeded(2)) + 1
    (gradient,) = torch.autograd.grad(y, x, upstream)
    assert torch.allclose(gradient, torch.where(kept, upstream / q, 0.0))
    if x.numel() > 6:
        assert bool(kept.any()) and not bool(kept.all())


def test_draws_are_of_torchs_seed() -> None:
    """With a graph or without, and in the type of the input."""
    x, found = torch.ones(50, 8, requires_grad=True), []
    for seed, grad in ((1, True), (1, False), (2, True)):
        torch.manual_seed(seed)
        with torch.set_grad_enabled(grad):
            found.append((dropout(x, 0.5).detach(), dropout(x, 0.5).detach()))
    (first, second), same, other = found
    assert torch.equal(first, same[0]) and torch.equal(second, same[1])
    assert not torch.equal(first, second) and not torch.equal(first, other[0])
    assert dropout(x.to(torch.bfloat16), 0.5).dtype == torch.bfloat16


def test_only_when_training() -> None:
    layer, x = Dropout(0.5), torch.ones(100)
    assert not torch.equal(layer(x), x) and layer.eval()(x) is x and Dropout(0.0)(x) is x


def inputs(rows: int, columns: int):
    generator = seeded(5)
    return [torch.randn(3, 2, size, 8, generator=generator).requires_grad_() for size in (rows, columns, columns)]


MASKS = {
    "none": (5, 7, None, False),
    "causal": (6, 6, None, True),
    "rows": (5, 7, torch.rand(3, 1, 5, 7, generator=seeded(6)) < 0.6, False),
    "columns": (5, 7, (torch.arange(7) < torch.tensor([7, 4, 2])[:, None])[:, None, None], False),
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_is_torchs(monkeypatch, name: str) -> None:
    """Without what is dropped, the sums are torch's; with it, every sequence, head and row loses something else."""
    rows, columns, mask, causal = MASKS[name]
    if mask is not None:
        mask = mask | (torch.arange(columns) == 0)
        assert not bool(mask.all())
    given, weights = inputs(rows, columns), []
    monkeypatch.setattr(module, "dropout", lambda x, p: weights.append((x.shape, p)) or x)
    ours = attend(*given, mask, 0.3, causal)
    theirs = functional.scaled_dot_product_attention(*given, attn_mask=mask, is_causal=causal)
    assert weights == [((3, 2, rows, columns), 0.3)]
    assert torch.allclose(ours, theirs, atol=1e-6) and float(theirs.detach().abs().mean()) > 0.1
    upstream = torch.randn(ours.shape, generator=seeded(7))
    found, expected = (torch.autograd.grad(result, given, upstream) for result in (ours, theirs))
    for mine, right in zip(found, expected, strict=True):
        assert torch.allclose(mine, right, atol=1e-5) and float(right.abs().max()) > 0.1
    monkeypatch.undo()
    assert torch.allclose(attend(*given, mask, 0.0, causal), theirs, atol=1e-6)
    dropped = attend(*given, mask, 0.3, causal)
    assert not torch.isclose(dropped, theirs).all(-1).any() or causal


@pytest.mark.parametrize("written_out", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_in_bf16_is_that_in_float32_but_for_rounding(monkeypatch, masked: bool, written_out: bool) -> None:
    """A weight of bf16 has 8 bits, so 2 % of the largest entry where it is written out, on a CPU; small ones are computed in
    float32 although autocast is on, so nothing but the results is rounded."""
    given = inputs(5, 9)
    monkeypatch.setattr(module, "SCORES_IN_BF16", 3 * 2 * 5 * 9 + (not written_out))
    mask = torch.ones(3, 1, 1, 9, dtype=torch.bool)
    if masked:
        mask[1, ..., 4:] = False
    upstream = torch.randn(3, 2, 5, given[0].shape[-1], generator=seeded(7)).to(torch.bfloat16)
    results = []
    for kind in (torch.bfloat16, torch.float32):
        leaves = [tensor.detach().to(torch.bfloat16).to(kind).requires_grad_() for tensor in given]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == torch.bfloat16):
            mixed = attend(*leaves, mask if masked else None)
        assert mixed.dtype == kind
        results.append([mixed, *torch.autograd.grad(mixed, leaves, upstream.to(kind))])
    for low, exact in zip(*results, strict=True):
        assert float((low.detach().float() - exact.detach()).abs().max()) < 0.02 * float(exact.detach().abs().max())
        assert torch.equal(low, exact.to(low.dtype)) != written_out
    if masked:
        assert not results[0][2][1, :, 4:].any()  # keys that nobody may look at get no gradient
