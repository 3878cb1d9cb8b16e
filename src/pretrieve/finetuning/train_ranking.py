"""Preparing a retriever's training: model, groups of documents, objective and validation of one recipe.

What a recipe adds to that is in files of its own: :mod:`pretrieve.finetuning.train_ance` (negatives of the current model),
:mod:`pretrieve.finetuning.train_distillation` (a teacher's scores), :mod:`pretrieve.finetuning.train_curve` (runs during
training).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.groups import Groups, StepGroups, steps_for
from pretrieve.finetuning.initial_model import make_retriever
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.validation import BestSnapshot
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.retriever_files import save_retriever
from pretrieve.retrieval.negatives import read_negatives
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import NO_TOKEN


@dataclass(frozen=True)
class RetrievalData:
    """A task as a body reads it; rows of its training and validation queries; the groups; and what names all this."""

    task: Dataset
    train: np.ndarray
    valid: np.ndarray
    groups: Groups
    key: list[Any]

    @property
    def counts(self) -> dict[str, int]:
        """For ``pretrieve.json``."""
        questions = {"training_questions": len(self.train), "validation_questions": len(self.valid)}
        return questions | self.groups.counts


def retrieval_data(run: FineTuning, kind: str) -> RetrievalData:
    """What a body of that kind is trained with.

    Raises DataError when a training query has no relevant document.
    """
    data = Dataset(run.task).read_by(kind)
    train, valid = data.split(run.size, "train"), data.split(run.size, "valid")
    negatives = [read_negatives(path) for path in run.negatives.values()]
    groups = Groups(data, train, run.options, negatives, run.seed)
    rows = [*train.tolist(), *valid.tolist()]
    relevant = [data.relevant[row].tolist() for row in rows]
    sentences = [data.candidate_sentence[data.relevant[row]].tolist() for row in rows]
    key = [data.passages.key, data.queries.key, len(train), rows, relevant, sentences, *data.form]
    return RetrievalData(data, train, valid, groups, key)


@dataclass(frozen=True)
class Parts:
    """What a retriever's training is made of, whichever its objective. key: of :meth:`FineTuning.key`; about: the encoder's
    ``pretrieve.json``."""

    run: FineTuning
    model: DualEncoder
    data: RetrievalData
    steps: int
    key: str
    about: dict[str, Any]
    watcher: BestSnapshot

    def trainable(self, kind: Callable[..., RankingObjective], groups: StepGroups) -> Trainable:
        """With the objective that ``kind`` makes, trained on ``groups`` and saved as a retriever."""
        run = self.run
        objective = kind(self.model, self.data.task, groups, run.options, run.device.device)
        save = lambda out, info: save_retriever(out, self.model, about=info)
        return Trainable(objective, self.steps, save, self.key, self.about, self.data.counts, self.watcher)


def ranking_parts(run: FineTuning) -> Parts:
    """Model, data and validation of a run."""
    options = run.options
    model, about = make_retriever(run.begin, _with_words(options, run.task), run.seed)
    data = retrieval_data(run, model.config.kind)
    data.task.check_vocabulary(about, run.begin)
    model.to(run.device.device)
    steps = steps_for(len(data.groups), options)
    watcher = BestSnapshot(model, data.task, data.train, data.valid, options, steps, run.device)
    return Parts(run, model, data, steps, run.key(about, data.key), about, watcher)


def _with_words(options: Mapping[str, Any], task: Path) -> dict[str, Any]:
    """The options with the ids of the words that ``zeroed`` names."""
    if options.get("zeroed") != "special":
        return {**options, "zeroed": []}
    special = vars(TokenStore(task / "passages").special).values()
    return {**options, "zeroed": sorted({word for word in special if word != NO_TOKEN})}


def prepare(run: FineTuning) -> Trainable:
    """Everything that :func:`pretrieve.finetuning.finetune.finetune` needs to train a retriever on given documents."""
    parts = ranking_parts(run)
    return parts.trainable(RankingObjective, parts.data.groups)
