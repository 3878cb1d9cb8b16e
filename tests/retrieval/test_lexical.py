"""Sparse vectors on disk: what is written is read, in any shards; resuming; what is refused; and the score by hand.

Seen to fail when: a shard counts as there when only its first part is; the values of one shard are read beside the indices of
another; another key keeps old shards; an index of V is accepted; the row of the message is counted within the shard.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from search_data import written_out

from pretrieve.base.errors import DataError
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter, LexicalReader, LexicalWriter
from pretrieve.retrieval.shards import Shards, remove_store

ROWS, TOP, WORDS = 11, 3, 20
RNG = np.random.default_rng(5)
INDICES = np.sort(np.stack([RNG.choice(WORDS, TOP, replace=False) for _ in range(ROWS)]), axis=1).astype(np.int32)
VALUES = RNG.normal(size=(ROWS, TOP)).astype(np.float32)


def writer(directory: Path, key: str = "k", shard_rows: int = 4) -> LexicalWriter:
    return LexicalWriter(directory, "corpus-lexical", ROWS, TOP, WORDS, key, Shards(shard_rows))


def write(directory: Path, **options) -> list[int]:
    store = writer(directory, **options)
    done = [store.write(i, INDICES[a:b], VALUES[a:b]) or i for i, a, b in store.pending()]
    store.finish()
    return done


@pytest.mark.parametrize("shard_rows", [1, 4, 11, 50])
def test_read_back(tmp_path: Path, shard_rows: int) -> None:
    write(tmp_path, shard_rows=shard_rows)
    reader = LexicalReader(tmp_path, "corpus-lexical")
    assert (reader.rows, reader.top, reader.vocabulary, reader.key) == (ROWS, TOP, WORDS, "k")
    assert reader.indices.shape == reader.values.shape == (ROWS, TOP) and len(reader.indices) == ROWS
    assert reader.indices.dtype == np.int32 and reader.values.dtype == np.float32
    assert np.array_equal(reader.indices.read(), INDICES) and np.array_equal(reader.values.read(), VALUES)
    chosen = np.array([10, 0, 5, 5, 7])
    assert np.array_equal(reader.indices[chosen], INDICES[chosen])
    assert np.array_equal(reader.values[2:9], VALUES[2:9]) and np.array_equal(reader.values[-2:], VALUES[-2:])
    pieces = list(zip(reader.indices.shards(), reader.values.shards(), strict=True))
    assert len(pieces) == -(-ROWS // shard_rows) and [first for (first, _), _ in pieces][-1] < ROWS
    for (first, indices), (_, values) in pieces:
        assert np.array_equal(indices, INDICES[first : first + shard_rows])
        assert np.array_equal(values, VALUES[first : first + shard_rows])
    with pytest.raises(DataError, match=r"0\.\.11 asked for, expected 0\.\.10"):
        reader.values[[0, 11]]


def test_the_score_by_hand(tmp_path: Path) -> None:
    """Equation 12's second part: document {2: 0.5, 4: -1} and query μ = 0, 1, 2, 3, 4 → 2·0.5 − 4 = −3."""
    store = LexicalWriter(tmp_path, "d", 1, 2, 5, "k")
    store.write(0, np.array([[2, 4]]), np.array([[0.5, -1.0]]))
    store.finish()
    queries = EmbeddingWriter(tmp_path, "queries-lexical", 1, 5, "k")
    queries.write(0, np.arange(5.0)[None])
    queries.finish()
    reader, words = LexicalReader(tmp_path, "d"), EmbeddingReader(tmp_path, "queries-lexical").read()[0]
    assert float((words[reader.indices[:]] * reader.values[:]).sum()) == -3.0
    assert written_out(reader).tolist() == [[0, 0, 0.5, 0, -1]] and float(written_out(reader, [0])[0] @ words) == -3.0


def test_resume(tmp_path: Path) -> None:
    first = writer(tmp_path)
    first.write(1, INDICES[4:8], VALUES[4:8])
    (tmp_path / "corpus-lexical-00000.indices.npy").write_bytes(
        (tmp_path / "corpus-lexical-00001.indices.npy").read_bytes()
    )  # and no values: killed between the two
    kept = (tmp_path / "corpus-lexical-00001.values.npy").stat().st_mtime_ns
    assert write(tmp_path) == [0, 2] and write(tmp_path) == []
    assert (tmp_path / "corpus-lexical-00001.values.npy").stat().st_mtime_ns == kept
    assert np.array_equal(LexicalReader(tmp_path, "corpus-lexical").indices.read(), INDICES)
    beside = EmbeddingWriter(tmp_path, "corpus", 1, 2, "k")
    beside.write(0, np.ones((1, 2)))
    beside.finish()
    writer(tmp_path, key="other")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "corpus-00000.npy",
        "corpus-lexical.plan.json",
        "corpus.json",
        "corpus.plan.json",
    ]
    half = writer(tmp_path, key="half")
    half.write(0, INDICES[:4], VALUES[:4])
    assert len(writer(tmp_path, key="half").pending()) == 2 and len(writer(tmp_path, key="other").pending()) == 3
    assert write(tmp_path, key="other") == [0, 1, 2]
    remove_store(tmp_path, "corpus")
    assert LexicalReader(tmp_path, "corpus-lexical").key == "other" and not (tmp_path / "corpus.json").exists()
    remove_store(tmp_path, "corpus-lexical")
    assert not list(tmp_path.iterdir())


def test_refused(tmp_path: Path) -> None:
    store = writer(tmp_path)
    wrong = INDICES[4:8].copy()
    wrong[2, 1] = WORDS
    with pytest.raises(DataError, match=r"row 6 has a word outside 0\.\.19"):
        store.write(1, wrong, VALUES[4:8])
    bad = VALUES[4:8].copy()
    bad[3, 0] = np.inf
    with pytest.raises(DataError, match="row 7 is not finite"):
        store.write(1, INDICES[4:8], bad)
    with pytest.raises(DataError, match=r"values.npy: array of shape \(4, 2\), expected \(4, 3\)"):
        store.write(1, INDICES[4:8], VALUES[4:8, :2])
    assert len(store.pending()) == 3
    with pytest.raises(DataError, match="3 shards to go"):
        store.finish()
    write(tmp_path)
    path = tmp_path / "corpus-lexical-00001.values.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-4])
    with pytest.raises(DataError, match="00001.values.npy: shard is damaged or short.*delete corpus-lexical.json"):
        LexicalReader(tmp_path, "corpus-lexical")
    path.write_bytes(content)
    meta = json.loads((tmp_path / "corpus-lexical.json").read_text())
    (tmp_path / "corpus-lexical.json").write_text(json.dumps({k: v for k, v in meta.items() if k != "vocabulary"}))
    with pytest.raises(DataError, match="'vocabulary'; expected rows, top, vocabulary, key and shards"):
        LexicalReader(tmp_path, "corpus-lexical")
    meta["shards"].pop()
    (tmp_path / "corpus-lexical.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match="rows, expected 11"):
        LexicalReader(tmp_path, "corpus-lexical")


def test_no_columns(tmp_path: Path) -> None:
    """A joint representation without its dense part."""
    store = EmbeddingWriter(tmp_path, "corpus", 3, 0, "k", Shards(2))
    for shard, start, stop in store.pending():
        store.write(shard, np.empty((stop - start, 0)))
    store.finish()
    reader = EmbeddingReader(tmp_path, "corpus")
    assert reader.read().shape == (3, 0) and reader[np.array([2, 0])].shape == (2, 0)
