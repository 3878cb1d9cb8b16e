"""The ranking objective: each loss is that of the texts, cuts change nothing, equal documents are no negatives.

Gradients agree to 1e-5 between the cache and a computation that keeps every graph; their largest entries are above 1e-2.

Seen to fail when: nothing is left out of a query's sum, or equal documents alone, or its own answer too; both sides go
through one tower; the temperature multiplies; the relevant column is taken for groups of one; groups are mixed up when
a step is cut, or when its parts come together; documents are unpacked in another order; each micro-batch has its own
negatives; the budget, the documents' tokens, or the number of parts are ignored in a cut; counts are of documents;
margin or direction are not the options'; options are not checked.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from ranking_small import CPU, KINDS, OPTIONS, dual, gradients, largest_difference, lists, objective

from pretrieve.base.errors import ConfigError
from pretrieve.finetuning.groups import Group, Groups
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.recipe_checks import check_loss
from pretrieve.models.batch import Batch
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.objective import ContrastiveObjective
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import Processes
from pretrieve.training.step import _seed_dropout, accumulate

ALONE = Processes()
#: The whole step at once, a few micro-batches, one for every query.
BUDGETS = (10**6, 100, 1)


# --- Losses of texts ---


def by_hand(made: RankingObjective, group: Group, data: Dataset) -> float:
    """The loss of a step from the vectors of single texts, score by score."""
    options, model = made.options, made.model

    def vector(tower, packed) -> torch.Tensor:
        with torch.no_grad():
            return tower(Batch.of(packed))[0].double()

    queries = [vector(model.query, data.pack_queries(np.array([q]), 8)) for q in group.queries]
    documents = {d: vector(model.document, data.pack_candidates(np.array([d]), 12)) for d in np.unique(group.documents)}
    score = lambda i, k, g: float(queries[i] @ documents[group.documents[k, g]]) / options["temperature"]
    count, size = group.documents.shape
    relevant = lambda i, k, g: group.documents[k, g] in data.relevant[group.queries[i]]
    total = 0.0
    for i in range(count):
        own = [score(i, i, g) for g in range(size)]
        if options["loss"] == "pairwise":
            total += sum(-math.log(math.exp(own[0]) / (math.exp(own[0]) + math.exp(s))) for s in own[1:]) / (size - 1)
        elif options["loss"] == "hinge":
            total += sum(max(0.0, options["margin"] - own[0] + s) for s in own[1:]) / (size - 1)
        elif not options["in_batch"]:
            total += -own[0] + math.log(sum(map(math.exp, own)))
        else:
            places = [(k, g) for k in range(count) for g in range(size) if (k, g) == (i, 0) or not relevant(i, k, g)]
            total += -own[0] + math.log(sum(math.exp(score(i, k, g)) for k, g in places))
            if options["direction"] == "both":
                others = [k for k in range(count) if k == i or not relevant(k, i, 0)]
                total += -own[0] + math.log(sum(math.exp(score(k, i, 0)) for k in others))
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", ["sde", "ade"])
def test_the_loss_is_that_of_the_texts(task, two_answers, kind: str, sharing: str) -> None:
    for data in (task, two_answers):
        made = objective(data, kind, sharing=sharing)
        assert isinstance(made, ContrastiveObjective)
        made.module.eval()
        for step in (0, 2):
            (batch,) = made.micro_batches(step)
            group = batch.data.group
            with torch.no_grad():
                vectors, own = made.vectors(batch, True)
                losses = made.contrast([vectors], [batch])
            expected = by_hand(made, group, data)
            assert own == {} and losses.keys() == batch.counts.keys() == made.terms.keys()
            assert float(losses["contrastive"]) == pytest.approx(expected, rel=1e-4) and expected > 1
            assert batch.counts["contrastive"] == len(group.queries) == len(batch.ids)
            assert batch.rows == len(vectors) == group.documents.size + len(group.queries)


def test_64_documents_for_8_queries(task: Dataset) -> None:
    """8 queries with 8 passages each: every query over 64 (condenser A.1), less those that are relevant to it."""
    rows = task.split("60pct", "train")
    options = OPTIONS | {"group": 8, "batch": 8, "temperature": 1.0}
    made = RankingObjective(dual(task), task, Groups(task, rows, options, [lists(task, rows)], 7), options)
    (batch,) = made.micro_batches(0)
    group = batch.data.group
    assert group.documents.shape == (8, 8)
    # With all vectors zero, every score is 0, and a query's loss is the logarithm of how many documents take part.
    loss = made.contrast([torch.zeros(batch.rows, 8)], [batch])["contrastive"]
    own = [int((group.documents == group.documents[i, 0]).sum()) for i in range(8)]
    assert float(loss) == pytest.approx(sum(math.log(64 - count + 1) for count in own), rel=1e-6)
    assert max(own) > 1


def test_equal_documents_are_not_each_others_negatives(task: Dataset) -> None:
    """Queries 0 and 1 have the same answer: each has one negative, that of query 5; columns likewise."""
    group = Group(np.array([0, 1, 5]), task.positive[[0, 1, 5]][:, None])
    assert group.documents.ravel().tolist() == [1, 1, 2]
    for kind, expected in (("reqa", 2 * math.log(2) + math.log(3)), ("both", 4 * math.log(2) + 2 * math.log(3))):
        made = objective(task, kind)
        batch = made._pack(group)
        loss = made.contrast([torch.zeros(6, 8)], [batch])["contrastive"]
        assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_another_answer_is_no_negative(two_answers: Dataset) -> None:
    """The two examples of one query, and a query that shares one of its answers."""
    first, second = two_answers.relevant[0]
    group = Group(np.array([0, 0, 5, 20]), np.array([[first], [second], [first], [two_answers.positive[20]]]))
    assert [len(set(group.documents.ravel()) - set(two_answers.relevant[q])) for q in (0, 5, 20)] == [1, 2, 2]
    made = objective(two_answers, "reqa")
    loss = made.contrast([torch.zeros(8, 8)], [made._pack(group)])["contrastive"]
    # Query 5 has `first` as its answer and `second` is none of it.
    assert float(loss) == pytest.approx(2 * math.log(2) + math.log(3) + math.log(4), rel=1e-6)


@pytest.mark.parametrize("kind", ["reqa", "both"])
def test_false_negatives_are_kept_if_wanted(two_answers: Dataset, kind: str) -> None:
    """As tevatron, RetroMAE and T5X have it: four equal scores for each of four queries (and documents), repeated or not."""
    first, second = two_answers.relevant[0]
    group = Group(np.array([0, 0, 5, 20]), np.array([[first], [second], [first], [two_answers.positive[20]]]))
    made = objective(two_answers, kind)
    made.options = {**made.options, "false_negatives": "kept"}
    loss = made.contrast([torch.zeros(8, 8)], [made._pack(group)])["contrastive"]
    assert float(loss) == pytest.approx((2 if kind == "both" else 1) * 4 * math.log(4), rel=1e-6)


# --- Cuts, cache, processes ---


@pytest.mark.parametrize("kind", ["reqa", "both", "dpr", "hinge"])
@pytest.mark.parametrize("parts", [1, 2, 3, 10])
def test_a_query_stays_with_its_group(task: Dataset, kind: str, parts: int) -> None:
    (whole,) = objective(task, kind).micro_batches(1)
    cuts = set()
    for budget in BUDGETS:
        pieces = objective(task, kind, budget).micro_batches(1, parts)
        cuts.add(len(pieces))
        groups = [piece.data.group for piece in pieces]
        assert (np.concatenate([group.queries for group in groups]) == whole.data.group.queries).all()
        assert (np.concatenate([group.documents for group in groups]) == whole.data.group.documents).all()
        assert len(pieces) >= parts and (len(pieces) % parts == 0 or len(pieces) == len(whole.ids))
        assert all(piece.tokens <= budget or piece.counts["contrastive"] == 1 for piece in pieces)
        assert sum(piece.tokens for piece in pieces) == whole.tokens
        for piece, group in zip(pieces, groups, strict=True):
            assert len(piece.data.queries.lengths) == len(group.queries)
            assert len(piece.data.documents.lengths) == group.documents.size
            assert piece.rows == len(group.queries) + group.documents.size and (piece.ids == group.queries).all()
    assert max(cuts) == len(whole.ids) and (parts == 10 or len(cuts) > 1)


def kept_graphs(made: RankingObjective, step: int, seed: int) -> dict[str, torch.Tensor]:
    """The gradient without any cache: all micro-batches encoded with their graphs, then one backward pass."""
    made.module.train().zero_grad(set_to_none=True)
    batches = made.micro_batches(step)
    vectors = []
    for number, batch in enumerate(batches):
        _seed_dropout(seed, step, number)
        vectors.append(made.vectors(batch, True)[0])
    (loss,) = made.contrast(vectors, batches).values()
    (loss / sum(batch.counts["contrastive"] for batch in batches)).backward()
    return gradients(made.module)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_gradients_are_the_gradients(task: Dataset, kind: str) -> None:
    """With dropout against graphs that are kept; without it, any cut gives the gradient of the whole step."""
    made = objective(task, kind, BUDGETS[1], dropout=0.1, sharing="ade")
    wanted = kept_graphs(made, 1, 3)
    made.module.train().zero_grad(set_to_none=True)
    batches = made.micro_batches(1)
    accumulate(made, batches, CPU, ALONE, (3, 1))
    assert len(batches) > 1 and largest_difference(gradients(made.module), wanted) <= 1e-5
    for tower in ("query", "document"):
        assert max(float(g.abs().max()) for name, g in wanted.items() if name.startswith(tower)) > 1e-2
    results = []
    for budget, parts in [(BUDGETS[0], 1), (BUDGETS[1], 1), (BUDGETS[2], 1), (BUDGETS[0], 3)]:
        made = objective(task, kind, budget)
        means = accumulate(made, made.micro_batches(1, parts), CPU, ALONE, (3, 1)).means
        results.append((means["contrastive"], gradients(made.module)))
    for loss, found in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-5) and loss > 0
        assert largest_difference(found, results[0][1]) <= 1e-5


def test_frozen_words_get_no_gradient_and_shared_ones_get_both(task: Dataset) -> None:
    found = {}
    for sharing in ("ade-fte", "ade-ste", "ade-spl"):
        made = objective(task, "dpr", sharing=sharing)
        accumulate(made, made.micro_batches(0), CPU, ALONE, (0, 0))
        found[sharing] = set(gradients(made.module))
    words = {f"{tower}.body.words.weight" for tower in ("query", "document")}
    assert not found["ade-fte"] & words and "query.projection.weight" in found["ade-fte"]
    assert found["ade-ste"] & words == {"document.body.words.weight"}
    assert found["ade-spl"] & words == words and "query.projection.weight" not in found["ade-spl"]


@pytest.mark.parametrize("kind", ["dpr", "pairwise", "hinge", "both-groups"])
def test_it_learns(task: Dataset, kind: str) -> None:
    """The relevant document's place among all candidates, for questions that are not trained on."""
    made = objective(task, kind)
    rows = task.split("60pct", "test")

    def ranks() -> np.ndarray:
        with torch.no_grad():
            queries = made.model.query(Batch.of(task.pack_queries(rows, 8)))
            documents = made.model.document(Batch.of(task.pack_candidates(np.arange(9), 12)))
        scores = (queries @ documents.T).numpy()
        return 1 + (scores > scores[np.arange(len(rows)), task.positive[rows]][:, None]).sum(axis=1)

    before = ranks().mean()
    train(made, OptimiserConfig(40, 1e-2), RunSettings(CPU, 1))
    assert before > 4 and ranks().mean() < 2


def test_groups_can_be_replaced_between_steps(task: Dataset) -> None:
    """As ANCE does: the same queries at the same step, with negatives from other lists."""
    made = objective(task, "dpr")
    (before,) = made.micro_batches(3)
    rows = task.split("60pct", "train")
    other = lists(task, rows)
    made.groups = Groups(
        task,
        rows,
        made.options,
        [replace(other, doc_ids=[own[4:] for own in other.doc_ids], scores=[own[4:] for own in other.scores])],
        7,
    )
    (after,) = made.micro_batches(3)
    assert (before.data.group.queries == after.data.group.queries).all()
    assert (before.data.group.documents[:, 0] == after.data.group.documents[:, 0]).all()
    assert (before.data.group.documents[:, 1:] != after.data.group.documents[:, 1:]).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "softmx"}, r"loss 'softmx' is not allowed; choose from .*did you mean 'softmax'"),
        ({"loss": "distillation"}, "loss 'distillation' is not allowed"),
        ({"direction": "rows"}, "direction 'rows' is not allowed"),
        ({"temperature": 0.0}, "temperature 0.0 is not allowed"),
        (
            {"loss": "hinge", "group": 2},
            "loss 'hinge' compares a query with its own negatives only; set in_batch: false",
        ),
        ({"loss": "pairwise", "in_batch": False}, "group 1 without in_batch leaves a query no negative"),
        ({"in_batch": False}, "group 1 without in_batch leaves a query no negative"),
        ({"in_batch": False, "group": 4, "direction": "both"}, "direction 'both' .* set in_batch: true"),
    ],
)
def test_options_that_do_not_go_together(task: Dataset, changes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_loss(OPTIONS | changes)
    groups = objective(task, "reqa").groups
    with pytest.raises(ConfigError, match=message):
        RankingObjective(dual(task), task, groups, OPTIONS | changes)
