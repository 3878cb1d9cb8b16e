"""A step of fine-tuning to rank on a GPU in fp32: the loss and the gradient, in several micro-batches, are those of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ranking_small import KINDS, objective
from tiny_task import make_task, make_tokenizer

from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

GPU = torch.device("cuda")
CPU = torch.device("cpu")


def step(data: Dataset, kind: str, device: torch.device) -> tuple[float, torch.Tensor, int]:
    """The mean loss, the whole gradient (parameters,) on the CPU, and how many micro-batches there were."""
    ranking = objective(data, kind, budget=60)
    ranking.device = device
    ranking.module.to(device).train()
    batches = ranking.micro_batches(3)
    done = accumulate(ranking, batches, Device(device, False), Processes(), (1, 3))
    parameters = [p for p in ranking.module.parameters() if p.grad is not None]
    return done.means["contrastive"], torch.cat([p.grad.flatten().cpu() for p in parameters]), len(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step(kind: str, tmp_path: Path) -> None:
    data = Dataset(make_task(tmp_path, make_tokenizer(tmp_path / "vocab.txt")))
    expected, gradient, pieces = step(data, kind, CPU)
    loss, found, _ = step(data, kind, GPU)
    assert pieces >= 2 and loss == pytest.approx(expected, abs=1e-3)
    assert float((found - gradient).norm() / gradient.norm()) <= 1e-3
