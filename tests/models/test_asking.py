"""The last layer at some rows alone: the same states and gradients there, NaN elsewhere, and less to compute.

Seen to fail when: rows of a sequence that asks for less than its neighbours are taken back from the wrong place; the residual is
that of other rows; sequences that do not ask are not skipped; all rows are computed; what is not computed is 0.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_body import small_body

from pretrieve.models import batch as module
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.encoder import make_body
from pretrieve.models.transformer import seeded
from pretrieve.text.packing import Packed

CONFIG = small_body(40, (16, 2, 2, 24), max_positions=24, std=0.3, word_std=0.5)
LENGTHS = [20, 20, 20, 19, 17, 17, 9, 9, 8, 5, 3, 3, 2, 1]


def some(packed: Packed) -> np.ndarray:
    """No row of two sequences, all of another, and a few of the rest."""
    chosen = np.random.default_rng(4).random(len(packed.tokens)) < 0.3
    for i, wanted in ((1, False), (2, True), (8, False)):
        chosen[packed.rows(i, i + 1)] = wanted
    return np.flatnonzero(chosen)


ROWS = {
    "some": some,
    "first": lambda packed: packed.starts,
    "all": lambda packed: np.arange(len(packed.tokens)),
    "one": lambda packed: np.array([packed.starts[4] + 3]),
    "none": lambda packed: np.empty(0, dtype=np.int64),
}


@pytest.mark.parametrize("waste", [0.0, 0.5])
@pytest.mark.parametrize("name", ROWS)
def test_the_same_where_it_is_read(monkeypatch, random_packed, name: str, waste: float) -> None:
    monkeypatch.setitem(module.WASTE, "cpu", waste)
    packed = random_packed(LENGTHS, 40)
    batch, rows = Batch.of(packed), ROWS[name](packed)
    assert all(group[5] for group in batch.groups) == (waste == 0.0)
    body, computed, results = make_body(CONFIG, 3), [], []
    body.layers[-1].up.register_forward_hook(lambda layer, given, result: computed.append(len(result)))
    upstream = torch.randn(len(rows), 16, generator=seeded(9))
    for asking in (None, Asking.of(rows, packed, batch)):
        body.zero_grad()
        states = body(batch, asking=asking)
        (states[torch.from_numpy(rows)] * upstream).sum().backward()
        results.append((states.detach(), {n: p.grad.clone() for n, p in body.named_parameters() if p.grad is not None}))
    (full, expected), (states, gradients) = results
    assert computed == [len(packed.tokens), len(rows)] and states.shape == full.shape
    read = torch.zeros(len(full), dtype=torch.bool)
    read[torch.from_numpy(rows)] = True
    assert torch.allclose(states[read], full[read], atol=1e-6) and bool(states[~read].isnan().all())
    assert gradients.keys() == expected.keys() and len(expected) > 20
    for parameter, gradient in expected.items():
        assert float((gradients[parameter] - gradient).abs().max()) <= 1e-5 * max(1.0, float(gradient.abs().max()))
    if len(rows):
        assert float(expected["layers.0.up.weight"].abs().max()) > 0.01
        assert torch.allclose(body.all_states(batch, Asking.of(rows, packed, batch))[-1][read], full[read], atol=1e-6)


def test_places() -> None:
    """Worked by hand: two sequences of 4, one of 3; rows 0, 1, 3 of the first, 2 of the second, 1 of the third."""
    lengths = np.array([4, 4, 3])
    packed = Packed(np.zeros(11, np.int64), np.zeros(11, np.int64), lengths, np.arange(3))
    asking = Asking.of(np.array([0, 1, 3, 6, 9]), packed, Batch.of(packed))
    assert asking.rows.tolist() == [0, 1, 3, 6, 9]
    assert asking.place.tolist() == [0, 1, 2, 3, 0]  # three places for each sequence of the first group
    assert asking.parts == [(0, 4, 3, False), (4, 5, 1, True)]
    assert Asking.first(Batch.of(packed)).parts == [(0, 2, 1, True), (2, 3, 1, True)]
