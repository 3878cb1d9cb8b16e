"""Preparing a retriever's training on a teacher's scores (:mod:`pretrieve.finetuning.distillation`)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError
from pretrieve.finetuning.distillation import DistillationObjective, Teacher, describe_teacher, pairs_of, score_groups
from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.train_ranking import ranking_parts
from pretrieve.models.retriever_files import load_cross_encoder


def prepare(run: FineTuning) -> Trainable:
    """The teacher scores every pair that training will see, before it begins; its scores are kept next to the retriever.

    Raises ConfigError when there is no teacher.
    """
    if run.teacher is None:
        raise ConfigError("loss 'distillation' needs a teacher: set teacher to a recipe that trains a cross-encoder.")
    parts, options = ranking_parts(run), run.options
    task, groups = parts.data.task, parts.data.groups
    model, about = load_cross_encoder(run.teacher)
    task.check_vocabulary(about, run.teacher)
    file = run.work / "teacher.jsonl.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    teacher, pairs = Teacher(model, describe_teacher(run.teacher)), pairs_of(groups, parts.steps, options["batch"])
    scores = score_groups(teacher, task, pairs, options, file, run.device, run.processes)
    objective = DistillationObjective(parts.model, task, groups, options, scores, run.device.device)
    trained = parts.trainable(objective)

    def save(out: Path, info: dict[str, Any]) -> None:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / file.name)
        trained.save(out, info)

    return replace(trained, save=save, clear=lambda: file.unlink(missing_ok=True))
