"""A task's queries searched in its embedding stores: dense or joint, exact or approximate, passages or documents of windows.

How a task is searched follows from the files that :mod:`pretrieve.retrieval.embed_task` wrote: a store of vocabulary weights
beside vectors makes the score DupMAE's joint one, a list of documents beside them makes a document's score that of its best
window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pretrieve.base.errors import ConfigError, DataError, check_choice
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.approximation import measure, search_index
from pretrieve.retrieval.contrastive_entropy import contrastive_entropy
from pretrieve.retrieval.embeddings import EmbeddingReader, LexicalReader
from pretrieve.retrieval.index import build_index, check_index, read_index, write_index
from pretrieve.retrieval.rerank import rerank
from pretrieve.retrieval.search import DenseScorer, as_run
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import rank_documents, read_documents

if TYPE_CHECKING:
    from pretrieve.retrieval.joint_search import JointScorer


@dataclass(frozen=True)
class TaskIds:
    """document_ids: N, query_ids: Q; in row order of the stores. name: of the store of queries."""

    document_ids: list[str]
    query_ids: list[str]
    name: str = "queries"

    @classmethod
    def read(cls, task: Path) -> TaskIds:
        """From ``corpus.parquet`` and ``queries.parquet`` of a task's directory."""
        columns = (("corpus", "doc_id"), ("queries", "query_id"))
        return cls(*(read_table(Path(task) / f"{name}.parquet", [key])[key].to_pylist() for name, key in columns))

    def rows_of(self, wanted: Collection[str]) -> np.ndarray:
        """Rows of the ``wanted`` queries, ascending; one that is not among the ids is a DataError."""
        wanted = set(wanted)
        if missing := sorted(wanted.difference(self.query_ids)):
            raise DataError(f"queries.parquet: lacks query {missing[0]!r} of splits.parquet; rebuild the task.")
        return np.array([row for row, query_id in enumerate(self.query_ids) if query_id in wanted], dtype=np.int64)

    def store_of(self, name: str, wanted: Collection[str]) -> TaskIds:
        """The ids of a store of the ``wanted`` queries alone."""
        return TaskIds(self.document_ids, [self.query_ids[row] for row in self.rows_of(wanted)], name)


def search_task(
    ids: TaskIds,
    stores: Path,
    depth: int,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
    candidates: Mapping[str, Sequence[str]] | None = None,
    recall_path: Path | None = None,
) -> Run:
    """Rank documents for all queries of a store: at most ``depth`` hits each.

    options: ``index``: of :mod:`pretrieve.retrieval.index`, by default exact search of the shards on disk, in memory
    that does not grow with the corpus; ``joint_candidates``: joint scores of this many documents that the dense part
    finds, and 0, the default, of all. candidates: query id → documents: only these are ranked (rerank setting).
    recall_path: of an approximate search: where its recall against exact search goes; it is printed too.

    Raises DataError when stores and ids do not fit together, and ConfigError when an index cannot be built, or does not
    go with the representation.
    """
    options = dict(options or {})
    for name in options:
        check_choice("search option", name, ("index", "joint_candidates"))
    documents, names = read_documents(stores), ids.query_ids
    index, number = check_index(options.get("index", "Flat")), options.get("joint_candidates", 0)
    if index["kind"] != "Flat" and _is_joint(stores):
        raise ConfigError(
            f"index kind {index['kind']!r} holds vectors, not the joint score; set joint_candidates instead."
        )
    scorer = _scorer(ids, stores, threads)
    if candidates is not None:
        return rerank(scorer, candidates, ids.document_ids, names, documents).cut(depth)

    def exact(chosen: np.ndarray) -> Run:
        hits = rank_documents(scorer, documents, ids.document_ids, depth, chosen=chosen)
        return as_run(hits, ids.document_ids, [names[row] for row in chosen])

    about: dict[str, Any]
    if isinstance(scorer, DenseScorer) and index["kind"] != "Flat":
        kept = _kept_index(Path(stores), options["index"], threads)
        factor = index.get("k_factor", 1)
        found = search_index(kept, scorer, ids.document_ids, depth, names, documents=documents, k_factor=factor)
        about = {"index": index}
    elif not isinstance(scorer, DenseScorer) and number and documents is None:
        number = max(number, depth)
        found = scorer.two_step_run(ids.document_ids, depth, number, names)
        about = {"search": "two-step", "candidates": number}
    else:
        return exact(np.arange(scorer.queries))
    if names:
        measure(found, exact, depth, about=about, path=recall_path)
    return found


def recall_file(run: Path) -> Path:
    """The file for the recall of an approximate search against the exact one, next to its run."""
    return run.with_name(run.name.replace(".trec.gz", ".recall.json"))


def entropy_of(
    ids: TaskIds, stores: Path, qrels: Mapping[str, Mapping[str, int]], temperature: float, threads: int = 1
) -> dict[str, tuple[float, float]]:
    """:func:`~pretrieve.retrieval.contrastive_entropy.contrastive_entropy` of a store's queries, by the exact scores."""
    scorer, documents = _scorer(ids, stores, threads), read_documents(stores)
    return contrastive_entropy(scorer, ids.query_ids, ids.document_ids, qrels, documents, temperature)


def _scorer(ids: TaskIds, stores: Path, threads: int) -> DenseScorer | JointScorer:
    """The exact scores of a store's queries with the corpus."""
    corpus, vectors = EmbeddingReader(stores, "corpus"), _queries(ids, stores, ids.name)
    if not _is_joint(stores):
        return DenseScorer(corpus, vectors, threads)
    from pretrieve.retrieval.joint_search import JointScorer  # torch takes two seconds to load

    words = _queries(ids, stores, f"{ids.name}-lexical")
    return JointScorer(corpus, LexicalReader(stores, "corpus-lexical"), vectors, words, threads)


def _queries(ids: TaskIds, stores: Path, name: str) -> np.ndarray:
    reader = EmbeddingReader(stores, name)
    if reader.rows != len(ids.query_ids):
        raise DataError(f"{reader.path}: {reader.rows} rows, expected {len(ids.query_ids)} queries; encode them again.")
    return reader.read()


def _is_joint(stores: Path) -> bool:
    return (Path(stores) / "corpus-lexical.json").is_file()


def _kept_index(stores: Path, options: Mapping[str, Any], threads: int):
    """The index beside the stores, if it was made of these vectors with these options; else a new one, which is kept there."""
    corpus = EmbeddingReader(stores, "corpus")
    try:
        index, about = read_index(stores, corpus.key, threads)
        if about["options"] == check_index(options):
            return index
    except DataError:
        pass  # none yet, or of other vectors
    index = build_index(corpus, options, threads)
    write_index(index, stores, options, corpus.key)
    return index
