"""T5 v1.1's encoder without padding against transformers.T5EncoderModel, forward and backward.

Seen to fail when: scores are divided by √d; the bias is transposed (i − j for j − i), or left out of all layers but the
first; logarithmic buckets begin one distance late; padding is not masked; GELU is exact; gate and up change places;
the last norm is left out; RMSNorm takes the mean off; queries start as wide as keys; EOS is left out of the mean;
dropout stays on outside training; [CLS] pooling is let through.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from published_files import padded
from safetensors.torch import load_file
from transformers import T5Config, T5EncoderModel

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.checkpoint_names import T5 as NAMES
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder, make_body
from pretrieve.models.hf_format import load_encoder, save_encoder, shown_config
from pretrieve.models.t5 import T5Encoder, distance_buckets
from pretrieve.models.transformer import seeded

#: Heads narrower than hidden / heads, and texts far longer than the largest distance that has a bucket of its own.
CONFIG = BodyConfig(
    kind="t5",
    vocabulary_size=50,
    hidden=24,
    layers=3,
    heads=3,
    head_size=6,
    feed_forward=40,
    dropout=0.0,
    layer_norm_eps=1e-6,
    buckets=12,
    max_distance=20,
)
LENGTHS = {
    "random": np.random.default_rng(5).integers(1, 48, 40),
    "equal": np.full(5, 31),
    "one": np.array([1]),
    "longest": np.array([48, 1]),
}


def reference(config: BodyConfig = CONFIG) -> T5EncoderModel:
    return T5EncoderModel(T5Config(**shown_config(config))).eval()


@pytest.fixture
def pair() -> tuple[T5Encoder, T5EncoderModel]:
    """Our body and T5's with the same weights, norms included."""
    ours, theirs = T5Encoder(CONFIG).eval(), reference()
    generator = seeded(3)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            mean = 1.0 if "norm" in name else 0.0
            parameter.copy_(mean + 0.2 * torch.randn(parameter.shape, generator=generator))
    state = NAMES.theirs(ours.state_dict())
    result = theirs.load_state_dict(state, strict=False)
    assert result.missing_keys in ([], ["encoder.embed_tokens.weight"]) and not result.unexpected_keys
    return ours, theirs


@pytest.mark.parametrize("name", LENGTHS)
def test_same_states_as_t5(pair, random_packed, name: str) -> None:
    ours, theirs = pair
    packed = random_packed(LENGTHS[name], CONFIG.vocabulary_size)
    inputs, batch = padded(packed, segments=False), Batch.of(packed)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = theirs(**inputs)
        states = ours(batch)
    assert states.shape == (len(packed.tokens), 24) and float(states.abs().mean()) > 0.1
    assert float((states - expected.last_hidden_state[real]).abs().max()) <= 1e-5


def test_same_gradients_as_t5(pair, random_packed) -> None:
    ours, theirs = pair
    packed = random_packed(LENGTHS["random"], CONFIG.vocabulary_size, seed=1)
    inputs = padded(packed, segments=False)
    direction = torch.randn(len(packed.tokens), 24, generator=seeded(4))
    (ours(Batch.of(packed)) * direction).sum().backward()
    expected = theirs(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
    (expected * direction).sum().backward()
    gradients = NAMES.theirs({name: parameter.grad for name, parameter in ours.named_parameters()})
    known = dict(theirs.named_parameters())
    assert gradients.keys() == known.keys()
    for name, gradient in gradients.items():
        scale = max(1.0, float(known[name].grad.abs().max()))
        assert float((gradient - known[name].grad).abs().max()) <= 1e-4 * scale, name
        assert float(known[name].grad.abs().max()) > 0, name


def test_a_sequence_alone_or_in_a_batch(pair, random_packed) -> None:
    ours, _ = pair
    packed = random_packed(LENGTHS["random"], CONFIG.vocabulary_size, seed=2)
    with torch.no_grad():
        together = ours(Batch.of(packed))
        for i, start in enumerate(packed.starts):
            alone = ours(Batch.of(packed.part(i, i + 1)))
            assert float((alone - together[start : start + packed.lengths[i]]).abs().max()) <= 1e-5


def test_buckets_by_the_definition() -> None:
    """§2.1: half of the buckets for each side; exact distances first, then ranges that grow by a constant factor."""
    buckets, most = 32, 128
    table = distance_buckets(400, buckets, most)
    for i, j in [(0, 0), (200, 193), (200, 207), (200, 192), (200, 208), (300, 240), (240, 300), (399, 0), (0, 399)]:
        distance = abs(j - i)
        expected = distance if distance < 8 else min(15, 8 + int(8 * math.log(distance / 8) / math.log(most / 8)))
        assert int(table[i, j]) == expected + (16 if j > i else 0), (i, j)
    assert int(table[399, 271]) == int(table[399, 0]) == 15 and int(table.max()) == 31
    assert len(set(table[200].tolist())) == 31  # all but the bucket of distance 0 on the other side


def test_initial_weights_are_t5s() -> None:
    config = BodyConfig(**{**CONFIG.to_dict(), "hidden": 96, "head_size": 16, "feed_forward": 160})
    torch.manual_seed(0)
    ours, theirs = NAMES.theirs(make_body(config, 1).state_dict()), reference(config).state_dict()
    assert len(ours) == 3 + 3 * 9
    for name, tensor in ours.items():
        if tensor.dim() > 1:
            few = tensor.numel() < 100
            assert float(tensor.std()) == pytest.approx(float(theirs[name].std()), rel=0.6 if few else 0.1), name
        else:
            assert bool((tensor == 1).all()), name
    again, other = NAMES.theirs(make_body(config, 1).state_dict()), make_body(config, 2)
    assert all(torch.equal(ours[name], again[name]) for name in ours)
    assert not torch.equal(other.words.weight, ours["shared.weight"])


def test_dropout_only_when_training(random_packed) -> None:
    body = make_body(BodyConfig(**{**CONFIG.to_dict(), "dropout": 0.5}), 0)
    batch = Batch.of(random_packed([9, 9, 4], 50))
    assert torch.equal(body.eval()(batch), body(batch))
    assert not torch.equal(body.train()(batch), body(batch))


def test_saved_and_loaded_by_both(tmp_path: Path, random_packed) -> None:
    encoder = Encoder(CONFIG, 5, "mean", seed=7).eval()
    save_encoder(tmp_path, encoder, about={"trained_projection": True})
    theirs = T5EncoderModel.from_pretrained(tmp_path).eval()
    packed = random_packed([13] * 3, 50)
    ids = torch.from_numpy(packed.tokens).view(3, 13)
    batch = Batch.of(packed)
    with torch.no_grad():
        states = theirs(input_ids=ids).last_hidden_state.view(39, -1)
        assert float((encoder.body(batch) - states).abs().max()) <= 1e-5
    assert not any("embed_tokens" in name for name in load_file(tmp_path / "model.safetensors"))
    again, about = load_encoder(tmp_path)
    assert about["pooling"] == "mean" and again.config == CONFIG
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in encoder.state_dict().items())


def test_mean_counts_every_token(pair, random_packed) -> None:
    encoder = Encoder(CONFIG, 5, "mean", seed=1).eval()
    packed = random_packed([9, 4, 6], 50)
    batch = Batch.of(packed)
    with torch.no_grad():
        states, pooled = encoder.body(batch), encoder.pool(batch)
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        assert torch.allclose(pooled[i], states[start : start + length].mean(0), atol=1e-6)
        assert not torch.allclose(pooled[i], states[start : start + length - 1].mean(0), atol=1e-3)


def test_no_cls_pooling() -> None:
    with pytest.raises(ConfigError, match=r"pooling 'cls' does not go with T5.*pooling: mean"):
        Encoder(CONFIG, 5, "cls", seed=1)
