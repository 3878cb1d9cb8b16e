"""Every objective on a GPU in fp32: the losses and the gradient of a step, in several micro-batches, are those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from made_store import make_store

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import OPTIONS, resolve
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

GPU = torch.device("cuda")
CPU = torch.device("cpu")
NAMES = tuple(name for name in OPTIONS if name != "none")
#: What does not fit a body of two layers, or texts of 24 tokens.
CHANGES: dict[str, dict[str, Any]] = {
    "condenser": {"skip_layer": 1, "head_layers": 1},
    "cocondenser": {"skip_layer": 1, "head_layers": 1, "span_length": 12},
    "optimus": {"decoder_layers": 2},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """Twelve articles of two to four passages, of one to three sentences of 4 to 14 tokens each."""
    rng = np.random.default_rng(2)
    articles = [
        [rng.integers(4, 15, rng.integers(1, 4)).tolist() for _ in range(rng.integers(2, 5))] for _ in range(12)
    ]
    return make_store(tmp_path_factory.mktemp("store"), articles, titles=["ba be", "di"] * 6)


def step(name: str, store: TokenStore, device: torch.device) -> tuple[dict[str, float], torch.Tensor, int]:
    """Mean losses by term, the whole gradient (parameters,) on the CPU, and how many micro-batches there were."""
    shape = {"hidden": 64, "layers": 2, "heads": 2, "feed_forward": 128, "max_positions": 64}
    body = BodyConfig(vocabulary_size=store.vocabulary_size, dropout=0.0, std=0.1, word_std=0.3, **shape)
    options = {"name": name, "length": 24, "query_length": 12, "passage_length": 24, "tasks": ["ict", "bfs"]}
    options |= resolve(name, None, CHANGES.get(name, {}), "test")
    objective = build_objective(Setting(options, 8, Encoder(body, 16, "cls", 1), store, 5, device, 100))
    objective.module.to(device).train()
    batches = objective.micro_batches(3)
    done = accumulate(objective, batches, Device(device, False), Processes(), (1, 3))
    parameters = [p for p in objective.module.parameters() if p.grad is not None]
    return done.means, torch.cat([p.grad.flatten().cpu() for p in parameters]), len(batches)


@pytest.mark.parametrize("name", NAMES)
def test_a_step(name: str, store: TokenStore) -> None:
    expected, gradient, pieces = step(name, store, CPU)
    means, found, _ = step(name, store, GPU)
    assert pieces >= 2 and means == pytest.approx(expected, abs=1e-3)
    assert found.shape == gradient.shape
    assert float((found - gradient).norm() / gradient.norm()) <= 1e-3
