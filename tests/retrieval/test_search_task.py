"""A task's search: what is searched how follows from the stores and the options.

Seen to fail when: the lexical part is not looked at; windows are taken for documents; candidates, the index or joint_candidates
are ignored; an index of vectors is taken for a joint representation; no recall is written; an index with other options is
taken again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.retrieval import search_task as search_module
from pretrieve.retrieval.approximation import recall_at
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter, LexicalReader, LexicalWriter
from pretrieve.retrieval.joint_search import JointScorer
from pretrieve.retrieval.search import DenseScorer, as_run, ranked_run, search
from pretrieve.retrieval.search_task import TaskIds, search_task
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import DOCUMENTS, rank_documents

N, Q, DIM, WORDS, TOP = 600, 3, 8, 40, 5
IDS = TaskIds([f"d{i:03d}" for i in range(N)], [f"q{i}" for i in range(12)]).store_of("queries", ["q7", "q2", "q3"])
WANTED = IDS.query_ids


def write(directory: Path, name: str, matrix: np.ndarray) -> None:
    writer = EmbeddingWriter(directory, name, len(matrix), matrix.shape[1], "k")
    writer.write(0, matrix)
    writer.finish()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, directory = np.random.default_rng(5), tmp_path_factory.mktemp("dense")
    write(directory, "corpus", rng.normal(size=(N, DIM)).astype(np.float32))
    write(directory, "queries", rng.normal(size=(Q, DIM)).astype(np.float32))
    return directory


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, directory = np.random.default_rng(6), tmp_path_factory.mktemp("joint")
    write(directory, "corpus", rng.normal(size=(N, DIM)).astype(np.float32))
    write(directory, "queries", rng.normal(size=(Q, DIM)).astype(np.float32))
    write(directory, "queries-lexical", rng.normal(size=(Q, WORDS)).astype(np.float32))
    writer = LexicalWriter(directory, "corpus-lexical", N, TOP, WORDS, "k")
    words = np.sort(np.stack([rng.permutation(WORDS)[:TOP] for _ in range(N)])).astype(np.int32)
    writer.write(0, words, rng.normal(size=(N, TOP)).astype(np.float32))
    writer.finish()
    return directory


def same(first: Run, second: Run) -> bool:
    return (first.query_ids, first.doc_ids) == (second.query_ids, second.doc_ids)


def parts(directory: Path) -> tuple[EmbeddingReader, np.ndarray]:
    return EmbeddingReader(directory, "corpus"), EmbeddingReader(directory, "queries").read()


def test_dense(dense: Path) -> None:
    corpus, queries = parts(dense)
    expected = search(corpus, queries, IDS.document_ids, 10, query_ids=WANTED)
    assert same(search_task(IDS, dense, 10), expected) and len(expected.doc_ids[0]) == 10
    assert same(search_task(IDS, dense, 10, {"index": {"kind": "Flat"}}), expected)


def test_an_option_that_there_is_not_is_refused(dense: Path) -> None:
    with pytest.raises(ConfigError, match="'join_candidates' is not allowed.*did you mean 'joint_candidates'"):
        search_task(IDS, dense, 10, {"join_candidates": 5})


def test_an_index_is_compared_with_the_exact_search(dense: Path, tmp_path: Path) -> None:
    options = {"index": {"kind": "IVF", "lists": 16, "probes": 1, "train": 256}}
    run = search_task(IDS, dense, 10, options, recall_path=tmp_path / "recall.json")
    measured = json.loads((tmp_path / "recall.json").read_text())
    exact = search_task(IDS, dense, 10)
    found = [len({*mine} & {*best}) / 10 for mine, best in zip(run.doc_ids, exact.doc_ids, strict=True)]
    assert measured["recall"]["10"] == pytest.approx(np.mean(found), abs=1e-6) and 0 < measured["recall"]["10"] < 1
    assert measured["index"]["probes"] == 1


def test_what_a_quantised_index_finds_is_scored_exactly(dense: Path) -> None:
    exact = search_task(IDS, dense, 10)

    def recall(factor: int) -> float:
        index = {"kind": "PQ", "bytes": 1, "train": 256, "k_factor": factor}
        return float(recall_at(search_task(IDS, dense, 10, {"index": index}), exact, 10).mean())

    assert recall(1) < recall(4) < recall(len(IDS.document_ids)) == 1


def test_an_index_is_kept_and_taken_again(dense: Path, monkeypatch) -> None:
    first, other = (
        {"index": {"kind": "PQ", "bytes": 4, "train": 256}},
        {"index": {"kind": "PQ", "bytes": 2, "train": 256}},
    )
    run = search_task(IDS, dense, 10, first)
    assert (dense / "index.faiss").is_file()
    built = []
    build = search_module.build_index
    monkeypatch.setattr(search_module, "build_index", lambda *args: built.append(1) or build(*args))
    assert same(search_task(IDS, dense, 10, first), run) and not built
    search_task(IDS, dense, 10, other)
    search_task(IDS, dense, 10, first)
    assert len(built) == 2


def test_windows(dense: Path, tmp_path: Path) -> None:
    for file in dense.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    documents = np.arange(N) // 3
    np.save(tmp_path / DOCUMENTS, documents)
    ids = TaskIds(IDS.document_ids[: N // 3], IDS.query_ids)
    corpus, queries = parts(tmp_path)
    found = rank_documents(DenseScorer(corpus, queries), documents, ids.document_ids, 10)
    expected = as_run(found, ids.document_ids, WANTED)
    assert same(search_task(ids, tmp_path, 10), expected)


def test_joint_and_in_two_steps(joint: Path, tmp_path: Path) -> None:
    corpus, queries = parts(joint)
    words, lexical = EmbeddingReader(joint, "queries-lexical").read(), LexicalReader(joint, "corpus-lexical")
    scorer = JointScorer(corpus, lexical, queries, words)
    exact = ranked_run(scorer, IDS.document_ids, 10, query_ids=WANTED)
    assert same(search_task(IDS, joint, 10), exact)
    two = scorer.two_step_run(IDS.document_ids, 10, 30, WANTED)
    found = search_task(IDS, joint, 10, {"joint_candidates": 30}, recall_path=tmp_path / "r.json")
    assert same(found, two) and not same(found, exact)
    measured = json.loads((tmp_path / "r.json").read_text())
    assert measured["candidates"] == 30
    assert measured["recall"]["10"] == pytest.approx(recall_at(two, exact, 10).mean(), abs=1e-6)
    with pytest.raises(ConfigError, match="'HNSW' holds vectors, not the joint score"):
        search_task(IDS, joint, 10, {"index": {"kind": "HNSW"}})


@pytest.mark.parametrize("kind", ["dense", "joint"])
def test_only_the_candidates_are_ranked(dense: Path, joint: Path, kind: str) -> None:
    """Among all documents they have the order of the whole search."""
    stores = {"dense": dense, "joint": joint}[kind]
    whole = search_task(IDS, stores, N)
    candidates = {query: [f"d{(7 * i + len(query)) % N:03d}" for i in range(20)] for query in WANTED}
    run = search_task(IDS, stores, 15, candidates=candidates)
    for query, mine, everything in zip(run.query_ids, run.doc_ids, whole.doc_ids, strict=True):
        assert mine == [document for document in everything if document in candidates[query]][:15]
    del candidates["q3"]  # a run has no line for a query without hits
    assert [len(found) for found in search_task(IDS, stores, 15, candidates=candidates).doc_ids] == [15, 0, 15]


def test_a_store_of_other_queries_is_named(dense: Path) -> None:
    with pytest.raises(DataError, match="3 rows, expected 2 queries"):
        search_task(IDS.store_of("queries", ["q2", "q7"]), dense, 10)
