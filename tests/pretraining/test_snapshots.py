"""Weights on the way of one training: those of the step, and the encoder itself is none the worse for them.

Seen to fail when: weights are kept a step later; the last weights are written for every snapshot; a resumed run is not asked
whether it still has them; they are removed with the run's own checkpoints; tokens are those of the whole run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_body import small_options, trained

from pretrieve.base import finished_work
from pretrieve.base.errors import ConfigError
from pretrieve.models.hf_format import load_encoder, read_encoder
from pretrieve.pretraining.presets import resolve
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.loop import RunSettings, Stopped
from pretrieve.workflow.job_options import check_snapshots, with_snapshots

STEPS = 16
OBJECTIVES = {
    "mlm": {"length": 24} | resolve("mlm", None, {}, "test"),
    "condenser": {"length": 24} | resolve("condenser", None, {"skip_layer": 1, "head_layers": 1}, "test"),
    "pairs": {"tasks": ["ict"], "query_length": 12, "passage_length": 24}
    | resolve("pairs", None, {"similarity": "cosine", "temperature": 0.1, "towers": "separate"}, "test"),
}


def run(store, directory: Path, name: str = "mlm", shares: tuple[float, ...] = (), **settings) -> Path:
    """Train; snapshots stand in ``directory/{share}``. Returns the encoder's directory."""
    options = small_options({"name": name} | OBJECTIVES[name], 4, STEPS, similarity="cosine")
    named = {directory / str(share): share for share in shares}
    of = RunSettings(choose_device("fp32"), 1, **settings)
    trained(options, store, directory / "encoder", directory / "ckpt", of, snapshots=named)
    return directory / "encoder"


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.*"))
        if path.name != "curve.csv"
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_snapshots_are_the_weights_of_their_step_and_change_nothing(store, tmp_path: Path, name: str) -> None:
    plain = run(store, tmp_path / "plain", name)
    watched = run(store, tmp_path / "watched", name, (0.125, 0.5))
    assert files_of(plain) == files_of(watched) and files_of(plain)
    assert not (tmp_path / "watched/ckpt").exists(), "what was kept on the way goes with the checkpoints"
    rows = (plain / "curve.csv").read_text().splitlines()
    for share, step in ((0.125, 2), (0.5, 8)):
        # The same training, stopped there: its checkpoint has the weights.
        asked = []
        with pytest.raises(Stopped):
            run(store, tmp_path / f"stopped{step}", name, stop=lambda a=asked, n=step: a.append(1) or len(a) == n)
        (file,) = (tmp_path / f"stopped{step}/ckpt").glob("step-*.safetensors")
        state = {
            key.removeprefix("model/"): value for key, value in load_file(file).items() if key.startswith("model/")
        }
        place = tmp_path / "watched" / str(share)
        encoder, about = load_encoder(place)
        prefix = "document.body." if name == "pairs" else "body."
        own = {f"{prefix}{key}": value for key, value in encoder.body.state_dict().items()}
        assert own.keys() <= state.keys() and all(torch.equal(own[key], state[key]) for key in own)
        last = load_encoder(plain)[0].body.state_dict()
        assert not all(torch.equal(value, last[key]) for key, value in encoder.body.state_dict().items())
        heads = read_encoder(place).heads
        assert heads.keys() == read_encoder(plain).heads.keys()
        assert (place / "query").is_dir() == (name == "pairs")
        # learning rate and tokens are those that the run had there; the first columns are step and tokens
        curve = (place / "curve.csv").read_text().splitlines()
        assert len(curve) == 1 + step and curve[-1].split(",")[:2] == rows[step].split(",")[:2]
        assert about["step"] == step and about["tokens"] == int(rows[step].split(",")[1])


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_that_ends_behind_a_snapshot_still_has_it(store, tmp_path: Path, cut_at, capsys, kept: bool) -> None:
    """Killed after step 10; and where what it kept is lost, it begins again and does not go on without."""
    whole = run(store, tmp_path / "whole", "condenser", (0.25, 0.75))
    steps = cut_at(10)
    with pytest.raises(KeyboardInterrupt):
        run(store, tmp_path / "x", "condenser", (0.25, 0.75), checkpoint_seconds=0.0)
    assert not (tmp_path / "x/0.25").exists(), "no result before the run has ended"
    if not kept:
        shutil.rmtree(tmp_path / "x/ckpt/snapshots")
    again = run(store, tmp_path / "x", "condenser", (0.25, 0.75))
    assert steps == [*range(11), *(range(10, STEPS) if kept else range(STEPS))]
    assert ("the weights of steps [4] are not there any more" in capsys.readouterr().err) != kept
    assert files_of(again) == files_of(whole)
    for share in ("0.25", "0.75"):
        assert files_of(tmp_path / "x" / share) == files_of(tmp_path / "whole" / share)


def test_a_job_that_is_run_once_more_behind_its_end_makes_them_again(store, tmp_path: Path, monkeypatch) -> None:
    """Snakemake that was killed before it noted a job's end deletes its outputs and starts it once more."""
    monkeypatch.setenv(finished_work.KEEP, "1")
    run(store, tmp_path, shares=(0.5,), checkpoint_seconds=0.0)
    first = files_of(tmp_path / "0.5")
    shutil.rmtree(tmp_path / "0.5")
    shutil.rmtree(tmp_path / "encoder")
    run(store, tmp_path, shares=(0.5,), checkpoint_seconds=0.0)
    assert files_of(tmp_path / "0.5") == first


def test_what_snapshots_cost_is_counted_once(tmp_path: Path) -> None:
    with Cost("pretrain") as cost:
        cost.tokens = 7
    for name in ("whole", "at25"):
        (tmp_path / name).mkdir()
    cost.write_with_parts(tmp_path / "whole", [tmp_path / "at25"], ["start/cost.json"])
    part = json.loads((tmp_path / "at25/cost.json").read_text())
    assert part["behind"] == [f"{tmp_path}/whole/cost.json"] and part["wall_s"] == part["tokens"] == 0
    whole = json.loads((tmp_path / "whole/cost.json").read_text())
    assert whole["tokens"] == 7 and whole["behind"] == ["start/cost.json"]


def test_entries_of_snapshots() -> None:
    entry = {"objective": "mlm", "budget": "b", "snapshots": {"at25": 0.25}}
    made = with_snapshots({"encoders": {"a": entry}})
    assert with_snapshots(made) == made, "a checked configuration is read again"
    assert made["encoders"]["a-at25"] == {"objective": "mlm", "budget": "b", "snapshot_of": "a", "at": 0.25}
    for name in made["encoders"]:
        check_snapshots(name, made["encoders"][name], made["encoders"])
    with pytest.raises(ConfigError, match="there is an encoder a-at25 already"):
        with_snapshots({"encoders": {"a": entry, "a-at25": {"objective": "mlm"}}})
    with pytest.raises(ConfigError, match="'a' has no such snapshot"):
        check_snapshots("a-at50", made["encoders"]["a-at25"], made["encoders"])
    with pytest.raises(ConfigError, match="trains nothing"):
        check_snapshots("a", {"objective": "none", "snapshots": {"at25": 0.25}}, {})
