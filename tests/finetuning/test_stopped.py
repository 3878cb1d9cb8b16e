"""Fine-tuning that is told to stop saves and ends; the same call goes on to the bits of a run that was not stopped.

Seen to fail when: ``finetune`` does not pass ``stop`` on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pretrieve.finetuning.fine_tuning import FineTuning
from pretrieve.finetuning.finetune import finetune
from pretrieve.finetuning.recipes import resolve_recipe
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import choose_device
from pretrieve.training.loop import Stopped

CHANGES = {"dim": 16, "batch": 16, "steps": 20, "temperature": 0.1, "similarity": "cosine", "pooling": "mean"}
SMALL = {"query_length": 8, "passage_length": 12, "learning_rate": 1e-2, "optimiser": "adamw", "epochs": 1e6}
OPTIONS = resolve_recipe("reqa", {"options": CHANGES}, {"all": SMALL})


def test_a_stopped_run_goes_on(task: Dataset, encoder_dir: Path, tmp_path: Path) -> None:
    def run_in(folder: str, stop=None) -> Path:
        out, work = tmp_path / folder / "system/task/seed1", tmp_path / folder / "work"
        run = FineTuning(OPTIONS, encoder_dir, task.directory, "60pct", 1, choose_device("fp32"), work)
        finetune(run, out, 1e9, stop)
        return out

    steps = iter(range(1, 100))
    with pytest.raises(Stopped, match="stopped after step 11 of 20"):
        run_in("stopped", lambda: next(steps) == 11)
    assert not (tmp_path / "stopped/system").exists()
    ends = [load_file(run_in(folder) / "model.safetensors") for folder in ("stopped", "whole")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[1])
    before = load_file(encoder_dir / "model.safetensors")
    assert any(not torch.equal(before[name], ends[1][name]) for name in ends[1])
