"""Preparing a retriever's training on negatives of the current model (:mod:`pretrieve.finetuning.ance`)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrieve.finetuning.ance import AnceObjective, FreshNegatives
from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.maxp import MaxPAnce
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.train_curve import with_curve
from pretrieve.finetuning.train_ranking import ranking_parts


def prepare(run: FineTuning) -> Trainable:
    """Until the first refresh the given negatives are used, if there are any. The lists of every refresh are kept in
    ``negatives/`` of the retriever's directory."""
    parts, options = ranking_parts(run), run.options
    task, device = parts.data.task, run.device
    fresh = FreshNegatives(
        PresentSearch(parts.model, task, options, device, run.work / "negatives", run.processes),
        parts.data.train,
        options,
        run.seed,
        parts.key,
    )
    given = parts.data.groups if run.negatives else None
    kind = MaxPAnce if options["windows"] > 1 else AnceObjective
    trained = parts.trainable(kind(parts.model, task, given, options, fresh, device.device))

    def save(out: Path, info: dict[str, Any]) -> None:
        shutil.rmtree(out / "negatives", ignore_errors=True)
        fresh.keep(out / "negatives", parts.steps, options["refresh"])
        trained.save(out, info)

    return with_curve(run, parts, replace(trained, save=save, clear=fresh.clear))
