"""The in-batch loss by hand and against a loop; towers, similarities, and how a batch of pairs is cut.

Seen to fail when: the loss is a mean; the temperature multiplies; duplicates stay in the sum, or the diagonal is left out; dot
is normalised; both sides go through one tower of two; the second tower shares the first one's weights; a batch is cut into
fewer parts than processes, beyond the budget, or each part is sampled anew.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.transformer import seeded
from pretrieve.pretraining.contrastive import Contrastive, in_batch_loss
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.presets import resolve
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.optimiser import OptimiserConfig


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
    # ORQA keeps a document's repetition as a negative: as if all were different.
    assert in_batch_loss(eye, eye, 1.0, None).item() == pytest.approx(3 * math.log(1 + 2 / math.e), abs=1e-6) != twice


@pytest.mark.parametrize("ids", [list(range(12)), [0, 1, 0, 2, 0, 3, 3, 4, 5, 6, 6, 7], [1] * 12])
def test_against_a_loop(ids: list[int]) -> None:
    queries, documents = (
        torch.nn.functional.normalize(torch.randn(12, 6, generator=seeded(seed)), dim=1) for seed in (0, 1)
    )
    loss = in_batch_loss(queries, documents, 0.2, torch.tensor(ids)).item()
    assert loss == pytest.approx(loop(queries, documents, 0.2, ids), abs=1e-4)
    assert (loss > 1) == (len(set(ids)) > 1)


def make(store, body, budget: int | None = None, **options) -> Contrastive:
    """10 pairs a step, of weights that are the same every time."""
    chosen = {"similarity": "cosine", "temperature": 0.1, "towers": "shared", "head": "linear", "batch": 10} | options
    encoder = Encoder(body, 8, "mean", 0, chosen["similarity"], chosen["head"]).eval()
    given = {"tasks": ["ict", "bfs", "wlp"], "query_length": 12, "passage_length": 20}
    changes = {name: chosen[name] for name in ("temperature", "towers")} | {"ict_keep": 0.1}
    resolved = given | resolve("pairs", "paper", changes, "test")
    return Contrastive(Setting(resolved, chosen["batch"], encoder, store, 3, torch.device("cpu"), budget))


def test_objective(store, body) -> None:
    objective = make(store, body)
    (batch,) = objective.micro_batches(4)
    (again,) = objective.micro_batches(4)
    (other,) = objective.micro_batches(5)
    queries, documents, passages = batch.data
    assert batch.counts == {"contrastive": 10} and batch.tokens == len(queries.tokens) + len(documents.tokens)
    assert batch.rows == 20 and (batch.ids == passages).all()
    assert queries.lengths.max() <= 12 and documents.lengths.max() <= 20
    assert (again.data[0].tokens == queries.tokens).all() and (again.data[2] == passages).all()
    assert not np.array_equal(other.data[2], passages)
    vectors, own = objective.vectors(batch, True)
    loss = objective.contrast([vectors], [batch])["contrastive"]
    assert own == {} and loss.item() > 0 and math.isfinite(loss.item())
    loss.backward()
    for part in (objective.encoder.body.words, objective.encoder.projection):
        assert float(part.weight.grad.abs().max()) > 0


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("towers", ["shared", "separate"])
def test_the_loss_is_that_of_the_texts(store, body, similarity: str, towers: str) -> None:
    """Against a loop over single texts through the towers: vectors of norm 1 for cosine, as they are for dot."""
    objective = make(store, body, similarity=similarity, towers=towers)
    if towers == "separate":  # as after some training
        with torch.no_grad():
            objective.query_encoder.projection.weight.add_(torch.randn(8, 16, generator=seeded(2)))
    (batch,) = objective.micro_batches(1)
    queries, documents, passages = batch.data
    sides = []
    for tower, packed in ((objective.query_encoder, queries), (objective.encoder, documents)):
        found = {}
        for place, example in enumerate(packed.order):
            one = Batch.of(packed.part(place, place + 1))
            with torch.no_grad():
                vector = tower.projection(tower.pool(one))[0]
            found[int(example)] = vector / vector.norm() if similarity == "cosine" else vector
        sides.append(torch.stack([found[i] for i in range(10)]))
    expected = loop(*sides, 0.1, passages.tolist())
    with torch.no_grad():
        vectors, _ = objective.vectors(batch, False)
        loss = objective.contrast([vectors], [batch])["contrastive"].item()
    assert loss == pytest.approx(expected, rel=1e-4) and expected > 1
    assert len(set(passages.tolist())) < 10  # there are duplicates


def test_two_towers_begin_as_copies_and_part(store, body, cpu) -> None:
    objective = make(store, body, towers="separate", similarity="dot", temperature=1.0)
    query, document = objective.query_encoder, objective.encoder
    assert query is not document and objective.module.keys() == {"document", "query"}
    assert all(torch.equal(t, document.state_dict()[n]) for n, t in query.state_dict().items())
    owned = [{p.data_ptr() for p in tower.parameters()} for tower in (query, document)]
    assert not owned[0] & owned[1]
    start = {n: t.clone() for n, t in document.state_dict().items()}
    train(objective, OptimiserConfig(3, 1e-2), RunSettings(cpu, 0))
    for one, other in ((query.state_dict(), document.state_dict()), (query.state_dict(), start)):
        assert float((one["projection.weight"] - other["projection.weight"]).abs().max()) > 1e-3
        assert float((one["body.words.weight"] - other["body.words.weight"]).abs().max()) > 1e-3
    assert float((document.state_dict()["body.words.weight"] - start["body.words.weight"]).abs().max()) > 1e-3
    shared = make(store, body)
    assert shared.query_encoder is shared.encoder is shared.module


def test_orqas_head_is_trained(store, body, cpu) -> None:
    objective = make(store, body, head="orqa", similarity="dot", temperature=1.0)
    start = {n: t.clone() for n, t in objective.module.state_dict().items()}
    curve = train(objective, OptimiserConfig(3, 1e-2), RunSettings(cpu, 0)).curve
    assert all(math.isfinite(row["loss"]) for row in curve)
    for name in ("pooler.weight", "dense.weight", "norm.weight"):
        assert (
            float((objective.module.state_dict()[f"projection.{name}"] - start[f"projection.{name}"]).abs().max()) > 0
        )


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 10])
@pytest.mark.parametrize("budget", [10**6, 120, 60, 1])
def test_every_cut_is_of_the_same_pairs(store, body, parts: int, budget: int) -> None:
    """In their order; within the budget, or of one pair; as many for every process."""
    (whole,) = make(store, body).micro_batches(2)
    pieces = make(store, body, budget).micro_batches(2, parts)
    assert len(pieces) >= parts and (len(pieces) % parts == 0 or len(pieces) == 10)
    assert all(piece.tokens <= budget or piece.counts["contrastive"] == 1 for piece in pieces)
    assert np.concatenate([piece.data[2] for piece in pieces]).tolist() == whole.data[2].tolist()
    assert sum(piece.tokens for piece in pieces) == whole.tokens
    for side in (0, 1):
        assert texts(pieces, side) == texts([whole], side)
    assert [piece.rows for piece in pieces] == [2 * piece.counts["contrastive"] for piece in pieces]


def texts(batches, side: int) -> list[list[int]]:
    """Tokens of each example, in the order of the pairs."""
    result = []
    for batch in batches:
        packed = batch.data[side]
        own = [packed.tokens[s : s + n].tolist() for s, n in zip(packed.starts, packed.lengths, strict=True)]
        result += [own[place] for place in np.argsort(packed.order)]
    return result
