"""oneDNN's linear layers, of texts that are only encoded.

Seen to fail when: GELU is left out, or is that of tanh; a gradient is wanted and the layer is oneDNN's; autocast is not looked
at; a layer of the encoder has torch's product.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from pretrieve.models import linear
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.linear import ROWS, WIDTH, Linear, packed_weights


def layer_and_rows(rows: int, width: int = WIDTH) -> tuple[Linear, torch.Tensor]:
    torch.manual_seed(1)
    return Linear(width, 300), 3 * torch.randn(rows, width)


@pytest.mark.parametrize("bf16", [False, True])
def test_it_is_the_same_function(bf16: bool) -> None:
    layer, x = layer_and_rows(ROWS + 7)
    with torch.inference_mode(), packed_weights(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        found, activated = layer(x), layer(x, gelu=True)
        assert torch.equal(layer(x), found)
    kind, least = (torch.bfloat16, 2.0**-7) if bf16 else (torch.float32, 1e-5)
    wanted = functional.linear(*(given.to(kind).double() for given in (x, layer.weight, layer.bias)))
    for ours, theirs in ((found, wanted), (activated, functional.gelu(wanted))):
        assert ours.dtype == kind
        torch.testing.assert_close(ours.double(), theirs.detach(), rtol=least, atol=least)


@pytest.mark.parametrize(
    "rows, width, mode",
    [
        (ROWS, WIDTH, torch.enable_grad),
        (ROWS, WIDTH, torch.no_grad),
        (ROWS - 1, WIDTH, packed_weights),
        (ROWS, WIDTH - 1, packed_weights),
    ],
)
def test_elsewhere_it_is_torchs_own(rows: int, width: int, mode) -> None:
    """The gradient cache encodes without a gradient first, and must find the same with it; few rows are faster so."""
    layer, x = layer_and_rows(rows, width)
    with mode(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        found, activated = layer(x), layer(x, gelu=True)
    assert torch.equal(found, functional.linear(x, layer.weight, layer.bias))
    assert torch.equal(activated, functional.gelu(found))
    assert not any("mkldnn" in event.key for event in profiler.key_averages())


def test_weights_that_change_are_laid_out_again() -> None:
    layer, x = layer_and_rows(ROWS)
    for scale in (1.0, -2.0):
        with torch.inference_mode(), packed_weights():
            layer.weight *= scale
            torch.testing.assert_close(layer(x), functional.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_an_encoder_of_them(random_packed, monkeypatch: pytest.MonkeyPatch, pooling: str) -> None:
    config = BodyConfig(vocabulary_size=50, hidden=48, layers=2, heads=4, feed_forward=96, max_positions=33)
    encoder, batch = Encoder(config, 24, pooling, 1).eval(), Batch.of(random_packed([33, 20, 20, 7], 50))
    wanted = encoder(batch)
    monkeypatch.setattr(linear, "ROWS", 0)
    monkeypatch.setattr(linear, "WIDTH", 0)
    with torch.inference_mode(), packed_weights(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.testing.assert_close(encoder(batch), wanted.detach(), rtol=0, atol=1e-5)
    calls = {event.key: event.count for event in profiler.key_averages()}
    # Of two layers with four each, [CLS] asks for its own query in the last.
    assert calls["mkldnn::_linear_pointwise"] == 8
    assert calls["aten::linear"] == {"cls": 2, "mean": 1}[pooling], "that query, and the projection"
    assert "aten::gelu" not in calls
