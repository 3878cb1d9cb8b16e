"""Questions with answers and no judged passage: the test sets of open-domain question answering.

Three layouts, told apart by what stands in the file, packed or not:

``*.qa.csv`` (DPR: Natural Questions, TriviaQA, WebQuestions, SQuAD, CuratedTREC)
    ``question<TAB>['an answer', "another"]``: two tab-separated fields with the quotes of RFC 4180, the second a Python
    list of strings. The official loader gives it to ``eval`` (facebookresearch/DPR@a31212d,
    ``dpr/data/retriever_data.py``); here it is ``ast.literal_eval``, which runs nothing. Anserini's
    ``topics.dpr.nq.*.txt`` are these files.
JSON lines with ``question`` and ``answer`` or ``answers`` (a list)
    NQ-open and EfficientQA (https://github.com/google-research-datasets/natural-questions/tree/master/nq_open);
    Anserini's topics of WebQuestions, CuratedTREC and SQuAD.
JSON lines with ``question_text`` and ``annotations``
    Natural Questions itself (:func:`pretrieve.benchmarks.official.natural_questions.open_question`).

The questions of CuratedTREC have one regular expression each, which nothing in the file says: the caller does.
A question has no id; it gets ``{split}-{number}``, counted from 0 in file order.
In questions ’ becomes ', as in DPR (:func:`pretrieve.tasks.answers.normalise_question`). Blank edges of questions and
repeated answers are omitted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.natural_questions import LONGEST, open_question
from pretrieve.raw.json_file import first_character
from pretrieve.raw.raw_text import Form, Warnings, check_characters, read_columns, read_json_lines
from pretrieve.tasks.answers import normalise_question
from pretrieve.tasks.collection_tables import SPLITS

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter


class OpenQuestion(NamedTuple):
    """A question and what answers it: texts, or regular expressions where the caller says so; at least one."""

    text: str
    answers: list[str]


def read_questions(path: Path | str, warnings: Warnings) -> Iterator[tuple[int, OpenQuestion]]:
    """Line number and question of each record of a file in one of the layouts above, streaming. ``warnings`` counts what is
    omitted: blank answers and lines, and questions of Natural Questions without a short answer.

    Raises DataError for a question that is blank or has no answer, an answer that is not text or not a list, and half of a
    surrogate pair.
    """
    path = Path(path)
    records = (_json_questions if first_character(path) == "{" else _listed_questions)(path, warnings)
    for number, text, answers in records:
        where = f"{path}: line {number}"
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: question {text!r}; expected text. Remove the line.")
        yield number, OpenQuestion(normalise_question(text.strip()), _answers(where, answers, warnings))


def _listed_questions(path: Path, warnings: Warnings) -> Iterator[tuple[int, str, Any]]:
    for number, (text, listed) in read_columns(path, ["question", "answers"], Form(quoted=True), warnings=warnings):
        try:
            answers = ast.literal_eval(listed.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            answers = None
        if not isinstance(answers, list | tuple):
            raise DataError(
                f"{path}: line {number}: answers {listed[:80]!r}; expected a Python list of strings, such as ['Rome']."
            )
        yield number, text, answers


def _json_questions(path: Path, warnings: Warnings) -> Iterator[tuple[int, Any, Any]]:
    for number, record in read_json_lines(path, warnings=warnings, longest=LONGEST):
        if "question_text" in record and "annotations" in record:
            question = open_question(record, f"{path}: line {number}")
            if question is None:
                warnings.add("question without a short answer", f"{path}, line {number}")
            else:
                yield number, *question
            continue
        key = "answer" if "answer" in record else "answers"
        if "question" not in record or key not in record:
            raise DataError(
                f"{path}: line {number}: the keys are {', '.join(map(repr, record)) or 'none'}; expected 'question' and "
                "'answer' (NQ-open), or 'question_text' and 'annotations' (Natural Questions)."
            )
        yield number, record["question"], record[key]


def _answers(where: str, answers: Any, warnings: Warnings) -> list[str]:
    """The distinct answers that are not blank, in order."""
    if not isinstance(answers, list | tuple) or not answers:
        raise DataError(f"{where}: answers {str(answers)[:80]!r}; expected a list of one or more texts.")
    kept: dict[str, None] = {}
    for answer in answers:
        if not isinstance(answer, str):
            raise DataError(f"{where}: answer {answer!r}; expected text.")
        if answer.strip():
            check_characters(where, answer)  # an escape in a Python list can write half of a surrogate pair
            kept[answer] = None
        else:
            warnings.add("blank answer", where)
    if not kept:
        raise DataError(f"{where}: every answer is blank; expected text. Remove the line.")
    return list(kept)


def add_questions(path: Path, split: str, writer: CollectionWriter, regular_expressions: bool = False) -> None:
    """Write the questions of a file and their answers as the queries ``{split}-{number}``."""
    query_id = ""
    for number, (line, question) in enumerate(read_questions(path, writer.warnings)):
        writer.at(path, line)
        query_id = f"{split}-{number}"
        writer.add_query(query_id, question.text, split)
        writer.add_answers(query_id, question.answers, regular_expressions)
    if not query_id:
        raise DataError(f"{path}: no question; expected one a line.")


def question_files(files: Mapping[str, Path]) -> dict[str, Path]:
    """The files of ``files`` that are named by a split, in the order train, dev, test."""
    return {split: files[split] for split in SPLITS if split in files}
