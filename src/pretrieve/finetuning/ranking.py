"""Fine-tuning a dual encoder to rank: the relevant document of each query above others.

A step has B queries with a group of G documents each (:mod:`pretrieve.finetuning.groups`), B·(1 + G) vectors, and one
of the losses of :mod:`pretrieve.finetuning.losses` on their inner products divided by the temperature:

=========================  ============================================================================================
softmax, in_batch          each query over all B·G documents of the batch; DPR, Condenser (8 × 8 = 64), RetroMAE;
                           with G = 1 that of paper ``pretraining_tasks``; ``direction: both`` adds the columns
softmax, not in_batch      each query over its own G documents
pairwise, hinge            each query's relevant document against its own negatives; SEED-Encoder, ANCE
=========================  ============================================================================================

``false_negatives: masked``: a document of the batch that is relevant to a query, but is not the one of its group, is omitted
of that query's sum: a document that stands in the batch twice is not its own negative, and neither is another answer.
``kept``: it is a negative like all others, as in tevatron, DPR, RetroMAE and T5X.

With several processes, or more tokens than the budget, the step is cut between queries, and the gradient cache
(:mod:`pretrieve.training.step`) makes the loss that of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from pretrieve.finetuning.groups import Group, StepGroups
from pretrieve.finetuning.losses import both_directions, hinge_loss, pairwise_loss, softmax_loss
from pretrieve.finetuning.recipe_checks import check_loss
from pretrieve.models.batch import Batch
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.packing import Packed
from pretrieve.training.objective import TOKEN_BUDGET, MicroBatch, cut_step, tokens_of_each


class GroupTexts(NamedTuple):
    """The data of a micro-batch: n queries, their n·G documents (group after group), and the rows of both."""

    queries: Packed
    documents: Packed
    group: Group


class RankingObjective:
    """Trains ``model`` on the groups of each step; a :class:`~pretrieve.training.objective.ContrastiveObjective`.

    model: two towers; their vectors have norm 1 for ``similarity: cosine``, and scores are inner products in any case.
    data, groups: the task, and which documents go with which queries at each step. options: of the recipe: loss,
    direction, in_batch, temperature, margin, group, batch, query_length, passage_length. budget: tokens of a
    micro-batch; by default what the device holds.

    Raises ConfigError when the options do not go together.
    """

    terms = {"contrastive": 1.0}

    def __init__(
        self,
        model: DualEncoder,
        data: Dataset,
        groups: StepGroups,
        options: Mapping[str, Any],
        device: torch.device | str = "cpu",
        budget: int | None = None,
    ) -> None:
        check_loss(options)
        self.module = self.model = model
        self.groups, self.options, self.device = groups, options, device
        self._data = data
        self._budget = budget or TOKEN_BUDGET[torch.device(device).type]

    def known_until(self, step: int) -> float:
        """The last step whose batches can be made at ``step``."""
        return self.groups.known_until(step)

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The groups of a step, cut by the tokens of their texts; a query stays with its group."""
        group = self.groups.at(step, self.options["batch"])
        return cut_step(group, self._pack, self._tokens, self._budget, parts)

    def _tokens(self, texts: GroupTexts) -> np.ndarray:
        """(n,) tokens of each query with its group."""
        documents = tokens_of_each(texts.documents).reshape(texts.group.documents.shape)
        return tokens_of_each(texts.queries) + documents.sum(axis=1)

    def _pack(self, group: Group) -> MicroBatch:
        texts, n = self._texts(group), len(group.queries)
        tokens, rows = len(texts.queries.tokens) + len(texts.documents.tokens), n + len(texts.documents.lengths)
        return MicroBatch(texts, dict.fromkeys(self.terms, n), tokens, group.queries, rows)

    def _texts(self, group: Group) -> GroupTexts:
        queries = self._data.pack_queries(group.queries, self.options["query_length"])
        documents = self._data.pack_candidates(group.documents.ravel(), self.options["passage_length"])
        return GroupTexts(queries, documents, group)

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(n + n·G, width): queries, then their documents, group after group."""
        sides = ((self.model.query, batch.data.queries), (self.model.document, batch.data.documents))
        return torch.cat([tower(Batch.of(packed, self.device)) for tower, packed in sides]), {}

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """The loss summed over the B queries of the step."""
        queries, documents = split_groups(vectors, batches)
        return {"contrastive": self.ranking_loss(queries, documents, whole_group(batches))}

    def ranking_loss(self, queries: torch.Tensor, documents: torch.Tensor, group: Group) -> torch.Tensor:
        """Summed loss of queries (B, width) and documents (B, G, width), whose rows are ``group``."""
        options = self.options
        if options["in_batch"]:
            return in_batch_loss(all_scores(queries, documents) / options["temperature"], group, self._data, options)
        return own_loss(own_scores(queries, documents) / options["temperature"], options)


def whole_group(batches: list[MicroBatch]) -> Group:
    """The groups of all micro-batches of a step."""
    parts = [batch.data.group for batch in batches]
    return Group(np.concatenate([part.queries for part in parts]), np.concatenate([part.documents for part in parts]))


def split_groups(vectors: list[torch.Tensor], batches: list[MicroBatch]) -> tuple[torch.Tensor, torch.Tensor]:
    """queries (B, width) and documents (B, G, width) of a step from the vectors of its micro-batches."""
    queries, documents = [], []
    for part, batch in zip(vectors, batches, strict=True):
        n, size = batch.data.group.documents.shape
        queries.append(part[:n])
        documents.append(part[n:].unflatten(0, (n, size)))
    return torch.cat(queries), torch.cat(documents)


def own_scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """(B, G) inner products of queries (B, width) with their own documents (B, G, width), in float32."""
    return torch.einsum("bk,bgk->bg", queries.float(), documents.float())


def all_scores(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """(B, B·G) inner products of queries (B, width) with all documents (B, G, width) of the batch, in float32."""
    return queries.float() @ documents.flatten(0, 1).float().T


def in_batch_loss(scores: torch.Tensor, group: Group, data: Dataset, options: Mapping[str, Any]) -> torch.Tensor:
    """Summed softmax loss of scores (B, B·G), each query with all documents of the batch; other documents that are relevant to
    a query are excluded from its sum, unless ``false_negatives: kept``. ``direction: both`` of the options adds the columns."""
    count, size = group.documents.shape
    target = np.arange(count) * size
    loss = both_directions if options["direction"] == "both" else softmax_loss
    if options["false_negatives"] == "kept":
        return loss(scores, torch.from_numpy(target).to(scores.device))
    excluded = data.relevance(group.queries, group.documents.ravel())
    excluded[np.arange(count), target] = False
    return loss(scores, *(torch.from_numpy(array).to(scores.device) for array in (target, excluded)))


def own_loss(scores: torch.Tensor, options: Mapping[str, Any]) -> torch.Tensor:
    """Summed loss of scores (B, G), each query with its own documents, the relevant one first: ``loss`` of the options."""
    if options["loss"] == "softmax":
        return softmax_loss(scores, scores.new_zeros(len(scores), dtype=torch.int64))
    if options["loss"] == "pairwise":
        return pairwise_loss(scores[:, 0], scores[:, 1:])
    return hinge_loss(scores[:, 0], scores[:, 1:], options["margin"])
