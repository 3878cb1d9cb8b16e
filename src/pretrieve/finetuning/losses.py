"""Ranking losses as functions of scores; every one is *summed* over the queries of the batch.

Of B queries, query i has a group of G documents, its relevant one first. Scores are ``s = q·d / τ``, of cosine where
the towers give vectors of norm 1. N is B·G (all documents of the batch: 8 queries with 8 passages each make 64,
condenser A.1), or G (the query's own group alone). i⁺ is the column of query i's relevant document.

1. softmax       ``−s_ii⁺ + log Σ_n exp s_in``                     dual_encoders eq. 1, pretraining_tasks eq. 3; DPR
2. both          1. *plus* columns ``−s_ii⁺ + log Σ_k exp s_ki⁺``, not their mean; t5x_retrieval losses.py:192-195
3. pairwise      mean over the query's negatives of ``−log softmax([s⁺, s⁻])_0``     SEED-Encoder model/models.py:87-114
4. hinge         mean over the query's negatives of ``max(0, margin − (s⁺ − s⁻))``   seed_encoder §4.2, margin 1
5. distillation  ``−Σ_g p_g log softmax(s)_g`` with ``p = softmax(t)`` of a teacher's scores t       dupmae §3.2, step 3
6. kl_mean       ``1/G · Σ_g p_g (log p_g − log softmax(s)_g)``                      RetroMAE bi_encoder/modeling.py

In 2. a group of more than one has rows over all N documents, but columns over the relevant ones only: what a negative document is
relevant to nobody knows (t5x_retrieval's ``right_logits`` are (B, B) too). In 3. and 4. the published code has one negative for
each query; with more, each query still counts once. In 5. and 6. only the student's scores are divided by τ.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def softmax_loss(scores: torch.Tensor, target: torch.Tensor, excluded: torch.Tensor | None = None) -> torch.Tensor:
    """Loss 1. scores (B, N); target (B,) columns of the relevant documents; excluded (B, N) bool: entries that are
    excluded from the sum (other documents that are relevant too); never the target's own.

    >>> scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> round(float(softmax_loss(scores, torch.tensor([0, 2]))), 4)  # 2·log(1 + 2/e)
    1.1029
    >>> excluded = torch.tensor([[False, True, False], [False, False, False]])
    >>> round(float(softmax_loss(scores, torch.tensor([0, 2]), excluded)), 4)  # log(1 + 1/e) + log(1 + 2/e)
    0.8647
    """
    if excluded is not None:
        scores = scores.masked_fill(excluded, -torch.inf)
    return functional.cross_entropy(scores, target, reduction="sum")


def both_directions(scores: torch.Tensor, target: torch.Tensor, excluded: torch.Tensor | None = None) -> torch.Tensor:
    """Loss 2: :func:`softmax_loss` of the rows, and of the columns ``target``, each over all B queries. Arguments as there; where
    a relevant document is excluded from a query's row, that query is excluded from the document's column as well.

    >>> scores = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    >>> rows = softmax_loss(scores, torch.tensor([0, 1]))  # log(1 + 1/e) + log 2
    >>> round(float(rows), 4), round(float(both_directions(scores, torch.tensor([0, 1]))), 4)
    (1.0064, 2.0128)
    """
    columns = scores[:, target].T
    left_out = None if excluded is None else excluded[:, target].T
    diagonal = torch.arange(len(scores), device=scores.device)
    return softmax_loss(scores, target, excluded) + softmax_loss(columns, diagonal, left_out)


def pairwise_loss(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Loss 3. positive (B,) scores of the relevant documents, negative (B, G − 1) those of each query's negatives.

    >>> round(float(pairwise_loss(torch.tensor([1.0]), torch.tensor([[0.0]]))), 4)  # log(1 + 1/e)
    0.3133
    """
    return -functional.logsigmoid(positive[:, None] - negative).mean(dim=1).sum()


def hinge_loss(positive: torch.Tensor, negative: torch.Tensor, margin: float) -> torch.Tensor:
    """Loss 4. Shapes as in :func:`pairwise_loss`.

    >>> float(hinge_loss(torch.tensor([2.0]), torch.tensor([[1.5, 0.0]]), 1.0))  # (0.5 + 0) / 2
    0.25
    """
    return functional.relu(margin - (positive[:, None] - negative)).mean(dim=1).sum()


def distillation_loss(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Loss 5, cross-entropy with soft labels. student (B, G): inner products, not yet divided by ``temperature``;
    teacher (B, G): logits of a cross-encoder.

    >>> student, teacher = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)
    >>> round(float(distillation_loss(student, teacher, 0.5)), 4)  # log(1 + e⁻²) + 1
    1.1269
    """
    likely = functional.softmax(teacher.float(), dim=-1)
    return -(likely * functional.log_softmax(student / temperature, dim=-1)).sum()


def kl_mean(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Loss 6; shapes as in :func:`distillation_loss`.

    The released code takes ``KLDivLoss(reduction="mean")``, which divides by all B·G entries; divided by the count of
    queries, this is that. So the weight of this loss falls with the size of a group (65 there, plus 1e-4 of loss 1).

    >>> student, teacher = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)
    >>> round(float(kl_mean(student, teacher, 0.5)), 4)  # (1.1269 − log 2) / 2
    0.2169
    """
    likely = functional.log_softmax(teacher.float(), dim=-1)
    found = functional.log_softmax(student / temperature, dim=-1)
    return functional.kl_div(found, likely, reduction="sum", log_target=True) / student.shape[1]
