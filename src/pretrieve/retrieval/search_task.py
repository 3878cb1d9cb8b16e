"""A task's queries searched in its embedding stores: dense or joint, exact or approximate, passages or documents of windows.

How a task is searched follows from the files that :mod:`pretrieve.retrieval.embed_task` wrote: a store of vocabulary weights
beside vectors makes the score DupMAE's joint one, a list of documents beside them makes a document's score that of its best
window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.approximation import measure_index, search_index
from pretrieve.retrieval.contrastive_entropy import contrastive_entropy
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.index import build_index, check_index, read_index, write_index
from pretrieve.retrieval.lexical import LexicalReader
from pretrieve.retrieval.rerank import rerank
from pretrieve.retrieval.search import DenseScorer, Scorer, as_run, search, select_queries
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import rank_documents, read_documents, search_maxp


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


#: Queries on which an approximate search is compared with the exact one.
SAMPLE = 200


def search_task(
    ids: TaskIds,
    stores: Path,
    wanted: Collection[str],
    depth: int,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
    candidates: Mapping[str, Sequence[str]] | None = None,
    recall_path: Path | None = None,
) -> Run:
    """Rank documents for the ``wanted`` queries: at most ``depth`` hits each.

    Parameters
    ----------
    options:
        ``index``: of :mod:`pretrieve.retrieval.index`, by default exact search of the shards on disk, in memory that does not
        grow with the corpus; ``joint_candidates``: joint scores of this many documents that the dense part finds; 0, the
        default: of all.
    candidates:
        query id → documents: only these are ranked (rerank setting).
    recall_path:
        of an approximate search: where its recall against exact search goes; it is printed too.

    Raises
    ------
    DataError
        when stores and ids do not fit together.
    ConfigError
        when an index cannot be built, or does not go with the representation.
    """
    options = dict(options or {})
    query_ids, vectors = select_queries(EmbeddingReader(stores, ids.name), ids.query_ids, wanted)
    corpus, documents = EmbeddingReader(stores, "corpus"), read_documents(stores)
    joint = _is_joint(stores)
    if joint:  # torch takes two seconds to load, and only this needs it
        from pretrieve.retrieval.joint_search import JointScorer, joint_search, two_step_search
    kind = check_index(options.get("index", "Flat"))["kind"]
    if joint and kind != "Flat":
        raise ConfigError(f"index kind {kind!r} holds vectors, not the joint score; set joint_candidates instead.")
    common = {"query_ids": query_ids, "threads": threads}
    if joint:
        _, words = select_queries(EmbeddingReader(stores, f"{ids.name}-lexical"), ids.query_ids, wanted)
        lexical = LexicalReader(stores, "corpus-lexical")
        scorer = JointScorer(corpus, lexical, vectors, words, threads)
        if candidates is not None:
            return rerank(scorer, candidates, ids.document_ids, query_ids, documents, allow_missing=True).cut(depth)
        if documents is not None:
            return as_run(rank_documents(scorer, documents, ids.document_ids, depth), ids.document_ids, query_ids)
        if number := options.get("joint_candidates", 0):
            found, _ = two_step_search(
                corpus, lexical, vectors, words, ids.document_ids, depth, max(number, depth), path=recall_path, **common
            )
            return found
        return joint_search(corpus, lexical, vectors, words, ids.document_ids, depth, **common)
    if candidates is not None:
        scorer = DenseScorer(corpus, vectors, threads)
        return rerank(scorer, candidates, ids.document_ids, query_ids, documents, allow_missing=True).cut(depth)
    if kind != "Flat":
        index = _kept_index(corpus, Path(stores), options["index"], threads)
        about = {"index": check_index(options["index"])}
        measure_index(
            index,
            corpus,
            vectors,
            ids.document_ids,
            depth,
            SAMPLE,
            threads=threads,
            documents=documents,
            about=about,
            path=recall_path,
        )
        return search_index(index, corpus, vectors, ids.document_ids, depth, documents=documents, **common)
    if documents is not None:
        return search_maxp(corpus, documents, vectors, ids.document_ids, depth, **common)
    return search(corpus, vectors, ids.document_ids, depth, **common)


def recall_file(run: Path) -> Path:
    """The file for the recall of an approximate search against the exact one, next to its run."""
    return run.with_name(run.name.replace(".trec.gz", ".recall.json"))


def entropy_of(
    ids: TaskIds,
    stores: Path,
    wanted: Collection[str],
    qrels: Mapping[str, Mapping[str, int]],
    temperature: float,
    threads: int = 1,
) -> dict[str, tuple[float, float]]:
    """:func:`~pretrieve.retrieval.contrastive_entropy.contrastive_entropy` of the ``wanted`` queries, by the exact scores."""
    query_ids, vectors = select_queries(EmbeddingReader(stores, ids.name), ids.query_ids, wanted)
    scorer: Scorer = DenseScorer(EmbeddingReader(stores, "corpus"), vectors, threads)
    if _is_joint(stores):
        from pretrieve.retrieval.joint_search import JointScorer

        _, words = select_queries(EmbeddingReader(stores, f"{ids.name}-lexical"), ids.query_ids, wanted)
        lexical = LexicalReader(stores, "corpus-lexical")
        scorer = JointScorer(EmbeddingReader(stores, "corpus"), lexical, vectors, words, threads)
    return contrastive_entropy(scorer, query_ids, ids.document_ids, qrels, read_documents(stores), temperature)


def _is_joint(stores: Path) -> bool:
    return (Path(stores) / "corpus-lexical.json").is_file()


def _kept_index(corpus: EmbeddingReader, stores: Path, options: Mapping[str, Any], threads: int):
    """The index next to the stores, if it was made of these vectors with these options; else a new one, which is kept there."""
    try:
        index, about = read_index(stores, corpus.key, threads)
        if about["options"] == check_index(options):
            return index
    except DataError:
        pass  # none yet, or of other vectors
    index = build_index(corpus, options, threads)
    write_index(index, stores, options, corpus.key)
    return index
