"""MaxP against the largest float64 score of each document's windows.

Seen to fail when: the search stops after the first round although a window at the cut could belong to another document;
the cut compares with >= (ties at the cut go to whoever was seen); ties are broken by number, not by id; the last pass
overwrites a document's score from an earlier block, or adds up its windows.
"""

import numpy as np
import pytest
from search_data import KINDS, embeddings, hits, products, ranking, write_store

from pretrieve.base.errors import DataError
from pretrieve.retrieval import search
from pretrieve.retrieval import window_search as maxp
from pretrieve.retrieval.index import build_index
from pretrieve.retrieval.window_search import rank_documents, read_documents


def windows(n, count, seed=0, ordered=True):
    """The document of each of ``n`` windows: every document has one, the first has very many."""
    rng = np.random.default_rng(seed)
    documents = np.concatenate(
        [np.arange(count), np.where(rng.random(n - count) < 0.6, 0, rng.integers(0, count, n - count))]
    )
    return np.sort(documents) if ordered else rng.permutation(documents)


def expected(corpus, queries, documents, ids, depth):
    scores = products(queries, corpus)
    best = np.stack([scores[:, documents == number].max(axis=1) for number in range(len(ids))], axis=1)
    return ranking(best, ids, depth)


def run_of(scorer, documents, ids, depth):
    return search.as_run(rank_documents(scorer, documents, ids, depth), ids, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("depth", [1, 12, 500])
def test_equals_the_best_window_of_every_document(tmp_path, monkeypatch, kind, ordered, depth):
    monkeypatch.setattr(search, "BLOCK", 53)
    monkeypatch.setattr(search, "MARGIN", 4)
    corpus, queries, ids = embeddings(kind, n=400)
    documents, ids = windows(400, 60, ordered=ordered), ids[:60]
    want = expected(corpus, queries, documents, ids, depth)
    assert len(want[0]) == min(depth, 60)
    for source, batch in (
        (write_store(tmp_path / "a", corpus, 37), 7),
        (build_index(write_store(tmp_path / "b", corpus)), 1000),
    ):
        monkeypatch.setattr(search, "BATCH", batch)
        monkeypatch.setattr(maxp, "BATCH", batch)
        assert hits(run_of(search.DenseScorer(source, queries), documents, ids, depth)) == want


def test_all_three_steps_are_taken(tmp_path, monkeypatch):
    """With 0 rounds everything is the last pass; with 1 some queries are settled by their first windows."""
    monkeypatch.setattr(search, "MARGIN", 2)
    monkeypatch.setattr(maxp, "MARGIN", 2)
    corpus, queries, ids = embeddings("random", n=400)
    documents, ids = windows(400, 60), ids[:60]
    corpus[documents == 0] *= 2.5  # windows of one document crowd the first places
    want = expected(corpus, queries, documents, ids, 10)
    taken = []
    original = maxp._exhaustive
    monkeypatch.setattr(maxp, "_exhaustive", lambda *a: taken.append(len(a[1])) or original(*a))
    left, scorer = [], search.DenseScorer(write_store(tmp_path, corpus, 50), queries)
    for tries in (0, 1, 3):
        taken.clear()
        monkeypatch.setattr(maxp, "TRIES", tries)
        assert hits(run_of(scorer, documents, ids, 10)) == want
        left.append(sum(taken))
    assert left[0] == 20 > left[1] > left[2] == 0


def test_one_window_each_is_plain_search(tmp_path):
    corpus, queries, ids = embeddings("integers")
    reader = write_store(tmp_path, corpus, 100)
    plain = search.search(reader, queries, ids, 30)
    assert hits(run_of(search.DenseScorer(reader, queries), np.arange(600), ids, 30)) == hits(plain)


def test_what_does_not_fit_is_named(tmp_path):
    corpus, queries, ids = embeddings("random", n=5)
    reader = write_store(tmp_path, corpus)
    for documents, message in (
        ([0, 1, 1, 3, 3], f"document '{ids[2]}' has no window"),
        ([0, 1, 2, 3], r"shape \(4,\), expected \(5,\)"),
        ([0, 1, 2, 3, 4], r"documents 0..4, expected 0..3"),
    ):
        with pytest.raises(DataError, match=message):
            rank_documents(search.DenseScorer(reader, queries), np.array(documents), ids[:4], 3)


def test_the_file_of_documents(tmp_path):
    assert read_documents(tmp_path) is None
    np.save(tmp_path / "corpus-documents.npy", np.array([0, 0, 1]))
    np.testing.assert_array_equal(read_documents(tmp_path), [0, 0, 1])
    np.save(tmp_path / "corpus-documents.npy", np.array([0.5]))
    with pytest.raises(DataError, match="found float64"):
        read_documents(tmp_path)
    (tmp_path / "corpus-documents.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match="damaged"):
        read_documents(tmp_path)
