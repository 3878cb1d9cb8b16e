"""Products of int8 in an encoder.

Seen to fail when: weights have 8 bits (on a CPU without VNNI); the range is of the batch and not of the token; an output's
scale, the least input or the bias is left out; the tower itself is changed; a kind of body is left as it is.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import core
from pretrieve.models.encoder import Encoder
from pretrieve.models.int8 import Int8Linear, in_int8
from pretrieve.models.joint import JointEncoder, JointShape, JointTower
from pretrieve.text.packing import Part, pack


def layer(bias: bool = True) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(48, 20, bias=bias)


@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_it_is_the_formula(bias: bool) -> None:
    linear, x = layer(bias), torch.randn(1100, 48, generator=torch.Generator().manual_seed(2))
    x[7], x[8], x[9] = 0, 5, 1000 * x[10]
    torch.set_flush_denormal(True)  # as where vectors are computed
    weight, rows = linear.weight.numpy().astype(np.float64), x.numpy().astype(np.float64)
    least, c = rows.min(1, keepdims=True), np.abs(weight).max(1, keepdims=True) / 95
    step = (rows.max(1, keepdims=True) - least) / 172
    q, v = np.floor((rows - least) / np.where(step, step, 1) + 0.5), np.rint(weight / c)
    expected = (step * q + least) @ (c * v).T + (linear.bias.numpy() if bias else 0)
    # An input that lies between two whole numbers may go either way.
    apart = np.abs(Int8Linear(linear)(x).numpy() - expected)
    assert (apart <= 1.01 * step * np.abs(weight).max() + 1e-5).all()
    assert apart.mean() < 1e-4 * np.abs(expected).mean()


@torch.inference_mode()
def test_the_greatest_numbers_do_not_overflow() -> None:
    linear = layer(bias=False)
    nn.init.ones_(linear.weight)
    x = torch.ones(3, 48)
    x[:, 0] = 0
    torch.testing.assert_close(Int8Linear(linear)(x), torch.full((3, 20), 47.0), rtol=1e-5, atol=0)


@torch.inference_mode()
def test_a_token_does_not_depend_on_the_others() -> None:
    small, x = Int8Linear(layer()), torch.randn(600, 48, generator=torch.Generator().manual_seed(3))
    x[3] *= 1e4
    assert torch.equal(small(x)[500:501], small(x[500:501]))


def towers() -> dict[str, nn.Module]:
    config = {"vocabulary_size": 50, "hidden": 48, "layers": 2, "heads": 4, "feed_forward": 96, "max_positions": 16}
    bert, t5 = BodyConfig(**config), BodyConfig(**config, kind="t5")
    joint = JointEncoder(bert, JointShape(24, 50), 1)
    return {
        "cls": Encoder(bert, 24, "cls", 1),
        "mean": Encoder(bert, 24, "mean", 1),
        "t5": Encoder(t5, 24, "mean", 1),
        "joint": JointTower(joint, "document"),
    }


@pytest.mark.parametrize("kind", ["cls", "mean", "t5", "joint"])
@torch.inference_mode()
def test_a_tower_in_int8_is_nearly_the_same_function(kind: str) -> None:
    tower = towers()[kind].eval()
    tokens = np.random.default_rng(0).integers(5, 50, 60)
    batch = Batch.of(pack([Part(tokens, np.array([0, 9, 20]), np.array([9, 4, 16]))], 16), torch.device("cpu"))
    before = tower(batch)
    small = in_int8(tower)
    cosine = torch.cosine_similarity(before, small(batch))
    assert (cosine > 0.995).all() and not torch.allclose(before, small(batch), rtol=0, atol=1e-6)
    assert torch.equal(tower(batch), before)
    assert all(
        ours is theirs
        for ours, theirs in zip(core(tower).body.words.parameters(), core(small).body.words.parameters(), strict=True)
    )
    left = [part for part in core(small).body.layers.modules() if type(part) is nn.Linear]
    assert not left


def test_where_it_cannot_run_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tower = towers()["cls"]
    with pytest.raises(ConfigError, match="int8 on meta: needs a CPU"):
        in_int8(tower.to("meta"))
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="int8 on cpu: needs a CPU and a torch with oneDNN"):
        in_int8(towers()["cls"])
