"""The gradient of a global batch: cuts change nothing, and the gradient cache gives the gradient itself.

Tolerance: 1e-5, for gradients whose largest entries are above 1e-2.

Seen to fail when: micro-batch means are averaged; the second encoding draws another dropout, or the number of a micro-batch is
not part of its seed; the second encoding is left out for the first micro-batch; vectors are gathered in another order; the
micro-batches' own terms are left out, or counted in both encodings; the last micro-batch is encoded twice, or all keep their
graphs; the whole batch's vectors are not those of the loss.
"""

from __future__ import annotations

import math

import pytest
import torch
from small import BUDGETS, CPU, gradients, kept_graphs, largest_difference, make

from pretrieve.training.objective import ContrastiveObjective
from pretrieve.training.processes import Processes
from pretrieve.training.step import _seed_dropout, accumulate

ALONE = Processes()
CONTRASTIVE = ("pairs", "cosine", "separate", "spread", "cocondenser")


def one_step(objective, step: int = 2, seed: int = 3, parts: int = 1):
    objective.module.train().zero_grad(set_to_none=True)
    batches = objective.micro_batches(step, parts)
    return accumulate(objective, batches, CPU, ALONE, (seed, step)), gradients(objective.module), len(batches)


@pytest.mark.parametrize("name", ["mlm", "condenser", *CONTRASTIVE])
def test_cuts_do_not_matter(store, name: str) -> None:
    """Any token budget, and any number of parts that processes ask for, give the gradient of the whole batch."""
    whole, wanted, pieces = one_step(make(name, store, BUDGETS[0]))
    assert pieces == 1 and max(float(gradient.abs().max()) for gradient in wanted.values()) > 1e-2
    counts = set()
    for budget, parts in [(BUDGETS[1], 1), (BUDGETS[2], 1), (BUDGETS[0], 2), (BUDGETS[0], 3), (BUDGETS[1], 2)]:
        cut, found, pieces = one_step(make(name, store, budget), parts=parts)
        counts.add(pieces)
        assert largest_difference(found, wanted) <= 1e-5
        assert cut.means == pytest.approx(whole.means, rel=1e-5) and cut.means.keys() == whole.means.keys()
        assert not cut.bad and all(value > 0 for value in cut.means.values())
    assert len(counts) >= 3 and min(counts) >= 2


@pytest.mark.parametrize("name", CONTRASTIVE)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_cached_gradients_are_the_gradients(store, name: str, dropout: float) -> None:
    """Against a computation that keeps every graph, on the same micro-batches: dropout of both encodings is the same."""
    objective = make(name, store, BUDGETS[1], dropout)
    assert isinstance(objective, ContrastiveObjective)
    wanted = kept_graphs(objective, 2, 3)
    _, found, pieces = one_step(objective)
    assert pieces >= 2 and largest_difference(found, wanted) <= 1e-5
    assert max(float(gradient.abs().max()) for gradient in wanted.values()) > 1e-2
    other = kept_graphs(objective, 2, 4)
    assert (largest_difference(other, wanted) > 1e-3) == (dropout > 0)  # dropout is there, and is of the seed


@pytest.mark.parametrize("name", CONTRASTIVE)
def test_the_last_micro_batch_is_encoded_once(store, name: str) -> None:
    """All others twice, and never two of them with a graph at a time."""
    objective = make(name, store, BUDGETS[1])
    seen, encode = [], objective.vectors

    def watched(batch, with_losses):
        vectors, losses = encode(batch, with_losses)
        assert bool(losses) <= with_losses
        seen.append((batch.ids.tolist(), vectors.requires_grad, with_losses))
        return vectors, losses

    objective.vectors = watched
    _, _, pieces = one_step(objective)
    ids = [batch.ids.tolist() for batch in objective.micro_batches(2)]
    assert pieces >= 2 and len(seen) == 2 * pieces - 1
    *before, last = ids
    assert seen[: pieces - 1] == [(each, False, False) for each in before]
    assert seen[pieces - 1 :] == [(last, True, True), *((each, True, True) for each in reversed(before))]


def test_every_micro_batch_has_a_dropout_of_its_own() -> None:
    """And so has every step, and every seed; the same numbers give the same."""

    def draw(*numbers: int) -> tuple[float, ...]:
        _seed_dropout(*numbers)
        return tuple(torch.rand(2).tolist())

    numbers = [(seed, step, micro) for seed in (0, 1, 7) for step in (0, 1, 2, 900) for micro in (0, 1, 2, 900)]
    assert len({draw(*triple) for triple in numbers}) == len(numbers)
    assert [draw(*triple) for triple in numbers[:5]] == [draw(*triple) for triple in numbers[:5]]


def test_both_towers_get_a_gradient(store) -> None:
    _, found, _ = one_step(make("separate", store, BUDGETS[1]))
    for tower in ("document", "query"):
        largest = [float(gradient.abs().max()) for name, gradient in found.items() if name.startswith(tower)]
        assert largest and max(largest) > 1e-2


def test_the_loss_is_over_all_pairs_of_the_batch(store) -> None:
    """Not the mean of the micro-batches' own losses, which have fewer negatives."""
    objective = make("pairs", store, BUDGETS[1])
    batches = objective.micro_batches(0)
    with torch.no_grad():
        vectors = [objective.vectors(batch, False)[0] for batch in batches]
        whole = float(objective.contrast(vectors, batches)["contrastive"])
        parts = sum(
            float(objective.contrast([part], [batch])["contrastive"])
            for part, batch in zip(vectors, batches, strict=True)
        )
    means = accumulate(objective, batches, CPU, ALONE, (0, 0)).means
    assert means["contrastive"] == pytest.approx(whole / 10, rel=1e-5)
    assert parts < 0.8 * whole


@pytest.mark.parametrize("name", ["mlm", "pairs", "spread"])
def test_the_micro_batch_that_is_not_finite_is_named(store, name: str) -> None:
    objective = make(name, store, BUDGETS[1])
    batches = objective.micro_batches(1)
    what = "losses" if name == "mlm" else "vectors"
    plain = getattr(objective, what)

    def poisoned(batch, *rest):
        result = plain(batch, *rest)
        if batch is not batches[1]:
            return result
        return {k: v * math.nan for k, v in result.items()} if name == "mlm" else (result[0] * math.nan, result[1])

    setattr(objective, what, poisoned)
    done = accumulate(objective, batches, CPU, ALONE, (0, 1))
    assert done.bad == [batches[1]] and not all(map(math.isfinite, done.means.values()))
