"""Approximate search with exact scores, and its recall.

Seen to fail when: -1 (nothing found) is taken for a row; the probes are not set; fewer candidates than said are asked
for; an approximate index passes for a flat one; recall divides by the hits found, ignores ties, or looks beyond rank k;
the sample is not the one of the seed; a document of windows is scored by the window that was found.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from search_data import KINDS, embeddings, hits, products, write_store

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import approximation
from pretrieve.retrieval.approximation import measure, recall_at, search_index
from pretrieve.retrieval.index import build_index, set_search
from pretrieve.retrieval.search import MARGIN, DenseScorer, as_run, search
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import rank_documents

INDEXES = [
    {"kind": "IVF", "lists": 20, "probes": 3},
    {"kind": "HNSW", "links": 8, "build": 40, "search": 20},
    {"kind": "PQ", "bytes": 4},
    {"kind": "IVFPQ", "lists": 20, "probes": 3, "bytes": 4},
]


def run_of(*lists):
    """A run from {document: score} of each query."""
    return Run(
        [str(i) for i in range(len(lists))], [list(x) for x in lists], [np.array(list(x.values())) for x in lists]
    )


def asked_of(index, *given, **more):
    """A function of ``k_factor``: how many rows a search asks of the index."""

    def asked(factor: int) -> int:
        wanted = []

        def search_of(vectors, k):
            wanted.append(k)
            return index.search(vectors, k)

        search_index(SimpleNamespace(ntotal=index.ntotal, d=index.d, search=search_of), *given, **more, k_factor=factor)
        return wanted[0]

    return asked


@pytest.mark.parametrize("options", INDEXES, ids=lambda o: o["kind"])
@pytest.mark.parametrize("kind", ["random", "integers"])
def test_what_is_found_has_its_exact_score_and_place(tmp_path, monkeypatch, options, kind):
    corpus, queries, ids = embeddings(kind)
    reader = write_store(tmp_path, corpus, 70)
    index = build_index(reader, options)
    monkeypatch.setattr(approximation, "BATCH", 8)
    run = search_index(index, DenseScorer(reader, queries), ids, 25)
    place = {name: i for i, name in enumerate(ids)}
    scores = products(queries, corpus)
    for mine, row in zip(hits(run), scores, strict=True):
        assert mine == sorted((-float(row[place[name]]), name) for _, name in mine)
    exact = search(reader, queries, ids, 25)
    assert 0.3 < recall_at(run, exact, 25).mean() <= 1
    monkeypatch.undo()
    again = search_index(index, DenseScorer(reader, queries, 2), ids, 25)
    assert hits(again) == hits(run)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_looks_everywhere_is_exact(tmp_path, kind):
    """All cells, all rows as candidates: ties and the order are those of exact search; k > N too."""
    corpus, queries, ids = embeddings(kind)
    reader = write_store(tmp_path, corpus, 70)
    for options in ({"kind": "IVF", "lists": 9, "probes": 9}, {"kind": "PQ", "bytes": 2}, {"kind": "Flat"}):
        index = build_index(reader, options)
        for depth in (25, 5000):
            run = search_index(index, DenseScorer(reader, queries), ids, depth, k_factor=200)
            assert hits(run) == hits(search(reader, queries, ids, depth))


def test_few_cells_may_give_short_lists(tmp_path):
    corpus, queries, ids = embeddings("random")
    reader = write_store(tmp_path, corpus)
    index = build_index(reader, {"kind": "IVF", "lists": 60, "probes": 1})
    scorer = DenseScorer(reader, queries)
    exact = lambda rows: search(reader, queries[rows], ids, 100, query_ids=[str(row) for row in rows])
    result = measure(search_index(index, scorer, ids, 100), exact, 100)
    assert result["short"] == 20 and result["recall"]["100"] < 0.5
    set_search(index, {"probes": 60})
    result = measure(search_index(index, scorer, ids, 100), exact, 100)
    assert result["short"] == 0 and result["recall"] == {"1": 1.0, "10": 1.0, "100": 1.0}


def test_more_effort_finds_more(tmp_path):
    corpus, queries, ids = embeddings("random", n=1500, q=60)
    reader = write_store(tmp_path, corpus)
    index = build_index(reader, {"kind": "PQ", "bytes": 4})
    exact, scorer = search(reader, queries, ids, 10), DenseScorer(reader, queries)
    shares = [
        recall_at(search_index(index, scorer, ids, 10, k_factor=factor), exact, 10).mean() for factor in (1, 2, 150)
    ]
    assert shares[0] < shares[1] < shares[2] == 1
    asked = asked_of(index, scorer, ids, 10)
    assert asked(1) == 10 + MARGIN and asked(2) == 20 + MARGIN


def test_a_document_of_windows_is_scored_by_its_best_one(tmp_path):
    corpus, queries, ids = embeddings("random")
    documents, ids = np.random.default_rng(2).permutation(np.arange(600) % 150), ids[:150]
    reader = write_store(tmp_path, corpus)
    index = build_index(reader, {"kind": "IVF", "lists": 30, "probes": 2})
    run = search_index(index, DenseScorer(reader, queries), ids, 20, documents=documents)
    exact = as_run(rank_documents(DenseScorer(reader, queries), documents, ids, 150), ids, None)
    for mine, best in zip(hits(run), hits(exact), strict=True):
        assert set(mine) <= set(best) and mine == sorted(mine)
    asked = asked_of(index, DenseScorer(reader, queries), ids, 20, documents=documents)
    assert asked(1) == 20 * 4 + MARGIN and asked(3) == 20 * 4 * 3 + MARGIN  # four windows a document
    assert 0.2 < recall_at(run, exact, 20).mean() < 1
    set_search(index, {"probes": 30})
    whole = search_index(index, DenseScorer(reader, queries), ids, 20, documents=documents, k_factor=8)
    assert hits(whole) == hits(exact.cut(20))


def test_recall_hand_worked():
    exact = run_of({"a": 4, "b": 3, "c": 2, "d": 2}, {"a": 1}, {})
    found = run_of({"b": 3, "d": 2, "e": 1, "a": 0.5}, {}, {})
    assert recall_at(found, exact, 1).tolist() == [0.0, 0.0, 1.0]  # b is below a; nothing found; nothing to find
    assert recall_at(found, exact, 3).tolist() == [2 / 3, 0.0, 1.0]  # d ties with c, the third
    assert recall_at(exact, exact, 3).tolist() == [1.0, 1.0, 1.0]  # not 4 of 3
    assert recall_at(exact, exact, 10).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(DataError, match="other queries"):
        recall_at(found.restrict(["0"]), exact, 1)


def test_the_measurement_is_of_the_seeds_queries_and_is_written(tmp_path, capsys):
    asked = []

    def perfect(rows):
        asked.append(rows.tolist())
        return Run([str(r) for r in rows], [["a", "b"]] * len(rows), [np.array([2.0, 1.0])] * len(rows))

    lists = [["a"] if row % 2 else ["a", "b"] for row in range(1000)]
    every_other = Run([str(r) for r in range(1000)], lists, [np.array([2.0, 1.0])[: len(x)] for x in lists])
    path = tmp_path / "recall.json"
    result = measure(every_other, perfect, 2, 40, seed=3, about={"index": {"kind": "IVF"}}, path=path)
    odd = sum(r % 2 for r in asked[0])
    assert len(set(asked[0])) == 40 and max(asked[0]) > 500 and asked[0] == sorted(asked[0]) and 0 < odd < 40
    assert result["recall"] == {"1": 1.0, "2": round(1 - odd / 80, 6)} and result["worst"]["2"] == 0.5
    assert (result["short"], result["queries"], result["of"]) == (odd, 40, 1000)
    assert json.loads(path.read_text()) == result
    assert f"@2 {1 - odd / 80:.4f}" in capsys.readouterr().out
    measure(every_other, perfect, 2, 40, seed=4)
    assert asked[1] != asked[0]


def test_what_does_not_fit_is_named(tmp_path):
    corpus, queries, ids = embeddings("random")
    reader = write_store(tmp_path, corpus)
    index = build_index(reader, {"kind": "IVF", "lists": 4, "probes": 1})
    with pytest.raises(ConfigError, match=r"approximate index \(IndexIVFFlat\).*search_index"):
        search(index, queries, ids, 5)
    with pytest.raises(DataError, match="the index has 600 of 16; build the index again"):
        search_index(index, DenseScorer(write_store(tmp_path / "b", corpus[:50]), queries), ids[:50], 5)
    with pytest.raises(DataError, match="600 rows, expected 599"):
        search_index(index, DenseScorer(reader, queries), ids[:599], 5)
