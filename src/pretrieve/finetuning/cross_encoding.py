"""Training a cross-encoder to find a query's relevant document in its group, scoring pairs with it, and ordering hits by that.

The teacher of ``dupmae`` §3.2, third stage: "a cross-encoder is trained to discriminate the positives from negatives for each
query". Of query i with documents d_i1 (relevant), d_i2, …, d_iG and scores s of the cross-encoder::

    L = mean_i (−s_i1 + log Σ_g exp s_ig)                                    (1)

over the group alone: another query's documents would each need a pass of their own (RetroMAE cross_encoder/modeling.py has
the same loss; no temperature, its default).

A pair reads as the two texts that a retriever's towers read, in one sequence: ``[CLS] query [SEP] document [SEP]`` with the
document in segment 1. For a ReQA candidate the document is ``sentence [SEP] passage``. Where both do not fit into the body's
positions, the end of the document is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pretrieve.base.progress import Progress
from pretrieve.finetuning.groups import Group, Groups
from pretrieve.finetuning.losses import softmax_loss
from pretrieve.models.batch import Batch
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.retrieval.embed import encode
from pretrieve.retrieval.trec_run import Run
from pretrieve.tasks.dataset import Dataset
from pretrieve.text import packing
from pretrieve.text.packing import Packed
from pretrieve.training.device import Device
from pretrieve.training.objective import TOKEN_BUDGET, MicroBatch, cut_step, tokens_of_each


def longest_pair(model: CrossEncoder) -> int | None:
    """Tokens that fit into the body; None: any number (T5 has no table of positions)."""
    return model.config.max_positions if model.config.kind == "transformer" else None


def pack_query_document(
    data: Dataset, queries: np.ndarray, documents: np.ndarray, lengths: tuple[int, int], longest: int | None = None
) -> Packed:
    """``[CLS] query [SEP] document [SEP]`` for query rows and candidate rows (n,).

    lengths: tokens of the query, and of the document with the [CLS] that it has where it stands alone; longest: of both.
    """
    first, second = data.pack_queries(queries, lengths[0]), data.pack_candidates(documents, lengths[1])
    query_start, query_length = _spans(first)
    start, length = _spans(second)
    led = (second.tokens[start] == data.passages.special.cls).astype(np.int64)  # T5's texts have no [CLS]
    start, length = start + led, length - led
    return packing.pack(
        [
            packing.Part(first.tokens, query_start, query_length),
            packing.Part(second.tokens, start, length - 1, segment=1),
            # the closing [SEP], which is kept
            packing.Part(second.tokens, start + length - 1, np.ones_like(length), segment=1),
        ],
        longest,
    )


def _spans(packed: Packed) -> tuple[np.ndarray, np.ndarray]:
    """(starts, lengths), each (n,), of the examples in the caller's order."""
    starts = np.empty_like(packed.lengths)
    starts[packed.order] = packed.starts
    return starts, tokens_of_each(packed)


class CrossEncoderObjective:
    """Loss (1) over the groups of a step.

    model: of one class, the score; options: ``batch`` (queries a step), ``query_length``, ``passage_length``; budget: tokens of a
    micro-batch, by default what the device holds.
    """

    terms = {"softmax": 1.0}

    def __init__(
        self,
        model: CrossEncoder,
        data: Dataset,
        groups: Groups,
        options: Mapping[str, Any],
        device: torch.device,
        budget: int | None = None,
    ) -> None:
        self.module = self.model = model
        self._data, self._groups, self._device = data, groups, torch.device(device)
        self._batch, self._lengths = options["batch"], (options["query_length"], options["passage_length"])
        self._budget = budget or TOKEN_BUDGET[self._device.type]

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The groups of a step; a query's documents are never parted."""
        group = self._groups.at(step, self._batch)
        tokens = lambda packed: tokens_of_each(packed).reshape(group.documents.shape).sum(axis=1)
        return cut_step(group, self._pack, tokens, self._budget, parts)

    def _pack(self, group: Group) -> MicroBatch:
        queries, documents = np.repeat(group.queries, group.documents.shape[1]), group.documents.reshape(-1)
        packed = pack_query_document(self._data, queries, documents, self._lengths, longest_pair(self.model))
        return MicroBatch(packed, {"softmax": len(group.queries)}, len(packed.tokens), group.queries)

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed over the queries."""
        scores = self.model(Batch.of(batch.data, self._device)).view(batch.counts["softmax"], -1)
        return {"softmax": softmax_loss(scores, torch.zeros(len(scores), dtype=torch.long, device=scores.device))}


def score_pairs(
    model: CrossEncoder,
    data: Dataset,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    lengths: tuple[int, int],
    device: Device,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores (n,) float32 of pairs of a query row and a candidate row, each (n,); the model is left in the mode it was in.

    Pairs are laid out and sorted by length many at a time, as texts are for embedding (:mod:`pretrieve.retrieval.embed`).
    """

    def packed(places: np.ndarray) -> Packed:
        return pack_query_document(data, query_rows[places], document_rows[places], lengths, longest_pair(model))

    return encode(model, packed, np.arange(len(query_rows)), device, progress)[:, 0]


def rerank_hits(
    model: CrossEncoder, data: Dataset, run: Run, hits: int, lengths: tuple[int, int], device: Device
) -> Run:
    """``run`` with the first ``hits`` documents of each query in the order of the model's scores (Nogueira and Cho 2019).

    lengths: tokens of a query and of a document. A document below keeps its place: its score is the lowest of the model for this
    query less 1 for each rank.
    """
    model.to(device.device).eval()
    first = run.cut(hits)
    queries = np.repeat([data.query_row(query) for query in first.query_ids], [len(ids) for ids in first.doc_ids])
    documents = np.array([data.document_row[doc_id] for ids in first.doc_ids for doc_id in ids], dtype=np.int64)
    with Progress("rerank", len(queries), "pairs") as progress:
        scores = score_pairs(model, data, queries.astype(np.int64), documents, lengths, device, progress)
    ends = np.cumsum([len(ids) for ids in first.doc_ids])[:-1]
    ranked = []
    for own, ids in zip(np.split(scores, ends), run.doc_ids, strict=True):
        below = np.arange(1, len(ids) - len(own) + 1, dtype=np.float32)
        ranked.append(np.concatenate([own, (own.min() if len(own) else 0.0) - below]))
    return Run(list(run.query_ids), [list(ids) for ids in run.doc_ids], ranked)
