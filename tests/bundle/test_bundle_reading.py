"""Training on a store without what is not read gives the bits of training on the whole store, whatever the objective.

Seen to fail when: the first item that is read is left out; the copy's key is that of its own tokens.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_body import small_options

from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.operations.bundle.pack import Watched, thin_stores, tokens_read
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.loop import RunSettings

CPU = Device(torch.device("cpu"), bf16=False)
T5 = {"kind": "t5", "hidden": 16, "layers": 1, "heads": 2, "feed_forward": 32, "dropout": 0.0}
PAIRS = {"query_length": 8, "passage_length": 12}
OBJECTIVES = {
    "mlm": {},
    "mlm blocks": {"examples": "blocks"},
    "condenser": {"skip_layer": 1},
    "cocondenser": {"skip_layer": 1, "span_length": 10},
    "retromae": {},
    "dupmae": {},
    "seed-encoder": {"decoder_layers": 1},
    "optimus": {"decoder_layers": 1},
    "pairs": {},
    "pairs t5": {},
}


def options_of(case: str) -> dict:
    name = case.partition(" ")[0]
    changes = dict(OBJECTIVES[case])
    if name not in ("pairs", "cocondenser"):
        changes = {"examples": "passages"} | changes
    objective = {"name": name, "length": 12} | resolve(name, None, changes, "test")
    if name == "pairs":
        objective |= PAIRS | {"tasks": ["ict"] if "t5" in case else ["ict", "bfs", "wlp"]}
    return small_options(objective, 2, 2, 1e-3, **({"body": T5, "pooling": "mean"} if "t5" in case else {}))


def job(options: dict, store: Path, seed: int = 1) -> Job:
    words = {"store": [str(store)], "options": [json.dumps(options)], "seed": [str(seed)], "out": [f"e/seed{seed}"]}
    return Job("j", "j", Call("pretrain", words))


def thin_copy(store: TokenStore, options: dict, place: Path, seed: int = 1) -> TokenStore:
    shutil.copytree(store.directory, place)
    for name, content in thin_stores([job(options, store.directory, seed)]).items():
        (place / Path(name).name).write_bytes(content)
    return TokenStore(place)


def weights(options: dict, store: TokenStore, out: Path) -> dict[str, torch.Tensor]:
    pretrain(EncoderOptions.from_dict(options), store.directory, out / "seed1", RunSettings(CPU, 1, 1e9), out / "work")
    return load_file(out / "seed1/model.safetensors")


@pytest.mark.parametrize("case", OBJECTIVES)
def test_training_reads_nothing_else(store: TokenStore, tmp_path: Path, case: str) -> None:
    options = options_of(case)
    thin = thin_copy(store, options, tmp_path / "thin")
    blank = np.flatnonzero(np.asarray(thin.tokens) != np.asarray(store.tokens))
    assert 0 < len(blank) < len(store.tokens) and not np.asarray(thin.tokens)[blank].any()
    expected, found = (weights(options, one, tmp_path / name) for one, name in ((store, "a"), (thin, "b")))
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    abouts = [json.loads((tmp_path / name / "seed1/pretrieve.json").read_text()) for name in "ab"]
    assert abouts[0] == abouts[1] and abouts[0]["token_store"] == store.key, "the copy goes by the name of the whole"


def test_a_copy_is_for_its_jobs(store: TokenStore, tmp_path: Path) -> None:
    """The comparison above can fail: a copy that was made for another seed trains other weights."""
    options = options_of("mlm")
    other = thin_copy(store, options, tmp_path / "other", seed=2)
    expected, found = (weights(options, one, tmp_path / name) for one, name in ((store, "a"), (other, "b")))
    assert any(not torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_jobs_of_one_store_are_put_together(store: TokenStore) -> None:
    options = options_of("mlm")
    one, other = (job(each, store.directory) for each in (options, options_of("pairs")))
    both = tokens_read(store.directory, [one, other])
    assert np.array_equal(both, tokens_read(store.directory, [one]) | tokens_read(store.directory, [other]))
    unbudgeted = {key: value for key, value in options.items() if key != "budget"}
    untrained = job(unbudgeted | {"objective": {"name": "none"}}, store.directory)
    assert not tokens_read(store.directory, [untrained]).any()


def test_what_is_read_whole_is_noted_whole() -> None:
    watched = Watched(np.arange(6))
    assert watched[np.array([1, 3])].tolist() == [1, 3] and watched.seen.tolist() == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    assert np.asarray(watched).sum() == 15 and watched.seen.all() and len(watched) == 6
