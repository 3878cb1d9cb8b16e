"""RetroMAE's decoder against a padded BertLayer with two streams, and what each row can and cannot see.

Seen to fail when: the residual is the context, or there is none; the mask is left out, or one row off; padding's rows
are mixed up; the word [CLS] is read instead of the sentence embedding, or that one is detached; the query has no
positions; the normalised query lacks segment, norm or dropout; the plain query is normalised; queries and keys change
their matrices; heads are interleaved; a [SEP] is predicted; there is no attention dropout; weights are drawn from the
global generator.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_body import small_body
from torch import nn
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertLayer

from pretrieve.models.batch import WASTE, Batch
from pretrieve.models.checkpoint_names import BERT
from pretrieve.models.config import BodyConfig
from pretrieve.models.enhanced_decoder import EnhancedDecoder, inner_rows
from pretrieve.models.transformer import Transformer, seeded
from pretrieve.text.packing import Packed

CONFIG = small_body(60, (24, 1, 4, 40), max_positions=24, std=0.3, word_std=0.5)
LENGTHS = [20, 20, 19, 18, 9, 9, 5, 3, 2]  # the last text has nothing to predict


@pytest.fixture(autouse=True, params=[0.0, 0.3], ids=["equal", "padded"])
def _groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of equal lengths, as on a CPU, and groups with padding, as on a GPU."""
    monkeypatch.setitem(WASTE, "cpu", request.param)


def packed_of(lengths: list[int], seed: int = 0) -> Packed:
    """Sequences whose words are all different within a sequence, none of them [PAD], in both segments."""
    rng = np.random.default_rng(seed)
    tokens = np.concatenate([1 + rng.permutation(CONFIG.vocabulary_size - 1)[:length] for length in lengths])
    segments = np.concatenate([np.arange(length) > length // 2 for length in lengths]).astype(np.int64)
    return Packed(tokens, segments, np.array(lengths), np.arange(len(lengths)))


def rough(module: nn.Module, number: int) -> nn.Module:
    """Weights with which nothing is by chance 0 or 1."""
    generator = seeded(number)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(mean + 0.3 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


class Case:
    """A body, a decoder, a batch, sentence embeddings, and random masks that show column 0 to every row."""

    def __init__(self, normalised: bool, lengths: list[int] = LENGTHS, **changes) -> None:
        self.config = BodyConfig(**{**CONFIG.to_dict(), **changes})
        self.body = rough(Transformer(self.config), 1)
        self.decoder = rough(EnhancedDecoder(self.config, normalised, 3), 2)
        self.packed = packed_of(lengths)
        self.batch = Batch.of(self.packed)
        self.rows = torch.from_numpy(inner_rows(self.packed))
        generator = seeded(4)
        self.cls = torch.randn(len(lengths), 24, generator=generator).requires_grad_()
        self.visible = []
        for first, last, _, _, longest, _ in self.batch.groups:
            mask = torch.rand(last - first, 1, longest, longest, generator=generator) < 0.5
            mask &= (torch.arange(longest) < self.batch.lengths[first:last, None])[:, None, None, :]
            mask[:, :, 1:, 0] = True
            mask.diagonal(dim1=2, dim2=3).fill_(False)
            self.visible.append(mask)

    def __call__(self, cls: torch.Tensor | None = None, batch: Batch | None = None) -> torch.Tensor:
        return self.decoder(self.cls if cls is None else cls, self.body, batch or self.batch, self.rows, self.visible)

    def seen(self) -> torch.Tensor:
        """(m, T) bool: which row of the batch each asking row may see."""
        result = torch.zeros(len(self.rows), len(self.packed.tokens), dtype=torch.bool)
        for (first, _, begin, end, _, _), mask in zip(self.batch.groups, self.visible, strict=True):
            for i, row in enumerate(self.rows.tolist()):
                if begin <= row < end:
                    s, p = int(self.batch.sequence[row]), int(self.batch.positions[row])
                    start, length = int(self.packed.starts[s]), int(self.packed.lengths[s])
                    result[i, start : start + length] = mask[s - first, 0, p, :length]
        return result


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, [7, 7, 7], [2, 2]], ids=["mixed", "equal", "nothing"])
def test_same_states_and_gradients_as_a_padded_layer(normalised: bool, lengths: list[int]) -> None:
    case = Case(normalised, lengths)
    shape = BertConfig(
        vocab_size=60, hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=24, layer_norm_eps=1e-12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    bert = BertModel(shape, add_pooling_layer=False)
    bert.load_state_dict(BERT.theirs(case.body.state_dict()))
    layer = BertLayer(shape)
    names = {n: n.removeprefix("encoder.layer.0.") for n in BERT.theirs(case.decoder.state_dict())}
    layer.load_state_dict({names[n]: t for n, t in BERT.theirs(case.decoder.state_dict()).items()})
    assert len(names) == 16

    cls = case.cls.detach().clone().requires_grad_()
    expected = []
    for s, (start, length) in enumerate(zip(case.packed.starts, case.packed.lengths, strict=True)):
        group = next(i for i, (first, last, *_) in enumerate(case.batch.groups) if first <= s < last)
        mask = case.visible[group][s - case.batch.groups[group][0], 0, :length, :length]
        ids, types = (
            torch.from_numpy(a[start : start + length])[None] for a in (case.packed.tokens, case.packed.segments)
        )
        h = cls[s][None, None]
        context = torch.cat([h, bert.embeddings(input_ids=ids, token_type_ids=types)[:, 1:]], dim=1)
        if normalised:
            query = bert.embeddings(inputs_embeds=h.expand(1, length, 24))
        else:
            query = h + bert.embeddings.position_embeddings.weight[:length]
        own, heads = layer.attention.self, (length, 4, 6)
        q, k, v = own.query(query), own.key(context), own.value(context)
        q, k, v = (x[0].view(heads).transpose(0, 1) for x in (q, k, v))
        scores = (q @ k.transpose(1, 2) / math.sqrt(6)).masked_fill(~mask, -torch.inf)
        mixed = (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1).reshape(1, length, 24)
        attended = layer.attention.output(mixed, query)
        expected.append(layer.output(layer.intermediate(attended), attended)[0, 1:-1])
    expected = torch.cat(expected)
    states = case()
    assert states.shape == expected.shape == (sum(lengths) - 2 * len(lengths), 24)
    if not states.numel():
        return
    assert float((states - expected).detach().abs().max()) <= 1e-5
    direction = torch.randn(states.shape, generator=seeded(5))
    (states * direction).sum().backward()
    (expected * direction).sum().backward()
    pairs = {"cls": (case.cls.grad, cls.grad)}
    ours = BERT.theirs({n: p.grad for n, p in case.decoder.named_parameters()})
    for name, parameter in layer.named_parameters():
        pairs[name] = (ours[f"encoder.layer.0.{name}"], parameter.grad)
    ours = BERT.theirs({n: p.grad for n, p in case.body.named_parameters() if not n.startswith("layers.")})
    for name, parameter in bert.embeddings.named_parameters():
        pairs[name] = (ours[f"embeddings.{name}"], parameter.grad)
    assert len(pairs) == 1 + 16 + 5
    for name, (gradient, reference) in pairs.items():
        size = float(reference.abs().max())
        assert size > 1e-3 or name.endswith("key.bias"), name
        assert float((gradient - reference).abs().max()) <= 1e-4 * max(1.0, size), name


@pytest.mark.parametrize("normalised", [False, True])
def test_a_row_sees_what_its_mask_shows_and_never_itself(normalised: bool) -> None:
    """The gradient of a row's state with respect to the embeddings is where its mask shows them, and nowhere else."""
    case = Case(normalised)
    embedded = []

    def embed(batch: Batch) -> torch.Tensor:
        embedded.append(torch.randn(len(case.packed.tokens), 24, generator=seeded(6)).requires_grad_())
        return embedded[-1]

    case.body.embed = embed
    states = case()
    seen = case.seen()
    assert int(seen.sum()) > 300 and not seen[torch.arange(len(case.rows)), case.rows].any()
    first = torch.zeros(len(case.packed.tokens), dtype=torch.bool)
    first[case.batch.starts] = True
    for i, state in enumerate(states):
        gradient, cls = torch.autograd.grad(state.sum(), (embedded[0], case.cls), retain_graph=True)
        # Column 0 is the sentence embedding: the word [CLS] itself is read by nobody.
        assert torch.equal(gradient.abs().amax(1) > 0, seen[i] & ~first)
        assert (cls.abs().amax(1) > 0).nonzero().flatten().tolist() == [int(case.batch.sequence[case.rows[i]])]


@pytest.mark.parametrize("normalised", [False, True])
def test_the_residual_is_the_query_stream(normalised: bool) -> None:
    """With nothing coming out of attention, a state is a function of h and the position alone: words change nothing,
    and two texts with one h have the same states."""
    case = Case(normalised)
    output = case.decoder.layers[0].attention.output
    with torch.no_grad():
        output.weight.zero_()
        output.bias.zero_()
        other = Batch.of(packed_of(LENGTHS, seed=1))
        states = case()
        assert torch.equal(states, case(batch=other))
        assert not torch.equal(states, case(cls=case.cls + 0.1))
        alike = case(cls=case.cls[:1].expand(len(LENGTHS), -1))
        position = case.batch.positions[case.rows]
        for place in range(1, 19):
            same = alike[position == place]
            assert float((same - same[0]).abs().max()) <= 1e-6
        assert float((alike[position == 1][0] - alike[position == 2][0]).abs().max()) > 0.1
        # By hand, for one row: position 3 of text 2.
        layer, body = case.decoder.layers[0], case.body
        query = case.cls[2] + body.positions.weight[3]
        if normalised:
            query = body.embedding_norm(query + body.segments.weight[0])
        y = layer.attention_norm(query)
        by_hand = layer.output_norm(y + layer.down(torch.nn.functional.gelu(layer.up(y))))
        (row,) = ((case.batch.sequence[case.rows] == 2) & (position == 3)).nonzero()
        assert float((states[int(row)] - by_hand).abs().max()) <= 1e-5


def test_inner_rows() -> None:
    packed = packed_of([5, 3, 2])
    assert inner_rows(packed).tolist() == [1, 2, 3, 6]
    with pytest.raises(ValueError, match="sequence of 1 token"):
        inner_rows(packed_of([3, 1]))


def test_families_of_bodies() -> None:
    """RoBERTa's positions begin at row 2, and it may have no segments."""
    case = Case(True, family="roberta", position_offset=2, segments=0)
    with torch.no_grad():
        query = case.decoder.queries(case.cls, case.body, case.batch, case.rows)
        row = int(case.rows[0])
        by_hand = case.body.embedding_norm(case.cls[0] + case.body.positions.weight[2 + row])
        assert torch.allclose(query[0], by_hand, atol=1e-6)
        assert bool(case().isfinite().all())


def test_dropout_only_when_training() -> None:
    """Of the normalised query too; RetroMAE's own query has none."""
    case = Case(True, dropout=0.5)
    assert torch.equal(case(), case())
    case.body.train()
    query = [case.decoder.queries(case.cls, case.body, case.batch, case.rows) for _ in range(2)]
    assert not torch.equal(*query) and 0.4 < float((query[0] == 0).float().mean()) < 0.6
    case.decoder.normalised_query = False
    assert torch.equal(*(case.decoder.queries(case.cls, case.body, case.batch, case.rows) for _ in range(2)))
    case.body.eval()
    case.decoder.train()
    assert not torch.equal(case(), case())
    case.decoder.layers[0].dropout.p = 0.0  # that of attention is left
    assert not torch.equal(case(), case())


def test_bf16() -> None:
    case = Case(True)
    exact = case().detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = case(cls=case.cls.to(torch.bfloat16))
    assert float((rounded.detach().float() - exact).norm()) <= 0.03 * float(exact.norm())


def test_initial_weights_are_of_the_seed() -> None:
    torch.manual_seed(0)
    first = EnhancedDecoder(CONFIG, False, 1).state_dict()
    torch.manual_seed(9)
    again, other = EnhancedDecoder(CONFIG, True, 1).state_dict(), EnhancedDecoder(CONFIG, False, 2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first) and len(first) == 12
    assert not torch.equal(first["layers.0.up.weight"], other["layers.0.up.weight"])
    assert float(first["layers.0.attention.qkv.weight"].std()) == pytest.approx(CONFIG.std, rel=0.1)
    assert float(first["layers.0.up.bias"].abs().max()) == 0 and bool(
        (first["layers.0.attention_norm.weight"] == 1).all()
    )
