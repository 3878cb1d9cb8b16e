"""A training run that ends with its slice has saved what it did, and goes on to the same bits.

Seen to fail when: `Interval.__le__` only compares the seconds (nothing is saved); `add_gradients` does nothing (the run goes on).
"""

from __future__ import annotations

import math
import time
from operator import ge
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pretrieve.bundle.slices import Interval, OutOfTime, UntilProcesses, alarm
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.run import pretrain
from pretrieve.training.device import Device

CPU = Device(torch.device("cpu"), bf16=False)
OPTIONS = {
    "body": {"kind": "transformer", "hidden": 16, "layers": 1, "heads": 2, "feed_forward": 32, "max_positions": 40},
    "pooling": "cls",
    "dim": 8,
    "similarity": "dot",
    "head": "linear",
    "objective": {"name": "mlm", "length": 24} | resolve("mlm", None, {}, "test"),
    "budget": {"batch": 4, "steps": 12, "learning_rate": 1e-3},
}


class Clock:
    """A clock that the test moves on: one second for each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_an_interval_is_over_when_its_slice_is(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = Interval(60.0, until=100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    assert not ge(59.0, interval) and ge(60.0, interval)  # as the loop asks
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert ge(0.0, interval)
    assert not ge(59.0, Interval(60.0))


def test_slices_end_with_the_bits_of_one_run(store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole/seed1"
    outcome = pretrain(OPTIONS, store.directory, whole, 1, CPU, tmp_path / "unused", 1e9)
    monkeypatch.setattr(time, "monotonic", Clock())
    out, work, saved = tmp_path / "sliced/seed1", tmp_path / "state", []
    for _ in range(30):
        until = time.monotonic() + 25
        try:
            again = pretrain(
                OPTIONS, store.directory, out, 1, CPU, work, Interval(1e9, until), None, UntilProcesses(until=until)
            )
            break
        except OutOfTime:
            assert not (out / "model.safetensors").exists()
            saved.append(max((int(file.stem.rpartition("-")[2]) for file in work.glob("*.safetensors")), default=0))
    assert len(saved) >= 2 and saved == sorted(set(saved)) and 0 < saved[0] < 12, saved
    assert again.tokens == outcome.tokens
    for name, tensor in load_file(whole / "model.safetensors").items():
        assert torch.equal(tensor, load_file(out / "model.safetensors")[name]), name
    assert not list(work.glob("*"))


def test_an_alarm_ends_a_block_and_is_put_back() -> None:
    with pytest.raises(OutOfTime), alarm(time.monotonic() + 0.05):
        time.sleep(20)
    with alarm(time.monotonic() + 0.05):
        pass
    time.sleep(0.1)
    with alarm(math.inf):
        pass
