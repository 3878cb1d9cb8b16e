"""Kinds of training by name, each in a module that is imported when it is used: an edit of one trains nothing else again.

A trainer ``cross-encoder`` is the function ``prepare`` of ``finetuning/train_cross_encoder.py``; what trains on examples of a
kind is one of :data:`EXAMPLES`. No torch here: the workflow reads this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pretrieve.finetuning.fine_tuning import FineTuning, Trainable

#: Kind of a recipe for a task of examples → its objective.
EXAMPLES = {
    "regression": "pretrieve.finetuning.sentences:RegressionObjective",
    "triplet": "pretrieve.finetuning.sentences:TripletObjective",
    "classification": "pretrieve.finetuning.classification:ClassificationObjective",
    "clicks": "pretrieve.finetuning.clicks:ClicksObjective",
}


def trainer_of(options: Mapping[str, Any]) -> str:
    """The trainer that prepares a run with a recipe's options."""
    if options["kind"] != "ranking":
        return "cross-encoder" if options["kind"] == "cross-encoder" else "examples"
    if options["loss"] == "distillation":
        return "distillation"
    if options["refresh"]:
        return "ance"
    return "maxp" if options["windows"] > 1 else "curve" if options["curve"] else "ranking"


def modules_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules that train with a recipe's options, besides what all have in common.

    >>> modules_of({"kind": "clicks"})
    ('pretrieve.finetuning.train_examples', 'pretrieve.finetuning.clicks')
    """
    trainer = f"pretrieve.finetuning.train_{trainer_of(options).replace('-', '_')}"
    return (trainer, *(place.partition(":")[0] for kind, place in EXAMPLES.items() if kind == options["kind"]))


def prepare(run: FineTuning) -> Trainable:
    """A run with everything that :func:`pretrieve.finetuning.finetune.finetune` needs."""
    return import_module(modules_of(run.options)[0]).prepare(run)
