"""A cross-encoder after a first ranking: the best hits of each query are ordered again, the others stay as they are below them
(Nogueira and Cho 2019)."""

from __future__ import annotations

import numpy as np

from pretrieve.base.progress import Progress
from pretrieve.finetuning.cross_encoding import score_pairs
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.retrieval.trec_run import Run
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device


def rerank_hits(
    model: CrossEncoder, data: Dataset, run: Run, hits: int, lengths: tuple[int, int], device: Device
) -> Run:
    """``run`` with the first ``hits`` documents of each query in the order of the model's scores.

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
