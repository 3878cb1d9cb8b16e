"""Preparing a retriever's training with runs at intermediate steps (:mod:`pretrieve.finetuning.step_curve`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.step_curve import StepCurve
from pretrieve.finetuning.train_ranking import Parts, ranking_parts


def prepare(run: FineTuning) -> Trainable:
    """As :func:`~pretrieve.finetuning.train_ranking.prepare`, with the runs of ``curve`` steps next to the retriever."""
    parts = ranking_parts(run)
    data = parts.data
    objective = RankingObjective(parts.model, data.task, data.groups, run.options, run.device.device)
    return with_curve(run, parts, parts.trainable(objective))


def with_curve(run: FineTuning, parts: Parts, trained: Trainable) -> Trainable:
    """The same training, with such runs if the recipe's option ``curve`` asks for them."""
    if not run.options["curve"]:
        return trained
    test = parts.data.task.split(run.size, "test")
    task, steps = parts.data.task, run.work / "steps"
    curve = StepCurve(
        PresentSearch(parts.model, task, run.options, run.device, steps, run.processes), test, run.options, parts.steps
    )
    curve.beside(parts.watcher)

    def started() -> None:
        trained.started()
        curve.look(0)

    def save(out: Path, info: dict[str, Any]) -> None:
        curve.keep(out / "steps")
        trained.save(out, info)

    def clear() -> None:
        curve.clear()
        trained.clear()

    return replace(trained, started=started, save=save, clear=clear)
