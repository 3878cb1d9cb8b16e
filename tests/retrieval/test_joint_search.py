"""DupMAE's joint score against a dense float64 product of the vectors with their zeros written out.

Seen to fail when: the lexical or the dense part is left out; a query's own words are made sparse too; a block's first row
is not added; the second table of queries repeats the first; candidates are ranked by their first-pass scores; ``slack``
has no lexical part; two-step search keeps dense scores, or ranks among the ``depth`` best dense documents only; a NaN in
a later block is lost; the words of documents are not compared with the queries' vocabulary.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from search_data import embeddings, hits, products, ranking, write_store

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import joint_search as module
from pretrieve.retrieval import search
from pretrieve.retrieval.approximation import recall_at
from pretrieve.retrieval.joint_search import JointScorer
from pretrieve.retrieval.rerank import rerank
from pretrieve.retrieval.window_search import rank_documents

V, TOP = 50, 6


def lexical(kind, n, q, seed=11):
    """Kept words of n documents, their μ with zeros (n, V), and q dense μ (q, V)."""
    rng = np.random.default_rng(seed)
    indices = np.sort(np.argsort(rng.random((n, V)), axis=1)[:, :TOP], axis=1).astype(np.int32)
    if kind == "random":
        values, queries = rng.normal(size=(n, TOP)), rng.normal(size=(q, V))
    else:  # ties, and whole documents alike
        values, queries = rng.integers(0, 3, (n, TOP)), rng.integers(-1, 2, (q, V))
        indices[:] = indices[rng.integers(0, 5, n)]
    values = values.astype(np.float32)
    zeroed = np.zeros((n, V), np.float32)
    np.put_along_axis(zeroed, indices.astype(np.int64), values, axis=1)
    return SimpleNamespace(indices=indices, values=values), zeroed, queries.astype(np.float32)


def case(tmp_path, kind, n=400, q=30, dim=8, shard_rows=90):
    corpus, queries, ids = embeddings(kind, n, dim, q)
    words, zeroed, mu = lexical(kind, n, q)
    truth = products(np.hstack([queries, mu]), np.hstack([corpus, zeroed]))
    return write_store(tmp_path, corpus, shard_rows), words, queries, mu, ids, truth


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    monkeypatch.setattr(module, "_TABLE", 7)
    monkeypatch.setattr(search, "BLOCK", 53)
    monkeypatch.setattr(search, "MARGIN", 5)


def test_hand_worked(tmp_path):
    """Two documents, three words. d0: 1*2 + (word 0: 3*5) = 17. d1: 1*1 + (word 2: -1*4) = -3, not 2*9 of word 1."""
    reader = write_store(tmp_path, np.array([[2.0], [1.0]], np.float32))
    words = SimpleNamespace(indices=np.array([[0], [2]], np.int32), values=np.array([[5.0], [4.0]], np.float32))
    run = search.ranked_run(
        JointScorer(reader, words, np.array([[1.0]]), np.array([[3.0, 2.0, -1.0]])), ["d0", "d1"], 5
    )
    assert hits(run) == [[(-17.0, "d0"), (3.0, "d1")]]


@pytest.mark.parametrize("kind", ["random", "integers"])
@pytest.mark.parametrize("depth", [1, 15, 1000])
def test_exact_equals_the_product_of_the_zeroed_vectors(tmp_path, small_blocks, monkeypatch, kind, depth):
    reader, words, queries, mu, ids, truth = case(tmp_path, kind)
    want = ranking(truth, ids, depth)
    assert len(want[0]) == min(depth, 400)
    for batch, threads in ((1000, 1), (11, 2)):
        monkeypatch.setattr(search, "BATCH", batch)
        scorer = JointScorer(reader, words, queries, mu, threads)
        found = search.ranked_run(scorer, ids, depth)
        assert hits(found) == want
    dense = search.search(reader, queries, ids, depth)
    assert depth == 1000 or dense.doc_ids != found.doc_ids  # the words matter here


def test_the_words_alone(tmp_path):
    """parts: ot has a dense store without columns."""
    words, zeroed, mu = lexical("random", 200, 9)
    ids = [f"d{i}" for i in range(200)]
    nothing = np.empty((200, 0), np.float32)
    reader = write_store(tmp_path, nothing)
    run = search.ranked_run(JointScorer(reader, words, nothing[:9], mu), ids, 10)
    assert hits(run) == ranking(products(mu, zeroed), ids, 10)
    with pytest.raises(ConfigError, match="no dense part to find candidates by"):
        JointScorer(reader, words, nothing[:9], mu).two_step_run(ids, 10)


def test_memory_maps_serve_as_well(tmp_path):
    reader, words, queries, mu, ids, truth = case(tmp_path, "random")
    for name in ("indices", "values"):
        np.save(tmp_path / f"{name}.npy", getattr(words, name))
    mapped = SimpleNamespace(
        **{name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("indices", "values")}
    )
    assert hits(search.ranked_run(JointScorer(reader, mapped, queries, mu), ids, 10)) == ranking(truth, ids, 10)


@pytest.mark.parametrize("kind", ["random", "integers"])
def test_two_steps_rank_the_dense_candidates_by_the_joint_score(tmp_path, monkeypatch, kind):
    reader, words, queries, mu, ids, truth = case(tmp_path, kind)
    scorer = JointScorer(reader, words, queries, mu)
    exact = search.ranked_run(scorer, ids, 20)
    monkeypatch.setattr(module, "BATCH", 7)
    assert hits(scorer.two_step_run(ids, 20, candidates=400)) == hits(exact)
    run = scorer.two_step_run(ids, 20, candidates=60)
    dense = search.search(reader, queries, ids, 60).doc_ids
    place = {name: i for i, name in enumerate(ids)}
    for mine, allowed, scores in zip(hits(run), dense, truth, strict=True):
        assert mine == sorted((-float(scores[place[name]]), name) for name in allowed)[:20]
    assert 0.1 < recall_at(run, exact, 20).mean() < 1  # something is missed, not everything


def test_reranking_and_windows_take_the_joint_score(tmp_path):
    reader, words, queries, mu, ids, truth = case(tmp_path, "random")
    scorer = JointScorer(reader, words, queries, mu)
    names = [str(i) for i in range(30)]
    run = rerank(scorer, dict.fromkeys(names, ids[10:40]), ids, names)
    assert hits(run) == ranking(truth[:, 10:40], ids[10:40], 30)
    documents = np.arange(400) // 4
    best = truth.reshape(30, 100, 4).max(axis=2)
    found = rank_documents(scorer, documents, ids[:100], 10)
    want = [
        [(-score, name) for score, name in zip(scores.tolist(), [ids[r] for r in rows], strict=True)]
        for rows, scores in found
    ]
    assert want == ranking(best, ids[:100], 10)


def test_the_number_of_torch_threads_is_given_back(tmp_path):
    reader, words, queries, mu, ids, _ = case(tmp_path, "random")
    before = torch.get_num_threads()
    search.ranked_run(JointScorer(reader, words, queries, mu, before + 1), ids, 3)
    assert torch.get_num_threads() == before


def test_what_does_not_fit_is_named(tmp_path, small_blocks):
    reader, words, queries, mu, ids, _ = case(tmp_path, "random")
    few = SimpleNamespace(indices=words.indices[:399], values=words.values[:399])
    with pytest.raises(DataError, match=r"shape \(399, 6\) .* beside 400 dense rows"):
        search.ranked_run(JointScorer(reader, few, queries, mu), ids, 3)
    with pytest.raises(DataError, match=r"shape \(29, 50\) for 30 queries"):
        search.ranked_run(JointScorer(reader, words, queries, mu[:29]), ids, 3)
    with pytest.raises(DataError, match=r"keeps a word outside 0..44"):
        search.ranked_run(JointScorer(reader, words, queries, mu[:, :45]), ids, 3)
    with pytest.raises(DataError, match="of a query is not finite"):
        search.ranked_run(JointScorer(reader, words, queries, np.full_like(mu, np.nan)), ids, 3)
    bad = SimpleNamespace(indices=words.indices, values=words.values.copy())
    bad.values[300] = np.nan
    with pytest.raises(DataError, match="document's representation is not finite"):
        search.ranked_run(JointScorer(reader, bad, queries, mu), ids, 3)
    with pytest.raises(DataError, match="399 document ids for 400 embeddings"):
        JointScorer(reader, words, queries, mu).two_step_run(ids[:399], 3)
