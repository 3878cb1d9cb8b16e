"""Search among texts and vectors that are in memory, with the programs' own exact search and BM25."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path

import numpy as np

from pretrieve.base.errors import ConfigError, DataError, of_workflow
from pretrieve.base.given import given_number, given_texts
from pretrieve.raw.raw_text import check_id
from pretrieve.retrieval import search as stores
from pretrieve.retrieval.embeddings import DTYPE, EmbeddingReader
from pretrieve.retrieval.shards import Part, ShardedRows
from pretrieve.retrieval.trec_run import Run, first_repeated


class MatrixReader(EmbeddingReader):
    """A matrix (rows, dim) float32 in memory, in place of a store on disk."""

    def __init__(self, matrix: np.ndarray) -> None:
        vectors = np.ascontiguousarray(matrix, dtype=np.float32)
        if vectors.ndim != 2:
            raise DataError(f"dense search: passages of shape {vectors.shape}, expected (passages, dim).")
        self.path, self.key = Path("memory"), ""
        self.rows, self.dim = vectors.shape
        ShardedRows.__init__(self, [vectors], Part("", self.dim, DTYPE), self.path)


def search(
    queries: np.ndarray,
    passages: np.ndarray,
    passage_ids: Sequence[str] | None = None,
    depth: int = 100,
    query_ids: Sequence[str] | None = None,
    threads: int = 1,
) -> Run:
    """Rank all passages (N, dim) by inner product for every query (Q, dim), exactly; equal scores by id.

    Ids are '0', '1', … where none are given. Raises as :func:`pretrieve.retrieval.search.search`, also DataError when an id is
    no text, or a passage's appears twice, or vectors are no matrices of real numbers.

    >>> search(np.eye(2), np.array([[0.0, 2.0], [1.0, 1.0]]), ["a", "b"], depth=1).doc_ids
    [['b'], ['a']]
    """
    depth, threads = given_number(depth, "depth"), given_number(threads, "threads")
    reader = MatrixReader(_numbers(passages, "passages"))
    names = list(map(str, range(reader.rows))) if passage_ids is None else given_texts(passage_ids, "passage_ids")
    if len(set(names)) < len(names):
        raise DataError(f"passage_ids: {first_repeated(names)!r} occurs twice; give every passage its own id.")
    asked = None if query_ids is None else given_texts(query_ids, "query_ids")
    return stores.search(reader, _numbers(queries, "queries"), names, depth, query_ids=asked, threads=threads)


def _numbers(vectors: object, name: str) -> np.ndarray:
    """The vectors as float32; DataError where they are no real numbers, of which NumPy would drop the imaginary part."""
    try:
        found = np.asarray(vectors)
        if found.dtype.kind == "c":
            raise TypeError("complex numbers")
        return found.astype(np.float32, copy=False)
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's, of a tensor with a gradient
        raise DataError(f"dense search: {name}: {error}; expected a matrix ({name}, dim) of real numbers.") from None


def bm25(
    passages: Mapping[str, str],
    queries: Mapping[str, str],
    depth: int = 100,
    k1: float = 0.9,
    b: float = 0.4,
    threads: int = 1,
    language: str = "en",
) -> Run:
    """Rank passages (id → text) for queries (id → text) with Lucene's BM25 (:mod:`pretrieve.retrieval.bm25`), whose analyser is
    that of ``language`` (:data:`pretrieve.corpora.language.LANGUAGES`).

    Raises
    ------
    ConfigError
        when pyserini's jar or Java's wheel is not installed, a number or the language is not allowed, or texts have no ids.
    DataError
        for an id or a text that cannot be indexed, or a query or its id that is no text.
    """
    from pretrieve.retrieval import bm25 as lucene

    depth, threads = given_number(depth, "depth"), given_number(threads, "threads")
    for name, value in (("k1", k1), ("b", b)):
        if not isinstance(value, Real):
            raise ConfigError(f"bm25: {name}={value!r}; expected a number.")
    for name, given in (("passages", passages), ("queries", queries)):
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"bm25: {name} is a {type(given).__name__}; expected a text for each id, as {{'a': 'Text'}}."
            )
    for name in given_texts(passages.keys(), "passage ids"):
        check_id("bm25: a passage's id", name)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        with of_workflow("BM25"):
            lucene.build_index(passages.items(), index, threads, language)
        texts = given_texts(queries.values(), "queries")
        asked = list(zip(given_texts(queries.keys(), "query ids"), texts, strict=True))
        return lucene.search(index, asked, depth, k1, b, threads)
