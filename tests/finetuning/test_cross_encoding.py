"""Cross-encoding: what a pair looks like, its score, and training on groups.

Seen to fail when: the document keeps its [CLS]; its tokens are in segment 0; the closing [SEP] is cut with an over-long pair, or
nothing is; scores come back in the order of lengths; a chunk's scores are written where another's belong; documents go to
another query's group; the loss is a mean; another column than the first is taken for the relevant document; the model is left in
evaluation mode.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranking_small import body
from torch.nn import functional

from pretrieve.finetuning.cross_encoding import CrossEncoderObjective, pack_query_document, score_pairs
from pretrieve.finetuning.groups import Groups
from pretrieve.models.batch import Batch
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.retrieval import embed
from pretrieve.retrieval.negatives import Negatives
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.optimiser import OptimiserConfig

DRAWN = {"pool": 9, "pool_from": "first", "sources": "union", "examples": "judgement"}
OPTIONS = {"group": 3, **DRAWN, "batch": 6, "query_length": 6, "passage_length": 12}
LENGTHS = (6, 12)


@pytest.fixture
def model(task) -> CrossEncoder:
    return CrossEncoder(body(task.passages.vocabulary_size, std=0.3), seed=1)


@pytest.fixture
def groups(task) -> Groups:
    """Negatives of each query: the documents of the four topics behind its own."""
    rows = task.split("60pct", "train")
    lists = [[f"d{(int(task.query_ids[row][1]) + i) % 8}" for i in (1, 2, 3, 4)] for row in rows]
    negatives = Negatives([task.query_ids[row] for row in rows], lists, [np.arange(4.0)[::-1] for _ in rows])
    return Groups(task, rows, OPTIONS, [negatives], 7)


def words(packed, tokenizer) -> dict[int, tuple[str, list[int]]]:
    """The caller's example → its text and its segments."""
    return {
        int(packed.order[i]): (
            " ".join(tokenizer.id_to_token(token) for token in packed.tokens[packed.rows(i, i + 1)]),
            packed.segments[packed.rows(i, i + 1)].tolist(),
        )
        for i in range(len(packed.lengths))
    }


def test_a_pair_is_one_sequence(task, task_tokenizer) -> None:
    """Query row 0 is "t0 u0", row 6 "t1 u1"; candidate 0 has no sentence, candidate 1 is "s0 v3" in "s0 v3 v0"."""
    found = words(pack_query_document(task, np.array([0, 6, 0]), np.array([0, 1, 1]), LENGTHS), task_tokenizer)
    assert found == {
        0: ("[CLS] t0 u0 [SEP] s0 v3 v0 [SEP]", [0] * 4 + [1] * 4),
        1: ("[CLS] t1 u1 [SEP] s0 v3 [SEP] s0 v3 v0 [SEP]", [0] * 4 + [1] * 7),
        2: ("[CLS] t0 u0 [SEP] s0 v3 [SEP] s0 v3 v0 [SEP]", [0] * 4 + [1] * 7),
    }
    cut = words(pack_query_document(task, np.array([0]), np.array([1]), LENGTHS, 8), task_tokenizer)
    assert cut == {0: ("[CLS] t0 u0 [SEP] s0 v3 [SEP] [SEP]", [0] * 4 + [1] * 4)}
    both = words(pack_query_document(task, np.array([0]), np.array([1]), (3, 6)), task_tokenizer)
    assert both == {0: ("[CLS] t0 [SEP] s0 v3 [SEP] s0 [SEP]", [0] * 3 + [1] * 5)}


def test_scores_of_pairs(task, model, cpu, monkeypatch) -> None:
    """As one by one, in the caller's order, over chunks and slices; and the model stays in the mode it was in."""
    queries, documents = np.repeat(np.arange(5), 9), np.tile(np.arange(9), 5)
    shuffled = np.random.default_rng(0).permutation(45)
    queries, documents = queries[shuffled], documents[shuffled]
    model.eval()
    with torch.no_grad():
        single = [
            model(Batch.of(pack_query_document(task, queries[[i]], documents[[i]], LENGTHS), "cpu")).item()
            for i in range(45)
        ]
    monkeypatch.setattr(embed, "CHUNK_ROWS", 20)
    monkeypatch.setattr(embed, "TOKEN_BUDGET", {"cpu": 50})
    for training in (True, False):
        model.train(training)
        found = score_pairs(model, task, queries, documents, LENGTHS, cpu)
        assert found.dtype == np.float32 and model.training is training
        np.testing.assert_allclose(found, single, atol=1e-5)
    assert np.ptp(single) > 1e-1
    assert score_pairs(model, task, queries[:0], documents[:0], LENGTHS, cpu).shape == (0,)


def summed(objective, step: int, parts: int = 1) -> tuple[float, int, list[int]]:
    """Loss of a step over all micro-batches, its count, and the queries of each micro-batch."""
    batches = objective.micro_batches(step, parts)
    with torch.no_grad():
        loss = sum(float(objective.losses(batch)["softmax"]) for batch in batches)
    return loss, sum(batch.counts["softmax"] for batch in batches), [len(batch.ids) for batch in batches]


def test_the_loss_is_that_of_each_group(task, model, groups) -> None:
    """Whatever the token budget; with a classifier of zeros every document is as good, so a query costs log 3."""
    model.eval()
    group = groups.at(2, 6)
    with torch.no_grad():
        scores = torch.stack(
            [
                model(Batch.of(pack_query_document(task, np.repeat(query, 3), row, LENGTHS), "cpu"))[:, 0]
                for query, row in zip(group.queries, group.documents, strict=True)
            ]
        )
    wanted = float(functional.cross_entropy(scores, torch.zeros(6, dtype=torch.long), reduction="sum"))
    assert (group.documents[:, 0] == task.positive[group.queries]).all() and abs(wanted - 6 * np.log(3)) > 1e-3
    # 33 tokens or less a group.
    for budget, parts, pieces in ((10**6, 1, [6]), (70, 1, [2, 2, 2]), (1, 1, [1] * 6), (10**6, 4, [2, 2, 1, 1])):
        objective = CrossEncoderObjective(model, task, groups, OPTIONS, torch.device("cpu"), budget)
        loss, count, sizes = summed(objective, 2, parts)
        assert loss == pytest.approx(wanted, rel=1e-5) and count == 6 and sizes == pieces
    torch.nn.init.zeros_(model.classifier.weight)
    assert summed(objective, 2)[0] == pytest.approx(6 * np.log(3), rel=1e-6)


def test_it_learns_which_document_is_relevant(task, model, groups, cpu) -> None:
    objective = CrossEncoderObjective(model, task, groups, OPTIONS, torch.device("cpu"))
    rows = task.split("60pct", "train")

    def right() -> float:
        queries, documents = np.repeat(rows, 8), np.tile(np.arange(1, 9), len(rows))
        scores = score_pairs(model, task, queries, documents, LENGTHS, cpu).reshape(-1, 8)
        return float((scores.argmax(axis=1) + 1 == task.positive[rows]).mean())

    assert right() < 0.5
    curve = train(objective, OptimiserConfig(150, 1e-2), RunSettings(cpu, 1)).curve
    assert curve[-1]["softmax"] < 0.3 * curve[0]["softmax"] and right() > 0.9
