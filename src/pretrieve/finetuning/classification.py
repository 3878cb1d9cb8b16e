"""Classification of one text or a pair: GLUE in paper ``seed_encoder`` (A.2, Table 8), with the schedule of BERT.

``[CLS] a [SEP] b [SEP]`` through the cross-encoder (:mod:`pretrieve.models.cross_encoder`), whose state of [CLS] gives
a logit for each class (Devlin et al. 2019, §4.1); for logits z and class c::

    L = mean_i (−z_i,c_i + log Σ_k exp z_ik)                                  (1)
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from pretrieve.base.errors import ConfigError
from pretrieve.finetuning.example_objective import ExampleObjective
from pretrieve.models.batch import Batch
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.tasks.example_task import ExampleData
from pretrieve.text.packing import Packed


def check_classes(model: CrossEncoder, data: ExampleData) -> None:
    """Raise :class:`ConfigError` unless the model has a logit for each class of the task."""
    if model.classes != len(data.classes):
        raise ConfigError(
            f"{data.directory}: has the {len(data.classes)} classes {data.classes}, the model {model.classes}; set the "
            "recipe's classes to the task's."
        )


class ClassificationObjective(ExampleObjective):
    """Equation (1). options: ``batch``, ``passage_length`` (of the whole sequence).

    Raises ConfigError when the model has not the task's number of classes.
    """

    kind = "classification"

    def prepare(self) -> None:
        check_classes(self.model, self.data)

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """One sequence for each example."""
        return (self.data.pack_examples(items, self.options["passage_length"]),)

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        classes = torch.from_numpy(self.data.label(items).astype(np.int64)).to(self.device)
        return functional.cross_entropy(self.model(Batch.of(packs[0], self.device)).float(), classes, reduction="sum")
