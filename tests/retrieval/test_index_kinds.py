"""faiss indexes by configuration: what is allowed, what they find, equal files, and the speed of flat search.

Seen to fail when: an option's default is missing; unknown options pass; rows are added with the threads or in the shards
that happen to be; the seed is not handed to k-means or to the graph; the sample ignores ``train``; ``probes`` or
``search`` is not set after reading; the key or the size is not compared; ``metric`` is left out of the recipe; either
BLAS setting is left out (flat search then reaches 5-25 % of a product's rate); one query alone is made a product.
"""

import hashlib

import numpy as np
import pytest
from search_data import embeddings, products, write_store

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import index as module
from pretrieve.retrieval.index import KINDS, build_index, check_index, is_exact, load_faiss, read_index, write_index

SMALL = {
    "Flat": {"kind": "Flat"},
    "IVF": {"kind": "IVF", "lists": 12, "probes": 3},
    "HNSW": {"kind": "HNSW", "links": 6, "build": 30, "search": 24},
    "PQ": {"kind": "PQ", "bytes": 8},
    "IVFPQ": {"kind": "IVFPQ", "lists": 12, "probes": 3, "bytes": 8},
}


def sha(index, directory, options):
    write_index(index, directory, options, "key")
    return hashlib.sha256((directory / "index.faiss").read_bytes()).hexdigest()


def test_every_kind_has_a_case_here():
    assert set(SMALL) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_filled_in_and_stand(kind):
    assert check_index(kind) == {"kind": kind, **module.DEFAULTS[kind]}
    assert check_index(check_index(SMALL[kind])) == check_index(SMALL[kind])
    assert check_index(SMALL[kind]).items() >= SMALL[kind].items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ivf"}, "did you mean 'IVF'"),
        ({"lists": 4}, "index kind 'None' is unknown"),
        ({"kind": "IVF", "probe": 4}, "option 'probe' is unknown.*did you mean 'probes'"),
        ({"kind": "Flat", "lists": 4}, "expected one of: none"),
        ({"kind": "IVF", "lists": 0}, "lists=0, expected a whole number >= 1"),
        ({"kind": "IVF", "lists": 8.0}, "lists=8.0, expected a whole number"),
        ({"kind": "PQ", "bytes": True}, "bytes=True, expected a whole number"),
        ({"kind": "HNSW", "links": 1}, "links=1, expected a whole number >= 2"),
        ({"kind": "IVF", "parallel": 1}, "parallel=1, expected true or false"),
        ({"kind": "IVF", "lists": 8, "probes": 9}, "probes=9 of lists=8"),
        ({"kind": "IVF", "lists": 300, "train": 299}, "train=299 rows, expected 300"),
        ({"kind": "PQ", "train": 255}, "train=255 rows, expected 256"),
    ],
)
def test_what_is_not_allowed_is_named(options, message):
    with pytest.raises(ConfigError, match=message):
        check_index(options)


def test_the_check_needs_neither_torch_nor_faiss(program):
    code = (
        "import sys; from pretrieve.retrieval.index import check_index; check_index('IVF'); print(sorted(sys.modules))"
    )
    loaded = program("-c", code)
    assert loaded.returncode == 0, loaded.stderr
    assert "'pretrieve.retrieval.index'" in loaded.stdout
    assert "'torch'" not in loaded.stdout and "'faiss'" not in loaded.stdout


def test_options_that_do_not_fit_the_store_are_named(tmp_path):
    corpus, _, _ = embeddings("random", n=300, dim=12)
    reader = write_store(tmp_path, corpus)
    with pytest.raises(ConfigError, match="300 rows, expected 301 or more for lists=301"):
        build_index(reader, {"kind": "IVF", "lists": 301})
    with pytest.raises(ConfigError, match="bytes=5 does not divide the width 12 .* such as 4"):
        build_index(reader, {"kind": "PQ", "bytes": 5})
    # Codes of one byte need 256 rows, however few the lists are.
    few = write_store(tmp_path / "few", corpus[:255])
    for options in ({"kind": "PQ", "bytes": 4}, {"kind": "IVFPQ", "lists": 300, "bytes": 4}):
        with pytest.raises(ConfigError, match="has 255 rows, expected .* or more for .*bytes=4; take Flat"):
            build_index(few, options)
    with pytest.raises(ConfigError, match="300 rows, expected 301 .* take fewer lists, or Flat"):
        build_index(reader, {"kind": "IVFPQ", "lists": 301, "bytes": 4})


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_that_is_not_finite_is_named(tmp_path, kind):
    corpus, _, _ = embeddings("random", n=300)
    reader = write_store(tmp_path, corpus, 100)
    np.load(tmp_path / "corpus-00002.npy", mmap_mode="r+")[17:19, 3] = np.nan  # what a writer refuses
    with pytest.raises(DataError, match="corpus.json: the embedding of row 217 is not finite"):
        build_index(reader, SMALL[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_finds_by_inner_product(tmp_path, kind):
    corpus, queries, _ = embeddings("random", n=800, q=60)
    corpus *= (
        np.random.default_rng(0).uniform(0.5, 3, (800, 1)).astype(np.float32)
    )  # no unit vectors: L2 ranks otherwise
    index = build_index(write_store(tmp_path, corpus), SMALL[kind])
    assert is_exact(index) == (kind == "Flat")
    _, rows = index.search(queries, 10)
    best = np.argsort(-products(queries, corpus), axis=1)[:, :10]
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows, best, strict=True)])
    assert found == 1 if kind == "Flat" else found > 0.45


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_shards_change_no_bit_but_the_seed_does(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "_ADD", 256)
    corpus, queries, _ = embeddings("random", n=900)
    whole, shards = write_store(tmp_path / "a", corpus), write_store(tmp_path / "b", corpus, 137)
    options = SMALL[kind]
    if "train" in module.DEFAULTS[kind]:
        options = {**options, "train": 600}
    index = build_index(whole, options, 1)
    other = build_index(shards, options, 2)
    assert sha(index, tmp_path, options) == sha(other, tmp_path, options)
    _, rows = index.search(queries, 20)
    load_faiss(2)
    np.testing.assert_array_equal(other.search(queries, 20)[1], rows)
    load_faiss(1)
    if kind != "Flat":  # all rows train: what the seed changes is the clustering, or the graph's levels
        first, second = (build_index(whole, {**SMALL[kind], "seed": seed}) for seed in (0, 1))
        assert sha(first, tmp_path, options) != sha(second, tmp_path, options)


def test_only_parallel_builds_with_more_than_one_thread(tmp_path, monkeypatch):
    reader = write_store(tmp_path, embeddings("random", n=100)[0])
    asked = []
    original = module.load_faiss
    monkeypatch.setattr(module, "load_faiss", lambda threads, *more: asked.append(threads) or original(1, *more))
    build_index(reader, SMALL["HNSW"], 3)
    build_index(reader, {**SMALL["HNSW"], "parallel": True}, 3)
    assert asked == [1, 3]
    load_faiss(1)


def test_the_training_sample_is_bounded_and_drawn_by_the_seed(tmp_path):
    corpus, _, _ = embeddings("random", n=900)
    reader = write_store(tmp_path, corpus, 100)
    sample = module._sample(reader, 300, 0)
    assert sample.shape == (300, 16)
    rows = [int(np.flatnonzero((corpus == row).all(axis=1))[0]) for row in sample]
    assert len(set(rows)) == 300 and rows == sorted(rows) and max(rows) > 800
    np.testing.assert_array_equal(sample, module._sample(reader, 300, 0))
    assert not np.array_equal(sample, module._sample(reader, 300, 1))
    np.testing.assert_array_equal(module._sample(reader, 900, 0), corpus)


@pytest.mark.parametrize("kind", KINDS)
def test_written_and_read_again(tmp_path, kind):
    corpus, queries, _ = embeddings("random", n=500)
    index = build_index(write_store(tmp_path, corpus), SMALL[kind])
    write_index(index, tmp_path, SMALL[kind], "store 7")
    again, about = read_index(tmp_path, "store 7")
    assert about["options"] == check_index(SMALL[kind]) and (about["rows"], about["dim"]) == (500, 16)
    for mine, theirs in zip(again.search(queries, 15), index.search(queries, 15), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_search_options_are_those_of_the_description(tmp_path):
    """probes and search need no new index: the json decides."""
    corpus, _, _ = embeddings("random", n=500)
    reader = write_store(tmp_path, corpus)
    for kind, name, value in (("IVF", "probes", 7), ("HNSW", "search", 99)):
        index = build_index(reader, SMALL[kind])
        write_index(index, tmp_path, {**SMALL[kind], name: value}, "k")
        again, _ = read_index(tmp_path)
        assert (again.nprobe if kind == "IVF" else again.hnsw.efSearch) == value
        assert (index.nprobe if kind == "IVF" else index.hnsw.efSearch) == SMALL[kind][name]


def test_damaged_or_foreign_files_are_named(tmp_path):
    corpus, _, _ = embeddings("random", n=50)
    with pytest.raises(DataError, match="index.json: no such file"):
        read_index(tmp_path)
    write_index(build_index(write_store(tmp_path, corpus)), tmp_path, "Flat", "mine")
    with pytest.raises(DataError, match="found key 'mine', expected 'yours'"):
        read_index(tmp_path, "yours")
    whole = (tmp_path / "index.faiss").read_bytes()
    (tmp_path / "index.faiss").write_bytes(whole[:-5])
    with pytest.raises(DataError, match="missing, or not "):
        read_index(tmp_path, "mine")
    (tmp_path / "index.faiss").write_bytes(b"\0" * len(whole))
    with pytest.raises(DataError, match="damaged"):
        read_index(tmp_path, "mine")
    (tmp_path / "index.json").write_text('{"key": "mine"}')
    with pytest.raises(DataError, match="KeyError 'rows'"):
        read_index(tmp_path, "mine")


def test_one_query_alone_is_not_made_a_matrix_product():
    for dim in (8, 768):
        threshold = load_faiss(1, dim).cvar.distance_compute_blas_threshold
        assert dim < threshold <= 2 * dim  # faiss multiplies from queries x dim = threshold on


SPEED = """
import statistics, time
import numpy as np
from pretrieve.retrieval.index import top_k, load_faiss
load_faiss(1)
import torch
torch.set_num_threads(1)
rng = np.random.default_rng(0)
queries, corpus = (rng.standard_normal((n, 256), dtype=np.float32) for n in (256, 16384))
left, right = torch.from_numpy(queries), torch.from_numpy(corpus).T
def seconds(work):
    begun = time.process_time()
    work()
    return time.process_time() - begun
best = 0.0
for attempt in range(8):
    pairs = [(seconds(lambda: left @ right), seconds(lambda: top_k(queries, corpus, 10, 1))) for _ in range(7)]
    best = max(best, statistics.median(product / search for product, search in pairs))
    if best >= 0.6:
        break
print(best)
"""


def test_flat_search_reaches_six_tenths_of_a_products_rate(program):
    """The only timed test: CPU time of one thread each, interleaved, median of 7 ratios, the best of 8 attempts. It is
    about 0.95 with both BLAS settings, 0.24 without the core type, 0.08 without the threshold."""
    done = program("-c", SPEED, MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) >= 0.6
