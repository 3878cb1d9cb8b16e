"""Kinds of training by name, each in a module that is imported when it is used: an edit of one trains nothing else again.

A trainer ``cross-encoder`` (:func:`pretrieve.finetuning.recipes.trainer_of`) is the function ``prepare`` of
``finetuning/train_cross_encoder.py``; what trains on examples of a kind is one of :data:`EXAMPLES`. No torch here: the workflow
reads this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pretrieve.finetuning.recipes import trainer_of

if TYPE_CHECKING:
    from pretrieve.finetuning.example_objective import ExampleObjective
    from pretrieve.finetuning.fine_tuning import FineTuning, Trainable

#: Kind of a recipe for a task of examples → its objective.
EXAMPLES = {
    "regression": "pretrieve.finetuning.regression:RegressionObjective",
    "triplet": "pretrieve.finetuning.triplet:TripletObjective",
    "classification": "pretrieve.finetuning.classification:ClassificationObjective",
    "clicks": "pretrieve.finetuning.clicks:ClicksObjective",
}


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


def example_objective(kind: str) -> type[ExampleObjective]:
    """What trains on examples of a kind."""
    return resolve_name(EXAMPLES[kind])
