"""A retrieval task on disk: what every recipe, search and metric reads, whichever benchmark it came from.

=================  ========================================================================================
corpus.parquet     doc_id · title · sentence ('' where the candidate is a whole passage) · passage ·
                   sentence_index int32 (sentence of the store ``passages``, -1 without a sentence) ·
                   passage_index int32 (passage of that store)
queries.parquet    query_id · text
qrels.parquet      query_id · doc_id · relevance int32 (1 or more)
splits.parquet     size · query_id · split ('train' | 'valid' | 'test' | 'dev')
stats.json         the row of a data table (see :func:`task_statistics`)
passages/          token store: passage i is section i and article i, with its title; see pretrieve.text.token_store
queries/           token store: query i (row of queries.parquet) is passage i, one sentence
=================  ========================================================================================

A candidate is a (sentence, passage) pair or a passage (paper ``pretraining_tasks`` §4.1); those of one passage share
its row in the token store. Row order is the order of :class:`TaskContents`, so the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from pretrieve.corpora.tables import TableWriter
from pretrieve.errors import DataError
from pretrieve.files import write_json
from pretrieve.tasks.splits import SplitRow
from pretrieve.text.packing import passage_spans
from pretrieve.text.sentences import sentence_spans
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store

SCHEMAS: dict[str, pa.Schema] = {
    "corpus": pa.schema(
        [
            ("doc_id", pa.string()),
            ("title", pa.string()),
            ("sentence", pa.string()),
            ("passage", pa.string()),
            ("sentence_index", pa.int32()),
            ("passage_index", pa.int32()),
        ]
    ),
    "queries": pa.schema([("query_id", pa.string()), ("text", pa.string())]),
    "qrels": pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("relevance", pa.int32())]),
    "splits": pa.schema([("size", pa.string()), ("query_id", pa.string()), ("split", pa.string())]),
}


class Passage(NamedTuple):
    """A passage of text and where its sentences are (character offsets)."""

    title: str
    text: str
    spans: list[tuple[int, int]]

    @property
    def sentences(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


def make_passage(title: str, text: str) -> Passage:
    """A passage with the project's sentence boundaries."""
    return Passage(title, text, sentence_spans(text))


class Candidate(NamedTuple):
    """Something to retrieve: passage number ``passage``, and in it sentence number ``sentence`` or -1 for none."""

    doc_id: str
    passage: int
    sentence: int


class Query(NamedTuple):
    query_id: str
    text: str


class Judgement(NamedTuple):
    """``doc_id`` answers ``query_id``; one (question, sentence, passage) tuple of paper ``pretraining_tasks``."""

    query_id: str
    doc_id: str
    relevance: int = 1


@dataclass
class TaskContents:
    """A whole task in memory, in the order it is written in."""

    passages: list[Passage] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    splits: list[SplitRow] = field(default_factory=list)

    def add_passage(self, passage: Passage) -> int:
        self.passages.append(passage)
        return len(self.passages) - 1

    def check(self) -> None:
        """Raise :class:`DataError` unless ids are unique, judgements resolve, and every query has one and a split."""
        docs = _unique([candidate.doc_id for candidate in self.candidates], "doc_id")
        queries = _unique([query.query_id for query in self.queries], "query_id")
        for what, rows in (("candidates", docs), ("queries", queries)):
            if not rows:
                raise DataError(f"the task has no {what}; check that its input files belong together.")
        _unique([f"{row.query_id} {row.doc_id}" for row in self.judgements], "judgement")
        for row in self.judgements:
            if row.query_id not in queries or row.doc_id not in docs or row.relevance < 1:
                raise DataError(
                    f"judgement {tuple(row)} names an unknown query or candidate, or its relevance is below 1."
                )
        unjudged = queries - {row.query_id for row in self.judgements}
        if unjudged:
            raise DataError(f"{len(unjudged)} queries have no relevant candidate, such as '{min(unjudged)}'.")
        rows_of_size: dict[str, list[str]] = {}
        for row in self.splits:
            rows_of_size.setdefault(row.size, []).append(row.query_id)
        for size, ids in rows_of_size.items():
            if len(ids) != len(queries) or set(ids) != queries:
                raise DataError(
                    f"size '{size}' lists {len(ids)} queries, the task has {len(queries)}; each belongs once."
                )


def _unique(ids: list[str], what: str) -> set[str]:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{what} '{name}' stands twice; every one must be unique.")
        seen.add(name)
    return seen


def _corpus_rows(contents: TaskContents, first_sentence: np.ndarray) -> Iterator[tuple]:
    for doc_id, number, sentence in contents.candidates:
        passage = contents.passages[number]
        if sentence < 0:
            yield doc_id, passage.title, "", passage.text, -1, number
        else:
            start, end = passage.spans[sentence]
            row = int(first_sentence[number]) + sentence
            yield doc_id, passage.title, passage.text[start:end], passage.text, row, number


def write_task(directory: Path, contents: TaskContents, tokenizer: Tokenizer) -> dict[str, Any]:
    """Check a task, write its directory and return its statistics; ``stats.json`` is written last.

    Raises
    ------
    DataError
        when :meth:`TaskContents.check` finds a fault.
    """
    contents.check()
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stats.json").unlink(missing_ok=True)
    passages = write_token_store(
        directory / "passages",
        tokenizer,
        (PassageText(passage.sentences, number, number) for number, passage in enumerate(contents.passages)),
        titles=[passage.title for passage in contents.passages],
        label="candidates",
    )
    queries = write_token_store(
        directory / "queries",
        tokenizer,
        (PassageText([query.text], number, number) for number, query in enumerate(contents.queries)),
        titles=[""] * len(contents.queries),
        label="queries",
    )
    tables = {
        "corpus": _corpus_rows(contents, np.asarray(passages.passage_starts)),
        "queries": contents.queries,
        "qrels": contents.judgements,
        "splits": contents.splits,
    }
    for name, rows in tables.items():
        with TableWriter(directory / f"{name}.parquet", SCHEMAS[name]) as writer:
            for row in rows:
                writer.append(tuple(row))
    statistics = task_statistics(contents, passages, queries)
    write_json(directory / "stats.json", statistics)
    return statistics


def task_statistics(contents: TaskContents, passages: TokenStore, queries: TokenStore) -> dict[str, Any]:
    """The columns of Table 2 of paper ``pretraining_tasks``, and how many queries each split has.

    ``queries`` · ``candidates`` · ``tuples`` (judgements) · ``query_tokens``: mean word pieces of a query ·
    ``doc_tokens``: mean word pieces of a candidate, its sentence and its passage together; both without special
    tokens · ``passages`` · ``splits``: size → split → queries.
    """
    number = np.array([candidate.passage for candidate in contents.candidates], dtype=np.int64)
    sentence = np.array([candidate.sentence for candidate in contents.candidates], dtype=np.int64)
    row = np.where(sentence >= 0, np.asarray(passages.passage_starts)[number] + sentence, 0)
    sentence_tokens = np.diff(np.asarray(passages.sentence_starts))[row] * (sentence >= 0)
    passage_tokens = passage_spans(passages, number)[1]
    splits: dict[str, dict[str, int]] = {}
    for split_row in contents.splits:
        counts = splits.setdefault(split_row.size, dict.fromkeys(("train", "valid", "test", "dev"), 0))
        counts[split_row.split] += 1
    return {
        "queries": len(contents.queries),
        "candidates": len(contents.candidates),
        "tuples": len(contents.judgements),
        "query_tokens": round(len(queries.tokens) / len(contents.queries), 2),
        "doc_tokens": round(float((sentence_tokens + passage_tokens).mean()), 2),
        "passages": len(contents.passages),
        "splits": splits,
    }
