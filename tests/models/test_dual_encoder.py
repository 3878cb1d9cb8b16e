"""The golden table of the five sharings: which tensors are one, which are frozen, and every shape; and how texts are pooled.

Seen to fail when: STE copies the words, or shares the layers too; FTE freezes one tower only, or the whole body; SPL shares
nothing, or T5's relative biases too; ADE shares the projection; the query's fresh projection, or ORQA's, is drawn like the
document's; a pre-trained projection is drawn anew; a shared tensor stands twice in the state, or gets its value in one tower
only, or the state's prefix is forgotten; the mean leaves the last token out; ``cls`` takes the last token; vectors keep the
packed order; the head without a bias works in bfloat16, is cut off at one deviation, or has the wrong deviation; SEED's head
leaves the LayerNorm out.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from small_body import small_body
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import SHARINGS, DualEncoder, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.projection import HEADS, make_projection
from pretrieve.models.transformer import seeded
from pretrieve.training.checkpoint import Checkpoints, State, pack_state, unpack_state
from pretrieve.training.optimiser import OptimiserConfig, make_optimiser

BERT = small_body(50, (16, 1, 2, 24), 20, word_std=0.3)
T5 = BodyConfig(kind="t5", vocabulary_size=50, hidden=16, layers=1, heads=2, feed_forward=24, head_size=4, buckets=8)
T5 = replace(T5, dropout=0.0, layer_norm_eps=1e-6)
BOW = replace(BERT, kind="bow-mlp")
BODIES = {"bert": BERT, "t5": T5, "bow-mlp": BOW}
LENGTHS = [3, 9, 1, 9, 5]

#: Every tensor of a tower and its shape; 16 wide, 50 words, 24 inside the feed-forward layer, projected to 6.
SHAPES = {
    "bert": {
        "body.words.weight": (50, 16),
        "body.positions.weight": (20, 16),
        "body.segments.weight": (2, 16),
        "body.embedding_norm.weight": (16,),
        "body.embedding_norm.bias": (16,),
        "body.layers.0.attention.qkv.weight": (48, 16),
        "body.layers.0.attention.qkv.bias": (48,),
        "body.layers.0.attention.output.weight": (16, 16),
        "body.layers.0.attention.output.bias": (16,),
        "body.layers.0.attention_norm.weight": (16,),
        "body.layers.0.attention_norm.bias": (16,),
        "body.layers.0.up.weight": (24, 16),
        "body.layers.0.up.bias": (24,),
        "body.layers.0.down.weight": (16, 24),
        "body.layers.0.down.bias": (16,),
        "body.layers.0.output_norm.weight": (16,),
        "body.layers.0.output_norm.bias": (16,),
        "projection.weight": (6, 16),
        "projection.bias": (6,),
    },
    # Two heads of size 4, so 8 inside the attention; 8 buckets of distances.
    "t5": {
        "body.words.weight": (50, 16),
        "body.distances.weight": (8, 2),
        "body.layers.0.attention_norm.weight": (16,),
        "body.layers.0.attention.qkv.weight": (24, 16),
        "body.layers.0.attention.output.weight": (16, 8),
        "body.layers.0.output_norm.weight": (16,),
        "body.layers.0.gate.weight": (24, 16),
        "body.layers.0.up.weight": (24, 16),
        "body.layers.0.down.weight": (16, 24),
        "body.norm.weight": (16,),
        "projection.weight": (6, 16),
    },
    "bow-mlp": {
        "body.words.weight": (50, 16),
        "body.inner.weight": (24, 16),
        "body.inner.bias": (24,),
        "body.outer.weight": (16, 24),
        "body.outer.bias": (16,),
        "projection.weight": (6, 16),
        "projection.bias": (6,),
    },
}
HEAD = {"bert": "linear", "t5": "linear-no-bias", "bow-mlp": "linear"}
WORDS = {"body.words.weight"}


def make(body: str, sharing: str, similarity: str = "cosine", copied: bool = False) -> DualEncoder:
    config = BODIES[body]
    pooling = "cls" if body == "bert" else "mean"
    return dual_encoder(Encoder(config, 6, pooling, 3, similarity, HEAD[body]), sharing, 3, copied)


def shared_names(body: str, sharing: str) -> set[str]:
    projection = {name for name in SHAPES[body] if name.startswith("projection")}
    return {"sde": set(SHAPES[body]), "ade-ste": WORDS, "ade-spl": projection}.get(sharing, set())


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_golden_table(body: str, sharing: str) -> None:
    dual = make(body, sharing)
    query, document = (dict(tower.named_parameters()) for tower in (dual.query, dual.document))
    for tower in (query, document):
        assert {name: tuple(tensor.shape) for name, tensor in tower.items()} == SHAPES[body]
    one = {name for name in query if query[name] is document[name]}
    assert one == shared_names(body, sharing)
    # What is not the same object has no memory in common either.
    assert {name for name in query if query[name].data_ptr() == document[name].data_ptr()} == one
    frozen = WORDS if sharing == "ade-fte" else set()
    for tower in (query, document):
        assert {name for name, tensor in tower.items() if not tensor.requires_grad} == frozen
    # Both begin as the pre-trained encoder; only a fresh projection is drawn for each tower.
    matrices = {"projection.weight"} - one
    assert {name for name in query if not torch.equal(query[name], document[name])} == matrices
    assert (dual.query is dual.document) == (sharing == "sde")
    assert (dual.width, dual.similarity, dual.representation) == (6, "cosine", "dense")
    size = lambda names: sum(torch.Size(SHAPES[body][name]).numel() for name in names)
    expected = (2 - (sharing == "sde")) * size(SHAPES[body])
    expected -= {"ade-ste": size(WORDS), "ade-fte": 2 * size(WORDS)}.get(sharing, 0)
    if sharing == "ade-spl":
        expected -= size(name for name in SHAPES[body] if name.startswith("projection"))
    assert sum(p.numel() for p in dual.parameters() if p.requires_grad) == expected


def test_numbers_of_a_tower_by_hand() -> None:
    """Guards the golden shapes themselves: BERT 800 + 320 + 32 + 32 (embeddings), 816 + 272 + 32 + 408 + 400 + 32 (layer),
    96 + 6; T5 800 + 16, 16 + 384 + 128 + 16 + 3·384, 16 and 96."""
    count = lambda body, sharing: sum(p.numel() for p in make(body, sharing).parameters())
    assert count("bert", "sde") == 1184 + 1960 + 102 == 3246
    assert count("bert", "ade") == 6492 and count("bert", "ade-ste") == 5692 and count("bert", "ade-spl") == 6390
    assert count("t5", "sde") == 816 + 1696 + 16 + 96 == 2624
    assert count("t5", "ade-ste") == 2 * 2624 - 800 and count("t5", "ade-spl") == 2 * 2624 - 96


def score_loss(dual: DualEncoder, random_packed, sides: str = "both") -> torch.Tensor:
    """A loss that reaches every number of both towers, or of one side with the other's vectors as constants."""
    queries, documents = (Batch.of(random_packed(LENGTHS, 50, seed)) for seed in (1, 2))
    q, d = dual.query(queries), dual.document(documents)
    q, d = (q.detach() if sides == "document" else q), (d.detach() if sides == "query" else d)
    return nn.functional.cross_entropy(q @ d.T, torch.arange(len(q)))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_frozen_tensors_stay_and_all_others_move(body: str, sharing: str, random_packed) -> None:
    dual = make(body, sharing).train()
    before = {name: tensor.clone() for name, tensor in dual.named_parameters()}
    optimiser = make_optimiser(dual, OptimiserConfig(10, 0.1, warmup=0.0, weight_decay=0.5))
    score_loss(dual, random_packed).backward()
    optimiser.step()
    for name, tensor in dual.named_parameters():
        frozen = sharing == "ade-fte" and name.endswith("body.words.weight")
        assert (tensor.grad is None) == frozen, name
        if not frozen:
            assert float(tensor.grad.abs().max()) > 0, name
        assert torch.equal(tensor, before[name]) == frozen, name
    words = dual.query.body.words.weight, dual.document.body.words.weight
    assert torch.equal(*words) == (sharing in ("sde", "ade-ste", "ade-fte"))


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("sharing", "name"), [("ade-ste", "body.words.weight"), ("ade-spl", "projection.weight")])
def test_what_is_shared_is_trained_from_both_sides(body: str, sharing: str, name: str, random_packed) -> None:
    gradients = {}
    for sides in ("both", "query", "document"):
        dual = make(body, sharing)
        score_loss(dual, random_packed, sides).backward()
        gradients[sides] = dict(dual.named_parameters())[f"document.{name}"].grad
    assert float(gradients["query"].abs().max()) > 1e-4 and float(gradients["document"].abs().max()) > 1e-4
    assert torch.allclose(gradients["both"], gradients["query"] + gradients["document"], atol=1e-6)


def test_pre_trained_projections_are_copied() -> None:
    dual = make("bert", "ade", copied=True)
    assert torch.equal(dual.query.projection.weight, dual.document.projection.weight)
    assert dual.query.projection.weight is not dual.document.projection.weight
    assert torch.equal(make("bert", "ade").document.projection.weight, dual.document.projection.weight)


def test_a_query_tower_of_its_own() -> None:
    query, document = (Encoder(BERT, 6, "cls", seed) for seed in (1, 2))
    dual = dual_encoder(document, "ade-ste", 0, query=query)
    assert dual.query is query and query.body.words.weight is document.body.words.weight
    assert not torch.equal(query.body.positions.weight, document.body.positions.weight)
    with pytest.raises(ConfigError, match="'sde' has one tower"):
        dual_encoder(document, "sde", 0, query=query)


def test_the_state_has_each_tensor_once(random_packed, tmp_path) -> None:
    """So a checkpoint of it can be written; and both names of a tensor get its value back."""
    for sharing in SHARINGS:
        module = nn.ModuleDict({"model": make("bert", sharing)})
        tensors = list(module.state_dict().values())
        assert len(tensors) == len(set(map(id, module.parameters()))) == len({t.data_ptr() for t in tensors})
        optimiser = make_optimiser(module, OptimiserConfig(10, 0.1))
        score_loss(module["model"], random_packed).backward()
        optimiser.step()
        Checkpoints(tmp_path / sharing, "key").save(State(1, pack_state(module, optimiser), {}))
        other = nn.ModuleDict({"model": make("bert", sharing)})
        fresh = make_optimiser(other, OptimiserConfig(10, 0.1))
        unpack_state(Checkpoints(tmp_path / sharing, "key").latest().tensors, other, fresh)
        queries = Batch.of(random_packed(LENGTHS, 50, 1))
        for side in ("query", "document"):
            ours, theirs = getattr(module["model"], side), getattr(other["model"], side)
            assert torch.equal(ours(queries), theirs(queries))
            assert not torch.equal(ours(queries), getattr(make("bert", sharing), side)(queries))
        with pytest.raises(RuntimeError, match="Missing key.*projection"):
            state = {n: t for n, t in module.state_dict().items() if "projection" not in n}
            other.load_state_dict(state)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_copies_and_moves_keep_what_is_shared(sharing: str) -> None:
    dual = make("t5", sharing)
    for other in (copy.deepcopy(dual), copy.deepcopy(dual).double()):
        query, document = (dict(tower.named_parameters()) for tower in (other.query, other.document))
        assert {name for name in query if query[name] is document[name]} == shared_names("t5", sharing)
        assert query["body.words.weight"] is not dual.document.body.words.weight


@pytest.mark.parametrize(("body", "pooling"), [("bert", "cls"), ("bert", "mean"), ("t5", "mean")])
@pytest.mark.parametrize("head", ["none", "linear"])
def test_pooling_and_head_by_hand(body: str, pooling: str, head: str, random_packed) -> None:
    """[CLS], the mean, and [CLS] + linear, text by text; the mean counts every token, T5's last one (</s>) included."""
    dim = 16 if head == "none" else 6
    dual = dual_encoder(Encoder(BODIES[body], dim, pooling, 3, "dot", head), "ade", 3)
    packed = random_packed(LENGTHS, 50)
    batch = Batch.of(packed)
    with torch.no_grad():
        for tower in (dual.query, dual.document):
            states = tower.body(batch)
            expected, without_last = torch.empty(5, 16), torch.zeros(5, 16)
            for place, example in enumerate(packed.order):
                rows = states[packed.starts[place] : packed.starts[place] + packed.lengths[place]]
                expected[example] = rows[0] if pooling == "cls" else rows.mean(0)
                without_last[example] = rows[:-1].mean(0) if len(rows) > 1 else 0
            if head == "linear":
                expected = expected @ tower.projection.weight.T + tower.projection.bias
            assert torch.allclose(tower(batch), expected, atol=1e-5)
            assert not torch.allclose(expected[:, :6], without_last[:, :6], atol=1e-2)
            tower.similarity = "cosine"
            assert torch.allclose(tower(batch), expected / expected.norm(dim=1, keepdim=True), atol=1e-5)
            assert torch.allclose(tower(batch).norm(dim=1), torch.ones(5), atol=1e-6)


def test_heads_begin_as_their_sources_begin_them() -> None:
    config = replace(BERT, hidden=400, heads=2)
    x = torch.randn(7, 400, generator=seeded(1))
    assert make_projection("none", config, 400, 0)(x) is x
    plain = make_projection("linear-no-bias", config, 300, 0)
    assert [name for name, _ in plain.named_parameters()] == ["weight"]
    # Variance 1/fan-in after the cut; the cut stands at 2/0.8796 of it.
    assert float(plain.weight.detach().std()) == pytest.approx(400**-0.5, rel=0.01)
    assert 2.2 < float(plain.weight.detach().abs().max()) * 400**0.5 <= 2 / 0.8796 + 1e-3
    expected = x @ plain.weight.T
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ plain.weight.T).dtype == torch.bfloat16 and torch.equal(plain(x), expected)
    normed = make_projection("linear-norm", config, 300, 0)
    assert float(normed.linear.weight.detach().std()) == pytest.approx(0.02, rel=0.01)
    assert 0.045 < float(normed.linear.bias.detach().abs().max()) <= 0.05
    with torch.no_grad():
        y = x @ normed.linear.weight.T + normed.linear.bias
        y = (y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        assert torch.allclose(normed(x), y, atol=1e-4)


@pytest.mark.parametrize("head", [head for head in HEADS if head != "none"])
def test_each_tower_draws_its_own_head(head: str) -> None:
    weights = [
        torch.cat([p.detach().flatten() for p in make_projection(head, BERT, 6, seed, tower).parameters()])
        for seed, tower in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0)]
    ]
    assert torch.equal(weights[0], weights[4])
    assert len({tuple(weight.tolist()) for weight in weights}) == 4


def test_refused() -> None:
    encoder = Encoder(BERT, 6, "cls", 0)
    with pytest.raises(ConfigError, match=r"sharing 'siamese' is not allowed; choose from \['sde', 'ade'"):
        dual_encoder(encoder, "siamese", 0)
    with pytest.raises(ConfigError, match="sharing 'x' is not allowed"):
        DualEncoder(encoder, encoder, "x")
    with pytest.raises(ConfigError, match="query tower: 5 numbers, cosine; document tower: 6, cosine"):
        DualEncoder(Encoder(BERT, 5, "cls", 0), encoder, "ade")
    with pytest.raises(ConfigError, match="query tower: 6 numbers, dot; document tower: 6, cosine"):
        DualEncoder(Encoder(BERT, 6, "cls", 0, "dot"), encoder, "ade")
    with pytest.raises(ConfigError, match="head 'none' with dim=6: .* 16 numbers; set dim: 16"):
        Encoder(BERT, 6, "cls", 0, head="none")
    with pytest.raises(ConfigError, match="pooling 'cls' does not go with T5"):
        Encoder(T5, 6, "cls", 0)
