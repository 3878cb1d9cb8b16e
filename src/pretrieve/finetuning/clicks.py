"""News recommendation: paper ``seed_encoder`` §4.4, on MIND.

A user is one text: the titles that they clicked, newest kept (:mod:`pretrieve.tasks.example_packing`); a candidate is its title
and snippet. With h the vector of the history and c those of candidates, the score is h·c. Each clicked candidate of an impression
is one training example, with K candidates of the *same impression* that were shown and not clicked::

    L = mean_i (−s_i⁺ + log(exp s_i⁺ + Σ_k exp s_ik⁻)),   s = h·c / τ          (1)

The paper's row is "With DPR (MIND Neg)" and says no more of the training. The author's code draws K = 1
(playing-code/fairseq train_plain_bert_dot4_fp16.py: ``candidate_id.shape[1]==2``, utils_sample.py: one of
``CandidateNewsNeg`` at random), puts a linear layer, tanh and LayerNorm on [CLS] of one shared tower
(model_plain_bert_dot4.py), and uses LAMB at 1e-4 with 5,000 of 50,000 steps of warm-up on 1,024 clicks; no τ.

K = ``group`` − 1. An impression with fewer than K candidates that were not clicked gives some of them more than once,
in equal shares. They are drawn again in every step, by (seed, step, click).
"""

from __future__ import annotations

import numpy as np
import torch

from pretrieve.finetuning.example_objective import ExampleObjective
from pretrieve.finetuning.losses import softmax_loss
from pretrieve.models.batch import Batch
from pretrieve.text.packing import Packed


def click_loss(users: torch.Tensor, candidates: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Equation (1), summed; users (n, k), candidates (n, 1 + K, k) with the clicked one first.

    >>> round(float(click_loss(torch.tensor([[2.0]]), torch.tensor([[[1.0], [0.0]]]))), 4)  # log(1 + e⁻²)
    0.1269
    """
    scores = torch.einsum("nk,nck->nc", users.float(), candidates.float()) / temperature
    return softmax_loss(scores, scores.new_zeros(len(scores), dtype=torch.int64))


class ClicksObjective(ExampleObjective):
    """Equation (1). options: ``batch`` (clicks a step), ``group`` (1 + K), ``temperature`` (τ), ``query_length`` (of
    the history), ``passage_length`` (of a candidate)."""

    kind = "clicks"

    def items(self, rows: np.ndarray) -> np.ndarray:
        """(clicks, 2): example row, and the place of the clicked one among its candidates; in the order of the rows."""
        clicked = [np.flatnonzero(self.data.candidates(row)[1]) for row in rows]
        owner = np.repeat(rows, [len(places) for places in clicked])
        return np.stack([owner, np.concatenate([np.empty(0, dtype=np.int64), *clicked])], axis=1)

    def shown(self, items: np.ndarray, draw: int) -> np.ndarray:
        """(n, group) texts: the clicked candidate, then those drawn from the rest of its impression."""
        wanted = self.options["group"] - 1
        chosen = np.empty((len(items), 1 + wanted), dtype=np.int64)
        for place, (row, clicked) in enumerate(items):
            texts, labels = self.data.candidates(row)
            rng = np.random.default_rng([self.seed, 131, draw, int(row), int(clicked)])
            others = rng.permutation(texts[labels == 0])
            chosen[place] = [texts[clicked], *np.resize(others, wanted)]  # repeats them from the first on
        return chosen

    def packs(self, items: np.ndarray, draw: int) -> tuple[Packed, ...]:
        """The histories, and all candidates: all clicked ones, then all first negatives, …"""
        texts = self.shown(items, draw).T.reshape(-1)
        histories = self.data.pack_histories(items[:, 0], self.options["query_length"])
        return histories, self.data.pack_texts(texts, self.options["passage_length"])

    def loss(self, packs: tuple[Packed, ...], items: np.ndarray) -> torch.Tensor:
        users = self.model.query(Batch.of(packs[0], self.device))
        candidates = self.model.document(Batch.of(packs[1], self.device))
        candidates = candidates.view(-1, len(items), candidates.shape[1]).transpose(0, 1)
        return click_loss(users, candidates, self.options["temperature"])
