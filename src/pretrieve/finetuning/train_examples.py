"""Preparing the training on a task of examples: similarity, sections, classification, clicks.

These recipes take the last weights; validation examples choose others only with ``snapshots`` above 0.
"""

from __future__ import annotations

import hashlib
from pkgutil import resolve_name

import numpy as np

from pretrieve.finetuning.example_objective import ExampleObjective
from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.groups import steps_for
from pretrieve.finetuning.initial_model import make_cross_encoder, make_retriever
from pretrieve.finetuning.trainers import EXAMPLES
from pretrieve.finetuning.validation import BestWeights
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.retriever_files import save_cross_encoder, save_retriever
from pretrieve.tasks.example_task import ExampleData


def prepare(run: FineTuning) -> Trainable:
    """Everything that :func:`pretrieve.finetuning.finetune.finetune` needs to train on examples."""
    options, kind = run.options, run.options["kind"]
    model: CrossEncoder | DualEncoder
    if kind == "classification":
        model, about = make_cross_encoder(run.encoder, options["classes"], run.seed)
    else:
        model, about = make_retriever(run.begin, options, run.seed)
    data = ExampleData(run.task).read_by(model.config.kind)
    data.check_vocabulary(about, run.begin)
    model.to(run.device.device)
    train, valid = data.split(run.size, "train"), data.split(run.size, "valid")
    objective = resolve_name(EXAMPLES[kind])(model, data, train, options, run.seed, run.device.device)
    steps = steps_for(len(objective), options)
    watcher = BestExamples(objective, valid, options["snapshots"], steps)
    write = save_cross_encoder if kind == "classification" else save_retriever
    save = lambda out, info: write(out, model, about=info)
    counts = {"training_examples": len(train), "validation_examples": len(valid)}
    arrays = (data.texts, data.text_starts, data.history, data.history_starts, data.labels, data.label_starts)
    content = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    key = run.key(about, [data.store.key, content, train.tolist(), valid.tolist()])
    return Trainable(objective, steps, save, key, about, counts, watcher)


class BestExamples(BestWeights):
    """Keeps the weights with the lowest mean loss of the validation examples; the last ones where there are none."""

    def __init__(self, objective: ExampleObjective, valid: np.ndarray, snapshots: int, steps: int) -> None:
        super().__init__(objective.module, snapshots if len(valid) else 0, steps)
        self._objective, self._valid = objective, valid

    def _loss(self) -> float:
        return self._objective.mean_loss(self._valid)
