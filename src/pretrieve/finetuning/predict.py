"""What a fine-tuned model says about the examples of a task that has no retrieval.

==================  =================================================================================
kind                scores of an example
==================  =================================================================================
``regression``      cosine of its two texts (1)
``triplet``         distances anchor–positive and anchor–negative (2)
``classification``  a logit for each class
``clicks``          h·c of the user's history with each candidate of the impression
==================  =================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.finetuning.classification import check_classes
from pretrieve.finetuning.sentences import distances, one_tower
from pretrieve.models.cross_encoder import CrossEncoder
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.example_task import ExampleData
from pretrieve.training.device import Device

#: Impressions whose histories are in memory at once.
IMPRESSIONS = 8192


def predict(
    model: DualEncoder | CrossEncoder, data: ExampleData, rows: np.ndarray, options: Mapping[str, Any], device: Device
) -> dict[str, np.ndarray]:
    """Example id → its scores (m,) float32, in the order of rows (n,).

    A text that many examples have is encoded once. options: ``passage_length``, and for clicks ``query_length``. The
    model is left in the mode it was in.

    Raises ConfigError when the model does not go with the task: two towers for texts of equal standing, or another number of
    classes.
    """
    if data.kind == "classification":
        check_classes(model, data)
        pack = lambda some: data.pack_examples(some, options["passage_length"])
        scores = list(encode(model, pack, rows, device))
    elif data.kind == "clicks":
        scores = _clicks(model, data, rows, options, device)
    else:
        scores = list(_comparisons(model, data, rows, options, device))
    return {data.example_ids[row]: values.astype(np.float32) for row, values in zip(rows, scores, strict=True)}


def _vectors(
    tower: nn.Module, data: ExampleData, texts: np.ndarray, options: Mapping[str, Any], device: Device
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the different texts, and for each of ``texts`` (n,) the row of its vector."""
    different, place = np.unique(texts, return_inverse=True)
    vectors = encode(tower, lambda rows: data.pack_texts(rows, options["passage_length"]), different, device)
    return vectors, place


def _comparisons(
    model: DualEncoder, data: ExampleData, rows: np.ndarray, options: Mapping[str, Any], device: Device
) -> np.ndarray:
    """(n, 1) cosines, or (n, 2) distances."""
    number = 2 if data.kind == "regression" else 3
    texts = np.stack([data.text(rows, place) for place in range(number)])
    vectors, place = _vectors(one_tower(model, data.kind), data, texts.reshape(-1), options, device)
    parts = [torch.from_numpy(vectors[own]) for own in place.reshape(texts.shape)]
    if data.kind == "regression":
        return functional.cosine_similarity(*parts, dim=-1)[:, None].numpy()
    return torch.stack(distances(*parts), dim=1).numpy()


def _clicks(
    model: DualEncoder, data: ExampleData, rows: np.ndarray, options: Mapping[str, Any], device: Device
) -> list[np.ndarray]:
    shown = [data.candidates(row)[0] for row in rows]
    vectors, place = _vectors(model.document, data, np.concatenate(shown), options, device)
    ends = np.cumsum([len(texts) for texts in shown])
    scores = []
    for begin in range(0, len(rows), IMPRESSIONS):
        some = rows[begin : begin + IMPRESSIONS]
        users = encode(model.query, lambda own: data.pack_histories(own, options["query_length"]), some, device)
        for number, user in enumerate(users, start=begin):
            own = place[ends[number] - len(shown[number]) : ends[number]]
            # One by one, so that a score does not depend on which other candidates are shown.
            scores.append(np.array([np.dot(vectors[row], user) for row in own], dtype=np.float32))
    return scores
