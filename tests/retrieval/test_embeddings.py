"""The embedding store.

Seen to fail when: ``_resume`` keeps shards of another key, or removes those of other stores; ``_complete`` is always
False (the encoder runs again) or checks existence only (a short shard stays); ``take`` reads other rows; ``finish``
skips its check.
"""

import numpy as np
import pytest

from pretrieve.base.errors import DataError
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.shards import Shards

ROWS, DIM, SHARD = 23, 5, 8
MATRIX = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)


def writer(directory, key="k", rows=ROWS):
    return EmbeddingWriter(directory, "corpus", rows, DIM, key, Shards(SHARD))


def write_all(directory, key="k", matrix=MATRIX, stop_after=None):
    store = writer(directory, key, len(matrix))
    encoded = 0
    for shard, start, stop in store.pending():
        if encoded == stop_after:
            return encoded  # as if killed: no finish()
        store.write(shard, matrix[start:stop])
        encoded += 1
    store.finish()
    return encoded


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_read_back(tmp_path):
    write_all(tmp_path)
    reader = EmbeddingReader(tmp_path, "corpus")
    assert (reader.rows, reader.dim, reader.key) == (ROWS, DIM, "k")
    assert [(first, len(shard)) for first, shard in reader.shards()] == [(0, 8), (8, 8), (16, 7)]
    assert all(isinstance(shard, np.memmap) for _, shard in reader.shards())
    np.testing.assert_array_equal(reader.read(), MATRIX)
    rows = np.array([22, 0, 8, 7, 8, 15, 16])
    np.testing.assert_array_equal(reader[rows], MATRIX[rows])
    with pytest.raises(DataError, match=r"expected 0\.\.22"):
        reader[np.array([23])]


def test_a_killed_run_resumes_to_identical_bytes(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert write_all(whole) == 3
    assert write_all(killed, stop_after=2) == 2
    with pytest.raises(DataError, match="no embedding store"):
        EmbeddingReader(killed, "corpus")
    (killed / ".corpus-00002.npy.1.part").write_bytes(b"half")  # what kill -9 leaves of the third shard
    assert write_all(killed) == 1  # one shard was left to encode
    (killed / ".corpus-00002.npy.1.part").unlink()
    assert contents(killed) == contents(whole)
    assert write_all(killed) == 0


def test_a_short_shard_is_written_again(tmp_path):
    write_all(tmp_path, stop_after=2)
    path = tmp_path / "corpus-00001.npy"
    path.write_bytes(path.read_bytes()[:-4])
    assert [shard for shard, _, _ in writer(tmp_path).pending()] == [1, 2]


@pytest.mark.parametrize("finished", [True, False])
def test_another_key_starts_afresh_and_spares_other_stores(tmp_path, finished):
    EmbeddingWriter(tmp_path, "queries", 1, DIM, "k").write(0, MATRIX[:1])
    EmbeddingWriter(tmp_path, "corpus-x", 1, DIM, "k").write(0, MATRIX[:1])
    write_all(tmp_path, stop_after=None if finished else 2)
    assert len(writer(tmp_path, "other").pending()) == 3
    assert not (tmp_path / "corpus.json").exists()
    assert (tmp_path / "queries-00000.npy").exists() and (tmp_path / "corpus-x-00000.npy").exists()
    write_all(tmp_path, "other", MATRIX + 1)
    np.testing.assert_array_equal(EmbeddingReader(tmp_path, "corpus").read(), MATRIX + 1)


def test_an_empty_store(tmp_path):
    write_all(tmp_path, matrix=MATRIX[:0])
    reader = EmbeddingReader(tmp_path, "corpus")
    assert list(reader.shards()) == [] and reader.read().shape == (0, DIM)


def test_damage_is_named(tmp_path):
    write_all(tmp_path)
    path = tmp_path / "corpus-00001.npy"
    data = path.read_bytes()
    advice = "delete corpus.json and run the encoder again"
    for damaged in (data[:-1], data[:20], b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=advice) as error:
            EmbeddingReader(tmp_path, "corpus")
        assert "corpus-00001.npy" in str(error.value) and "expected 8 rows of 5" in str(error.value)
    with open(path, "wb") as stream:
        np.save(stream, MATRIX[:7])
    with pytest.raises(DataError, match="shape"):
        EmbeddingReader(tmp_path, "corpus")
    path.unlink()
    with pytest.raises(DataError, match=f"missing.*{advice}"):
        EmbeddingReader(tmp_path, "corpus")
    (tmp_path / "corpus.json").write_text('{"rows": 3}')
    with pytest.raises(DataError, match="dim"):
        EmbeddingReader(tmp_path, "corpus")


def test_bad_blocks_are_refused(tmp_path):
    store = writer(tmp_path)
    with pytest.raises(DataError, match=r"shape \(7, 5\), expected \(8, 5\)"):
        store.write(0, MATRIX[:7])
    bad = MATRIX[8:16].copy()
    bad[3, 1] = np.nan
    with pytest.raises(DataError, match="row 11"):
        store.write(1, bad)
    with pytest.raises(DataError, match="3 shards to go"):
        store.finish()
