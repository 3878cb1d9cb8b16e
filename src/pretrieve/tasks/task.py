"""A retrieval task on disk: what every recipe, search and metric reads, whichever benchmark it came from.

=================  ========================================================================================
corpus.parquet     doc_id · title · sentence ('' where the candidate is a whole passage) · passage ·
                   sentence_index int32 (sentence of the store ``passages``, -1 without a sentence) ·
                   passage_index int32 (passage of that store)
queries.parquet    query_id · text
qrels.parquet      query_id · doc_id · relevance int32 (1 or more)
splits.parquet     size · query_id · split ('train' | 'valid' | 'test' | 'dev')
answers.parquet    only of tasks with answers: see :mod:`pretrieve.tasks.answers`
stats.json         the row of a data table (:func:`~pretrieve.tasks.task_rows.task_statistics`); ``titled``: true in a
                   task whose candidates are read with their titles in front
passages/          token store: passage i is section i and article i, with its title; see pretrieve.text.token_store
queries/           token store: query i (row of queries.parquet) is passage i, one sentence
=================  ========================================================================================

A candidate is a (sentence, passage) pair or a passage (paper ``pretraining_tasks`` §4.1); those of one passage share
its row in the token store. A query is judged, or it has answers: test questions of open-domain question answering
have no relevant passage that anyone named, and are scored by hits@k alone. What trains or validates is judged. Row
order is the order of :class:`TaskContents`, so the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from pretrieve.corpora.sentences import sentence_spans
from pretrieve.tasks.answers import Answers
from pretrieve.tasks.splits import SplitRow
from pretrieve.tasks.task_rows import SCHEMAS, Judgement, Query, TaskRows, check_rows, unique_ids, write_rows
from pretrieve.text.token_store import PassageText

__all__ = [
    "SCHEMAS",
    "Candidate",
    "Judgement",
    "Passage",
    "Query",
    "SplitRow",
    "TaskContents",
    "make_passage",
    "write_task",
]


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

    def add_passage(self, passage: Passage) -> int:
        self.passages.append(passage)
        return len(self.passages) - 1

    def check(self) -> None:
        """Raise :class:`DataError` unless ids are unique, judgements and answers resolve, and every query has a split, and a
        judgement; a test or dev query of a task with answers may have answers in its place."""
        docs = unique_ids([candidate.doc_id for candidate in self.candidates], "doc_id")
        check_rows(docs, self.queries, self.judgements, self.splits, self.answers)


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
        queries=contents.queries,
        judgements=contents.judgements,
        splits=contents.splits,
        answers=contents.answers,
        titled=contents.titled,
    )
    return write_rows(Path(directory), rows, tokenizer)
