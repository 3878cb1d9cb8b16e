"""The body on a GPU: states and gradients are those of the CPU in fp32, and near them in bf16, whichever rows are read.

In fp32 states agree to 1e-4 and gradients to a thousandth of their norm; in bf16 to 2 % and 5 % of their norms.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from small_body import small_body

from pretrieve.models.batch import Asking, Batch
from pretrieve.models.encoder import make_body
from pretrieve.models.transformer import Transformer, seeded
from pretrieve.text.packing import Packed, Part, pack
from pretrieve.training.device import Device

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

GPU = torch.device("cuda")
CPU = torch.device("cpu")
CONFIG = small_body(200, (128, 3, 4, 256), max_positions=128, std=0.08, word_std=0.5)
LENGTHS = {
    "mixed": np.concatenate([[128, 128, 1, 2], np.random.default_rng(5).integers(3, 128, 40)]),
    "equal": np.full(9, 32),
    "one": np.array([7]),
}
READINGS = ("all", "first", "asking")


def packed_of(lengths: np.ndarray) -> Packed:
    """Random texts of two segments."""
    rng = np.random.default_rng(1)
    tokens, first, starts = rng.integers(1, 200, lengths.sum()), lengths // 2, np.cumsum(lengths) - lengths
    return pack([Part(tokens, starts, first), Part(tokens, starts + first, lengths - first, segment=1)])


def asked(packed: Packed) -> np.ndarray:
    """A few rows: none of some sequences, all of the first."""
    chosen = np.random.default_rng(4).random(len(packed.tokens)) < 0.15
    chosen[packed.rows(0, 1)] = True
    return np.flatnonzero(chosen)


def compute(
    body: Transformer, packed: Packed, reading: str, device: Device
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The states that are read (rows, hidden), and the gradients of a sum over them, by parameter; float32 on the CPU."""
    body = copy.deepcopy(body).to(device.device)
    batch = Batch.of(packed, device.device)
    with device.autocast():
        if reading == "asking":
            asking = Asking.of(asked(packed), packed, batch)
            states = body(batch, asking=asking).index_select(0, asking.rows)
        else:
            states = body(batch, first_only=reading == "first")
    upstream = torch.randn(states.shape, generator=seeded(9)).to(device.device)
    (states.float() * upstream).sum().backward()
    return states.detach().float().cpu(), {name: p.grad.float().cpu() for name, p in body.named_parameters()}


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """‖found − expected‖ / ‖expected‖."""
    return float((found - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def body() -> Transformer:
    return make_body(CONFIG, 3)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", LENGTHS)
def test_in_fp32(body: Transformer, name: str, reading: str) -> None:
    packed = packed_of(LENGTHS[name])
    expected, gradients = compute(body, packed, reading, Device(CPU, False))
    states, found = compute(body, packed, reading, Device(GPU, False))
    assert float((states - expected).abs().max()) <= 1e-4
    far = {key: distance(found[key], gradient) for key, gradient in gradients.items()}
    assert max(far.values()) <= 1e-3, far


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", LENGTHS)
def test_in_bf16(body: Transformer, name: str, reading: str) -> None:
    packed = packed_of(LENGTHS[name])
    expected, gradients = compute(body, packed, reading, Device(CPU, False))
    states, found = compute(body, packed, reading, Device(GPU, True))
    assert distance(states, expected) < 2e-2
    far = {key: distance(found[key], gradient) for key, gradient in gradients.items()}
    assert max(far.values()) < 5e-2, far
