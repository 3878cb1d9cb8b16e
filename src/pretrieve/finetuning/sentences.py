"""Vectors of sentences that are compared with one another: paper ``condenser`` (§4.2 and A.1), after Reimers & Gurevych
2019.

**Similarity as regression**, STS-B. With vectors u and v of two sentences from one tower, and a human score y from 0 to 5
(Reimers & Gurevych 2019, §3: "regression objective function", mean-squared error of the cosine; their code divides the
score by 5)::

    L = mean_i (cos(u_i, v_i) − y_i / 5)²                                    (1)

At test the cosine is the prediction, and Spearman's correlation with y the metric: paper ``condenser`` Table 1.

**Wikipedia section triplets.** With vectors a, p, n of anchor, positive and negative, and Euclidean distances
(Reimers & Gurevych 2019, §3: "triplet objective function", ε = 1)::

    L = mean_i max(‖a_i − p_i‖ − ‖a_i − n_i‖ + ε, 0)                          (2)

ε = 1 is theirs; sentence-transformers, which paper ``condenser`` trains with, has 5 as its default
(losses/TripletLoss.py). At test a triplet is right when ‖a − p‖ < ‖a − n‖; the share of right ones is the accuracy of
paper ``condenser`` Table 2.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.base.errors import ConfigError
from pretrieve.finetuning.example_objective import ExampleObjective
from pretrieve.models.batch import Batch
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.tasks.example_task import TOP_SCORE
from pretrieve.text.packing import Packed


def one_tower(model: DualEncoder, what: str) -> nn.Module:
    """The tower of a model that has one; texts of equal standing (two sentences) have no query side.

    Raises ConfigError for a model with two towers.
    """
    if model.sharing != "sde":
        raise ConfigError(
            f"{what} compares two texts of one kind, but sharing {model.sharing!r} has two towers; use 'sde'."
        )
    return model.query


def cosine_regression(first: torch.Tensor, second: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Equation (1), summed; first, second (n, k), scores (n,) from 0 to 5.

    >>> e = torch.eye(2)
    >>> float(cosine_regression(3 * e, 2 * e, torch.tensor([5.0, 2.5])))  # cosines 1 and 1: 0² + 0.5²
    0.25
    """
    cosine = functional.cosine_similarity(first.float(), second.float(), dim=-1)
    return ((cosine - scores / TOP_SCORE) ** 2).sum()


def distances(
    anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """‖a − p‖ and ‖a − n‖, (n,) each, of vectors (n, k); the gradient at distance 0 is 0, not infinite."""
    near, far = (torch.linalg.vector_norm(anchor.float() - other.float(), dim=-1) for other in (positive, negative))
    return near, far


def triplet_loss(anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, margin: float) -> torch.Tensor:
    """Equation (2), summed; vectors (n, k).

    >>> a, p, n = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 4.5], [6.0, 8.0]])
    >>> float(triplet_loss(a, p, n, 1.0))  # 5 − 4.5 + 1, and 1 − 10 + 1 < 0
    1.5
    """
    near, far = distances(anchor, positive, negative)
    return torch.relu(near - far + margin).sum()


class SentencesObjective(ExampleObjective):
    """Of the sentences of an example, ``number`` of them, read by one tower. options: ``batch``, ``passage_length`` (of each)."""

    number: int

    def prepare(self) -> None:
        self._tower = one_tower(self.model, self.kind)

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """All sentences in one batch: all first ones, then all second ones, …"""
        texts = np.concatenate([self.data.text(items, place) for place in range(self.number)])
        return (self.data.pack_texts(texts, self.options["passage_length"]),)

    def vectors(self, packs: tuple[Packed, ...]) -> tuple[torch.Tensor, ...]:
        """Of all first sentences, of all second ones, …, (n, k) each."""
        return self._tower(Batch.of(packs[0], self.device)).chunk(self.number)


class RegressionObjective(SentencesObjective):
    """Equation (1)."""

    kind, number = "regression", 2

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        return cosine_regression(*self.vectors(packs), torch.from_numpy(self.data.label(items)).to(self.device))


class TripletObjective(SentencesObjective):
    """Equation (2). options: also ``margin`` (ε)."""

    kind, number = "triplet", 3

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        return triplet_loss(*self.vectors(packs), self.options["margin"])
