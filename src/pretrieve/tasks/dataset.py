"""A task directory as arrays for training and embedding: token stores, candidates, queries, who answers whom, splits."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

from pretrieve.corpora.tables import read_table
from pretrieve.errors import DataError
from pretrieve.text.packing import Packed, pack_sentence_in_passage, pack_sentences
from pretrieve.text.token_store import TokenStore


class Dataset:
    """One task (files: :mod:`pretrieve.tasks.task`).

    ``candidate_sentence``/``candidate_passage`` (N,): rows in the passage store (-1: a candidate without a sentence);
    ``positive`` (Q,): the first relevant candidate of each query, -1 for none; ``relevant``: Q arrays of all of them,
    in the order of qrels.parquet; ``document_ids``: N ids, ``document_row``: id → row.

    Raises
    ------
    DataError
        when an id or a judgement stands twice, or a judgement names something that the task does not have.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.passages = TokenStore(self.directory / "passages")
        self.queries = TokenStore(self.directory / "queries")
        corpus = read_table(self.directory / "corpus.parquet", ["doc_id", "sentence_index", "passage_index"])
        self.candidate_sentence = corpus["sentence_index"].to_numpy().astype(np.int64)
        self.candidate_passage = corpus["passage_index"].to_numpy().astype(np.int64)
        self.query_ids: list[str] = read_table(self.directory / "queries.parquet", ["query_id"])["query_id"].to_pylist()
        self.document_ids: list[str] = corpus["doc_id"].to_pylist()
        self._row = self._rows_of(self.query_ids, "queries.parquet: query")
        self.document_row = self._rows_of(self.document_ids, "corpus.parquet: document")
        relevant: list[list[int]] = [[] for _ in self.query_ids]
        qrels = read_table(self.directory / "qrels.parquet", ["query_id", "doc_id", "relevance"])
        for query_id, doc_id, relevance in zip(*(column.to_pylist() for column in qrels.columns), strict=True):
            if query_id not in self._row or doc_id not in self.document_row:
                name, value = ("query", query_id) if query_id not in self._row else ("document", doc_id)
                raise DataError(
                    f"{self.directory}/qrels.parquet: {name} {value!r} is not in the task; rebuild the task."
                )
            if relevance > 0:
                documents = relevant[self._row[query_id]]
                if self.document_row[doc_id] in documents:
                    raise DataError(
                        f"{self.directory}/qrels.parquet: document {doc_id!r} is judged twice for query {query_id!r}; "
                        "keep one judgement."
                    )
                documents.append(self.document_row[doc_id])
        self.positive = np.array([documents[0] if documents else -1 for documents in relevant], dtype=np.int64)
        self.relevant = [np.array(documents, dtype=np.int64) for documents in relevant]

    def _rows_of(self, ids: list[str], what: str) -> dict[str, int]:
        rows = {name: row for row, name in enumerate(ids)}
        if len(rows) < len(ids):
            twice = next(name for row, name in enumerate(ids) if rows[name] != row)
            raise DataError(
                f"{self.directory}/{what} {twice!r} stands twice; every one must be unique. Rebuild the task."
            )
        return rows

    def query_row(self, query_id: str) -> int:
        """Row of a query; -1 when the task does not have it."""
        return self._row.get(query_id, -1)

    def relevance(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """(B, N) bool: is candidate row ``documents[j]`` relevant to query row ``queries[i]``?"""
        mask = np.zeros((len(queries), len(documents)), dtype=bool)
        for place, query in enumerate(queries):
            for document in self.relevant[query]:
                mask[place] |= documents == document
        return mask

    def read_by(self, kind: str) -> Dataset:
        """The task as a body of that kind reads its texts (:meth:`pretrieve.text.token_store.TokenStore.read_by`)."""
        data = copy.copy(self)
        data.passages, data.queries = self.passages.read_by(kind), self.queries.read_by(kind)
        return data

    def check_vocabulary(self, about: dict, directory: Path) -> None:
        """Raise :class:`DataError` unless an encoder (its ``pretrieve.json``) and this task come from one tokenizer.

        Two vocabularies of one size would fit each other's shapes and give results that are merely bad.
        """
        ours = self.passages.meta["vocabulary_sha256"]
        if about.get("vocabulary_sha256") != ours:
            raise DataError(
                f"{directory}: was made with vocabulary {str(about.get('vocabulary_sha256'))[:12]}, the task {self.directory} "
                f"with {ours[:12]}; both must come from one tokenizer. Delete the older of the two and run snakemake again."
            )

    def split(self, size: str, split: str) -> np.ndarray:
        """Query rows of one split of one training-set size, in file order.

        Raises
        ------
        DataError
            when the task has no such size.
        """
        table = read_table(self.directory / "splits.parquet", ["size", "query_id", "split"])
        sizes = set(table["size"].to_pylist())
        if size not in sizes:
            raise DataError(f"{self.directory}/splits.parquet: no size {size!r}; it has {sorted(sizes)}.")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return np.array([self._row[q] for s, q, part in rows if s == size and part == split], dtype=np.int64)

    def pack_queries(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] query [SEP]`` for query rows (n,); a query is one sentence of the query store."""
        return pack_sentences(self.queries, rows, length)

    def pack_candidates(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] sentence [SEP] passage [SEP]`` for candidate rows (n,)."""
        return pack_sentence_in_passage(
            self.passages, self.candidate_sentence[rows], self.candidate_passage[rows], length
        )
