"""Entropy of the attention from [CLS], against transformers' BertModel and by hand.

Seen to fail when: the product is not divided by √d_head; heads are interleaved; keys are the values; a layer is given
its own output; the last token asks instead of the first; padding takes part in the softmax; logarithms are to the
base 2; heads are summed; 0 · ln 0 is NaN; uniform attention is that of the longest text; the deviation divides by n;
dropout stays on; the vocabulary is not compared.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import BertModel

from pretrieve.analysis import shared
from pretrieve.analysis.attention_entropy import cls_attention, layer_entropies, measure
from pretrieve.analysis.shared import draw_sections
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig

CPU = torch.device("cpu")


def attention_of_bert(directory, tokens: list[int]) -> np.ndarray:
    """(layers, heads, L) attention from [CLS] as transformers computes it, one text at a time."""
    bert = BertModel.from_pretrained(directory, attn_implementation="eager", add_pooling_layer=False).eval()
    with torch.no_grad():
        maps = bert(torch.tensor([tokens]), output_attentions=True).attentions
    return np.stack([layer[0, :, 0].numpy() for layer in maps])


@pytest.mark.parametrize("lengths", [[13, 12, 12, 7, 7, 2, 1], [9, 9, 9], [1]])
def test_rows_equal_berts(saved, random_packed, lengths) -> None:
    directory, encoder = saved()
    packed = random_packed(lengths, encoder.config.vocabulary_size)
    packed.segments[:] = 0
    batch = Batch.of(packed)
    with torch.no_grad():
        states = encoder.body.all_states(batch)
        rows = [cls_attention(layer.attention, x, batch) for layer, x in zip(encoder.body.layers, states, strict=False)]
        entropies = layer_entropies(encoder.body, batch)
    assert len(rows) == 3 and entropies.shape == (len(lengths), 3)
    for i, (start, size) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        expected = attention_of_bert(directory, packed.tokens[start : start + size].tolist())
        assert size < 5 or expected.max() > 2 / size, "attention is not uniform"
        for layer, row in enumerate(rows):
            assert row.shape == (len(lengths), 4, max(lengths))
            assert float((row[i, :, :size] - torch.from_numpy(expected[layer])).abs().max()) <= 1e-5
            assert not row[i, :, size:].any()
        by_head = -(expected * np.log(expected)).sum(-1)
        assert np.abs(entropies[i].numpy() - by_head.mean(-1)).max() <= 1e-5


def test_measure_equals_berts_mean(saved, articles, monkeypatch) -> None:
    """The whole way: drawn sections, cut, in several passes; mean and deviation over texts of the mean over heads."""
    monkeypatch.setattr(shared, "TOKEN_BUDGET", {"cpu": 40})
    directory, _ = saved()
    rows = measure(directory, articles, CPU, texts=7, length=20, seed=4)
    starts, lengths = draw_sections(articles, 7, 4)
    special, values, uniform = articles.special, [], []
    for start, size in zip(starts, np.minimum(lengths, 18), strict=True):
        row = attention_of_bert(directory, [special.cls, *articles.tokens[start : start + size].tolist(), special.sep])
        values.append(-(row * np.log(row)).sum(-1).mean(-1))
        uniform.append(math.log(size + 2))
    assert [row["layer"] for row in rows] == [1, 2, 3] and {row["n"] for row in rows} == {7}
    assert np.allclose([row["entropy"] for row in rows], np.mean(values, axis=0), atol=1e-5)
    assert np.allclose([row["sd"] for row in rows], np.std(values, axis=0, ddof=1), atol=1e-5)
    assert np.allclose([row["uniform"] for row in rows], np.mean(uniform), atol=1e-12)
    assert all(0.1 < row["entropy"] < row["uniform"] - 0.02 and row["sd"] > 0.01 for row in rows)
    assert rows == measure(directory, articles, CPU, texts=7, length=20, seed=4)
    assert rows != measure(directory, articles, CPU, texts=7, length=20, seed=5)


def test_uniform_attention_has_the_logarithm_of_the_length(saved, random_packed) -> None:
    _, encoder = saved()
    for layer in encoder.body.layers:
        torch.nn.init.zeros_(layer.attention.qkv.weight)
        torch.nn.init.zeros_(layer.attention.qkv.bias)
    packed = random_packed([17, 9, 8, 1], encoder.config.vocabulary_size)
    with torch.no_grad():
        entropies = layer_entropies(encoder.body, Batch.of(packed))
    expected = torch.tensor([17.0, 9.0, 8.0, 1.0]).log()[:, None].expand(4, 3)
    assert torch.allclose(entropies, expected, atol=1e-6)


def test_attention_to_one_token_has_none(saved, random_packed) -> None:
    """A probability of exactly 0 counts 0, and no text gives NaN."""
    _, encoder = saved()
    for layer in encoder.body.layers:
        layer.attention.qkv.weight.data.mul_(200)
    with torch.no_grad():
        entropies = layer_entropies(encoder.body, Batch.of(random_packed([20, 6, 1], 100)))
    assert float(entropies.min()) >= 0 and float(entropies.max()) < 0.35
    assert torch.equal(entropies[2], torch.zeros(3))


def test_errors(saved, articles) -> None:
    directory, _ = saved(
        "bag", config=BodyConfig("bow-mlp", vocabulary_size=articles.vocabulary_size, hidden=8, heads=1)
    )
    with pytest.raises(DataError, match="bag: its body is a bow-mlp.*Name encoders with body: transformer"):
        measure(directory, articles, CPU, 5, 10, 1)
    directory, _ = saved("other", vocabulary_sha256="0")
    with pytest.raises(DataError, match="other: made with another vocabulary than the token store"):
        measure(directory, articles, CPU, 5, 10, 1)
    directory, _ = saved("short")
    with pytest.raises(DataError, match="short: has 64 positions, a text of 65 tokens does not fit"):
        measure(directory, articles, CPU, 5, 65, 1)
    assert measure(directory, articles, CPU, 1, 64, 1)[0]["sd"] == ""
