"""Exact dense search, against a float64 argsort written here.

Seen to fail when: step 2 keeps faiss's own scores; unsettled queries are not searched again; the second pass breaks
ties by row, or keeps the ties it met first; ``_merge`` keeps the lowest; the shard's first row is not added; ``slack``
is 0, or is left out of what is scored again.
"""

import numpy as np
import pytest
from search_data import embeddings, hits, products, ranking, write_store

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import search as module
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.index import _coretype, build_index, load_faiss
from pretrieve.retrieval.search import rank_rows, search


def data(kind, n=700):
    """Of ``duplicates``, every vector comes about 100 times: more ties than MARGIN at every cut."""
    return embeddings(kind, n, q=40)


def reference(corpus, queries, doc_ids, depth):
    return ranking(products(queries, corpus), doc_ids, depth)


@pytest.mark.parametrize("kind", ["random", "duplicates", "integers", "close", "collapsed"])
@pytest.mark.parametrize("depth", [1, 10, 120])
def test_equals_the_float64_ranking_for_any_batch_and_shards(tmp_path, monkeypatch, kind, depth):
    corpus, queries, ids = data(kind)
    expected = reference(corpus, queries, ids, depth)
    monkeypatch.setattr(module, "BLOCK", 97)
    for shard_rows, batch in ((1000, 1000), (64, 7)):
        reader = write_store(tmp_path / str(shard_rows), corpus, shard_rows)
        monkeypatch.setattr(module, "BATCH", batch)
        assert hits(search(reader, queries, ids, depth)) == expected
    monkeypatch.setattr(module, "BATCH", 16)
    assert hits(search(build_index(reader), queries, ids, depth)) == expected


def test_depth_beyond_the_corpus_returns_all_of_it(tmp_path):
    corpus, queries, ids = data("random", n=9)
    run = search(write_store(tmp_path, corpus, 4), queries, ids, 50)
    assert hits(run) == reference(corpus, queries, ids, 9)
    assert len(run.doc_ids[0]) == 9


def test_an_empty_corpus_or_query_set_gives_empty_rankings(tmp_path):
    corpus, queries, ids = data("random", n=9)
    assert search(write_store(tmp_path / "a", corpus[:0], 4), queries[:2], [], 5).doc_ids == [[], []]
    assert len(search(write_store(tmp_path / "b", corpus, 4), queries[:0], ids, 5)) == 0


def test_agrees_with_torch(tmp_path):
    torch = pytest.importorskip("torch")
    corpus, queries, ids = data("random", n=500)
    top = torch.topk(torch.from_numpy(queries).double() @ torch.from_numpy(corpus).double().T, 20)
    run = search(write_store(tmp_path, corpus, 128), queries, ids, 20)
    assert run.doc_ids == [[ids[i] for i in row] for row in top.indices.tolist()]
    np.testing.assert_allclose(np.stack(run.scores), top.values.numpy(), rtol=1e-6)


def test_memory_of_the_candidates_does_not_grow_with_shards(tmp_path, monkeypatch):
    corpus, queries, ids = data("random", n=600)
    widths = []
    original = module._merge

    def spy(parts, count, k):
        result = original(parts, count, k)
        widths.append(result[0].shape)
        return result

    monkeypatch.setattr(module, "_merge", spy)
    search(write_store(tmp_path, corpus, 10), queries, ids, 5)
    assert widths == [(len(queries), 5 + module.MARGIN)]


def test_wrong_inputs_are_named(tmp_path):
    corpus, queries, ids = data("random", n=20)
    reader = write_store(tmp_path, corpus, 8)
    with pytest.raises(DataError, match="19 document ids for 20 embeddings"):
        search(reader, queries, ids[:19], 5)
    with pytest.raises(DataError, match=r"expected \(queries, 16\)"):
        search(reader, queries[:, :15], ids, 5)
    with pytest.raises(DataError, match="not finite"):
        search(reader, np.full((1, 16), np.nan, np.float32), ids, 5)
    flat = load_faiss(1).IndexFlatIP(16)
    flat.add(np.where(np.arange(20)[:, None] == 13, np.nan, corpus))
    np.load(tmp_path / "corpus-00001.npy", mmap_mode="r+")[5] = np.nan  # what a writer refuses
    for source in (EmbeddingReader(tmp_path, "corpus"), flat):
        with pytest.raises(DataError, match="the embedding of row 13 is not finite"):
            search(source, queries, ids, 5)
    with pytest.raises(ConfigError, match="depth=0"):
        search(reader, queries, ids, 0)
    with pytest.raises(ConfigError, match="threads=0; expected 1 or more"):
        search(reader, queries, ids, 5, threads=0)
    with pytest.raises(ConfigError, match="did you mean 'Flat'"):
        build_index(reader, "flat")


def test_faiss_is_set_up_for_the_processor(tmp_path):
    assert load_faiss(1).cvar.distance_compute_blas_threshold == 20
    for flags, expected in (("fpu avx2 avx512f avx512dq", "SkylakeX"), ("fpu avx2", "Haswell"), ("fpu", None)):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n\n")
        assert _coretype(tmp_path / "cpuinfo") == expected
    assert _coretype(tmp_path / "none") is None


class Rounded:
    """A scorer whose first pass is wrong by up to ``error`` for each row, at random."""

    rows, queries, error = 200, 20, 0.05

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.true = rng.random((self.queries, self.rows)).astype(np.float32)
        self.found = (self.true + rng.uniform(-self.error, self.error, self.true.shape)).astype(np.float32)

    def candidates(self, part, k):
        rows = np.argsort(-self.found[part], axis=1)[:, :k]
        yield np.take_along_axis(self.found[part], rows, axis=1), rows

    def slack(self, part):
        return np.full(len(part), self.error * 1.01, np.float32)

    def exact(self, part, rows):
        return np.take_along_axis(self.true[part], rows, axis=1)

    def exact_blocks(self, part):
        yield 0, self.true[part]


def test_an_error_of_the_first_pass_does_not_matter():
    scorer = Rounded()
    for depth in (1, 5, 30):
        hits = rank_rows(scorer, depth)
        for (rows, scores), true in zip(hits, scorer.true, strict=True):
            assert rows.tolist() == np.argsort(-true)[:depth].tolist()
            assert scores.tolist() == (-np.sort(-true))[:depth].tolist()
