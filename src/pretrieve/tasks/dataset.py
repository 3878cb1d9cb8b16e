"""A task directory as arrays for training and embedding: token stores, candidates, queries, who answers whom, splits.

:class:`TaskData` is the part that a task of examples shares (:mod:`pretrieve.tasks.example_task`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_rows, read_table
from pretrieve.tasks.split_table import SplitTable
from pretrieve.text.packing import Packed, pack_sentences
from pretrieve.text.token_store import TokenStore
from pretrieve.text.windows import PassageWindows


class TaskData:
    """What a retrieval task and a task of examples share when they are read. ``name``, ``item``: what the task, and a row of its
    splits, are called in messages; ``words``: the token store that says which vocabulary the task was made with; ``_row``: id of
    a row of the splits → row."""

    name = "task"
    item: str
    directory: Path
    words: TokenStore
    _row: dict[str, int]

    def _stated(self, *needed: str) -> dict[str, Any]:
        """``stats.json``, which is written last; DataError where it is not there, damaged, or lacks a key."""
        try:
            stats = json.loads((self.directory / "stats.json").read_text(encoding="utf-8"))
            if lost := [key for key in needed if key not in stats]:
                raise KeyError(lost[0])
            return stats
        except (FileNotFoundError, json.JSONDecodeError, KeyError) as error:
            raise DataError(
                f"{self.directory}/stats.json: not a finished {self.name} ({type(error).__name__}). Build it with snakemake."
            ) from error

    @cached_property
    def _splits(self) -> SplitTable:
        return SplitTable(self.directory / "splits.parquet")

    def split(self, size: str, split: str) -> np.ndarray:
        """Rows (n,) int64 of one split of one training-set size, in file order; the file is read once.

        Raises DataError when the task has no such size, or the splits name an id that the task does not have.
        """
        ids = self._splits.ids(size, split)
        lost = next((name for name in ids if name not in self._row), None)
        if lost is not None:
            raise DataError(f"{self._splits.path}: {self.item} {lost!r} is not in the task; rebuild the task.")
        return np.array([self._row[name] for name in ids], dtype=np.int64)

    def check_vocabulary(self, about: Mapping[str, Any], directory: Path) -> None:
        """Raise :class:`DataError` unless a model (its ``pretrieve.json``) and this task come from one tokenizer.

        Two vocabularies of one size would fit each other's shapes and give results that are merely bad.
        """
        ours = self.words.meta["vocabulary_sha256"]
        if about.get("vocabulary_sha256") != ours:
            raise DataError(
                f"{directory}: was made with vocabulary {str(about.get('vocabulary_sha256'))[:12]}, the task {self.directory} "
                f"with {ours[:12]}; both must come from one tokenizer. Delete the older of the two and run snakemake again."
            )


class Dataset(TaskData):
    """One task (files: :mod:`pretrieve.tasks.task`).

    ``candidate_sentence``/``candidate_passage`` (N,): rows in the passage store (-1: a candidate without a sentence);
    ``positive`` (Q,): the first relevant candidate of each query, -1 for none; ``relevant``: Q arrays of all of them,
    in the order of qrels.parquet; ``document_ids``: N ids, ``document_row``: id → row; ``titled``: whether candidates
    without a sentence have their title in front.

    A query without a judgement (it has only answers) has ``positive`` -1 and no ``relevant``; it can be searched with, and
    training refuses it (:func:`pretrieve.finetuning.groups.refuse_unanswered`).

    Raises DataError when a file is missing, an id or a judgement appears twice, or a judgement names something that the task
    does not have.
    """

    item = "query"
    titled = False

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.titled = self._stated().get("titled", False)
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
        judged = read_rows(self.directory / "qrels.parquet", ("query_id", "doc_id", "relevance"))
        for query_id, doc_id, relevance in judged:
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

    @property
    def words(self) -> TokenStore:
        return self.passages

    def _rows_of(self, ids: list[str], what: str) -> dict[str, int]:
        rows = {name: row for row, name in enumerate(ids)}
        if len(rows) < len(ids):
            twice = next(name for row, name in enumerate(ids) if rows[name] != row)
            raise DataError(
                f"{self.directory}/{what} {twice!r} appears twice; every one must be unique. Rebuild the task."
            )
        return rows

    @property
    def form(self) -> list[str]:
        """What the key of a run or of vectors must name besides the texts: how they are laid out, where it is not the default."""
        return ["titled"] if self.titled else []

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

    def pack_queries(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] query [SEP]`` for query rows (n,); a query is one sentence of the query store."""
        return pack_sentences(self.queries, rows, length)

    def pack_candidates(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] sentence [SEP] passage [SEP]`` for candidate rows (n,); without a sentence ``[CLS] passage [SEP]``, or
        ``[CLS] title [SEP] passage [SEP]`` where the task is ``titled`` and the title is not empty."""
        first = self.windows(length, 1, rows)
        return first.pack(np.arange(len(first)))

    def windows(self, length: int, limit: int, rows: np.ndarray | None = None) -> PassageWindows:
        """The windows of candidate rows (n,), or of all candidates: at most ``limit`` of each, ``length`` tokens each; the
        first one is what :meth:`pack_candidates` gives. ``windows.documents`` counts the given rows from 0.

        Raises ConfigError when ``length`` leaves no room for a window.
        """
        sentences, passages = self.candidate_sentence, self.candidate_passage
        if rows is not None:
            sentences, passages = sentences[rows], passages[rows]
        titled = np.ones(len(passages), dtype=bool) if self.titled else None
        return PassageWindows(self.passages, sentences, passages, length, limit, titled)
