"""The unpadded body against transformers.BertModel, forward and backward.

Seen to fail when: the padding mask is left out, or one too wide; heads are interleaved; GELU is the tanh approximation;
segments are all 0; ``first_only`` takes the last token; LayerNorm comes before the residual.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from published_files import padded
from small_body import small_body
from transformers import BertConfig, BertModel

from pretrieve.models.batch import Batch
from pretrieve.models.checkpoint_names import BERT
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body
from pretrieve.models.hf_format import _bert_config
from pretrieve.models.transformer import Transformer, seeded, sinusoids

CONFIG = small_body(50, (24, 3, 4, 40), max_positions=33, std=0.2, word_std=0.5)


@pytest.fixture
def pair() -> tuple[Transformer, BertModel]:
    """Our body and BERT with the same weights, biases and norms included."""
    ours = Transformer(CONFIG).eval()
    generator = seeded(3)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            mean = 1.0 if "norm.weight" in name else 0.0
            parameter.copy_(mean + 0.2 * torch.randn(parameter.shape, generator=generator))
    theirs = BertModel(BertConfig(**_bert_config(CONFIG)), add_pooling_layer=False).eval()
    theirs.load_state_dict(BERT.theirs(ours.state_dict()), strict=True)
    return ours, theirs


LENGTHS = {
    "random": np.random.default_rng(5).integers(1, 34, 40),
    "all": np.arange(1, 34),
    "equal": np.full(7, 12),
    "one": np.array([1]),
    "longest": np.array([33, 1]),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_same_states_as_bert(pair, random_packed, name: str) -> None:
    ours, theirs = pair
    packed = random_packed(LENGTHS[name], CONFIG.vocabulary_size)
    assert packed.segments.any() or name == "one"
    inputs = padded(packed)
    batch = Batch.of(packed)
    with torch.no_grad():
        expected = theirs(**inputs).last_hidden_state
        states = ours(batch)
        first = ours(batch, first_only=True)
    assert states.shape == (len(packed.tokens), 24) and float(states.abs().mean()) > 0.1
    assert float((states - expected[inputs["attention_mask"].bool()]).abs().max()) <= 1e-5
    assert float((first - expected[:, 0]).abs().max()) <= 1e-5


@pytest.mark.parametrize("first_only", [False, True])
def test_same_gradients_as_bert(pair, random_packed, first_only: bool) -> None:
    ours, theirs = pair
    packed = random_packed(LENGTHS["random"], CONFIG.vocabulary_size, seed=1)
    inputs = padded(packed)
    direction = torch.randn(len(packed.tokens) if not first_only else len(packed.lengths), 24, generator=seeded(4))
    (ours(Batch.of(packed), first_only=first_only) * direction).sum().backward()
    expected = theirs(**inputs).last_hidden_state
    expected = expected[:, 0] if first_only else expected[inputs["attention_mask"].bool()]
    (expected * direction).sum().backward()
    gradients = BERT.theirs({name: parameter.grad for name, parameter in ours.named_parameters()})
    reference = dict(theirs.named_parameters())
    assert gradients.keys() == reference.keys()
    for name, gradient in gradients.items():
        scale = max(1.0, float(reference[name].grad.abs().max()))
        assert float((gradient - reference[name].grad).abs().max()) <= 1e-4 * scale, name
        assert float(reference[name].grad.abs().max()) > 0 or ".key.bias" in name, name


@pytest.mark.parametrize("first_only", [False, True])
def test_a_sequence_alone_or_in_a_batch(pair, random_packed, first_only: bool) -> None:
    ours, _ = pair
    packed = random_packed(LENGTHS["random"], CONFIG.vocabulary_size, seed=2)
    with torch.no_grad():
        together = ours(Batch.of(packed), first_only=first_only)
        for i, start in enumerate(packed.starts):
            alone = ours(Batch.of(packed.part(i, i + 1)), first_only=first_only)
            rows = slice(i, i + 1) if first_only else slice(start, start + packed.lengths[i])
            assert float((alone - together[rows]).abs().max()) <= 1e-5


def test_dropout_only_when_training(random_packed) -> None:
    body = make_body(BodyConfig(**{**CONFIG.to_dict(), "dropout": 0.5}), 0)
    batch = Batch.of(random_packed([9, 9, 4], 50))
    assert torch.equal(body.eval()(batch), body(batch))
    assert not torch.equal(body.train()(batch), body(batch))


def test_sinusoids() -> None:
    table = sinusoids(40, 6)
    for p in (0, 1, 39):
        for i in range(3):
            angle = p / 10_000 ** (2 * i / 6)
            assert table[p, 2 * i].item() == pytest.approx(np.sin(angle), abs=1e-5)
            assert table[p, 2 * i + 1].item() == pytest.approx(np.cos(angle), abs=1e-5)
    assert sinusoids(4, 5).shape == (4, 5)
    body = make_body(BodyConfig(**{**CONFIG.to_dict(), "positions": "sinusoid", "position_std": 0.3}), 0)
    assert torch.allclose(body.positions.weight, 0.3 * sinusoids(33, 24))


def test_initialisation_is_of_the_seed() -> None:
    torch.manual_seed(0)
    first = make_body(CONFIG, 1).state_dict()
    torch.manual_seed(9)
    again, other = make_body(CONFIG, 1).state_dict(), make_body(CONFIG, 2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["words.weight"], other["words.weight"])
    assert float(first["words.weight"].std()) == pytest.approx(0.5, rel=0.1)
    assert float(first["layers.0.up.weight"].std()) == pytest.approx(0.2, rel=0.1)
    assert float(first["layers.0.up.bias"].abs().max()) == 0 and bool((first["embedding_norm.weight"] == 1).all())
