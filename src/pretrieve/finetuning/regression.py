"""Sentence similarity as regression: STS-B in paper ``condenser`` (§4.2 and A.1), after Reimers & Gurevych 2019.

With vectors u and v of two sentences from one tower, and a human score y from 0 to 5 (Reimers & Gurevych 2019, §3:
"regression objective function", mean-squared error of the cosine; their code divides the score by 5)::

    L = mean_i (cos(u_i, v_i) − y_i / 5)²                                    (1)

At test the cosine is the prediction, and Spearman's correlation with y the metric: paper ``condenser`` Table 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from pretrieve.finetuning.example_objective import ExampleObjective, one_tower
from pretrieve.models.batch import Batch
from pretrieve.tasks.example_task import TOP_SCORE
from pretrieve.text.packing import Packed


def cosine_regression(first: torch.Tensor, second: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Equation (1), summed; first, second (n, k), scores (n,) from 0 to 5.

    >>> e = torch.eye(2)
    >>> float(cosine_regression(3 * e, 2 * e, torch.tensor([5.0, 2.5])))  # cosines 1 and 1: 0² + 0.5²
    0.25
    """
    cosine = functional.cosine_similarity(first.float(), second.float(), dim=-1)
    return ((cosine - scores / TOP_SCORE) ** 2).sum()


class RegressionObjective(ExampleObjective):
    """Equation (1). options: ``batch``, ``passage_length`` (of each sentence)."""

    kind = "regression"

    def prepare(self) -> None:
        self._tower = one_tower(self.model, "regression")

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """Both sentences of each example in one batch: all first ones, then all second ones."""
        texts = np.concatenate([self.data.text(items, 0), self.data.text(items, 1)])
        return (self.data.pack_texts(texts, self.options["passage_length"]),)

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        first, second = self._tower(Batch.of(packs[0], self.device)).chunk(2)
        return cosine_regression(first, second, torch.from_numpy(self.data.label(items)).to(self.device))
