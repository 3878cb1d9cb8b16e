"""Contrastive pre-training on pairs: ICT, BFS, WLP and their mixture (paper ``pretraining_tasks`` §2 and §3).

Equation 3 with the documents of the batch in place of all documents: for queries q_i and documents d_j,
``s_ij = φ(q_i)·ψ(d_j) / τ`` and ``L = mean_i (−s_ii + log Σ_j exp s_ij)``. φ and ψ are one tower, or two
(``towers: separate``); for ``similarity: cosine`` their vectors have norm 1. A document that stands in the batch twice is
not its own negative: such entries are excluded from the sum (``false_negatives: masked``). ORQA keeps them (``kept``).
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.pairs.pair import Pairs, make_sampler, pack_pairs
from pretrieve.training.objective import TOKEN_BUDGET, MicroBatch, cut_step, tokens_of_each


def in_batch_loss(
    queries: torch.Tensor, documents: torch.Tensor, temperature: float, document_ids: torch.Tensor | None
) -> torch.Tensor:
    """Summed in-batch softmax loss.

    queries, documents: (n, k), row i of both belonging together; document_ids (n,): equal ids are the same document, and
    only the diagonal one of them takes part in a row. None: all documents take part.

    >>> e = torch.eye(2)
    >>> round(float(in_batch_loss(e, e, 1.0, torch.tensor([0, 1]))), 4)  # 2·log(1 + e⁻¹)
    0.6265
    """
    scores = queries.float() @ documents.float().T / temperature
    if document_ids is not None:
        same = document_ids[:, None] == document_ids[None, :]
        same.fill_diagonal_(False)
        scores = scores.masked_fill(same, -torch.inf)
    target = torch.arange(len(scores), device=scores.device)
    return functional.cross_entropy(scores, target, reduction="sum")


class Contrastive:
    """In-batch softmax over the setting's ``batch`` of pairs a step, drawn by a pair sampler, queries and documents cut
    to a length each. The setting's encoder is the document tower; the query tower is the same one, or with
    ``towers='separate'`` begins as its copy."""

    terms = {"contrastive": 1.0}

    def __init__(self, setting: Setting) -> None:
        options, encoder, store = setting.options, setting.encoder, setting.store
        self.sampler = make_sampler(store, options["tasks"], options["ict_keep"], options["by"])
        self.encoder = self.query_encoder = self.module = encoder
        if options["towers"] == "separate":
            self.query_encoder = copy.deepcopy(encoder)
            self.module = nn.ModuleDict({"document": encoder, "query": self.query_encoder})
        self.store, self.device, self._articles = store, setting.device, store.passage_article()
        self._seed, self._batch, self._temperature = setting.seed, setting.batch, options["temperature"]
        self._lengths = (options["query_length"], options["passage_length"])
        self._masked = options["false_negatives"] == "masked"
        self._budget = setting.token_budget or TOKEN_BUDGET[setting.device.type]

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The pairs of a step, cut by the tokens of their texts."""
        pairs = self.sampler.sample(np.random.default_rng([self._seed, 103, step]), self._batch)
        tokens = lambda data: sum(tokens_of_each(packed) for packed in data[:2])
        return cut_step(pairs, self._pack, tokens, self._budget, parts)

    def _pack(self, pairs: Pairs) -> MicroBatch:
        queries, documents = pack_pairs(self.store, self._articles, pairs, *self._lengths)
        tokens = len(queries.tokens) + len(documents.tokens)
        return MicroBatch(
            (queries, documents, pairs.passage), {"contrastive": len(pairs)}, tokens, pairs.passage, 2 * len(pairs)
        )

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """(2n, dim): queries, then documents."""
        queries, documents, _ = batch.data
        towers = ((self.query_encoder, queries), (self.encoder, documents))
        return torch.cat([tower(Batch.of(packed, self.device)) for tower, packed in towers]), {}

    def contrast(self, vectors: list[torch.Tensor], batches: list[MicroBatch]) -> dict[str, torch.Tensor]:
        """Summed loss of the queries over all documents of the batch."""
        queries, documents = (torch.cat(half) for half in zip(*(part.chunk(2) for part in vectors), strict=True))
        ids = np.concatenate([batch.data[2] for batch in batches])
        known = torch.from_numpy(ids).to(queries.device) if self._masked else None
        return {"contrastive": in_batch_loss(queries, documents, self._temperature, known)}


build = Contrastive
