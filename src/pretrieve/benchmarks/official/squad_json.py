"""Reader of SQuAD v1.1 JSON, the format of the project's question set and of SQuAD itself.

One object: ``{"version", "data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers":
[{"text", "answer_start"}]}]}]}]}``; ``answer_start`` counts characters of ``context`` (Rajpurkar et al. 2016,
https://rajpurkar.github.io/SQuAD-explorer/). Further keys are ignored. The file may be packed with gzip or bzip2.
"""

from __future__ import annotations

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


class _Reader:
    """Walks the JSON tree; keeps going after a fault, so that a check can list every one of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self.paragraphs: list[Paragraph] = []

    def fault(self, where: str, message: str) -> None:
        self.problems.append(f"{self.path}: {where}: {message}" if where else f"{self.path}: {message}")

    def get(self, holder: Any, key: str, kind: type, where: str) -> Any:
        """``holder[key]`` when it is of ``kind`` (and, a string, not blank); else None and a fault."""
        value = holder.get(key) if isinstance(holder, dict) else None
        # bool is an int for isinstance, and no offset.
        if not isinstance(value, kind) or isinstance(value, bool) or (kind is str and not value.strip()):
            found = str(value)[:60] if isinstance(holder, dict) else str(holder)[:60]
            self.fault(
                where, f"'{key}' should be a non-empty {kind.__name__}, found {found!r}; see the SQuAD v1.1 format."
            )
            return None
        return value

    def file(self) -> None:
        if not self.path.is_file():
            self.fault("", "no such file; expected SQuAD v1.1 JSON. Fetch it, or correct the path.")
            return
        try:
            root = read_json(self.path, "SQuAD v1.1 JSON")
        except DataError as error:  # it names the file
            self.problems.append(str(error))
            return
        for number, article in enumerate(self.get(root, "data", list, "") or []):
            self.article(article, f"article {number}")

    def article(self, article: Any, where: str) -> None:
        title = self.get(article, "title", str, where)
        if title is None:
            return
        where = f"article '{title}'"
        for number, entry in enumerate(self.get(article, "paragraphs", list, where) or []):
            here = f"{where}, paragraph {number}"
            context = self.get(entry, "context", str, here)
            qas = self.get(entry, "qas", list, here)
            if context is None or qas is None:
                continue
            paragraph = Paragraph(title, context)
            self.paragraphs.append(paragraph)
            for index, item in enumerate(qas):
                question = self.question(item, context, where, f"{here}, question {index}")
                if question:
                    paragraph.questions.append(question)

    def question(self, item: Any, context: str, article: str, where: str) -> Question | None:
        key, text = self.get(item, "id", str, where), self.get(item, "question", str, where)
        if key is None or text is None:
            return None
        where = f"{article}, question '{key}'"
        entries = self.get(item, "answers", list, where)
        if entries is None:
            return None
        if not entries:
            self.fault(
                where, "has no answer; every question needs one (SQuAD v2's unanswerable questions cannot be used)."
            )
        answers = [answer for entry in entries if (answer := self.answer(entry, context, where))]
        return Question(key, text.strip(), tuple(answers)) if answers else None

    def answer(self, entry: Any, context: str, where: str) -> Answer | None:
        text, start = self.get(entry, "text", str, where), self.get(entry, "answer_start", int, where)
        if text is None or start is None:
            return None
        found = context[start : start + len(text)] if start >= 0 else ""
        if found != text:
            at = context.find(text)
            hint = f"it stands at {at}" if at >= 0 else "it is nowhere in the context"
            self.fault(where, f"answer {text!r} is not at answer_start {start}, where {found!r} stands; {hint}.")
            return None
        return Answer(text, start)


def read_squad(path: Path) -> tuple[list[Paragraph], list[str]]:
    """All paragraphs of a SQuAD v1.1 file in file order, without what is faulty, and a line for every fault. Nothing is
    raised."""
    reader = _Reader(path)
    reader.file()
    return reader.paragraphs, reader.problems


def squad_paragraphs(path: Path) -> list[Paragraph]:
    """All paragraphs of a SQuAD v1.1 file in file order. Raises DataError with the first fault of the file (naming file,
    article and question), and how many more there are."""
    paragraphs, problems = read_squad(path)
    if problems:
        more = f" ({len(problems) - 1} more faults in this file)" if len(problems) > 1 else ""
        raise DataError(problems[0] + more)
    return paragraphs
