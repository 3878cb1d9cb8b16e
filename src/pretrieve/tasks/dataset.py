"""A task directory as arrays for training and embedding: token stores, candidates, queries, who answers whom, splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pretrieve.corpora.tables import read_table
from pretrieve.errors import DataError
from pretrieve.text.packing import Packed, pack_sentence_in_passage, pack_sentences
from pretrieve.text.token_store import TokenStore


class Dataset:
    """One task (files: :mod:`pretrieve.tasks.task`).

    ``candidate_sentence``/``candidate_passage`` (N,): rows in the passage store (-1: a candidate without a sentence);
    ``positive`` (Q,): the first relevant candidate of each query, -1 for none.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.passages = TokenStore(self.directory / "passages")
        self.queries = TokenStore(self.directory / "queries")
        corpus = read_table(self.directory / "corpus.parquet", ["doc_id", "sentence_index", "passage_index"])
        self.candidate_sentence = corpus["sentence_index"].to_numpy().astype(np.int64)
        self.candidate_passage = corpus["passage_index"].to_numpy().astype(np.int64)
        self.query_ids: list[str] = read_table(self.directory / "queries.parquet", ["query_id"])["query_id"].to_pylist()
        self._row = {query_id: row for row, query_id in enumerate(self.query_ids)}
        document_row = {doc_id: row for row, doc_id in enumerate(corpus["doc_id"].to_pylist())}
        self.positive = np.full(len(self.query_ids), -1, dtype=np.int64)
        qrels = read_table(self.directory / "qrels.parquet", ["query_id", "doc_id", "relevance"])
        for query_id, doc_id, relevance in zip(*(column.to_pylist() for column in qrels.columns), strict=True):
            if query_id not in self._row or doc_id not in document_row:
                name, value = ("query", query_id) if query_id not in self._row else ("document", doc_id)
                raise DataError(
                    f"{self.directory}/qrels.parquet: {name} {value!r} is not in the task; rebuild the task."
                )
            row = self._row[query_id]
            if relevance > 0 and self.positive[row] < 0:
                self.positive[row] = document_row[doc_id]

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
