"""Cosines of random pairs against a loop over single texts.

Seen to fail when: a linear map is applied to the states; a pair's second text is the next pair's first; every length
draws pairs of its own; the mean vector of a text is taken instead of [CLS]; dot products are not divided by the
norms; dropout stays on.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pretrieve.analysis import shared
from pretrieve.analysis.pair_similarity import measure
from pretrieve.analysis.shared import draw_pairs
from pretrieve.base.errors import DataError
from pretrieve.models.batch import Batch
from pretrieve.text.packing import pack_spans

CPU = torch.device("cpu")


def state(encoder, store, start: int, length: int) -> np.ndarray:
    packed = pack_spans(store, np.array([start]), np.array([length - 2]), length)
    assert len(packed.tokens) == length
    with torch.no_grad():
        return encoder.body(Batch.of(packed))[0].double().numpy()


def test_against_a_loop(saved, articles, monkeypatch) -> None:
    monkeypatch.setattr(shared, "TOKEN_BUDGET", {"cpu": 64})
    monkeypatch.setattr(shared, "CHUNK_ROWS", 10)
    directory, encoder = saved()
    rows = measure(directory, articles, CPU, pairs=9, lengths=[5, 12, 20], seed=3)
    starts = draw_pairs(articles, 9, 20, 3)
    for row, length in zip(rows, [5, 12, 20], strict=True):
        cosines = []
        for one, other in starts.T:
            x, y = state(encoder, articles, one, length), state(encoder, articles, other, length)
            cosines.append(float(x @ y) / np.sqrt(float(x @ x) * float(y @ y)))
        assert (row["length"], row["n"]) == (length, 9)
        assert abs(row["cosine"] - np.mean(cosines)) <= 1e-5
        assert abs(row["sd"] - np.std(cosines, ddof=1)) <= 1e-5 and row["sd"] > 0.01
    assert len({row["cosine"] for row in rows}) == 3
    assert rows == measure(directory, articles, CPU, pairs=9, lengths=[5, 12, 20], seed=3)
    assert rows != measure(directory, articles, CPU, pairs=9, lengths=[5, 12, 20], seed=4)


def test_a_length_does_not_depend_on_shorter_ones(saved, articles) -> None:
    directory, _ = saved()
    alone = measure(directory, articles, CPU, 9, [20], 3)
    assert measure(directory, articles, CPU, 9, [20, 4], 3)[0] == alone[0]


def test_an_encoder_that_gives_all_texts_one_vector(saved, articles) -> None:
    """[CLS] attends to nothing: whatever the texts are, their cosine is 1."""
    directory, _ = saved("blind")
    tensors = load_file(directory / "model.safetensors")
    for name in tensors:
        if ".attention.output.dense." in name:
            tensors[name] = torch.zeros_like(tensors[name])
    save_file(tensors, directory / "model.safetensors")
    rows = measure(directory, articles, CPU, 9, [5, 20], 3)
    assert all(abs(row["cosine"] - 1) < 1e-6 and row["sd"] < 1e-6 for row in rows)


def test_no_texts_of_that_length(saved, articles) -> None:
    directory, _ = saved()
    with pytest.raises(DataError, match="1 articles have a text of 50 tokens, at least 2 are needed"):
        measure(directory, articles, CPU, 9, [5, 50], 3)
