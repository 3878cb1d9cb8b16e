"""Reader of SQuAD v1.1 JSON, the format of the project's question set and of SQuAD itself.

One object: ``{"version", "data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers":
[{"text", "answer_start"}]}]}]}]}``; ``answer_start`` counts characters of ``context`` (Rajpurkar et al. 2016,
https://rajpurkar.github.io/SQuAD-explorer/). Further keys are ignored. The file may be packed with gzip or bzip2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.raw.json_file import read_json


@dataclass(frozen=True)
class Answer:
    """An answer span: ``context[start : start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question and its answers (at least one; SQuAD's own dev file gives several per question)."""

    id: str
    text: str
    answers: tuple[Answer, ...]


@dataclass
class Paragraph:
    """One context of an article with its questions."""

    article: str
    context: str
    questions: list[Question] = field(default_factory=list)


def _get(holder: Any, key: str, kind: type, where: str) -> Any:
    """``holder[key]``. Raises DataError unless it is of ``kind``, and, a string, not blank."""
    value = holder.get(key) if isinstance(holder, dict) else None
    # bool is an int for isinstance, and no offset.
    if not isinstance(value, kind) or isinstance(value, bool) or (kind is str and not value.strip()):
        found = str(value)[:60] if isinstance(holder, dict) else str(holder)[:60]
        raise DataError(
            f"{where}: '{key}' should be a non-empty {kind.__name__}, found {found!r}; see the SQuAD v1.1 format."
        )
    return value


def _question(item: Any, context: str, article: str, where: str) -> Question:
    """``article`` and ``where`` begin messages, before and after the question's id is known."""
    key, text = _get(item, "id", str, where), _get(item, "question", str, where)
    where = f"{article}, question '{key}'"
    entries = _get(item, "answers", list, where)
    if not entries:
        raise DataError(
            f"{where}: has no answer; every question needs one (SQuAD v2's unanswerable questions cannot be used)."
        )
    return Question(key, text.strip(), tuple(_answer(entry, context, where) for entry in entries))


def _answer(entry: Any, context: str, where: str) -> Answer:
    text, start = _get(entry, "text", str, where), _get(entry, "answer_start", int, where)
    found = context[start : start + len(text)] if start >= 0 else ""
    if found != text:
        at = context.find(text)
        hint = f"it stands at {at}" if at >= 0 else "it is nowhere in the context"
        raise DataError(f"{where}: answer {text!r} is not at answer_start {start}, where {found!r} stands; {hint}.")
    return Answer(text, start)


def read_squad(path: Path) -> tuple[list[Paragraph], list[str]]:
    """All paragraphs of a SQuAD v1.1 file in file order, without what is faulty, and a line for every faulty question, paragraph
    and article. Nothing is raised."""
    paragraphs: list[Paragraph] = []
    problems: list[str] = []

    @contextmanager
    def told() -> Iterator[None]:
        """What is faulty is omitted, and a check of the file can list all of it."""
        try:
            yield
        except DataError as error:
            problems.append(str(error))

    articles: list[Any] = []
    with told():
        articles = _get(read_json(path, "SQuAD v1.1 JSON"), "data", list, str(path))
    for number, article in enumerate(articles):
        with told():
            title = _get(article, "title", str, f"{path}: article {number}")
            where = f"{path}: article '{title}'"
            for place, entry in enumerate(_get(article, "paragraphs", list, where)):
                with told():
                    here = f"{where}, paragraph {place}"
                    context, qas = _get(entry, "context", str, here), _get(entry, "qas", list, here)
                    paragraphs.append(paragraph := Paragraph(title, context))
                    for index, item in enumerate(qas):
                        with told():
                            question = _question(item, context, where, f"{here}, question {index}")
                            paragraph.questions.append(question)
    return paragraphs, problems


def squad_paragraphs(path: Path) -> list[Paragraph]:
    """All paragraphs of a SQuAD v1.1 file in file order. Raises DataError with the first fault of the file (naming file,
    article and question), and how many more there are."""
    paragraphs, problems = read_squad(path)
    if problems:
        more = f" ({len(problems) - 1} more faults in this file)" if len(problems) > 1 else ""
        raise DataError(problems[0] + more)
    return paragraphs
