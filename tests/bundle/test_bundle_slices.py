"""A training run that ends with its slice has saved what it did, and goes on to the same bits.

Seen to fail when: the loop raises before it saves; `stop` is asked after the last step too.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_body import SHAPE, small_options

from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.operations.bundle.programs import after, alarm
from pretrieve.operations.bundle.results import files_of
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.device import Device
from pretrieve.training.loop import RunSettings, Stopped

CPU = Device(torch.device("cpu"), bf16=False)
STEPS = 12
OBJECTIVE = {"name": "mlm", "length": 24} | resolve("mlm", None, {}, "test")
OPTIONS = small_options(OBJECTIVE, 4, STEPS, 1e-3, body=SHAPE | {"layers": 1})


def every(steps: int) -> Callable[[], bool]:
    """Says yes at every so manieth question."""
    asked = iter(range(1, 1000))
    return lambda: next(asked) % steps == 0


def test_a_moment_is_over_once_it_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    over = after(100.0)
    for now, expected in ((50.0, False), (100.0, True), (101.0, True)):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        assert over() == expected and not after(math.inf)()


def test_slices_end_with_the_bits_of_one_run(store, tmp_path: Path) -> None:
    whole = tmp_path / "whole/seed1"
    outcome = pretrain(
        EncoderOptions.from_dict(OPTIONS), store.directory, whole, RunSettings(CPU, 1, 1e9), tmp_path / "unused"
    )
    out, work, saved = tmp_path / "sliced/seed1", tmp_path / "state", []
    for _ in range(4):
        try:
            again = pretrain(
                EncoderOptions.from_dict(OPTIONS), store.directory, out, RunSettings(CPU, 1, 1e9, stop=every(4)), work
            )
            break
        except Stopped:
            assert not (out / "model.safetensors").exists()
            saved.append(max(int(file.stem.rpartition("-")[2]) for file in work.glob("*.safetensors")))
    assert saved == [4, 8], "the run is not stopped at its last step, which is the twelfth"
    assert again.tokens == outcome.tokens
    for name, tensor in load_file(whole / "model.safetensors").items():
        assert torch.equal(tensor, load_file(out / "model.safetensors")[name]), name
    assert not list(work.glob("*"))


def test_an_alarm_ends_a_block_and_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Stopped), alarm(time.monotonic() + 0.05):
        time.sleep(20)
    with alarm(time.monotonic() + 0.05):
        pass
    time.sleep(0.1)
    with alarm(math.inf):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_run_that_stays_leaves_its_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("runs/s.trec.gz", "runs/s.cost.json", "metrics/s.json", "negatives/s.jsonl.gz")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    makes = {"runs": ["runs/s.trec.gz"], "outputs": ["metrics/s.json"], "negatives": ["negatives/s.jsonl.gz"]}
    job = Job("", "", Call("retrieve", makes))
    assert set(files_of(job)) == set(names)
    assert set(files_of(job, ["runs/s.trec.gz", "negatives/s.jsonl.gz"])) == set(names[1:3])
