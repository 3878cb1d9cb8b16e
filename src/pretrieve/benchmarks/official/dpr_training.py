"""DPR's training files, ``biencoder-{nq,trivia,squad1,webquestions,curatedtrec}-{train,dev}.json``.

One JSON array, packed 0.2 to 2 GB (https://github.com/facebookresearch/DPR, "Retriever input data format"), of objects
with ``question``, ``answers`` and three lists of passages with ``title``, ``text`` and the id in ``psgs_w100.tsv``,
called ``passage_id`` (Natural Questions) or ``psg_id`` (TriviaQA, SQuAD):

``positive_ctxs``
    the first is the gold passage, or the best hit of BM25 that contains the answer where there is no gold; the others
    contain an answer and may not answer the question (facebookresearch/DPR#118). The official training takes the first.
``hard_negative_ctxs``
    hits of BM25 without an answer; in ``biencoder-nq-adv-hn-train.json`` hits of DPR itself.
``negative_ctxs``
    random passages; the official training leaves them unused by default (facebookresearch/DPR#91).

Questions without a positive are omitted, as there. The file of Natural Questions has 6,515 of the 8,757 development
questions, because the gold paragraph of the others was not found in the passages (facebookresearch/DPR#157).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import read_json_array
from pretrieve.raw.raw_text import Warnings

_ID_KEYS = ("passage_id", "psg_id")


class TrainingPassage(NamedTuple):
    """A passage of a training question; ``id`` is '' when the file has none."""

    id: str
    title: str
    text: str


class TrainingQuestion(NamedTuple):
    """A training question: ``positives`` with the gold one first, ``hard`` and ``random`` negatives in file order."""

    text: str
    answers: list[str]
    positives: list[TrainingPassage]
    hard: list[TrainingPassage]
    random: list[TrainingPassage]


def read_training(path: Path | str, warnings: Warnings | None = None) -> Iterator[tuple[int, TrainingQuestion]]:
    """Number in the file (from 0) and content of each training question that has a positive, streaming.

    Raises DataError for an element without a question or with invalid passages, and what
    :func:`pretrieve.raw.json_file.read_json_array` raises; file and element are named.
    """
    warnings = Warnings() if warnings is None else warnings
    for number, record in read_json_array(path):
        where = f"{path}: element {number}"
        if (
            not isinstance(record, dict)
            or not isinstance(record.get("question"), str)
            or not record["question"].strip()
        ):
            raise DataError(f"{where}: found {str(record)[:80]!r}; expected an object with a 'question'.")
        answers = record.get("answers", [])
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise DataError(f"{where}: answers {str(answers)[:80]!r}; expected a list of texts.")
        question = TrainingQuestion(
            record["question"].strip(),
            list(dict.fromkeys(answer for answer in answers if answer.strip())),
            _passages(where, record, "positive_ctxs"),
            _passages(where, record, "hard_negative_ctxs"),
            _passages(where, record, "negative_ctxs"),
        )
        _check_encodable(where, question)
        if question.positives:
            yield number, question
        else:
            warnings.add("training question without a positive passage", where)


def _passages(where: str, record: dict[str, Any], key: str) -> list[TrainingPassage]:
    entries = record.get(key, [])
    if key == "positive_ctxs" and key not in record:
        raise DataError(f"{where}: no key 'positive_ctxs'; it has {', '.join(map(repr, record))}.")
    if not isinstance(entries, list):
        raise DataError(f"{where}: {key} is {str(entries)[:80]!r}; expected a list of passages.")
    passages = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise DataError(
                f"{where}: {key}, number {place}: found {str(entry)[:80]!r}; expected an object with a 'text'."
            )
        passage_id = next((str(entry[name]) for name in _ID_KEYS if entry.get(name) is not None), "")
        passages.append(TrainingPassage(passage_id.strip(), str(entry.get("title") or ""), entry["text"]))
    return passages


def _check_encodable(where: str, question: TrainingQuestion) -> None:
    passages = [*question.positives, *question.hard, *question.random]
    try:
        "".join([question.text, *question.answers, *(part for passage in passages for part in passage)]).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: \\u{ord(error.object[error.start]):04x} without the other half of its surrogate pair; expected "
            "whole characters."
        ) from None
