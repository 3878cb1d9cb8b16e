"""Ranking losses by hand, and against loops over single scores.

Seen to fail when: a loss is a mean over queries, or half of it in both directions; exclusion is ignored in rows, or in
columns, or taken without turning it; columns are the first B instead of the relevant ones; a query's negatives are
summed, or exponentials overflow; the margin is 1 whatever it is; the hinge has no relu; the teacher is divided by the
temperature, or the student is not; the KL loss is not divided by the group, or its sides are swapped.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from pretrieve.finetuning.losses import (
    both_directions,
    distillation_loss,
    hinge_loss,
    kl_mean,
    pairwise_loss,
    softmax_loss,
)
from pretrieve.models.transformer import seeded

LN2 = math.log(2)


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def row_loss(scores: torch.Tensor, i: int, target: int, excluded) -> float:
    others = [math.exp(float(s)) for n, s in enumerate(scores[i]) if not (excluded is not None and excluded[i, n])]
    return -float(scores[i, target]) + math.log(sum(others))


def column_loss(scores: torch.Tensor, j: int, target: int, excluded) -> float:
    others = [
        math.exp(float(scores[i, target]))
        for i in range(len(scores))
        if not (excluded is not None and excluded[i, target])
    ]
    return -float(scores[j, target]) + math.log(sum(others))


def made(queries: int, group: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, targets, and exclusions of about a quarter of the entries, never of a target."""
    scores = 2 * torch.randn(queries, queries * group, generator=seeded(seed), dtype=torch.float64)
    target = torch.arange(queries) * group
    excluded = torch.rand(scores.shape, generator=seeded(seed, 1)) < 0.25
    excluded[torch.arange(queries), target] = False
    return scores, target, excluded


def test_softmax_by_hand() -> None:
    scores = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    target = torch.tensor([0, 2])
    first = math.log(math.exp(2) + 1 + math.e + 1) - 2
    assert float(softmax_loss(scores, target)) == pytest.approx(first + math.log(4), abs=1e-5)
    excluded = torch.tensor([[False, False, True, False], [True, True, False, False]])
    first = math.log(math.exp(2) + 2) - 2
    assert float(softmax_loss(scores, target, excluded)) == pytest.approx(first + LN2, abs=1e-5)
    everything = ~functional.one_hot(target, 4).bool()
    assert float(softmax_loss(scores, target, everything)) == 0


@pytest.mark.parametrize("group", [1, 2, 5])
@pytest.mark.parametrize("with_excluded", [False, True])
def test_softmax_and_both_directions_against_loops(group: int, with_excluded: bool) -> None:
    """Both directions are the rows plus the columns of the relevant documents: the sum, not the mean."""
    scores, target, excluded = made(6, group)
    left_out = excluded if with_excluded else None
    rows = sum(row_loss(scores, i, int(target[i]), left_out) for i in range(6))
    columns = sum(column_loss(scores, j, int(target[j]), left_out) for j in range(6))
    assert float(softmax_loss(scores, target, left_out)) == pytest.approx(rows, rel=1e-9)
    assert float(both_directions(scores, target, left_out)) == pytest.approx(rows + columns, rel=1e-9)
    assert rows > 1 and columns > 1 and abs(rows - columns) > 0.1


def test_both_directions_by_hand() -> None:
    """Two queries with two documents each: rows over four documents, columns over two queries."""
    scores = torch.tensor([[1.0, 0.0, 0.0, 5.0], [0.0, 9.0, 1.0, 0.0]])
    target = torch.tensor([0, 2])
    rows = (math.log(math.e + 2 + math.exp(5)) - 1) + (math.log(2 + math.exp(9) + math.e) - 1)
    columns = 2 * softplus(-1)
    assert float(both_directions(scores, target)) == pytest.approx(rows + columns, abs=1e-4)
    # Query 1 is answered by document 0 as well: it leaves that document's column, and document 0 its row.
    excluded = torch.zeros(2, 4, dtype=torch.bool)
    excluded[1, 0] = True
    rows = (math.log(math.e + 2 + math.exp(5)) - 1) + (math.log(1 + math.exp(9) + math.e) - 1)
    assert float(both_directions(scores, target, excluded)) == pytest.approx(rows + softplus(-1), abs=1e-4)


def test_both_directions_of_a_symmetric_matrix_is_twice_one() -> None:
    scores, target, _ = made(5, 1)
    scores = scores + scores.T
    assert float(both_directions(scores, target)) == pytest.approx(2 * float(softmax_loss(scores, target)), rel=1e-9)
    scores[0, 1] += 1
    assert abs(float(both_directions(scores, target)) - 2 * float(softmax_loss(scores, target))) > 1e-3


def test_pairwise_by_hand() -> None:
    positive, negative = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 3.0], [0.0, 0.0]])
    expected = (softplus(-1) + softplus(2)) / 2 + LN2
    assert float(pairwise_loss(positive, negative)) == pytest.approx(expected, abs=1e-5)


def test_pairwise_is_log_softmax_of_two_scores() -> None:
    """As the published code writes it; also where exp would overflow."""
    positive = 30 * torch.randn(20, generator=seeded(1))
    negative = 30 * torch.randn(20, 1, generator=seeded(2))
    pairs = torch.cat([positive[:, None], negative], dim=1)
    expected = -functional.log_softmax(pairs, dim=1)[:, 0].sum()
    assert float(pairwise_loss(positive, negative)) == pytest.approx(float(expected), rel=1e-5)
    assert float(pairwise_loss(torch.tensor([-500.0]), torch.tensor([[500.0]]))) == 1000
    # Of a group of two it is the softmax over the group.
    zero = torch.zeros(20, dtype=torch.int64)
    assert float(pairwise_loss(positive, negative)) == pytest.approx(float(softmax_loss(pairs, zero)), rel=1e-5)


def test_hinge_by_hand() -> None:
    positive, negative = torch.tensor([2.0, 0.0]), torch.tensor([[0.5, 1.5, 3.0], [-1.0, -5.0, 0.5]])
    expected = (0 + 0.5 + 2) / 3 + (0 + 0 + 1.5) / 3
    assert float(hinge_loss(positive, negative, 1.0)) == pytest.approx(expected, abs=1e-6)
    expected = (0.5 + 1.5 + 3) / 3 + (1 + 0 + 2.5) / 3
    assert float(hinge_loss(positive, negative, 2.0)) == pytest.approx(expected, abs=1e-6)
    reference = torch.nn.MarginRankingLoss(margin=2.0)
    value = 2 * reference(positive[:, None].expand(2, 3), negative, torch.ones(2, 3))
    assert float(hinge_loss(positive, negative, 2.0)) == pytest.approx(float(value), abs=1e-6)


def test_distillation_by_hand() -> None:
    student, teacher = torch.tensor([[1.0, 0.0]]), torch.tensor([[math.log(3), 0.0]])  # teacher: 3/4, 1/4
    expected = 0.75 * softplus(-2) + 0.25 * softplus(2)
    assert float(distillation_loss(student, teacher, 0.5)) == pytest.approx(expected, abs=1e-5)
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert float(kl_mean(student, teacher, 0.5)) == pytest.approx((expected - entropy) / 2, abs=1e-5)


def test_a_teacher_that_is_sure_gives_the_softmax_loss() -> None:
    scores = torch.randn(7, 5, generator=seeded(3))
    sure = torch.zeros(7, 5)
    sure[:, 0] = 200.0
    zero = torch.zeros(7, dtype=torch.int64)
    wanted = float(softmax_loss(scores / 0.3, zero))
    assert float(distillation_loss(scores, sure, 0.3)) == pytest.approx(wanted, rel=1e-5) and wanted > 1
    assert float(kl_mean(scores, sure, 0.3)) == pytest.approx(wanted / 5, rel=1e-5)


def test_a_student_that_is_the_teacher_cannot_do_better() -> None:
    teacher = torch.randn(7, 5, generator=seeded(4), dtype=torch.float64)
    student = (0.3 * teacher + 2).requires_grad_()  # a constant is not seen by a softmax
    loss = distillation_loss(student, teacher, 0.3)
    loss.backward()
    assert float(student.grad.abs().max()) < 1e-6
    student = student.detach()
    assert float(kl_mean(student, teacher, 0.3)) == pytest.approx(0, abs=1e-5)
    other = distillation_loss(student.flip(1), teacher, 0.3)
    assert float(other) > float(loss.detach()) + 0.1 and float(kl_mean(student.flip(1), teacher, 0.3)) > 0.1


def test_kl_mean_is_the_released_reduction() -> None:
    """Divided by the count of queries it is torch's ``mean``, over all entries of the batch."""
    student, teacher = (torch.randn(6, 4, generator=seeded(seed)) for seed in (5, 6))
    found, likely = functional.log_softmax(student / 0.2, dim=-1), functional.softmax(teacher, dim=-1)
    released = functional.kl_div(found, likely, reduction="none").mean()
    assert float(kl_mean(student, teacher, 0.2)) / 6 == pytest.approx(float(released), rel=1e-5)
    assert float(released) > 0.1


@pytest.mark.parametrize("name", ["softmax", "both", "pairwise", "hinge", "distillation", "kl"])
def test_every_loss_is_a_sum_over_queries(name: str) -> None:
    """Of two batches that do not see each other, the loss is the sum of both; and each gives a gradient."""

    def loss(scores: torch.Tensor, blocks: int) -> torch.Tensor:
        n = len(scores)
        if name in ("softmax", "both"):
            wide = torch.block_diag(*scores.chunk(blocks)) if blocks > 1 else scores
            excluded = ~torch.block_diag(*(torch.ones(4, 12) for _ in range(blocks))).bool()
            function = softmax_loss if name == "softmax" else both_directions
            return function(wide, 3 * torch.arange(n), excluded)
        teacher = scores.detach().flip(1)
        return {
            "pairwise": lambda: pairwise_loss(scores[:, 0], scores[:, 1:]),
            "hinge": lambda: hinge_loss(scores[:, 0], scores[:, 1:], 1.0),
            "distillation": lambda: distillation_loss(scores, teacher, 0.5),
            "kl": lambda: kl_mean(scores, teacher, 0.5),
        }[name]()

    one, other = (torch.randn(4, 12, generator=seeded(seed)) for seed in (7, 8))
    both = torch.cat([one, other]).requires_grad_()
    total = loss(both, 2)
    assert float(total.detach()) == pytest.approx(float(loss(one, 1)) + float(loss(other, 1)), rel=1e-5)
    total.backward()
    assert float(both.grad.abs().max()) > 1e-3 and bool(both.grad.isfinite().all())
