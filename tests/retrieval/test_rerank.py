"""Ranking of given candidates, against exact search of everything restricted to them.

Seen to fail when: a candidate's row is looked up by its place in the list; a document's first window counts
instead of its best; an unknown document passes.
"""

import numpy as np
import pytest
from search_data import KINDS, embeddings, hits, products, ranking, write_store

from pretrieve.base.errors import DataError
from pretrieve.retrieval.rerank import rerank
from pretrieve.retrieval.search import DenseScorer, search
from pretrieve.retrieval.trec_run import Run, read_candidates, write_trec


def draw(ids, query_ids, seed=5):
    rng = np.random.default_rng(seed)
    return {name: [ids[i] for i in rng.permutation(len(ids))[: 3 + 20 * n]] for n, name in enumerate(query_ids)}


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_full_ranking_without_the_others(tmp_path, kind):
    corpus, queries, ids = embeddings(kind)
    names = [f"q{i}" for i in range(len(queries))]
    candidates = draw(ids, names)
    reader = write_store(tmp_path, corpus, 71)
    run = rerank(DenseScorer(reader, queries), candidates, ids, names)
    full = hits(search(reader, queries, ids, len(ids), query_ids=names))
    assert run.query_ids == names
    assert hits(run) == [
        [hit for hit in hit_list if hit[1] in candidates[name]] for hit_list, name in zip(full, names, strict=True)
    ]
    assert [len(mine) for mine in run.doc_ids] == [3 + 20 * n for n in range(len(names))]


def test_of_windows_the_best_counts(tmp_path):
    corpus, queries, ids = embeddings("random", n=90)
    documents = np.random.default_rng(1).permutation(np.arange(90) % 30)
    scores = products(queries, corpus)
    best = np.stack([scores[:, documents == number].max(axis=1) for number in range(30)], axis=1)
    names = [str(i) for i in range(len(queries))]
    chosen = ids[5:25]
    run = rerank(
        DenseScorer(write_store(tmp_path, corpus), queries), dict.fromkeys(names, chosen), ids[:30], names, documents
    )
    assert hits(run) == ranking(best[:, 5:25], chosen, 20)


def test_candidates_from_a_run(tmp_path):
    write_trec(
        tmp_path / "bm25.trec.gz", Run(["q1", "q2"], [["b", "a"], []], [np.array([2.0, 1.0]), np.array([])]), "x"
    )
    assert read_candidates(tmp_path / "bm25.trec.gz") == {"q1": ["b", "a"]}


def test_queries_of_other_splits_are_left_out_and_missing_ones_are_empty(tmp_path):
    scorer = DenseScorer(write_store(tmp_path, np.eye(2, dtype=np.float32)), np.eye(2, dtype=np.float32))
    given = {"b": ["y", "x"], "elsewhere": ["unknown"]}
    run = rerank(scorer, given, ["x", "y"], ["a", "b"])
    assert (run.query_ids, run.doc_ids) == (["a", "b"], [[], ["y", "x"]])
    assert run.scores[1].tolist() == [1.0, 0.0]


def test_what_does_not_fit_is_named(tmp_path):
    scorer = DenseScorer(write_store(tmp_path, np.eye(2, dtype=np.float32)), np.eye(2, dtype=np.float32))
    with pytest.raises(DataError, match="candidate 'z' of query 'b' is not among the 2 documents"):
        rerank(scorer, {"a": ["x"], "b": ["x", "z"]}, ["x", "y"], ["a", "b"])
    with pytest.raises(DataError, match="1 query ids for 2 query vectors"):
        rerank(scorer, {"a": ["x"]}, ["x", "y"], ["a"])
    with pytest.raises(DataError, match="1 document ids for 2 embeddings"):
        rerank(scorer, {"a": ["x"]}, ["x"], ["a", "b"])
