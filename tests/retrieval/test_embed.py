"""Embedding: order, cuts, shards that resume, and what they belong to.

Seen to fail when: vectors are written in packed order; ``begin`` is left out for later chunks; finished shards are embedded
again; the key leaves out the candidates; the encoder stays in evaluation mode.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrieve.models.batch import Batch
from pretrieve.models.encoder import Encoder
from pretrieve.models.hf_format import save_encoder
from pretrieve.retrieval import embed
from pretrieve.retrieval.embed import embed_rows, encode
from pretrieve.retrieval.embed_task import embed_task
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.packing import pack_passages, pack_sentence_in_passage, pack_sentences

ROWS = np.array([8, 0, 5, 3, 3, 1, 7, 2, 6, 4])


@pytest.fixture
def encoder(body) -> Encoder:
    return Encoder(replace(body, std=0.3, word_std=0.5), 6, "cls", seed=4)  # wide: texts get different vectors


@pytest.fixture
def one_by_one(store, encoder):
    encoder.eval()
    with torch.no_grad():
        vectors = [encoder(Batch.of(pack_passages(store, np.array([row]), 40)))[0].numpy() for row in range(9)]
    encoder.train()
    return np.stack(vectors)


@pytest.mark.parametrize("chunk", [1, 3, 8192])
@pytest.mark.parametrize("budget", [1, 60, 16_384])
def test_order_whatever_the_cuts(store, encoder, one_by_one, cpu, monkeypatch, chunk: int, budget: int) -> None:
    monkeypatch.setattr(embed, "CHUNK_ROWS", chunk)
    monkeypatch.setitem(embed.TOKEN_BUDGET, "cpu", budget)
    vectors = encode(encoder, lambda rows: pack_passages(store, rows, 40), ROWS, cpu)
    assert vectors.dtype == np.float32 and encoder.training
    assert np.abs(vectors - one_by_one[ROWS]).max() <= 1e-5
    assert len(np.unique(one_by_one.round(2), axis=0)) == 9
    assert encode(encoder, lambda rows: pack_passages(store, rows, 40), ROWS[:0], cpu).shape == (0, 6)


def test_shards_resume(store, encoder, one_by_one, cpu, tmp_path: Path) -> None:
    calls: list[list[int]] = []

    def pack(rows: np.ndarray):
        calls.append(rows.tolist())
        return pack_passages(store, rows, 40)

    def go(key: str = "k") -> np.ndarray:
        calls.clear()
        embed_rows(encoder, pack, 9, tmp_path, "corpus", key, cpu, shard_rows=4)
        return EmbeddingReader(tmp_path, "corpus").read()

    first = go()
    assert calls == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert np.abs(first - one_by_one).max() <= 1e-5
    assert np.array_equal(go(), first) and calls == []
    (tmp_path / "corpus-00001.npy").unlink()
    assert np.array_equal(go(), first) and calls == [[4, 5, 6, 7]]
    assert np.array_equal(go("other"), first) and len(calls) == 3


def test_a_candidate_without_sentence(store, encoder, cpu) -> None:
    sentences, passages = np.array([-1, 12, -1]), np.array([5, 5, 8])
    vectors = encode(
        encoder, lambda rows: pack_sentence_in_passage(store, sentences[rows], passages[rows], 40), np.arange(3), cpu
    )
    alone = encode(encoder, lambda rows: pack_passages(store, passages[rows], 40), np.arange(3), cpu)
    assert np.allclose(vectors[[0, 2]], alone[[0, 2]], atol=1e-6)
    assert not np.allclose(vectors[1], alone[1], atol=1e-3)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


class Task(Dataset):
    """A task over the tiny corpus: its passages as candidates, its sentences as queries."""

    def __init__(self, store) -> None:
        self.passages = self.queries = store
        self.candidate_sentence = np.array([-1, 0, 3, 11])
        self.candidate_passage = np.array([0, 0, 1, 5])
        self.query_ids = ["a", "b", "c"]


def test_both_sides_of_a_task(store, encoder, cpu, tmp_path: Path) -> None:
    retriever, out = tmp_path / "retriever", tmp_path / "out"
    vocabulary = store.meta["vocabulary_sha256"]
    save_encoder(retriever, encoder, about={"trained_projection": True, "vocabulary_sha256": vocabulary})
    task = Task(store)
    tokens = len(task.pack_queries(np.arange(3), 12).tokens) + len(task.pack_candidates(np.arange(4), 30).tokens)
    assert embed_task(task, retriever, out, 12, 30, cpu) == tokens
    queries, corpus = EmbeddingReader(out, "queries"), EmbeddingReader(out, "corpus")
    encoder.eval()
    with torch.no_grad():
        expected = encoder(Batch.of(pack_sentences(store, np.arange(3), 12))).numpy()
        documents = encoder(Batch.of(task.pack_candidates(np.arange(4), 30))).numpy()
    assert np.allclose(queries.read(), expected, atol=1e-6) and np.allclose(corpus.read(), documents, atol=1e-6)
    key = corpus.key
    assert embed_task(task, retriever, out, 12, 30, cpu) == 0  # all there: nothing is encoded again
    assert EmbeddingReader(out, "corpus").key == key
    task.candidate_sentence = np.array([-1, 1, 3, 11])  # the same texts, another candidate
    embed_task(task, retriever, out, 12, 30, cpu)
    changed = EmbeddingReader(out, "corpus")
    assert changed.key != key and not np.allclose(changed.read()[1], documents[1], atol=1e-4)
    assert np.allclose(changed.read()[2], documents[2], atol=1e-6)
