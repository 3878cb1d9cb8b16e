"""Objectives that learn from a model's own search or from a teacher, on the tiny task; no test of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ranking_small import CPU, OPTIONS, body, dual, lists

from pretrieve.finetuning.groups import Groups
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_ance import FreshGroups
from pretrieve.finetuning.train_distillation import (
    DistillationObjective,
    Teacher,
    TeacherScores,
    pairs_of,
    score_groups,
)
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.training.processes import ALONE, Processes

#: Adam's eps as in tests/training/small.py: sums in another order must not move weights without a gradient.
CONFIG = OptimiserConfig(7, 3e-2, eps=1e-3)
SAMPLE = 3
ANCE = OPTIONS | {"loss": "pairwise", "in_batch": False, "group": 3, "pool": 5, "refresh": 3, "batch": 8}
ANCE |= {"sample": SAMPLE}
DISTILLATION = OPTIONS | {"loss": "distillation", "group": 4, "batch": 8, "temperature": 0.2}
DISTILLATION |= {"distillation": "soft-labels", "contrastive_weight": 1e-4}
#: Looked at on the way, by the best of several windows.
CURVE = OPTIONS | {"curve": 2, "windows": 3, "passage_length": 6}


def ance(
    data: Dataset,
    directory: Path,
    budget: int | None = None,
    processes: Processes = ALONE,
    given: bool = False,
    dropout: float = 0.0,
    key: str = "run",
    **options: object,
) -> RankingObjective:
    """Pairwise loss over negatives that are found anew before steps 0, 3 and 6; ``given``: only from step 3 on."""
    chosen = ANCE | options
    rows, model = data.split("60pct", "train"), dual(data, "ade-ste", "dot", dropout)
    search = PresentSearch(model, data, chosen, CPU, directory / "negatives", processes)
    first = Groups(data, rows, chosen, [lists(data, rows)], 5) if given else None
    fresh = FreshGroups(search, rows, chosen, 5, key, first)
    return RankingObjective(model, data, fresh, chosen, CPU.device, budget)


def cross_encoder(data: Dataset) -> CrossEncoder:
    return CrossEncoder(body(data.passages.vocabulary_size, 0.1, std=0.3), seed=2)


def groups_of(data: Dataset) -> Groups:
    rows = data.split("60pct", "train")
    return Groups(data, rows, DISTILLATION, [lists(data, rows)], 7)


def teacher_scores(data: Dataset, directory: Path, processes: Processes = ALONE) -> TeacherScores:
    about = {"directory": "teacher", "sha256": {"model.safetensors": "0"}}
    path, teacher = directory / "teacher.jsonl.gz", cross_encoder(data)
    pairs = pairs_of(groups_of(data), CONFIG.steps, DISTILLATION["batch"])
    return score_groups(Teacher(teacher, about), data, pairs, DISTILLATION, path, CPU, processes)


def distillation(
    data: Dataset,
    directory: Path,
    budget: int | None = None,
    processes: Processes = ALONE,
    teacher: TeacherScores | None = None,
    dropout: float = 0.0,
    **more: object,
) -> DistillationObjective:
    scores = teacher or teacher_scores(data, directory, processes)
    model = dual(data, "ade-ste", dropout=dropout)
    groups, options = groups_of(data), DISTILLATION | more
    return DistillationObjective(model, data, groups, options, CPU.device, budget, teacher=scores)


#: Name → how one is made for test_finetuning_processes.py.
OBJECTIVES = {
    "ance": ance,
    "distillation": distillation,
    "kl": partial(distillation, distillation="kl", contrastive_weight=0.1),
}
