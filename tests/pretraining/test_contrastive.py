"""The in-batch loss by hand and against a loop.

Seen to fail when: the loss is a mean; the temperature multiplies; duplicates stay in the sum, or the diagonal is left out.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pretrieve.models.encoder import Encoder, seeded
from pretrieve.pairs.mixture import make_sampler
from pretrieve.pretraining.contrastive import Contrastive, in_batch_loss


def loop(queries: torch.Tensor, documents: torch.Tensor, temperature: float, ids: list[int]) -> float:
    total = 0.0
    for i in range(len(ids)):
        scores = {
            j: float(queries[i] @ documents[j]) / temperature for j in range(len(ids)) if j == i or ids[j] != ids[i]
        }
        total += -scores[i] + math.log(sum(math.exp(score) for score in scores.values()))
    return total


def test_by_hand() -> None:
    eye = torch.eye(3)
    ids = torch.arange(3)
    assert in_batch_loss(eye, eye, 1.0, ids).item() == pytest.approx(3 * math.log(1 + 2 / math.e), abs=1e-6)
    assert in_batch_loss(eye, eye, 0.5, ids).item() == pytest.approx(3 * math.log(1 + 2 / math.e**2), abs=1e-6)
    # Documents 0 and 1 are the same one: rows 0 and 1 have one negative each.
    twice = in_batch_loss(eye, eye, 1.0, torch.tensor([5, 5, 6])).item()
    assert twice == pytest.approx(2 * math.log(1 + 1 / math.e) + math.log(1 + 2 / math.e), abs=1e-6)
    assert in_batch_loss(eye[:1], eye[:1], 1.0, ids[:1]).item() == 0


@pytest.mark.parametrize("ids", [list(range(12)), [0, 1, 0, 2, 0, 3, 3, 4, 5, 6, 6, 7], [1] * 12])
def test_against_a_loop(ids: list[int]) -> None:
    queries, documents = (
        torch.nn.functional.normalize(torch.randn(12, 6, generator=seeded(seed)), dim=1) for seed in (0, 1)
    )
    loss = in_batch_loss(queries, documents, 0.2, torch.tensor(ids)).item()
    assert loss == pytest.approx(loop(queries, documents, 0.2, ids), abs=1e-4)
    assert (loss > 1) == (len(set(ids)) > 1)


def test_objective(store, body) -> None:
    encoder = Encoder(body, 8, "mean", 0)
    sampler = make_sampler(store, ["ict", "bfs", "wlp"])
    objective = Contrastive(encoder, store, sampler, 3, 10, 12, 20, 0.1)
    (batch,) = objective.micro_batches(4)
    (again,) = objective.micro_batches(4)
    (other,) = objective.micro_batches(5)
    queries, documents, passages = batch.data
    assert batch.counts == {"contrastive": 10} and batch.tokens == len(queries.tokens) + len(documents.tokens)
    assert queries.lengths.max() <= 12 and documents.lengths.max() <= 20
    assert (again.data[0].tokens == queries.tokens).all() and (again.data[2] == passages).all()
    assert not np.array_equal(other.data[2], passages)
    loss = objective.losses(batch)["contrastive"]
    assert loss.item() > 0 and math.isfinite(loss.item())
    loss.backward()
    for part in (encoder.body.words, encoder.projection):
        assert float(part.weight.grad.abs().max()) > 0
