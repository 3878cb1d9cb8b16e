"""Going on from an encoder of this project: body, heads, projection and query tower are those that were saved.

Seen to fail when: heads are not read; a head of another shape ends the run, or is left out without a word; the projection is
drawn anew; the query tower begins as a copy although there is one; the vocabulary is not compared; a start that is named but not
given is passed over; starts of the same sums are the same start to a checkpoint.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_body import trained

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.models.hf_format import read_encoder
from pretrieve.pretraining import pretrain as run_module
from pretrieve.pretraining.presets import OPTIONS, resolve
from pretrieve.pretraining.pretrain import _identity
from pretrieve.training.device import choose_device
from pretrieve.training.loop import RunSettings

BODY = {"kind": "transformer", "hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40}
SMALL = {"skip_layer": 1, "head_layers": 1, "decoder_layers": 1, "span_length": 12}
WORD_OBJECTIVES = [name for name in OPTIONS if name not in ("none", "pairs")]


def options(name: str, dim: int = 8, start: str | None = None, **changes) -> dict:
    small = {option: value for option, value in SMALL.items() if option in OPTIONS[name]}
    objective = {"name": name, "length": 24} | resolve(name, None, small | changes, "test")
    if name == "pairs":
        objective |= {"tasks": ["ict", "bfs"], "query_length": 12, "passage_length": 24}
    return {
        "body": BODY | {"dropout": 0.0},
        "pooling": "cls",
        "dim": dim,
        "similarity": objective.get("similarity", "cosine"),
        "head": objective.get("head", "linear"),
        "objective": objective,
        "budget": {"batch": 8, "steps": 2, "learning_rate": 1e-2},
    } | ({"start": start} if start else {})


def train_from(store, directory: Path, chosen: dict, start: Path | None = None, seed: int = 1) -> Path:
    out = directory / "encoder/seed1"
    trained(chosen, store, out, directory / "ckpt", RunSettings(choose_device("fp32"), seed), start_dir=start)
    return out


@pytest.fixture
def begun(monkeypatch) -> dict[str, torch.Tensor]:
    """What the trained module is right before its first step; filled by the next call of pretrain."""
    before: dict[str, torch.Tensor] = {}
    plain = run_module.train

    def watched(objective, *arguments, **named):
        before.clear()
        before.update({name: tensor.clone() for name, tensor in objective.module.state_dict().items()})
        before["checked first"] = named["expected_first"]
        return plain(objective, *arguments, **named)

    monkeypatch.setattr(run_module, "train", watched)
    return before


def part(state: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key.removeprefix(f"{name}."): tensor for key, tensor in state.items() if key.startswith(f"{name}.")}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys() and one
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def differ(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("name", WORD_OBJECTIVES)
def test_it_goes_on_from_what_was_saved(store, tmp_path: Path, begun, capsys, name: str) -> None:
    """With another seed, so that nothing is the same by being drawn again."""
    first = train_from(store, tmp_path / "first", options(name))
    fresh = dict(begun)
    assert fresh["checked first"]
    saved = read_encoder(first)
    heads = {head.partition(".")[0] for head in saved.heads} - {"projection"}
    assert "mlm" in heads
    capsys.readouterr()
    train_from(store, tmp_path / "second", options(name, start="first"), first, seed=2)
    assert "fresh" not in capsys.readouterr().err and begun["checked first"] is None
    assert_same(part(begun, "body"), saved.body)
    assert {key.partition(".")[0] for key in begun if "." in key} == {"body", *heads}
    for head in heads:
        assert_same(part(begun, head), saved.head(head))
        assert differ(part(fresh, head), saved.head(head))  # two steps have moved it


def test_what_the_start_lacks_begins_fresh_and_says_so(store, tmp_path: Path, begun, capsys) -> None:
    base = train_from(store, tmp_path / "base", options("mlm"))
    capsys.readouterr()
    condenser = train_from(store, tmp_path / "condenser", options("condenser", start="base"), base)
    assert f"{base}: has no condenser head; it starts fresh." in capsys.readouterr().err
    assert_same(part(begun, "mlm"), read_encoder(base).head("mlm"))
    assert_same(part(begun, "body"), read_encoder(base).body)
    fresh = part(begun, "condenser")
    train_from(store, tmp_path / "two", options("condenser", start="condenser", head_layers=2), condenser)
    said = capsys.readouterr().err
    assert f"{condenser}/heads.safetensors: does not fit" in said and "Head condenser starts fresh." in said
    found = part(begun, "condenser")
    assert len(found) == 2 * len(fresh) and not differ(fresh, found)  # of the same seed
    assert_same(part(begun, "mlm"), read_encoder(condenser).head("mlm"))


def test_pairs_keep_their_projection(store, tmp_path: Path, begun, capsys) -> None:
    first = train_from(store, tmp_path / "first", options("pairs"))
    train_from(store, tmp_path / "again", options("pairs", start="first"), first, seed=2)
    assert_same(part(begun, "projection"), read_encoder(first).head("projection"))
    assert_same(part(begun, "body"), read_encoder(first).body)
    capsys.readouterr()
    train_from(store, tmp_path / "narrow", options("pairs", dim=4, start="first"), first, seed=2)
    assert "wrong shape" in (said := capsys.readouterr().err) and "Head projection starts fresh." in said
    assert begun["projection.weight"].shape == (4, 16)
    base = train_from(store, tmp_path / "base", options("mlm"))
    untrained = read_encoder(base).head("projection")
    train_from(store, tmp_path / "pairs", options("pairs", start="base"), base, seed=2)
    assert differ(part(begun, "projection"), untrained)  # what was never trained is no more than another seed's
    assert_same(part(begun, "body"), read_encoder(base).body)


def test_two_towers_go_on_as_two(store, tmp_path: Path, begun, capsys) -> None:
    first = train_from(store, tmp_path / "first", options("pairs", towers="separate"))
    document, query = read_encoder(first), read_encoder(first / "query")
    assert differ(document.body, query.body)
    capsys.readouterr()
    train_from(store, tmp_path / "again", options("pairs", start="first", towers="separate"), first, seed=2)
    assert capsys.readouterr().err.count(str(first)) == 0
    for name, saved in (("document", document), ("query", query)):
        assert_same(part(begun, f"{name}.body"), saved.body)
        assert_same(part(begun, f"{name}.projection"), saved.head("projection"))
    shared = train_from(store, tmp_path / "shared", options("pairs", start="first"), first)
    assert f"{first}: has a query tower, which is left out." in capsys.readouterr().err
    assert_same(part(begun, "body"), document.body)
    train_from(store, tmp_path / "parted", options("pairs", start="shared", towers="separate"), shared)
    assert f"{shared}: has no query tower; the query's begins as a copy." in capsys.readouterr().err
    for name in ("document", "query"):
        assert_same(part(begun, f"{name}.body"), read_encoder(shared).body)
        assert_same(part(begun, f"{name}.projection"), read_encoder(shared).head("projection"))


def test_another_vocabulary_is_refused(store, tmp_path: Path) -> None:
    base = train_from(store, tmp_path / "base", options("mlm"))
    about = json.loads((base / "pretrieve.json").read_text())
    (base / "pretrieve.json").write_text(json.dumps(about | {"vocabulary_sha256": "0" * 64}))
    with pytest.raises(
        DataError, match=rf"{base}: made with a vocabulary of .* with another one .*Set vocabulary_file"
    ):
        train_from(store, tmp_path / "next", options("mlm", start="base"), base)
    assert not (tmp_path / "next/encoder").exists()


def test_a_start_that_is_named_has_to_be_given(store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"start 'base': give its directory \(--start\)"):
        train_from(store, tmp_path, options("mlm", start="base"))
    with pytest.raises(DataError, match="nowhere"):
        train_from(store, tmp_path, options("mlm", start="base"), tmp_path / "nowhere")


def test_a_checkpoint_belongs_to_one_start(store, tmp_path: Path) -> None:
    """A start whose weights differ in a sign, or in a query tower alone, is another one."""
    first = train_from(store, tmp_path / "first", options("pairs", towers="separate"))
    same = shutil.copytree(first, tmp_path / "same")
    signs, query = (shutil.copytree(first, tmp_path / name) for name in ("signs", "query"))
    for path in (signs / "model.safetensors", query / "query/heads.safetensors"):
        tensors = load_file(path)
        name = max(tensors, key=lambda n: tensors[n].numel())
        save_file(tensors | {name: -tensors[name]}, path)
    identities = [_identity(read_encoder(path)) for path in (first, same, signs, query)]
    assert identities[0] == identities[1] and len(set(identities)) == 3
