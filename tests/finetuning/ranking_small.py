"""A dual encoder, negatives and options on the tiny task, for tests in one process and in two; no test of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from small_body import small_body
from torch import nn

from pretrieve.finetuning.groups import Groups
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.models.config import BodyConfig
from pretrieve.models.dual_encoder import DualEncoder, dual_encoder
from pretrieve.models.encoder import Encoder
from pretrieve.retrieval.negatives import Negatives
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device

CPU = Device(torch.device("cpu"), bf16=False)
OPTIONS: dict[str, Any] = {
    **{
        "loss": "softmax",
        "direction": "one",
        "in_batch": True,
        "temperature": 0.1,
        "margin": 1.0,
        "group": 1,
        "pool": 50,
        "pool_from": "first",
        "sources": "union",
        "examples": "judgement",
        "false_negatives": "masked",
    },
    **{"batch": 10, "steps": 60, "epochs": 1000, "query_length": 8, "passage_length": 12, "snapshots": 4},
}
#: One of every kind of loss; all but the first with negatives.
KINDS: dict[str, dict[str, Any]] = {
    "reqa": {},
    "both": {"direction": "both"},
    "dpr": {"group": 4},
    "both-groups": {"direction": "both", "group": 3},
    "own": {"in_batch": False, "group": 4},
    "pairwise": {"loss": "pairwise", "in_batch": False, "group": 2},
    "pairwise-more": {"loss": "pairwise", "in_batch": False, "group": 4},
    "hinge": {"loss": "hinge", "in_batch": False, "group": 3, "margin": 2.5},
}


def body(words: int, dropout: float = 0.0, **more: Any) -> BodyConfig:
    """A body of one layer, for this many ``words`` of a vocabulary."""
    return small_body(words, (16, 1, 2, 32), 20, dropout, word_std=0.3, **more)


def dual(data: Dataset, sharing: str = "sde", similarity: str = "cosine", dropout: float = 0.0) -> DualEncoder:
    """Two towers, which differ unless ``sde``."""
    config = body(data.passages.vocabulary_size, dropout)
    return dual_encoder(Encoder(config, 8, "mean", 3, similarity), sharing, 3)


def lists(data: Dataset, rows: np.ndarray, length: int = 50, source: str = "bm25") -> Negatives:
    """For each query the ``length`` candidates behind its relevant one, round the corpus, without any relevant one."""
    count = len(data.document_ids)
    found = []
    for row in rows:
        order = (data.positive[row] + 1 + np.arange(count)) % count
        kept = [data.document_ids[document] for document in order if document not in data.relevant[row]]
        found.append(kept[:length])
    scores = [-np.arange(len(own), dtype=np.float32) for own in found]
    return Negatives([data.query_ids[row] for row in rows], found, scores, {"source": source})


def objective(data: Dataset, kind: str, budget: int | None = None, **model: Any) -> RankingObjective:
    """Always of the same weights and groups."""
    options = OPTIONS | KINDS[kind]
    rows = data.split("60pct", "train")
    groups = Groups(data, rows, options, [lists(data, rows)], 7)
    similarity = {"similarity": "dot"} if options["loss"] != "softmax" else {}
    return RankingObjective(dual(data, **similarity | model), data, groups, options, CPU.device, budget)


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)
