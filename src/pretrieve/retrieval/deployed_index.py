"""Search in a directory of :mod:`pretrieve.retrieval.deployment`: questions → documents with their texts.

What a question needs is loaded with the first one, both sides at the same time: encoder and faiss's index, and Java for BM25.
Rankings are those of the workflow: exact inner products, Lucene's BM25, the fusion of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pretrieve.base.errors import ConfigError, DataError, of_workflow
from pretrieve.base.given import given_number, given_texts
from pretrieve.retrieval.deployment import BM25, DENSE, read_settings
from pretrieve.retrieval.document_table import DocumentTable
from pretrieve.retrieval.trec_run import Run

#: Of so many documents the shortest is encoded again, and its vector may differ by this share of its length: int8 and bf16 round.
SAMPLE, FAR = 512, 0.5


class Hit(NamedTuple):
    """A found document: rank from 1, score, id, title and text."""

    rank: int
    score: float
    doc_id: str
    title: str
    text: str


class DeployedIndex:
    """A directory to search in; :func:`load_index` opens one."""

    def __init__(self, directory: Path | str, threads: int = 1, device: str = "cpu") -> None:
        self.directory, self._threads, self._device = Path(directory), given_number(threads, "threads"), device
        self.settings = read_settings(self.directory)
        self._documents = DocumentTable(self.directory)

    def __len__(self) -> int:
        """The number of documents."""
        return len(self._documents)

    def search(self, questions: Sequence[str], top: int = 10) -> list[list[Hit]]:
        """The best ``top`` documents of every question, best first; raises as :meth:`rank`."""
        run = self.rank(questions, top)
        shown = self._documents.shown(sorted({doc_id for ids in run.doc_ids for doc_id in ids}))
        return [
            [
                Hit(rank, score, doc_id, *shown[doc_id])
                for rank, (doc_id, score) in enumerate(zip(ids, scores.tolist(), strict=True), start=1)
            ]
            for ids, scores in zip(run.doc_ids, run.scores, strict=True)
        ]

    def rank(self, questions: Sequence[str], depth: int = 100, ids: Sequence[str] | None = None) -> Run:
        """The run of the questions, at most ``depth`` hits each; ids: of the questions, by default '0', '1', ….

        A hybrid fuses the best ``depth`` hits of each side of ``search.json``, or more where more are requested.

        Raises
        ------
        ConfigError
            when ``depth`` is no whole number from 1 on, one text is given in place of a list, ids are not as many as questions,
            or a package is missing.
        DataError
            when a part is missing or damaged, a question's id appears twice, or a question or id is no text, or not UTF-8.
        """
        depth = given_number(depth, "depth")
        questions = given_texts(questions, "questions")
        names = list(map(str, range(len(questions)))) if ids is None else given_texts(ids, "ids")
        if len(names) != len(questions):
            raise ConfigError(f"search: {len(names)} ids for {len(questions)} questions; expected one for each.")
        if self.settings.kind == "bm25":
            return self._lexical(questions, names, depth)
        if self.settings.kind == "dense":
            return self._dense(questions, names, depth)
        from pretrieve.retrieval.fusion import fuse

        reach = max(depth, self.settings.depth)
        with ThreadPoolExecutor(1) as beside:
            lexical = beside.submit(self._lexical, questions, names, reach)
            dense = self._dense(questions, names, reach)
            return fuse(lexical.result(), dense, self.settings.bm25_share, depth)

    def _lexical(self, questions: Sequence[str], names: list[str], depth: int) -> Run:
        from pretrieve.retrieval import bm25

        pairs = list(zip(names, questions, strict=True))
        settings = self.settings
        with of_workflow("BM25"):
            return bm25.search(self.directory / BM25, pairs, depth, settings.k1, settings.b, self._threads)

    def _dense(self, questions: Sequence[str], names: list[str], depth: int) -> Run:
        from pretrieve.retrieval import search

        retriever, index = self._encoder
        vectors = retriever.encode_queries(questions)
        return search.search(index, vectors, self._documents.ids, depth, query_ids=names, threads=self._threads)

    @cached_property
    def _encoder(self):
        """The retriever, and the faiss index of the documents."""
        from pretrieve.retrieval.index import read_index
        from pretrieve.retrieval.retriever import load

        with of_workflow("the dense search"):
            index, _ = read_index(self.directory / DENSE, threads=self._threads)
        if index.ntotal != len(self):
            raise DataError(f"{self.directory}: {index.ntotal:,} vectors for {len(self):,} documents; make it again.")
        retriever = load(self.directory, device=self._device)
        # Nothing else tells that the encoder was trained further, or that vectors or documents are another directory's.
        row, text = min(enumerate(islice(self._documents.texts(), SAMPLE)), key=lambda item: len(item[1]))
        (now,), then = retriever.encode_passages([text]), index.reconstruct(row)
        if now.shape != then.shape or np.linalg.norm(now - then) > FAR * np.linalg.norm(then):
            raise DataError(
                f"{self.directory}: the encoder gives document '{self._documents.ids[row]}' another vector than {DENSE} has: it "
                "was changed, or the files are of different directories; make the directory again."
            )
        return retriever, index


def load_index(directory: Path | str, threads: int = 1, device: str = "cpu") -> DeployedIndex:
    """Open a directory that ``make my-corpus`` or ``pretrieve index`` made; nothing is loaded before the first question.

    threads: of BM25 and faiss; device: of torch.

    Raises
    ------
    ConfigError
        when ``threads`` is no whole number from 1 on.
    DataError
        when it is no such directory, or a file of it is damaged.
    """
    return DeployedIndex(directory, threads, device)
