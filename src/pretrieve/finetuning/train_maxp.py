"""Preparing a retriever's training on documents of several windows (:mod:`pretrieve.finetuning.maxp`)."""

from __future__ import annotations

from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.maxp import MaxPRanking
from pretrieve.finetuning.train_curve import with_curve
from pretrieve.finetuning.train_ranking import ranking_parts


def prepare(run: FineTuning) -> Trainable:
    """As :func:`~pretrieve.finetuning.train_ranking.prepare`, by the best window."""
    parts = ranking_parts(run)
    data = parts.data
    objective = MaxPRanking(parts.model, data.task, data.groups, run.options, run.device.device)
    return with_curve(run, parts, parts.trainable(objective))
