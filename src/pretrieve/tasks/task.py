"""A retrieval task on disk: what every recipe, search and metric reads, whichever benchmark it came from.

=================  ========================================================================================
corpus.parquet     doc_id · title · sentence ('' where the candidate is a whole passage) · passage ·
                   sentence_index int32 (sentence of the store ``passages``, -1 without a sentence) ·
                   passage_index int32 (passage of that store)
queries.parquet    query_id · text
qrels.parquet      query_id · doc_id · relevance int32 (1 or more)
splits.parquet     size · query_id · split ('train' | 'valid' | 'test' | 'dev')
answers.parquet    only of tasks with answers: see :mod:`pretrieve.tasks.answers`
stats.json         the row of a data table (:func:`task_statistics`); ``titled``: true in a
                   task whose candidates are read with their titles in front
passages/          token store: passage i is section i and article i, with its title; see pretrieve.text.token_store
queries/           token store: query i (row of queries.parquet) is passage i, one sentence
=================  ========================================================================================

A candidate is a (sentence, passage) pair or a passage (paper ``pretraining_tasks`` §4.1); those of one passage share
its row in the token store. A query is judged, or it has answers: test questions of open-domain question answering
have no relevant passage that anyone named, and are scored by hits@k alone. What trains or validates is judged. Row
order is the order of :class:`TaskContents`, so the same input gives the same bytes.

:class:`TaskContents` is a task in memory. :class:`TaskRows` has functions that give its texts anew at each call, so that those of
a collection (:mod:`pretrieve.tasks.collection_task`) stream through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.corpora.tables import TableWriter
from pretrieve.tasks.answers import Answers, write_answers
from pretrieve.tasks.splits import SplitRow
from pretrieve.text.packing import passage_spans
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


#: Candidates that are counted together: bounds the memory.
_BLOCK = 1 << 16


class Query(NamedTuple):
    query_id: str
    text: str


class Judgement(NamedTuple):
    """``doc_id`` answers ``query_id``; one (question, sentence, passage) tuple of paper ``pretraining_tasks``."""

    query_id: str
    doc_id: str
    relevance: int = 1


class Passage(NamedTuple):
    """A passage of text and where its sentences are (character offsets)."""

    title: str
    text: str
    spans: list[tuple[int, int]]

    @property
    def sentences(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


class Candidate(NamedTuple):
    """Something to retrieve: passage number ``passage``, and in it sentence number ``sentence`` or -1 for none."""

    doc_id: str
    passage: int
    sentence: int


@dataclass
class TaskContents:
    """A whole task in memory, in the order it is written in.

    answers: query id → its answers; of all queries, or none where the task has no answers. titled: a candidate without a sentence
    is read with its title in front, ``[CLS] title [SEP] passage [SEP]``, as DPR and ANCE read passages of Wikipedia.
    """

    passages: list[Passage] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    splits: list[SplitRow] = field(default_factory=list)
    answers: dict[str, Answers] = field(default_factory=dict)
    titled: bool = False
    _query_of: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def add_candidates(self, name: str, passage: Passage, sentences: Iterable[int] | None = None) -> None:
        """Add a passage: itself as the candidate ``name``, or these sentences of it as ``{name}-{sentence}``."""
        number = len(self.passages)
        self.passages.append(passage)
        if sentences is None:
            self.candidates.append(Candidate(name, number, -1))
        else:
            self.candidates += [Candidate(f"{name}-{sentence}", number, sentence) for sentence in sentences]

    def add_question(self, query_id: str, text: str) -> str:
        """Add a question, unless one in the same words is there; returns the id of its query."""
        if text not in self._query_of:
            self._query_of[text] = query_id
            self.queries.append(Query(query_id, text))
        return self._query_of[text]

    def check(self) -> None:
        """Raise :class:`DataError` for an id of two candidates, and as :func:`check_rows`."""
        docs = unique_ids([candidate.doc_id for candidate in self.candidates], "doc_id")
        check_rows(docs, self)


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

    Raises DataError when :meth:`TaskContents.check` finds a fault.
    """
    contents.check()
    rows = TaskRows(
        passages=lambda: (PassageText(p.sentences, number, number) for number, p in enumerate(contents.passages)),
        titles=lambda: (passage.title for passage in contents.passages),
        corpus=lambda first_sentence: _corpus_rows(contents, first_sentence),
        candidate_passage=np.array([candidate.passage for candidate in contents.candidates], dtype=np.int64),
        candidate_sentence=np.array([candidate.sentence for candidate in contents.candidates], dtype=np.int64),
        contents=contents,
    )
    return write_rows(directory, rows, tokenizer)


@dataclass
class TaskRows:
    """A task on its way to the disk.

    passages, titles: the texts of the passages (P) and their titles, in order, from the start at each call. corpus: given
    the first sentence (P+1,) of each passage, the rows of ``corpus.parquet``. candidate_passage, candidate_sentence (N,):
    passage of each candidate, and sentence in it or -1. contents: all else; its passages and candidates are not looked at. about:
    further entries of ``stats.json``.
    """

    passages: Callable[[], Iterable[PassageText]]
    titles: Callable[[], Iterable[str]]
    corpus: Callable[[np.ndarray], Iterable[tuple]]
    candidate_passage: np.ndarray
    candidate_sentence: np.ndarray
    contents: TaskContents
    about: Mapping[str, Any] = field(default_factory=dict)


def check_rows(documents: Collection[str], task: TaskContents) -> None:
    """Raise :class:`DataError` unless ids are unique, judgements and answers resolve, a query stands in a size at most once, and
    has a judgement; a test or dev query of a task with answers may have answers in its place.

    ``documents``: ids of the candidates, unique, or at least of those that are judged. A size may leave queries out: training
    queries that it does not draw.
    """
    known = unique_ids([query.query_id for query in task.queries], "query_id")
    for what, rows in (("candidates", documents), ("queries", known)):
        if not rows:
            raise DataError(f"the task has no {what}; check that its input files belong together.")
    unique_ids([f"{row.query_id} {row.doc_id}" for row in task.judgements], "judgement")
    for row in task.judgements:
        if row.query_id not in known or row.doc_id not in documents or row.relevance < 1:
            raise DataError(f"judgement {tuple(row)} names an unknown query or candidate, or its relevance is below 1.")
    _check_judged(known, task)
    rows_of_size: dict[str, list[str]] = {}
    for row in task.splits:
        rows_of_size.setdefault(row.size, []).append(row.query_id)
    for size, ids in rows_of_size.items():
        listed = set(ids)
        if len(ids) != len(listed) or not listed <= known:
            raise DataError(
                f"size '{size}' lists {len(ids)} queries, of which {len(listed & known)} are distinct queries of the task's "
                f"{len(known)}; list each at most once."
            )


def _check_judged(queries: set[str], task: TaskContents) -> None:
    unknown = task.answers.keys() - queries
    if unknown:
        raise DataError(f"answers of {len(unknown)} unknown queries, such as '{min(unknown)}'.")
    unjudged = queries - {row.query_id for row in task.judgements}
    lost = unjudged - task.answers.keys()
    if lost:
        instead = "" if not task.answers else " and no answers"
        raise DataError(f"{len(lost)} queries have no relevant candidate{instead}, such as '{min(lost)}'.")
    trained = {row.query_id for row in task.splits if row.split in ("train", "valid")} & unjudged
    if trained:
        raise DataError(
            f"{len(trained)} queries that train or validate have answers but no relevant candidate, such as "
            f"'{min(trained)}'; remove them, or use them as test queries."
        )


def unique_ids(ids: list[str], what: str) -> set[str]:
    """The ids as a set; DataError when one appears twice."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{what} '{name}' appears twice; every one must be unique.")
        seen.add(name)
    return seen


def write_rows(directory: Path, task: TaskRows, tokenizer: Tokenizer) -> dict[str, Any]:
    """Write a task's directory and return its statistics; ``stats.json`` is written last. Nothing is checked here."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stats.json").unlink(missing_ok=True)
    contents = task.contents
    passages = write_token_store(directory / "passages", tokenizer, task.passages(), task.titles(), label="candidates")
    texts = (PassageText([query.text], number, number) for number, query in enumerate(contents.queries))
    queries = write_token_store(directory / "queries", tokenizer, texts, [""] * len(contents.queries), label="queries")
    tables = {
        "corpus": task.corpus(np.asarray(passages.passage_starts)),
        "queries": contents.queries,
        "qrels": contents.judgements,
        "splits": contents.splits,
    }
    for name, columns in tables.items():
        with TableWriter(directory / f"{name}.parquet", SCHEMAS[name]) as writer:
            for row in columns:
                writer.append(tuple(row))
    (directory / "answers.parquet").unlink(missing_ok=True)  # of another task that was here
    if contents.answers:
        write_answers(directory / "answers.parquet", contents.answers.items())
    statistics = task_statistics(task, passages, queries)
    write_json(directory / "stats.json", statistics)
    return statistics


def task_statistics(task: TaskRows, passages: TokenStore, queries: TokenStore) -> dict[str, Any]:
    """The columns of Table 2 of paper ``pretraining_tasks`` and of Table 6 of paper ``seed_encoder``, and how many
    queries each split has.

    ``queries`` · ``candidates`` · ``tuples`` (judgements) · ``query_tokens``: mean word pieces of a query ·
    ``doc_tokens``: mean word pieces of a candidate, its sentence and its passage together; both without special
    tokens · ``passages`` · ``splits``: size → split → queries · ``documents``: of the collection, even if the task draws of
    them · ``train``, ``dev`` and ``eval``: see :func:`part_counts` · ``titled``: true, only where it is so.
    """
    contents, splits = task.contents, dict[str, dict[str, int]]()
    for split_row in contents.splits:
        counts = splits.setdefault(split_row.size, dict.fromkeys(("train", "valid", "test", "dev"), 0))
        counts[split_row.split] += 1
    return {
        "queries": len(contents.queries),
        "candidates": len(task.candidate_passage),
        "tuples": len(contents.judgements),
        "query_tokens": round(len(queries.tokens) / len(contents.queries), 2),
        "doc_tokens": round(_document_tokens(task, passages) / len(task.candidate_passage), 2),
        "passages": passages.n_passages,
        "splits": splits,
        "documents": len(task.candidate_passage),
        **part_counts(contents.splits, contents.judgements),
        **({"titled": True} if contents.titled else {}),
        **task.about,
    }


def _document_tokens(task: TaskRows, passages: TokenStore) -> int:
    """Word pieces of all candidates."""
    total = 0
    for first in range(0, len(task.candidate_passage), _BLOCK):
        block = slice(first, first + _BLOCK)
        number, sentence = task.candidate_passage[block], task.candidate_sentence[block]
        row = passages.passage_starts[number[sentence >= 0]] + sentence[sentence >= 0]
        total += int((passages.sentence_starts[row + 1] - passages.sentence_starts[row]).sum())
        total += int(passage_spans(passages, number)[1].sum())
    return total


def part_counts(splits: Sequence[SplitRow], judgements: Sequence[Judgement]) -> dict[str, dict[str, int]]:
    """``queries`` and ``judgements`` of ``train`` (with what validates), ``dev`` and ``eval`` (the queries that test), in
    the size that trains on most: the parts of a benchmark as Table 6 of paper ``seed_encoder`` counts them.

    >>> rows = [SplitRow("full", "q1", "train"), SplitRow("full", "q2", "valid"), SplitRow("full", "q3", "test")]
    >>> part_counts(rows, [Judgement("q1", "d1"), Judgement("q3", "d1"), Judgement("q3", "d2")])["eval"]
    {'queries': 1, 'judgements': 2}
    """
    names = {"train": "train", "valid": "train", "dev": "dev", "test": "eval"}
    part_of: dict[str, dict[str, str]] = {}
    for row in splits:
        part_of.setdefault(row.size, {})[row.query_id] = names[row.split]
    largest = max(part_of.values(), key=lambda parts: sum(part == "train" for part in parts.values()))
    counts = {part: {"queries": 0, "judgements": 0} for part in ("train", "dev", "eval")}
    for part in largest.values():
        counts[part]["queries"] += 1
    for judgement in judgements:
        if judgement.query_id in largest:
            counts[largest[judgement.query_id]]["judgements"] += 1
    return counts
