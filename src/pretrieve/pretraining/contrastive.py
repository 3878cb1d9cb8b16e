"""Contrastive pre-training on pairs: ICT, BFS, WLP and their mixture (paper ``pretraining_tasks`` §2 and §3).

Equation 3 with the documents of the batch in place of all documents: for queries q_i and documents d_j,
``s_ij = φ(q_i)·ψ(d_j) / τ`` and ``L = mean_i (−s_ii + log Σ_j exp s_ij)``, with unit vectors and one tower for both.
A document that stands in the batch twice is not its own negative: such entries are left out of the sum.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.pairs.pair import PairSampler, pack_pairs
from pretrieve.text.token_store import TokenStore
from pretrieve.training.loop import MicroBatch


def in_batch_loss(
    queries: torch.Tensor, documents: torch.Tensor, temperature: float, document_ids: torch.Tensor
) -> torch.Tensor:
    """Summed in-batch softmax loss.

    queries, documents: (n, k) unit vectors, row i of both belonging together; document_ids (n,): equal ids are the same
    document, and only the diagonal one of them takes part in a row.

    >>> e = torch.eye(2)
    >>> round(float(in_batch_loss(e, e, 1.0, torch.tensor([0, 1]))), 4)  # 2·log(1 + e⁻¹)
    0.6265
    """
    scores = queries.float() @ documents.float().T / temperature
    same = document_ids[:, None] == document_ids[None, :]
    same.fill_diagonal_(False)
    scores = scores.masked_fill(same, -torch.inf)
    target = torch.arange(len(scores), device=scores.device)
    return functional.cross_entropy(scores, target, reduction="sum")


class Contrastive:
    """In-batch softmax over ``batch`` pairs a step, drawn by a pair sampler."""

    terms = {"contrastive": 1.0}

    def __init__(
        self,
        encoder: Encoder,
        store: TokenStore,
        sampler: PairSampler,
        seed: int,
        batch: int,
        query_length: int,
        passage_length: int,
        temperature: float,
        device: torch.device | str = "cpu",
    ) -> None:
        self.module = self.encoder = encoder
        self.store, self.sampler, self.device = store, sampler, device
        self._articles = store.passage_article()
        self._seed, self._batch, self._temperature = seed, batch, temperature
        self._lengths = (query_length, passage_length)

    def micro_batches(self, step: int) -> list[MicroBatch]:
        """One micro-batch: in-batch negatives need all pairs at once."""
        pairs = self.sampler.sample(np.random.default_rng([self._seed, 103, step]), self._batch)
        queries, documents = pack_pairs(self.store, self._articles, pairs, *self._lengths)
        data = (queries, documents, pairs.passage)
        return [MicroBatch(data, {"contrastive": len(pairs)}, len(queries.tokens) + len(documents.tokens))]

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed loss of the queries."""
        queries, documents, passages = batch.data
        query_vectors = self.encoder(Batch.of(queries, self.device))
        document_vectors = self.encoder(Batch.of(documents, self.device))
        ids = torch.from_numpy(np.asarray(passages)).to(self.device)
        return {"contrastive": in_batch_loss(query_vectors, document_vectors, self._temperature, ids)}
