"""DupMAE's joint representation against a naive one with all logits, by hand, and against what an index does with it.

Body: 16 wide and 50 words, so 384 of 768 are 8 here: CLS:384 + OT:384 is 8 + 8, CLS:384 + OT:260 is 8 + 5, CLS:768 and
OT:768 are 16. Tolerance 1e-5 in float32.

Seen to fail when: queries are made sparse too; documents are not; the smallest entries are kept, or those of the largest
absolute value; of equal entries the last is taken, or all; NaN goes unseen; [CLS] takes part in the maximum; [SEP] does not,
or does where it should not, inside the text or at its end; a text has nothing left; the bias is left out; an activation is
left out; zeroed words are kept, or chosen where all others are negative; the [CLS] part is of the last token; vectors or pairs
keep the packed order; the gradient is cut at the choice; OT:768 has a linear layer; ADE-SPL does not share the word head.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_body import small_body

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.dual_encoder import SHARINGS, dual_encoder
from pretrieve.models.joint import ACTIVATIONS, JointEncoder, JointShape, JointTower, largest
from pretrieve.models.transformer import seeded
from pretrieve.models.word_head import MaskedWordHead

WIDTH, WORDS, SEP = 16, 50, 3
CONFIG = small_body(WORDS, (WIDTH, 1, 2, 24), 20, word_std=0.5)
LENGTHS = [4, 9, 3, 9, 6]
#: The paper's four configurations: parts, cls_dim, top, head; and the width of a vector, the pairs in an index.
CONFIGURATIONS = {
    "384+384": (("both", 8, 8, "linear"), 8 + WORDS, 8),
    "384+260": (("both", 8, 5, "linear"), 8 + WORDS, 5),
    "CLS:768": (("cls", WIDTH, 1, "none"), WIDTH, 0),
    "OT:768": (("ot", WIDTH, 16, "linear"), WORDS, 16),
}


def make(name: str = "384+384", **options) -> JointEncoder:
    """With biases and norms that are not 0 and 1, so that none can be left out."""
    parts, cls_dim, top, head = CONFIGURATIONS[name][0]
    core = JointEncoder(CONFIG, JointShape(cls_dim, top, parts, **options), 7, head)
    generator = seeded(11)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return core


def texts(random_packed, seed: int = 0):
    """Random words, [CLS] in front, [SEP] behind, and one more [SEP] inside where the segments change."""
    packed = random_packed(LENGTHS, WORDS, seed)
    tokens = packed.tokens.copy()
    tokens[tokens == SEP] = 7
    tokens[packed.starts] = 2
    tokens[packed.starts + packed.lengths - 1] = SEP
    tokens[packed.starts[0] + 4] = SEP
    return replace(packed, tokens=tokens)


def naive(core: JointEncoder, packed) -> tuple[torch.Tensor, torch.Tensor]:
    """ĥ and μ text by text from all (L, V) logits."""
    batch = Batch.of(packed)
    states, dense, words = core.body(batch), [None] * len(batch), [None] * len(batch)
    for place, example in enumerate(packed.order):
        rows = slice(int(packed.starts[place]), int(packed.starts[place] + packed.lengths[place]))
        h, tokens = states[rows], packed.tokens[rows]
        dense[example] = h[0] if core.head == "none" else core.projection.weight @ h[0] + core.projection.bias
        inside = [i for i in range(1, len(tokens)) if core.sep or tokens[i] != SEP] or [len(tokens) - 1]
        if isinstance(core.words, MaskedWordHead):
            x = torch.nn.functional.gelu(h @ core.words.transform.weight.T + core.words.transform.bias)
            x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + CONFIG.layer_norm_eps).sqrt()
            x = x * core.words.norm.weight + core.words.norm.bias
            logits = x @ core.body.words.weight.T + core.words.bias
        else:
            logits = h @ core.words.weight.T
        mu = logits[inside].max(0).values
        mu = {"none": mu, "relu": mu.clamp(min=0), "log1p": mu.clamp(min=0).log1p()}[core.activation]
        words[example] = torch.stack([mu[v] * (v not in core.zeroed) for v in range(WORDS)])
    return torch.stack(dense), torch.stack(words)


def keep(mu: torch.Tensor, top: int, never=()) -> torch.Tensor:
    """A document's μ with zeros outside of its ``top`` largest entries, by sorting."""
    result = torch.zeros_like(mu)
    for row, values in enumerate(mu.tolist()):
        order = sorted((v for v in range(len(values)) if v not in never), key=lambda v: (-values[v], v))
        result[row, order[:top]] = mu[row, order[:top]]
    return result


def test_the_score_by_hand(monkeypatch) -> None:
    """μ_d = [0.5, 3, −4, 2, 1] keeps words 1 and 3: 1·2 + 1·(−1) from ĥ, 3·(−1) + 2·5 from the words: 8; word 2, where
    both are large, does not count."""
    core = JointEncoder(replace(CONFIG, vocabulary_size=5), JointShape(2, 2), 0)
    given = {
        "query": (torch.tensor([[1.0, 1.0]]), torch.tensor([[9.0, -1.0, -8.0, 5.0, 7.0]])),
        "document": (torch.tensor([[2.0, -1.0]]), torch.tensor([[0.5, 3.0, -4.0, 2.0, 1.0]])),
    }
    monkeypatch.setattr(core, "represent", lambda side: given[side])
    query, document = (JointTower(core, side)(side) for side in given)
    assert query.tolist() == [[1.0, 1.0, 9.0, -1.0, -8.0, 5.0, 7.0]]
    assert document.tolist() == [[2.0, -1.0, 0.0, 3.0, 0.0, 2.0, 0.0]]
    assert float(query @ document.T) == 8.0
    dense, words, values = core.sparse("document")
    assert (dense.tolist(), words.tolist(), values.tolist()) == ([[2.0, -1.0]], [[1, 3]], [[3.0, 2.0]])
    assert words.dtype == torch.int32


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_shapes_of_the_papers_configurations(name: str, random_packed) -> None:
    (parts, cls_dim, _, _), width, pairs = CONFIGURATIONS[name]
    dual = dual_encoder(make(name), "sde", 0)
    batch = Batch.of(texts(random_packed))
    assert dual.width == dual.query.width == dual.document.width == width and dual.representation == "joint"
    query, document = dual.query(batch), dual.document(batch)
    assert query.shape == document.shape == (5, width) and query.dtype == torch.float32
    dense, words, values = dual.document.core.sparse(batch)
    cls_width = 0 if parts == "ot" else cls_dim
    assert dense.shape == (5, cls_width) and words.shape == values.shape == (5, pairs)
    assert (words.dtype, values.dtype) == (torch.int32, torch.float32)
    assert bool(list(dual.document.core.projection.parameters())) == (parts == "both")  # nothing that is never trained
    # Only documents are sparse.
    assert ((document[:, cls_width:] != 0).sum(1) == pairs).all()
    assert ((query[:, cls_width:] != 0).sum(1) == width - cls_width).all()


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("lexical_head", ["mlm", "bow"])
def test_equals_the_naive_one(name: str, lexical_head: str, random_packed) -> None:
    core, packed = make(name, lexical_head=lexical_head), texts(random_packed)
    with torch.no_grad():
        dense, words = naive(core, packed) if core.words is not None else (core.body(Batch.of(packed)), None)
        query, document = (JointTower(core, side)(Batch.of(packed)) for side in ("query", "document"))
    if core.words is None:
        starts = torch.from_numpy(packed.starts)[Batch.of(packed).inverse]
        assert torch.equal(query, document) and torch.allclose(query, dense[starts], atol=1e-5)
        assert not list(core.projection.parameters())
        return
    dense = dense[:, : core.cls_width]
    assert torch.allclose(query, torch.cat([dense, words], 1), atol=1e-5)
    assert torch.allclose(document, torch.cat([dense, keep(words, core.top)], 1), atol=1e-5)


@pytest.mark.parametrize("lexical_head", ["mlm", "bow"])
def test_gradients_equal_those_of_the_naive_one(lexical_head: str, random_packed) -> None:
    """Of the score of every query and document, in every parameter, through the choice of the document's words."""
    queries, documents = (texts(random_packed, seed) for seed in (1, 2))
    weights = torch.randn(5, 5, generator=seeded(3))
    ours, theirs = make(lexical_head=lexical_head), make(lexical_head=lexical_head)
    scores = JointTower(ours, "query")(Batch.of(queries)) @ JointTower(ours, "document")(Batch.of(documents)).T
    (scores * weights).sum().backward()
    (q_dense, q_words), (d_dense, d_words) = naive(theirs, queries), naive(theirs, documents)
    mask = keep(d_words.detach(), theirs.top) != 0
    expected = q_dense @ d_dense.T + q_words @ (d_words * mask).T
    (expected * weights).sum().backward()
    assert torch.allclose(scores, expected, rtol=1e-5, atol=1e-4)
    known = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        scale = float(known[name].grad.abs().max())
        assert scale > 0, name
        assert float((parameter.grad - known[name].grad).abs().max()) <= 1e-5 * scale + 1e-5, name


def test_only_chosen_words_of_a_document_are_trained(random_packed) -> None:
    """The bias of a word gets the gradient of its entry: nothing where no document chose it."""
    core, batch = make(), Batch.of(texts(random_packed))
    JointTower(core, "document")(batch)[:, 8:].sum().backward()
    chosen = torch.zeros(WORDS)
    for row in core.sparse(batch)[1]:
        chosen[row.long()] += 1
    assert torch.allclose(core.words.bias.grad, chosen) and 8 <= int((chosen > 0).sum()) < WORDS


@pytest.mark.parametrize("name", ["384+384", "384+260", "OT:768"])
@pytest.mark.parametrize("options", [{}, {"activation": "relu", "zeroed": (0, 1, 2, 3, 4)}])
def test_gathered_score_is_the_dense_score_of_the_zeroed_vector(name: str, options: dict, random_packed) -> None:
    """What an index computes, ĥ_q·ĥ_d + Σ over the document's pairs of μ_q[word]·value, for every query and document."""
    core = make(name, **options).eval()
    with torch.no_grad():
        queries, documents = (Batch.of(texts(random_packed, seed)) for seed in (1, 2))
        scores = JointTower(core, "query")(queries) @ JointTower(core, "document")(documents).T
        q_dense, q_words = core.represent(queries)
        d_dense, words, values = core.sparse(documents)
        assert (words.diff(dim=1) > 0).all()  # in ascending order, none twice
        gathered = torch.tensor(
            [
                [float(q_dense[q] @ d_dense[d] + q_words[q, words[d].long()] @ values[d]) for d in range(5)]
                for q in range(5)
            ]
        )
    assert torch.allclose(scores, gathered, rtol=1e-5, atol=1e-4) and float(scores.std()) > 0.1


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sep", [True, False])
@pytest.mark.parametrize("zeroed", [(), (0, 2, SEP)])
def test_what_the_paper_leaves_open(activation: str, sep: bool, zeroed: tuple, random_packed) -> None:
    packed = texts(random_packed)
    core = make(activation=activation, sep=sep, zeroed=zeroed)
    with torch.no_grad():
        core.words.bias[list(zeroed)] += 20.0  # they would be chosen first
        dense, words = naive(core, packed)
        assert torch.allclose(JointTower(core, "query")(Batch.of(packed)), torch.cat([dense, words], 1), atol=1e-5)
        expected = torch.cat([dense, keep(words, core.top, zeroed)], 1)
        assert torch.allclose(JointTower(core, "document")(Batch.of(packed)), expected, atol=1e-5)
        plain = make().represent(Batch.of(packed))[1]
    if sep and not zeroed and activation == "none":
        assert torch.allclose(plain, words, atol=1e-5)
    else:
        assert not torch.allclose(plain, words, atol=1e-2)
    assert not set(core.sparse(Batch.of(packed))[1].flatten().tolist()) & set(zeroed)


def test_zeroed_words_take_no_place(random_packed) -> None:
    """Also where all other entries are negative, so that a zero is the largest."""
    core, batch = make(zeroed=(0, 2, SEP)), Batch.of(texts(random_packed))
    with torch.no_grad():
        core.words.bias -= 60.0
    _, words, values = core.sparse(batch)
    assert not set(words.flatten().tolist()) & {0, 2, SEP} and float(values.detach().max()) < 0


def test_a_text_with_nothing_inside_keeps_its_sep(random_packed) -> None:
    packed = replace(random_packed([2, 1], WORDS), tokens=torch.tensor([2, SEP, 2]).numpy())
    with torch.no_grad():
        both, without = (make(sep=sep).represent(Batch.of(packed))[1] for sep in (True, False))
    assert torch.equal(both, without) and not torch.equal(both[0], both[1])


def test_ties_go_to_the_lower_word(random_packed) -> None:
    """Words 10 to 39 have one embedding and one bias, so one entry; whatever place the largest have, ties are in order."""
    core, batch = make(), Batch.of(texts(random_packed))
    with torch.no_grad():
        core.body.words.weight[10:40] = core.body.words.weight[10]
        core.words.bias[10:40] = 30.0
        core.words.bias[45] = 60.0
    assert [row.tolist() for row in core.sparse(batch)[1]] == [[*range(10, 17), 45]] * 5
    kept = JointTower(core, "document")(batch)[:, 8:] != 0
    assert kept.sum(1).tolist() == [8] * 5 and bool(kept[:, 10:17].all()) and bool(kept[:, 45].all())


def test_largest_against_sorting() -> None:
    values = torch.randint(-3, 4, (60, 20), generator=seeded(1)).float()
    values[1, 3], values[2] = -torch.inf, -torch.inf
    for top in (1, 5, 19, 20, 30):
        expected = torch.zeros(60, 20, dtype=torch.bool)
        for row in range(60):
            order = sorted(range(20), key=lambda v: (-values[row, v].item(), v))
            expected[row, order[:top]] = True
        assert torch.equal(largest(values, top), expected)
    values[0, 7] = torch.nan  # stays in sight, and a row still has ``top`` entries
    assert largest(values, 5)[0, 7] and largest(values, 5).sum(1).tolist() == [5] * 60


@pytest.mark.parametrize("lexical_head", ["mlm", "bow"])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_golden_table(sharing: str, lexical_head: str) -> None:
    """The word head is shared as the projection is; the words it is multiplied with are its tower's."""
    dual = dual_encoder(make(lexical_head=lexical_head), sharing, 7)
    query, document = (dict(tower.core.named_parameters()) for tower in (dual.query, dual.document))
    head = {
        "mlm": {
            "words.transform.weight": (16, 16),
            "words.transform.bias": (16,),
            "words.norm.weight": (16,),
            "words.norm.bias": (16,),
            "words.bias": (50,),
        },
        "bow": {"words.weight": (50, 16)},
    }[lexical_head]
    shapes = {"projection.weight": (8, 16), "projection.bias": (8,), **head}
    assert {n: tuple(p.shape) for n, p in document.items() if not n.startswith("body")} == shapes
    assert dual.query is not dual.document and (dual.query.side, dual.document.side) == ("query", "document")
    assert (dual.query.core is dual.document.core) == (sharing == "sde") == (not dual.separate)
    one = {name for name in query if query[name] is document[name]}
    table = {"sde": set(query), "ade-ste": {"body.words.weight"}, "ade-spl": set(shapes)}
    assert one == table.get(sharing, set())
    frozen = {"body.words.weight"} if sharing == "ade-fte" else set()
    assert {n for n, p in document.items() if not p.requires_grad} == frozen
    assert {n for n, p in query.items() if not p.requires_grad} == frozen
    # What is not pre-trained, the projection, is drawn for each tower; μ's head is pre-trained, so a copy.
    different = {name for name in query if not torch.equal(query[name], document[name])}
    assert different == (
        {"projection.weight", "projection.bias"} if sharing in ("ade", "ade-ste", "ade-fte") else set()
    )
    assert len(dual.state_dict()) == len({id(p) for p in dual.parameters()})


def test_refused() -> None:
    for options, message in [
        ({"parts": "all"}, r"parts 'all' is not allowed; choose from \['cls', 'ot', 'both'\]"),
        ({"lexical_head": "lm"}, "lexical_head 'lm' is not allowed"),
        ({"activation": "gelu"}, "activation 'gelu' is not allowed"),
        ({"top": 0}, "top=0: expected 1 to 50"),
        ({"top": 48, "zeroed": (0, 1, 2)}, "top=48: expected 1 to 47"),
        ({"head": "none"}, "head 'none' with dim=8"),
    ]:
        with pytest.raises(ConfigError, match=message):
            head = options.pop("head", "linear")
            JointEncoder(CONFIG, JointShape(**{"cls_dim": 8, "top": 8, **options}), 0, head)
    for kind in ("t5", "bow-mlp"):
        with pytest.raises(ConfigError, match=rf"needs \[CLS\] and a word head; a {kind} body has neither"):
            JointEncoder(replace(CONFIG, kind=kind), JointShape(8, 8), 0)
