"""What a recipe starts from: bit for bit the encoder it started from before there were other architectures, each option where
it is asked for, and a retriever that goes on as it is.

Seen to fail when: a fresh projection is drawn from another stream; a pre-trained one is drawn anew, or kept with another
pooling; an untrained one is kept; the query tower of pre-training is not used, or its fresh projection is the document's; μ
takes the word head where there is a matrix of its own, or a fresh word head; ``none`` for CLS:768 has a linear layer; a
retriever that goes on is not compared with the options (``zeroed`` among them), or begins afresh; a cross-encoder begins with
fresh weights.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_body import small_body
from torch import nn

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.finetuning.initial_model import make_cross_encoder, make_retriever
from pretrieve.models.bag_of_words import BagOfWordsProjection
from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder, read_encoder, save_encoder
from pretrieve.models.retriever_files import load_retriever, save_retriever
from pretrieve.models.transformer import seeded
from pretrieve.models.word_head import MaskedWordHead

BODY = small_body(50, (16, 1, 2, 24), 20, word_std=0.3)
TODAY = {"sharing": "sde", "representation": "dense", "head": "linear", "dim": 6, "pooling": "cls", "similarity": "dot"}
JOINT = {"representation": "joint", "parts": "both", "cls_dim": 8, "top": 5}


def trained(module: nn.Module, seed: int = 1) -> nn.Module:
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return module


def save(directory: Path, projected: bool = True, heads: tuple[str, ...] = (), head: str = "linear", **options) -> Path:
    """A pre-trained encoder of 6 numbers."""
    config = replace(BODY, **options)
    encoder = trained(Encoder(config, 6, "mean" if config.kind == "t5" else "cls", 2, head=head))
    kinds = {"mlm": MaskedWordHead, "bow": BagOfWordsProjection}
    modules = {name: trained(kinds[name](config, 2), 3) for name in heads}
    save_encoder(directory, encoder, modules, {"trained_projection": projected, "vocabulary_sha256": "0"})
    return directory


def equal(ours: nn.Module, theirs: nn.Module) -> bool:
    ours, theirs = ours.state_dict(), theirs.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def saved_encoder(directory: Path, dim: int = 6, similarity: str = "cosine") -> Encoder:
    """What :func:`save` wrote, with the saved projection where it is trained and of this dimension, else with that of seed 9."""
    saved = read_encoder(directory)
    encoder = Encoder(saved.config, dim, saved.about["pooling"], 9, similarity, saved.about["head"])
    encoder.body.load_state_dict(saved.body)
    if saved.about["trained_projection"] and dim == saved.about["dim"]:
        encoder.projection.load_state_dict(saved.head("projection"))
    return encoder


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("dim", [6, 4])
@pytest.mark.parametrize("kind", ["transformer", "bow-mlp", "t5"])
@pytest.mark.parametrize("head", ["linear", "orqa"])
def test_todays_options_give_todays_encoder(
    projected: bool, dim: int, kind: str, head: str, tmp_path: Path, random_packed
) -> None:
    directory = save(tmp_path, projected, kind=kind, head=head)
    expected, about = saved_encoder(directory, dim, "dot"), read_encoder(directory).about
    pooling = "mean" if kind == "t5" else "cls"
    options = {**TODAY, "dim": dim, "head": head, "pooling": pooling}
    for given in (options, {"dim": dim, "similarity": "dot"}, {**options, "head": "", "pooling": "", "sharing": ""}):
        dual, said = make_retriever(directory, given, 9)
        assert dual.query is dual.document and equal(dual.document, expected) and said == about
        assert [n for n, _ in dual.named_parameters()] == [f"document.{n}" for n, _ in expected.named_parameters()]
        batch = Batch.of(random_packed([3, 7, 2], 50))
        assert torch.equal(dual.eval().query(batch), expected.eval()(batch))


def test_a_projection_that_no_longer_fits_is_drawn(tmp_path: Path) -> None:
    directory = save(tmp_path)
    kept = load_encoder(directory)[0].projection
    drawn = Encoder(BODY, 6, "cls", 9).projection
    for options, same in [({}, True), ({"similarity": "cosine"}, True), ({"pooling": "mean"}, False)]:
        projection = make_retriever(directory, {**TODAY, **options}, 9)[0].document.projection
        assert equal(projection, kept if same else drawn) and not equal(kept, drawn)
    normed = make_retriever(directory, {**TODAY, "head": "linear-norm"}, 9)[0].document
    assert normed.head == "linear-norm" and {n for n, _ in normed.projection.named_children()} == {"linear", "norm"}
    plain = make_retriever(directory, {**TODAY, "head": "none", "dim": "hidden"}, 9)[0]
    assert plain.width == 16 and not list(plain.document.projection.parameters())
    assert equal(plain.document.body, load_encoder(directory)[0].body)


@pytest.mark.parametrize("projected", [True, False])
def test_two_towers(projected: bool, tmp_path: Path) -> None:
    directory = save(tmp_path, projected)
    for sharing in ("ade", "ade-ste", "ade-fte", "ade-spl"):
        dual, _ = make_retriever(directory, {**TODAY, "sharing": sharing}, 9)
        assert dual.sharing == sharing and equal(dual.query.body, dual.document.body)
        assert equal(dual.document, saved_encoder(directory))
        assert equal(dual.query.projection, dual.document.projection) == (projected or sharing == "ade-spl")
    again = make_retriever(directory, {**TODAY, "sharing": "ade"}, 9)[0]
    other = make_retriever(directory, {**TODAY, "sharing": "ade"}, 8)[0]
    first = make_retriever(directory, {**TODAY, "sharing": "ade"}, 9)[0]
    assert equal(again.query.projection, first.query.projection)
    assert equal(other.query.projection, first.query.projection) == projected


@pytest.mark.parametrize("projected", [True, False])
def test_the_query_tower_of_pre_training(projected: bool, tmp_path: Path) -> None:
    """Pre-trained with two towers: they are the two of the retriever; a retriever with one has the document's."""
    directory = save(tmp_path, projected)
    other = trained(Encoder(BODY, 6, "cls", 2), 5)
    save_encoder(directory / "query", other, about={"trained_projection": projected})
    dual, _ = make_retriever(directory, {**TODAY, "sharing": "ade"}, 9)
    assert equal(dual.document, saved_encoder(directory)) and equal(dual.query.body, other.body)
    assert not equal(dual.query.body, dual.document.body)
    assert equal(dual.query.projection, other.projection) == projected
    assert not equal(dual.query.projection, dual.document.projection)
    assert equal(make_retriever(directory, TODAY, 9)[0].query, saved_encoder(directory))


@pytest.mark.parametrize("heads", [("mlm",), ("mlm", "bow")])
def test_joint_takes_what_pre_training_made(heads: tuple[str, ...], tmp_path: Path) -> None:
    """The matrix of its own where DupMAE was trained with one, else the word head; a recipe can say which."""
    directory = save(tmp_path, False, heads)
    dual, _ = make_retriever(directory, JOINT, 9)
    core = dual.document.core
    kinds = {"mlm": MaskedWordHead, "bow": BagOfWordsProjection}
    assert core.lexical_head == heads[-1] and equal(core.words, trained(kinds[heads[-1]](BODY, 2), 3))
    assert equal(core.body, load_encoder(directory)[0].body) and dual.query.core is core
    assert (core.parts, core.top, core.dim, core.head, dual.width) == ("both", 5, 8, "linear", 58)
    assert make_retriever(directory, {**JOINT, "lexical_head": "mlm"}, 9)[0].document.core.lexical_head == "mlm"
    more = {"activation": "relu", "sep": False, "zeroed": [0, 1], "head": "linear-no-bias", "similarity": "dot"}
    core = make_retriever(directory, {**JOINT, **more}, 9)[0].document.core
    assert (core.activation, core.sep, core.zeroed, core.head) == ("relu", False, (0, 1), "linear-no-bias")


def test_joint_head_none_is_the_papers(tmp_path: Path) -> None:
    """A linear layer to fewer numbers ("CLS:384"), none at all for as many ("CLS:768")."""
    directory = save(tmp_path, False, ("mlm",))
    assert make_retriever(directory, {**JOINT, "head": "none"}, 9)[0].document.core.head == "linear"
    for size in (16, "hidden"):
        whole = make_retriever(directory, {**JOINT, "head": "none", "parts": "cls", "cls_dim": size}, 9)[0]
        assert whole.width == 16 and whole.document.core.head == "none"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"representation": "sparse"},
            ConfigError,
            r"representation 'sparse' is not allowed; choose from \['dense', 'joint'\]",
        ),
        (
            {"representation": "joint"},
            ConfigError,
            "representation: joint needs parts, cls_dim, top; set them in the recipe",
        ),
        (
            {**JOINT, "pooling": "mean"},
            ConfigError,
            "pooling: mean does not go with representation: joint; set pooling: cls",
        ),
        ({**JOINT, "similarity": "cosine"}, ConfigError, "similarity: cosine does not go with .* set similarity: dot"),
        ({"sharing": "both"}, ConfigError, "sharing 'both' is not allowed"),
        ({"head": "none"}, ConfigError, "head 'none' with dim=6"),
        (JOINT, DataError, "heads.safetensors: has no mlm head, which the joint representation needs"),
        ({**JOINT, "lexical_head": "bow"}, DataError, "heads.safetensors: has no bow head"),
    ],
)
def test_refused(options: dict, error: type, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        make_retriever(save(tmp_path), options, 0)


CONTINUED = {
    "dense": {**TODAY, "sharing": "ade-spl"},
    "joint": {**JOINT, "sharing": "ade-ste", "head": "none", "zeroed": [0, 2]},
    "joint-cls": {**JOINT, "parts": "cls", "cls_dim": 16, "head": "none"},
    "joint-ot": {**JOINT, "parts": "ot"},
}


@pytest.mark.parametrize("kind", CONTINUED)
def test_a_retriever_goes_on_as_it_is(kind: str, tmp_path: Path) -> None:
    options = CONTINUED[kind]
    dual, about = make_retriever(save(tmp_path / "encoder", heads=("mlm",)), options, 9)
    trained(dual)
    save_retriever(tmp_path / "retriever", dual, about={"encoder": about, "vocabulary_sha256": "0"})
    again, said = make_retriever(tmp_path / "retriever", options, 1)
    assert equal(again, dual) and again.aliases() == dual.aliases() and said["vocabulary_sha256"] == "0"
    assert said == load_retriever(tmp_path / "retriever")[1]
    changed = {"sharing": "ade", "similarity": "cosine"}
    changed |= {"dim": 5, "head": "orqa", "pooling": "mean"} if kind == "dense" else {"parts": "both"}
    if kind == "joint":
        changed |= {
            "parts": "ot",
            "cls_dim": 9,
            "top": 4,
            "activation": "relu",
            "sep": False,
            "zeroed": [1],
            "head": "orqa",
        }
    for name, value in changed.items():
        if options.get(name) == value:
            continue
        with pytest.raises(ConfigError, match=rf"retriever: has .*{name}: .*asks for .*{name}: .*start: encoder"):
            make_retriever(tmp_path / "retriever", {**options, name: value}, 1)
    other = "dense" if "joint" in kind else "joint"
    with pytest.raises(ConfigError, match=f"asks for representation: {other}"):
        make_retriever(tmp_path / "retriever", {**options, "representation": other}, 1)


def test_a_cross_encoder_begins_with_the_body(tmp_path: Path) -> None:
    directory = save(tmp_path)
    model, about = make_cross_encoder(directory, 3, 9)
    assert (
        equal(model.body, load_encoder(directory)[0].body) and model.classes == 3 and about["vocabulary_sha256"] == "0"
    )
    again, other = make_cross_encoder(directory, 3, 9)[0], make_cross_encoder(directory, 3, 8)[0]
    assert (
        equal(again, model) and not equal(other.pooler, model.pooler) and equal(other.body, copy.deepcopy(model.body))
    )
    with pytest.raises(ConfigError, match="bow-mlp body cannot be"):
        make_cross_encoder(save(tmp_path / "bow", kind="bow-mlp"), 1, 0)
