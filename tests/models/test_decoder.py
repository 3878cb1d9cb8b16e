"""What SEED-Encoder's decoder sees, and what it does not.

Seen to fail when: the span is one too wide or one too narrow; row 0 is not kept; a row sees the next one; the mask is left out
for a group with padding; the padded rows are taken from the wrong places; attention to the vector is added before its output
matrix; dropout of that attention takes single numbers instead of heads; the second layer's mask is full; targets are the words
that are read; positions go on from one sequence to the next.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_body import small_body
from torch import nn

from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.decoder import Decoder, SingleKeyAttention, next_words, span_mask
from pretrieve.models.transformer import seeded, sinusoids
from pretrieve.text.packing import Packed

CONFIG = small_body(60, (24, 2, 4, 40), max_positions=40, std=0.3, word_std=0.5)
LENGTHS = [20, 20, 19, 18, 9, 5, 5, 2]  # four groups, of which the first has padding


def packed_of(lengths: list[int], seed: int = 0) -> Packed:
    """Sequences whose words are all different within a sequence."""
    rng = np.random.default_rng(seed)
    tokens = np.concatenate([rng.permutation(CONFIG.vocabulary_size)[:length] for length in lengths])
    return Packed(tokens, np.zeros_like(tokens), np.array(lengths), np.arange(len(lengths)))


def decoder_of(layers: int, span: int | str, **changes) -> Decoder:
    decoder = Decoder(BodyConfig(**{**CONFIG.to_dict(), **changes}), layers, span, 3).eval()
    generator = seeded(8)
    with torch.no_grad():  # biases and norms too
        for name, parameter in decoder.named_parameters():
            mean = 1.0 if "norm.weight" in name else 0.0
            parameter.copy_(mean + 0.3 * torch.randn(parameter.shape, generator=generator))
    return decoder


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """Word embeddings (V, d), and a vector for each of the sequences of LENGTHS."""
    generator = seeded(9)
    words = 0.5 * torch.randn(CONFIG.vocabulary_size, CONFIG.hidden, generator=generator)
    return words, torch.randn(len(LENGTHS), CONFIG.hidden, generator=generator)


def test_masks_by_hand() -> None:
    assert span_mask(6, 2).int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 1, 1, 0, 0],
        [1, 0, 0, 1, 1, 0],
        [1, 0, 0, 0, 1, 1],
    ]
    everything = [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1],
    ]
    assert span_mask(6, 8).int().tolist() == everything == span_mask(6, "all").int().tolist()
    assert span_mask(6, 1).int().tolist()[4] == [1, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("span", [1, 2, 3, 8, 11, 30])
def test_masks_as_in_the_released_code(span: int) -> None:
    """transformer_sentence_encoder.py lines 585-616: −∞ above the diagonal and from k below it, then column 0 is opened."""
    barred = torch.full((12, 12), -torch.inf)
    released = torch.triu(barred, 1) + torch.triu(barred, span).T
    released[:, 0] = 0
    assert torch.equal(span_mask(12, span), released == 0)


def test_it_reads_all_but_the_last_and_predicts_the_next() -> None:
    packed = Packed(np.array([7, 8, 1, 9]), np.zeros(4, dtype=np.int64), np.array([2, 2]), np.array([1, 0]))
    read, targets = next_words(packed, np.array([2, 5, 2, 6]))
    assert read.tokens.tolist() == [2, 2] and targets.tolist() == [5, 6]
    assert read.lengths.tolist() == [1, 1] and read.order.tolist() == [1, 0]
    packed = packed_of(LENGTHS)
    read, targets = next_words(packed, packed.tokens)
    for i, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        rows = slice(read.starts[i], read.starts[i] + length - 1)
        assert read.tokens[rows].tolist() == packed.tokens[start : start + length - 1].tolist()
        assert targets[rows].tolist() == packed.tokens[start + 1 : start + length].tolist()
    assert len(targets) == len(read.tokens) == sum(LENGTHS) - len(LENGTHS)
    with pytest.raises(ValueError, match="no next word"):
        next_words(packed_of([3, 1]), packed_of([3, 1]).tokens)


def test_attention_to_one_vector_is_the_same_in_every_row(inputs) -> None:
    """Against full multi-head attention with its softmax over the one key."""
    batch = Batch.of(packed_of(LENGTHS))
    ours = decoder_of(1, 2).layers[0].cross
    theirs = nn.MultiheadAttention(CONFIG.hidden, CONFIG.heads, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    result = ours(inputs[1], batch)
    values = result.detach()
    assert result.shape == (sum(LENGTHS), CONFIG.hidden)
    for i, (start, length) in enumerate(zip(batch.starts, batch.lengths, strict=True)):
        rows = values[start : start + length]
        assert torch.equal(rows, rows[:1].expand_as(rows)) and float(rows.abs().mean()) > 0.1
        queries = torch.randn(1, int(length), CONFIG.hidden, generator=seeded(i))
        memory = inputs[1][None, i : i + 1]
        assert float((theirs(queries, memory, memory)[0][0].detach() - rows).abs().max()) <= 1e-5
    assert not torch.allclose(values[0], values[-1])
    result.square().sum().backward()
    theirs(queries, memory, memory)[0].square().sum().backward()
    assert ours.query.weight.grad is None and ours.key.bias.grad is None
    idle, used = theirs.in_proj_weight.grad.split([2 * CONFIG.hidden, CONFIG.hidden])
    assert float(idle.abs().max()) <= 1e-6 < float(used.abs().max())


def test_attention_dropout_takes_whole_heads() -> None:
    config = BodyConfig(**{**CONFIG.to_dict(), "dropout": 0.5})
    cross = SingleKeyAttention(config)
    batch = Batch.of(packed_of([40] * 8))
    with torch.no_grad():
        cross.output.weight.copy_(torch.eye(24))
        cross.output.bias.zero_()
    vectors = torch.randn(8, 24, generator=seeded(1))
    torch.manual_seed(0)
    with torch.no_grad():
        whole = cross.eval()(vectors, batch).unflatten(1, (4, 6))
        share = cross.train()(vectors, batch).unflatten(1, (4, 6)) / whole
    assert float(torch.minimum(share.abs(), (share - 2).abs()).max()) <= 1e-4
    heads = share.mean(2)
    assert float(torch.minimum(heads.abs(), (heads - 2).abs()).max()) <= 1e-4
    assert abs(float(heads.mean()) - 1) < 0.15 and float(heads.std(0).min()) > 0.5


@pytest.mark.parametrize(("layers", "span"), [(1, 1), (1, 2), (2, 2), (3, 2), (1, 8), (2, 8), (3, "all")])
def test_what_a_row_depends_on(inputs, layers: int, span: int | str) -> None:
    """Row 0 and the last 1 + layers·(span − 1) rows; no later row, and no other sequence, has any influence."""
    words, vectors = inputs
    packed = packed_of(LENGTHS)
    batch = Batch.of(packed)
    decoder = decoder_of(layers, span)
    direction = torch.randn(CONFIG.hidden, generator=seeded(2))
    for sequence, start, length in ((0, 0, 20), (2, 40, 19), (4, 77, 9), (5, 86, 5)):  # the second has padding
        assert int(batch.starts[sequence]) == start and int(batch.lengths[sequence]) == length
        leaf = words.clone().requires_grad_()
        states = decoder(batch, vectors, leaf)
        own = torch.from_numpy(packed.tokens[start : start + length])
        other = torch.ones(len(words), dtype=torch.bool)
        other[own] = False
        reach = length if span == "all" else 1 + layers * (span - 1)
        for row in range(length):
            gradient = torch.autograd.grad(states[start + row] @ direction, leaf, retain_graph=True)[0].abs().sum(1)
            expected = torch.tensor([j <= row and (j == 0 or j > row - reach) for j in range(length)])
            assert torch.equal(gradient[own] > 0, expected), (sequence, row)
            assert not gradient[other].any()


def test_a_word_before_the_span_changes_nothing(inputs) -> None:
    """x_i's prediction is bit for bit the same, unless [CLS] or one of the last words it sees is another."""
    words, vectors = inputs
    for layers, span, reach in ((1, 2, 2), (3, 2, 4), (1, 8, 8)):
        decoder = decoder_of(layers, span)
        tokens = np.random.default_rng(4).permutation(60)[:20]
        for changed in (0, 3, 10):
            states = []
            for word in (int(tokens[changed]), 59 if tokens[changed] != 59 else 58):
                row = tokens.copy()
                row[changed] = word
                batch = Batch.of(Packed(row, np.zeros_like(row), np.array([20]), np.array([0])))
                with torch.no_grad():
                    states.append(decoder(batch, vectors[:1], words))
            same = (states[0] == states[1]).all(1)
            expected = [changed > i or (changed and i >= changed + reach) for i in range(20)]
            assert same.tolist() == expected, (layers, span, changed)


@pytest.mark.parametrize("span", [2, 8, "all"])
def test_a_sequence_alone_or_in_a_batch(inputs, span: int | str) -> None:
    words, vectors = inputs
    packed = packed_of(LENGTHS)
    decoder = decoder_of(3, span)
    with torch.no_grad():
        together = decoder(Batch.of(packed), vectors, words)
        for i, start in enumerate(packed.starts):
            alone = decoder(Batch.of(packed.part(i, i + 1)), vectors[i : i + 1], words)
            assert float((alone - together[start : start + packed.lengths[i]]).abs().max()) <= 1e-5
        full, wide = decoder_of(3, "all"), decoder_of(3, 20)
        assert torch.equal(full(Batch.of(packed), vectors, words), wide(Batch.of(packed), vectors, words))
        narrow = decoder_of(3, 2)(Batch.of(packed), vectors, words)
        assert float((narrow - full(Batch.of(packed), vectors, words)).abs().max()) > 0.1


def test_every_layer_adds_the_vector(inputs) -> None:
    words, vectors = inputs
    decoder = decoder_of(3, 2)
    leaf = vectors.clone().requires_grad_()
    states = decoder(Batch.of(packed_of(LENGTHS)), leaf, words)
    states[-1].sum().backward()  # the last sequence's last row
    assert leaf.grad[-1].abs().min() > 0 and not leaf.grad[:-1].any()
    for layer in decoder.layers:
        assert float(layer.cross.value.weight.grad.abs().max()) > 0
    sizes = [tuple(parameter.shape) for parameter in decoder.parameters()]
    assert not any(CONFIG.vocabulary_size in size for size in sizes)  # words are the encoder's, and there is no bias


def test_initial_weights_and_dropout(inputs) -> None:
    words, vectors = inputs
    batch = Batch.of(packed_of(LENGTHS))
    torch.manual_seed(0)
    first = Decoder(CONFIG, 2, 2, 1).state_dict()
    torch.manual_seed(5)
    again, other = Decoder(CONFIG, 2, 2, 1).state_dict(), Decoder(CONFIG, 2, 2, 2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["layers.1.cross.value.weight"], other["layers.1.cross.value.weight"])
    assert float(first["layers.0.cross.key.weight"].std()) == pytest.approx(0.3, rel=0.1)
    assert float(first["positions.weight"].std()) == pytest.approx(0.3, rel=0.1)
    assert all(bool((first[name] == 1).all()) for name in first if name.endswith("norm.weight"))
    assert all(not first[name].any() for name in first if name.endswith("bias"))
    config = BodyConfig(**{**CONFIG.to_dict(), "positions": "sinusoid", "position_std": 0.3, "dropout": 0.5})
    decoder = Decoder(config, 2, 2, 1)
    assert torch.allclose(decoder.positions.weight, 0.3 * sinusoids(40, 24))
    assert torch.equal(decoder.eval()(batch, vectors, words), decoder(batch, vectors, words))
    assert not torch.equal(decoder.train()(batch, vectors, words), decoder(batch, vectors, words))
