"""Directories of retrievers and cross-encoders: the same vectors, the same sharing and the same bytes again; both towers in
transformers; and what a missing or damaged file says.

Seen to fail when: shared tensors are two after loading; the document tower is written, or read, in place of the query's; a
query tower is left over from an earlier retriever; the head of μ, or an option of the joint representation, is left out; hashes
are not compared, or the query's files are not in the list; an encoder directory is refused; a directory without the list of
files is read; the projection does not count as trained; a cross-encoder loses its classes or its heads.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_body import small_body
from transformers import AutoModel, T5EncoderModel

from pretrieve.base.errors import DataError
from pretrieve.base.files import sha256_of
from pretrieve.models import retriever_files
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import SHARINGS, DualEncoder, core, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import load_encoder, save_encoder
from pretrieve.models.joint import JointEncoder, JointShape
from pretrieve.models.retriever_files import (
    is_retriever,
    load_cross_encoder,
    load_retriever,
    save_cross_encoder,
    save_retriever,
)
from pretrieve.models.transformer import seeded

BERT = small_body(50, (16, 1, 2, 24), 20, word_std=0.3)
T5 = BodyConfig(kind="t5", vocabulary_size=50, hidden=16, layers=1, heads=2, feed_forward=24, head_size=4, dropout=0.0)
T5 = replace(T5, layer_norm_eps=1e-6)
LENGTHS = [3, 9, 2, 9, 5]
MADE = {
    "bert": lambda: Encoder(BERT, 6, "cls", 3, "dot", "linear-norm"),
    "bert-none": lambda: Encoder(BERT, 16, "cls", 3, "dot", "none"),
    "t5": lambda: Encoder(T5, 6, "mean", 3, "cosine", "linear-no-bias"),
    "bow-mlp": lambda: Encoder(replace(BERT, kind="bow-mlp"), 6, "mean", 3),
    "joint": lambda: JointEncoder(BERT, JointShape(8, 5, activation="log1p", sep=False, zeroed=(0, 4)), 3),
    "joint-bow": lambda: JointEncoder(BERT, JointShape(8, 5, lexical_head="bow"), 3, head="linear-no-bias"),
    "joint-cls": lambda: JointEncoder(BERT, JointShape(16, 1, "cls"), 3, "none"),
    "joint-ot": lambda: JointEncoder(BERT, JointShape(8, 7, "ot"), 3),
}


def make(kind: str, sharing: str) -> DualEncoder:
    """A retriever whose weights are all its own, as training leaves them."""
    dual = dual_encoder(MADE[kind](), sharing, 3).eval()
    generator = seeded(8)
    with torch.no_grad():
        for parameter in dual.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return dual


def ones(dual: DualEncoder) -> set[str]:
    query, document = (dict(core(tower).named_parameters()) for tower in (dual.query, dual.document))
    return {name for name in query if query[name] is document[name]}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_round_trip(kind: str, sharing: str, tmp_path: Path, random_packed) -> None:
    dual = make(kind, sharing)
    save_retriever(tmp_path / "a", dual, about={"size": "1pct"})
    again, about = load_retriever(tmp_path / "a")
    again.eval()
    batch = Batch.of(random_packed(LENGTHS, 50))
    with torch.no_grad():
        for ours, theirs in [(dual.query, again.query), (dual.document, again.document)]:
            assert torch.equal(ours(batch), theirs(batch))
        if sharing != "sde":
            assert not torch.allclose(dual.query(batch)[:, :6], dual.document(batch)[:, :6], atol=1e-3)
    assert ones(again) == ones(dual) and again.sharing == sharing and again.width == dual.width
    grad = lambda model: {name: p.requires_grad for name, p in model.named_parameters()}
    assert grad(again) == grad(dual) and again.state_dict().keys() == dual.state_dict().keys()
    assert (about["sharing"], about["representation"]) == (sharing, kind.split("-")[0] if "joint" in kind else "dense")
    assert about["size"] == "1pct" and about["width"] == dual.width
    # Every file but the one with the list is in the list, with its hash.
    files = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert files - {"pretrieve.json"} == set(about["files"])
    assert all(sha256_of(tmp_path / "a" / name) == value for name, value in about["files"].items())
    assert (tmp_path / "a" / "query").is_dir() == (sharing != "sde") and is_retriever(tmp_path / "a")
    save_retriever(tmp_path / "b", again, about={"size": "1pct"})
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


@pytest.mark.parametrize("kind", ["bert", "t5", "joint"])
@pytest.mark.parametrize("sharing", ["ade", "ade-ste"])
def test_transformers_loads_both_towers(kind: str, sharing: str, tmp_path: Path, random_packed) -> None:
    dual = make(kind, sharing)
    save_retriever(tmp_path, dual)
    packed = random_packed([7] * 4, 50)
    ids, types = (torch.from_numpy(array).view(4, 7) for array in (packed.tokens, packed.segments))
    states = []
    for tower, directory in [(dual.document, tmp_path), (dual.query, tmp_path / "query")]:
        theirs = (T5EncoderModel if kind == "t5" else AutoModel).from_pretrained(directory).eval()
        inputs = {"input_ids": ids} | ({} if kind == "t5" else {"token_type_ids": types})
        with torch.no_grad():
            states.append(theirs(**inputs).last_hidden_state.reshape(28, -1))
            assert torch.allclose(core(tower).body(Batch.of(packed)), states[-1], atol=1e-4)
    assert not torch.allclose(*states, atol=1e-2)


def test_each_tower_is_an_encoder_directory(tmp_path: Path, random_packed) -> None:
    """Who knows encoders alone reads the document tower, and from query/ the other one, projections included."""
    dual, batch = make("bert", "ade-spl"), Batch.of(random_packed(LENGTHS, 50))
    save_retriever(tmp_path, dual)
    with torch.no_grad():
        for tower, directory in [(dual.document, tmp_path), (dual.query, tmp_path / "query")]:
            assert torch.equal(load_encoder(directory)[0].eval()(batch), tower(batch))


def test_an_encoder_is_a_retriever_with_one_tower(tmp_path: Path, random_packed) -> None:
    encoder = Encoder(BERT, 6, "cls", 3).eval()
    save_encoder(tmp_path, encoder, about={"trained_projection": True})
    dual, _ = load_retriever(tmp_path)
    batch = Batch.of(random_packed(LENGTHS, 50))
    assert dual.query is dual.document and dual.sharing == "sde" and not is_retriever(tmp_path)
    assert torch.equal(dual.eval().query(batch), encoder(batch))


def test_nothing_of_an_earlier_retriever_is_left(tmp_path: Path) -> None:
    save_retriever(tmp_path, make("bert", "ade"))
    (tmp_path / "README.md").write_text("a model card")
    save_retriever(tmp_path, make("bert", "sde"))
    assert not (tmp_path / "query").exists() and (tmp_path / "README.md").is_file()
    assert ones(load_retriever(tmp_path)[0]) == ones(make("bert", "sde"))


def test_what_was_not_finished_is_not_read(tmp_path: Path, monkeypatch) -> None:
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(retriever_files, "sha256_of", stop)
    with pytest.raises(KeyboardInterrupt):
        save_retriever(tmp_path, make("bert", "ade"))
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"pretrieve.json: has no list of files; the directory is not complete"):
        load_retriever(tmp_path)


ALL_FILES = [
    f"{folder}{name}"
    for folder in ("", "query/")
    for name in ("config.json", "model.safetensors", "heads.safetensors", "pretrieve.json")
]


@pytest.mark.parametrize("name", ALL_FILES)
@pytest.mark.parametrize("how", ["missing", "damaged", "changed"])
def test_a_bad_file_is_named_in_one_line(name: str, how: str, tmp_path: Path) -> None:
    save_retriever(tmp_path, make("joint", "ade"))
    path = tmp_path / name
    if how == "missing":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(path.read_bytes()[:-40])
    elif name == "pretrieve.json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"joint": {"parts": "both"}}))
    else:  # still a file of its kind
        other = tmp_path / "other"
        save_retriever(other, make("joint", "ade-spl"), about={"seed": 1})
        path.write_bytes((other / name).read_bytes() + b" ")
    with pytest.raises(DataError) as error:
        load_retriever(tmp_path)
    message = str(error.value)
    assert str(path) in message and "\n" not in message and len(message) < 400


@pytest.mark.parametrize("key", ["representation", "joint"])
def test_what_the_description_lacks(key: str, tmp_path: Path) -> None:
    save_retriever(tmp_path, make("joint", "sde"))
    path = tmp_path / "pretrieve.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in about.items() if name != key}))
    with pytest.raises(DataError, match=rf"pretrieve.json: has no '{key}'; it was not written by this version"):
        load_retriever(tmp_path)


@pytest.mark.parametrize("config", [BERT, T5])
def test_cross_encoders(config: BodyConfig, tmp_path: Path, random_packed) -> None:
    model = CrossEncoder(config, 3, seed=4).eval()
    save_cross_encoder(tmp_path / "a", model, {"size": "1pct"})
    again, about = load_cross_encoder(tmp_path / "a")
    batch = Batch.of(random_packed(LENGTHS, 50))
    assert torch.equal(again.eval()(batch), model(batch)) and not torch.equal(
        CrossEncoder(config, 3).eval()(batch), model(batch)
    )
    assert (about["kind"], about["classes"], about["size"]) == ("cross-encoder", 3, "1pct")
    assert (again.classes, again.pooling, again.config) == (3, model.pooling, config)
    (T5EncoderModel if config is T5 else AutoModel).from_pretrained(tmp_path / "a")
    save_cross_encoder(tmp_path / "b", again, {"size": "1pct"})
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    for name in ("model.safetensors", "heads.safetensors"):
        whole = (tmp_path / "a" / name).read_bytes()
        (tmp_path / "a" / name).write_bytes(whole[:-4])
        with pytest.raises(DataError, match=f"a/{name}: damaged or changed"):
            load_cross_encoder(tmp_path / "a")
        (tmp_path / "a" / name).write_bytes(whole)
    save_retriever(tmp_path / "c", make("bert", "sde"))
    with pytest.raises(DataError, match="c: is not a cross-encoder"):
        load_cross_encoder(tmp_path / "c")
    with pytest.raises(DataError, match="d/pretrieve.json: no such file"):
        load_cross_encoder(tmp_path / "d")
    with pytest.raises(DataError, match="d/pretrieve.json: no such file"):
        load_retriever(tmp_path / "d")
