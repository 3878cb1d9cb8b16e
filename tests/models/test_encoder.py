"""Encoders: pooling, similarity, projections, the bag of words against a loop, the MLM head, and their directories.

Seen to fail when: vectors come in packed order; the mean divides by the longest length; ``dot`` normalises, or ``cosine`` does
not; ORQA's head has no tanh, or drops units in evaluation; the head's gradient does not reach the words; the head's loss
leaves its bias out; q, k and v are saved in another order; heads are saved without their names; ``load_encoder`` keeps a
projection of another dimension, or drops its own.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_body import small_body
from transformers import AutoModel

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.finetuning.initial_model import make_retriever
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder, read_encoder, save_encoder
from pretrieve.models.transformer import seeded
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.text.packing import Packed

CONFIG = small_body(60, (16, 2, 2, 24), max_positions=32, std=0.3, word_std=0.5)
BAG = BodyConfig(kind="bow-mlp", vocabulary_size=60, hidden=16, heads=1, feed_forward=24, word_std=0.5)
LENGTHS = [3, 20, 7, 1, 20, 12]


def sequences(packed: Packed) -> list[np.ndarray]:
    """Token ids in the caller's order."""
    found = {o: packed.tokens[s : s + n] for o, s, n in zip(packed.order, packed.starts, packed.lengths, strict=True)}
    return [found[i] for i in range(len(found))]


@pytest.mark.parametrize("config", [CONFIG, BAG])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_unit_and_in_the_callers_order(random_packed, config: BodyConfig, pooling: str) -> None:
    encoder = Encoder(config, 5, pooling, seed=1).eval()
    packed = random_packed(LENGTHS, 60)
    assert packed.order.tolist() != sorted(packed.order.tolist())
    with torch.no_grad():
        vectors = encoder(Batch.of(packed))
        assert vectors.shape == (6, 5)
        assert torch.allclose(vectors.norm(dim=1), torch.ones(6), atol=1e-6)
        for place, example in enumerate(packed.order):
            alone = encoder(Batch.of(packed.part(place, place + 1)))
            assert torch.allclose(alone[0], vectors[example], atol=1e-5)


@pytest.mark.parametrize("config", [CONFIG, BAG])
def test_dot_against_cosine(tmp_path: Path, random_packed, config: BodyConfig) -> None:
    """The same weights; cosine divides by the norm, and dot does not."""
    batch = Batch.of(random_packed(LENGTHS, 60))
    dot, cosine = (Encoder(config, 5, "cls", 1, similarity).eval() for similarity in ("dot", "cosine"))
    with torch.no_grad():
        raw, unit = dot(batch), cosine(batch)
    norms = raw.norm(dim=1, keepdim=True)
    assert float((norms - 1).abs().min()) > 1e-3 and torch.allclose(raw / norms, unit, atol=1e-6)
    save_encoder(tmp_path, dot, about={"trained_projection": True})
    assert load_encoder(tmp_path)[0].similarity == "dot"
    with torch.no_grad():
        assert torch.equal(load_encoder(tmp_path)[0].eval()(batch), raw)
        assert torch.equal(make_retriever(tmp_path, {"similarity": "cosine"}, 0)[0].document.eval()(batch), unit)
    with pytest.raises(ConfigError, match="similarity 'euclid'"):
        Encoder(config, 5, "cls", 1, "euclid")


def test_orqas_head(tmp_path: Path, random_packed) -> None:
    """Pooler with tanh, dense, LayerNorm with Keras's ε by hand; dropout of 0.1 in training alone, whatever the body's is. The
    dense layer begins as Glorot's: uniform within ±√(6 / (in + out))."""
    encoder = Encoder(CONFIG, 5, "cls", 1, "dot", "orqa").eval()
    wide = Encoder(CONFIG, 500, "cls", 1, "dot", "orqa").projection.dense.weight.detach()
    bound = (6 / (CONFIG.hidden + 500)) ** 0.5
    assert 0.99 * bound < float(wide.abs().max()) <= bound
    assert float(wide.std()) == pytest.approx(bound / 3**0.5, rel=0.02)
    with torch.no_grad():
        for parameter in encoder.projection.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=seeded(5)))
    batch = Batch.of(random_packed(LENGTHS, 60))
    head = encoder.projection
    with torch.no_grad():
        pooled = torch.tanh(encoder.pool(batch) @ head.pooler.weight.T + head.pooler.bias)
        x = pooled @ head.dense.weight.T + head.dense.bias
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-3).sqrt()
        expected = (x * head.norm.weight + head.norm.bias)[batch.inverse]
        assert torch.allclose(encoder(batch), expected, atol=1e-5)
        dropped = torch.stack([encoder.train()(batch) for _ in range(200)]) == 0
    assert 0.05 < float(dropped.float().mean()) < 0.15
    save_encoder(tmp_path, encoder.eval(), about={"trained_projection": True})
    again = load_encoder(tmp_path)[0].eval()
    assert again.head == "orqa" and torch.equal(again(batch), encoder(batch))
    assert make_retriever(tmp_path, {"dim": 3}, 0)[0].document.projection.dense.weight.shape == (3, 16)
    with pytest.raises(ConfigError, match=r"head 'mlp' is not allowed; choose from \['none', 'linear', .*'orqa'\]"):
        Encoder(CONFIG, 5, "cls", 1, "dot", "mlp")


def test_mean_pooling_is_over_the_sequence(random_packed) -> None:
    encoder = Encoder(CONFIG, 5, "mean", seed=1).eval()
    packed = random_packed(LENGTHS, 60)
    batch = Batch.of(packed)
    with torch.no_grad():
        states, pooled = encoder.body(batch), encoder.pool(batch)
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        assert torch.allclose(pooled[i], states[start : start + length].mean(0), atol=1e-6)
    cls = Encoder(CONFIG, 5, "cls", seed=1).eval()
    with torch.no_grad():
        assert torch.allclose(cls.pool(batch), states[torch.from_numpy(packed.starts)], atol=1e-6)


def test_bag_of_words_against_a_loop(random_packed) -> None:
    encoder = Encoder(BAG, 5, "cls", seed=2).eval()
    packed = random_packed(LENGTHS, 60)
    state = {name: tensor.double().numpy() for name, tensor in encoder.state_dict().items()}
    vectors = encoder(Batch.of(packed)).detach().numpy()
    for tokens, vector in zip(sequences(packed), vectors, strict=True):
        mean = sum(state["body.words.weight"][token] for token in tokens) / len(tokens)
        inner = np.tanh(state["body.inner.weight"] @ mean + state["body.inner.bias"])
        outer = np.tanh(state["body.outer.weight"] @ inner + state["body.outer.bias"])
        projected = state["projection.weight"] @ outer + state["projection.bias"]
        assert np.allclose(vector, projected / np.linalg.norm(projected), atol=1e-5)


def test_masked_word_head() -> None:
    head = MaskedWordHead(CONFIG, seed=0)
    words = torch.randn(60, 16, generator=seeded(0), requires_grad=True)
    states = torch.randn(7, 16, generator=seeded(1))
    logits = head(states, words)
    hidden = torch.nn.functional.gelu(states @ head.transform.weight.T + head.transform.bias)
    hidden = (hidden - hidden.mean(1, keepdim=True)) / hidden.var(1, keepdim=True, unbiased=False).sqrt()
    assert torch.allclose(logits, hidden @ words.T + head.bias, atol=1e-4)
    logits.sum().backward()
    assert words.grad is not None and float(words.grad.abs().max()) > 0
    assert sum(p.numel() for p in head.parameters()) == 16 * 16 + 16 + 2 * 16 + 60  # no matrix of its own
    with torch.no_grad():
        head.bias.copy_(torch.randn(60, generator=seeded(2)))
    targets = torch.tensor([0, 5, 5, 59, 7, 1, 30])
    expected = torch.nn.functional.cross_entropy(head(states, words), targets, reduction="sum")
    assert head.loss(states, words, targets).item() == pytest.approx(expected.item(), rel=1e-5)


def test_first_loss_is_that_of_guessing(random_packed) -> None:
    config = small_body(3000, (64, 2, 2, 128))
    encoder, head = Encoder(config, 8, "cls", 0), MaskedWordHead(config, 0)
    packed = random_packed([30] * 20, 3000)
    logits = head(encoder.body(Batch.of(packed)), encoder.body.words.weight)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(packed.tokens))
    assert loss.item() == pytest.approx(math.log(3000), abs=0.1)


def saved(directory: Path, config: BodyConfig = CONFIG, dim: int = 5, trained: bool = True) -> Encoder:
    encoder = Encoder(config, dim, "cls", seed=7).eval()
    save_encoder(directory, encoder, {"mlm": MaskedWordHead(config, 7)}, {"trained_projection": trained, "seed": 7})
    return encoder


def test_auto_model_gives_the_same_states(tmp_path: Path, random_packed) -> None:
    encoder = saved(tmp_path)
    model = AutoModel.from_pretrained(str(tmp_path), add_pooling_layer=False).eval()
    packed = random_packed([11] * 4, 60)
    ids, types = (torch.from_numpy(array).view(4, 11) for array in (packed.tokens, packed.segments))
    with torch.no_grad():
        expected = model(input_ids=ids, token_type_ids=types).last_hidden_state.view(44, -1)
        assert torch.allclose(encoder.body(Batch.of(packed)), expected, atol=1e-5)
    model.save_pretrained(tmp_path / "again")  # and back: a checkpoint that transformers wrote
    for name in ("heads.safetensors", "pretrieve.json"):
        (tmp_path / "again" / name).write_bytes((tmp_path / name).read_bytes())
    again, _ = load_encoder(tmp_path / "again")
    assert all(torch.equal(t, again.state_dict()[n]) for n, t in encoder.state_dict().items())


@pytest.mark.parametrize("config", [CONFIG, BAG])
def test_round_trip(tmp_path: Path, random_packed, config: BodyConfig) -> None:
    encoder = saved(tmp_path, config)
    again, about = load_encoder(tmp_path)
    assert all(torch.equal(t, again.state_dict()[n]) for n, t in encoder.state_dict().items())
    assert again.config == config and (about["seed"], about["dim"], about["pooling"]) == (7, 5, "cls")
    batch = Batch.of(random_packed(LENGTHS, 60))
    assert torch.equal(encoder(batch), again.eval()(batch))
    assert not list(tmp_path.glob("*.part"))


def test_projection(tmp_path: Path) -> None:
    encoder = saved(tmp_path)
    same, other = (make_retriever(tmp_path, {"dim": dim}, 1)[0].document for dim in (5, 3))
    assert torch.equal(same.projection.weight, encoder.projection.weight)
    assert other.projection.weight.shape == (3, 16) and other.dim == 3
    assert torch.equal(other.projection.weight, Encoder(CONFIG, 3, "cls", 1).projection.weight)
    assert torch.equal(other.body.words.weight, encoder.body.words.weight)
    saved(tmp_path / "untrained", trained=False)
    fresh = make_retriever(tmp_path / "untrained", {"dim": 5}, 2)[0].document
    assert not torch.equal(fresh.projection.weight, encoder.projection.weight)
    assert torch.equal(fresh.projection.weight, Encoder(CONFIG, 5, "cls", 2).projection.weight)


def test_heads_have_names(tmp_path: Path) -> None:
    saved(tmp_path)
    start = read_encoder(tmp_path)
    expected = MaskedWordHead(CONFIG, 7).state_dict()
    assert start.head("mlm").keys() == expected.keys() and start.head("ml") == {} and start.config == CONFIG
    assert all(torch.equal(tensor, expected[name]) for name, tensor in start.head("mlm").items())
    assert start.head("projection").keys() == {"weight", "bias"}
    assert all(torch.equal(t, start.body[n]) for n, t in Encoder(CONFIG, 5, "cls", 7).body.state_dict().items())


WORDS = "embeddings.word_embeddings.weight"
UP = "encoder.layer.1.intermediate.dense.weight"
KEY = "encoder.layer.0.attention.self.key.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(WORDS), r"missing: \['words.weight'\]"),
        (lambda t: t.pop(KEY), r"layer 0 has no attention.self.\['key'\] weight"),
        (lambda t: t.update({UP: torch.zeros(24, 15)}), r"layers.1.up.weight: \(24, 15\) ≠ \(24, 16\)"),
        (lambda t: t.update({UP.replace("1", "2"): torch.zeros(24, 16)}), r"not expected: \['layers.2.up.weight'\]"),
        (lambda t: t.update({"decoder.x": torch.zeros(1)}), r"unknown names: \['decoder.x'\]"),
        (lambda t: t.update({WORDS: torch.zeros(61, 16)}), r"words.weight: \(61, 16\) ≠ \(60, 16\)"),
    ],
)
def test_wrong_tensors_are_listed(tmp_path: Path, change, message: str) -> None:
    saved(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(DataError, match=message):
        load_encoder(tmp_path)


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    for name in ("heads.safetensors", "model.safetensors", "pretrieve.json"):
        saved(tmp_path / name)
        path = tmp_path / name / name
        path.write_bytes(path.read_bytes()[:30])
        with pytest.raises(DataError, match="damaged"):
            load_encoder(tmp_path / name)
        path.unlink()
        with pytest.raises(DataError, match="no such file"):
            load_encoder(tmp_path / name)
    saved(tmp_path / "old")
    about = json.loads((tmp_path / "old/pretrieve.json").read_text())
    (tmp_path / "old/pretrieve.json").write_text(json.dumps({n: v for n, v in about.items() if n != "similarity"}))
    with pytest.raises(DataError, match="pretrieve.json: has no similarity; it was written by an older version"):
        load_encoder(tmp_path / "old")


def test_pooler_and_prefix_of_official_checkpoints_are_read(tmp_path: Path) -> None:
    encoder = saved(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = {f"bert.{name}": tensor for name, tensor in load_file(path).items()}
    save_file(
        {**tensors, "bert.pooler.dense.weight": torch.zeros(16, 16), "cls.predictions.bias": torch.zeros(60)}, path
    )
    assert torch.equal(load_encoder(tmp_path)[0].body.words.weight, encoder.body.words.weight)


def test_options() -> None:
    assert BodyConfig.from_dict(json.loads(json.dumps(CONFIG.to_dict()))) == CONFIG
    for wrong, message in [
        ({"kind": "lstm"}, "lstm"),
        ({"hidden": 10, "heads": 3}, "multiple"),
        ({"positions": "x"}, "sinusoid"),
    ]:
        with pytest.raises(ConfigError, match=message):
            BodyConfig(**wrong)
    with pytest.raises(ConfigError, match=r"unknown body options \['hiden'\]"):
        BodyConfig.from_dict({"hiden": 4})
    with pytest.raises(ConfigError, match="pooling"):
        Encoder(CONFIG, 4, "max", 0)
    with pytest.raises(ConfigError, match="dim=0; expected 1 or more"):
        Encoder(CONFIG, 0, "cls", 0)
    assert type(Encoder(CONFIG, np.int64(4), "cls", 0).dim) is int  # NumPy's is no JSON
