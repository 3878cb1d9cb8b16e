"""Training with long documents: the score of a document is that of its best window (MaxP; Dai & Callan 2019, ANCE).

``windows`` above 1 cuts a candidate into at most that many windows (:mod:`pretrieve.text.windows`); for query q and the windows
w_1 … w_m of document d::

    s(q, d) = max_k q·w_k / τ                                                 (1)

Only the best window of each pair gets a gradient (SEED-Encoder model/models.py, NLL_MultiChunk, which has four). With one
window this is :class:`~pretrieve.finetuning.ranking.RankingObjective`, FirstP.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from pretrieve.finetuning import train_curve
from pretrieve.finetuning.fine_tuning import FineTuning, Trainable
from pretrieve.finetuning.groups import Group
from pretrieve.finetuning.ranking import RankingObjective, in_batch_loss, own_loss, whole_group
from pretrieve.text.packing import Packed
from pretrieve.training.objective import MicroBatch, tokens_of_each


class WindowTexts(NamedTuple):
    """As :class:`~pretrieve.finetuning.ranking.GroupTexts`; ``documents`` are windows, ``owner`` (W,) which of the n·G documents
    each is of, ascending."""

    queries: Packed
    documents: Packed
    group: Group
    owner: np.ndarray


class MaxPRanking(RankingObjective):
    """A ranking objective over documents of several windows: equation (1)."""

    def _tokens(self, texts: WindowTexts) -> np.ndarray:
        count, size = texts.group.documents.shape
        windows = np.bincount(texts.owner // size, weights=tokens_of_each(texts.documents), minlength=count)
        return tokens_of_each(texts.queries) + windows.astype(np.int64)

    def _texts(self, group: Group) -> WindowTexts:
        options = self.options
        queries = self._data.pack_queries(group.queries, options["query_length"])
        cut = self._data.windows(options["passage_length"], options["windows"], group.documents.ravel())
        return WindowTexts(queries, cut.pack(np.arange(len(cut))), group, cut.windows.documents)

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """The loss summed over the B queries of the step."""
        sizes = [len(batch.data.group.queries) for batch in batches]
        queries = torch.cat([part[:n] for part, n in zip(vectors, sizes, strict=True)])
        windows = torch.cat([part[n:] for part, n in zip(vectors, sizes, strict=True)])
        group = whole_group(batches)
        first = np.cumsum([0, *(batch.data.group.documents.size for batch in batches[:-1])])
        owner = np.concatenate([batch.data.owner + begin for batch, begin in zip(batches, first, strict=True)])
        scores = best_windows(queries, windows, owner, group.documents.size) / self.options["temperature"]
        return {"contrastive": self._loss(scores, group)}

    def _loss(self, scores: torch.Tensor, group: Group) -> torch.Tensor:
        """scores (B, B·G), each query with all documents of the batch."""
        if self.options["in_batch"]:
            return in_batch_loss(scores, group, self._data, self.options)
        own = torch.arange(group.documents.size, device=scores.device).view(group.documents.shape)
        return own_loss(scores.gather(1, own), self.options)


def best_windows(queries: torch.Tensor, windows: torch.Tensor, owner: np.ndarray, documents: int) -> torch.Tensor:
    """(B, documents) greatest inner product of each query (B, k) with the windows (W, k) of each document; ``owner`` (W,).

    >>> best_windows(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 5.0], [2.0, 0.0], [-3.0, 1.0]]), np.array([0, 0, 1]), 2)
    tensor([[ 2., -3.]])
    """
    products = queries.float() @ windows.float().T
    place = torch.from_numpy(owner).to(products.device).expand(len(queries), -1)
    empty = products.new_full((len(queries), documents), -torch.inf)
    return empty.scatter_reduce(1, place, products, "amax", include_self=False)


def prepare(run: FineTuning) -> Trainable:
    """As :func:`~pretrieve.finetuning.train_ranking.prepare`, by the best window."""
    return train_curve.prepare(run, MaxPRanking)
