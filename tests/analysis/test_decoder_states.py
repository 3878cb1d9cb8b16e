"""Cosines of the decoder's states with [CLS], against loops and against decoders whose answer is known.

Seen to fail when: the decoder is built with span 'all', or with one layer, whatever the encoder was trained with; its
weights are not loaded; it reads the text without [CLS]; a state is compared with the next text's [CLS]; the encoder's
words are replaced by noise; a latent variable, or RetroMAE's decoder, is not refused; positions count from the end;
dropout stays on.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pretrieve.analysis import shared
from pretrieve.analysis.decoder_states import load_decoder, measure
from pretrieve.analysis.shared import draw_pieces
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.text.packing import Packed, pack_spans
from pretrieve.training.loop import RunSettings

CPU = torch.device("cpu")
LENGTH = 14


def loop(encoder, decoder, store, seed: int) -> np.ndarray:
    """(texts, LENGTH − 1) cosines, text by text."""
    result = []
    for start in draw_pieces(store, 100, LENGTH, seed):
        packed = pack_spans(store, np.array([start]), np.array([LENGTH - 2]), LENGTH)
        read = Packed(packed.tokens[:-1], packed.segments[:-1], np.array([LENGTH - 1]), packed.order)
        with torch.no_grad():
            h = encoder.body(Batch.of(packed))[:1]
            states = decoder(Batch.of(read), h, encoder.body.words.weight)
        x, y = h[0].double().numpy(), states.double().numpy()
        result.append([float(s @ x) / np.sqrt(float(s @ s) * float(x @ x)) for s in y])
    return np.array(result)


@pytest.mark.parametrize(("layers", "span"), [(1, 2), (2, 3), (2, "all")])
def test_against_a_loop(with_decoder, articles, monkeypatch, layers: int, span: int | str) -> None:
    monkeypatch.setattr(shared, "TOKEN_BUDGET", {"cpu": 30})
    directory, encoder, decoder = with_decoder(layers, span)
    rows = measure(directory, articles, CPU, texts=100, length=LENGTH, seed=2)
    expected = loop(encoder, decoder, articles, 2)
    assert len(expected) == 5
    assert [row["position"] for row in rows] == list(range(LENGTH - 1))
    assert {(row["span"], row["layers"], row["n"]) for row in rows} == {(span, layers, 5)}
    assert np.allclose([row["cosine"] for row in rows], expected.mean(0), atol=1e-5)
    assert np.allclose([row["sd"] for row in rows], expected.std(0, ddof=1), atol=1e-5)
    assert expected.std(0, ddof=1).min() > 1e-3 and np.abs(expected).max() < 0.95
    assert rows == measure(directory, articles, CPU, texts=100, length=LENGTH, seed=2)
    assert rows != measure(directory, articles, CPU, texts=100, length=LENGTH, seed=3)


def deaf(decoder) -> None:
    """The decoder hears nothing but the vector it gets, and repeats it: its states are LN(h)."""
    for layer in decoder.layers:
        for linear in (layer.attention.output, layer.down, layer.cross.value, layer.cross.output):
            linear.weight.zero_()
            linear.bias.zero_()
        layer.cross.value.weight.copy_(torch.eye(24))
        layer.cross.output.weight.copy_(torch.eye(24))
    decoder.embedding_norm.weight.zero_()
    decoder.embedding_norm.bias.zero_()
    decoder.final_norm.weight.fill_(1)
    decoder.final_norm.bias.zero_()


def test_a_decoder_that_hears_only_cls(with_decoder, articles) -> None:
    """Its cosine is that of h with LN(h) at every position; the shaken LayerNorm of the body keeps it below 1."""
    directory, encoder, _ = with_decoder(2, 2, deaf)
    rows = measure(directory, articles, CPU, 100, LENGTH, 2)
    expected = []
    for start in draw_pieces(articles, 100, LENGTH, 2):
        with torch.no_grad():
            packed = pack_spans(articles, np.array([start]), np.array([LENGTH - 2]), LENGTH)
            h = encoder.body(Batch.of(packed))[0].double().numpy()
        # cos(h, h − mean(h)) = deviation / root mean square
        expected.append(h.std() / np.sqrt((h**2).mean()))
    assert np.allclose([row["cosine"] for row in rows], np.mean(expected), atol=1e-5)
    assert 0.8 < np.mean(expected) < 0.9999


def test_a_decoder_that_does_not_hear_cls(with_decoder, articles) -> None:
    """[CLS] in front of every text, no word behind it: position 0 has the same state in every text, and the others
    not."""

    def silent(decoder) -> None:
        for layer in decoder.layers:
            layer.cross.value.weight.zero_()

    directory, encoder, decoder = with_decoder(1, "all", silent)
    vectors = torch.randn(2, 24, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        batch = Batch.of(pack_spans(articles, draw_pieces(articles, 2, LENGTH, 2), np.full(2, LENGTH - 2), LENGTH))
        states = decoder(batch, vectors, encoder.body.words.weight).view(2, LENGTH, 24)
    assert torch.allclose(states[0, 0], states[1, 0]) and not torch.allclose(states[0, 5], states[1, 5])
    rows, expected = measure(directory, articles, CPU, 100, LENGTH, 2), loop(encoder, decoder, articles, 2)
    assert np.allclose([row["cosine"] for row in rows], expected.mean(0), atol=1e-5)


def test_an_encoder_without_a_decoder(saved, with_decoder, articles) -> None:
    directory, _ = saved("plain")
    message = "plain: has no decoder that reads .*with 'mlm'. Encoders with objective seed-encoder or optimus have one"
    with pytest.raises(DataError, match=message):
        measure(directory, articles, CPU, 5, LENGTH, 2)
    # RetroMAE's head of the same name is another thing.
    _, _, decoder = with_decoder(1, 2)
    directory, _ = saved("retro", {"decoder": decoder}, objective={"name": "retromae", "decoder_layers": 1, "span": 2})
    with pytest.raises(DataError, match="retro: has no decoder that reads .*with 'retromae'"):
        measure(directory, articles, CPU, 5, LENGTH, 2)
    directory, _ = saved("tuned", finetuning={}, objective={})
    with pytest.raises(DataError, match="tuned: has no decoder .*with 'fine-tuning'"):
        measure(directory, articles, CPU, 5, LENGTH, 2)


def test_optimus(with_decoder, saved, articles) -> None:
    """Without a latent variable its decoder reads [CLS] and can be looked at; with one it cannot."""
    directory, _, decoder = with_decoder(2, "all", name="optimus")
    assert measure(directory, articles, CPU, 5, LENGTH, 2)[0]["layers"] == 2
    about = {"name": "optimus", "decoder_layers": 2, "span": "all"}
    latent = torch.nn.Linear(24, 48, bias=False)
    directory, _ = saved("vae", {"decoder": decoder, "latent": latent}, objective=about)
    with pytest.raises(DataError, match="vae: its decoder reads a latent variable"):
        load_decoder(directory, CPU)


def test_what_pretraining_writes(articles, shape, tmp_path, cpu) -> None:
    """The decoder that a real run leaves behind is the one that is looked at."""
    chosen = resolve("seed-encoder", None, {"decoder_layers": 2, "span": 3}, "test")
    options = {"body": shape.to_dict(), "pooling": "cls", "dim": 8, "similarity": "cosine", "head": "linear"}
    options |= {"objective": {"name": "seed-encoder", "length": 16} | chosen}
    options |= {"budget": {"batch": 4, "steps": 2, "learning_rate": 1e-3}}
    out = tmp_path / "e" / "seed1"
    pretrain(EncoderOptions.from_dict(options), articles.directory, out, RunSettings(cpu, 1), tmp_path / "checkpoints")
    decoder, state = load_decoder(out, CPU), load_file(out / "heads.safetensors")
    assert (decoder.span, len(decoder.layers), decoder.training) == (3, 2, False)
    assert torch.equal(decoder.positions.weight, state["decoder.positions.weight"])
    assert len(measure(out, articles, CPU, 5, LENGTH, 2)) == LENGTH - 1


def test_no_text_of_that_length(with_decoder, articles) -> None:
    directory, _, _ = with_decoder(1, 2)
    with pytest.raises(DataError, match="0 articles have a text of 60 tokens, at least 1 are needed"):
        measure(directory, articles, CPU, 5, 60, 2)
