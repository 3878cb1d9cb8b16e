"""Wikipedia section triplets: paper ``condenser`` (§4.2 and A.1), after Reimers & Gurevych 2019.

With vectors a, p, n of anchor, positive and negative from one tower, and Euclidean distances (Reimers & Gurevych 2019,
§3, "triplet objective function", ε = 1)::

    L = mean_i max(‖a_i − p_i‖ − ‖a_i − n_i‖ + ε, 0)                          (1)

ε = 1 is the paper's; sentence-transformers, which paper ``condenser`` trains with, has 5 as its default
(losses/TripletLoss.py). At test a triplet is right when ‖a − p‖ < ‖a − n‖; the share of right ones is the accuracy of
paper ``condenser`` Table 2.
"""

from __future__ import annotations

import numpy as np
import torch

from pretrieve.finetuning.example_objective import ExampleObjective, one_tower
from pretrieve.models.batch import Batch
from pretrieve.text.packing import Packed


def distances(
    anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """‖a − p‖ and ‖a − n‖, (n,) each, of vectors (n, k); the gradient at distance 0 is 0, not infinite."""
    near, far = (torch.linalg.vector_norm(anchor.float() - other.float(), dim=-1) for other in (positive, negative))
    return near, far


def triplet_loss(anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, margin: float) -> torch.Tensor:
    """Equation (1), summed; vectors (n, k).

    >>> a, p, n = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 4.5], [6.0, 8.0]])
    >>> float(triplet_loss(a, p, n, 1.0))  # 5 − 4.5 + 1, and 1 − 10 + 1 < 0
    1.5
    """
    near, far = distances(anchor, positive, negative)
    return torch.relu(near - far + margin).sum()


class TripletObjective(ExampleObjective):
    """Equation (1). options: ``batch``, ``passage_length`` (of each sentence), ``margin`` (ε)."""

    kind = "triplet"

    def prepare(self) -> None:
        self._tower = one_tower(self.model, "triplet")

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """All anchors, then all positives, then all negatives, in one batch."""
        texts = np.concatenate([self.data.text(items, place) for place in range(3)])
        return (self.data.pack_texts(texts, self.options["passage_length"]),)

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        return triplet_loss(*self._tower(Batch.of(packs[0], self.device)).chunk(3), self.options["margin"])
