"""BEIR's files: ``corpus.jsonl`` is read, also as a corpus to pre-train on, and all of them are written.

Format: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset. One JSON object a line, ``{"_id": "4983",
"title": "…", "text": "…"}``; ``title`` may be missing or ''. A document is an article. Blank lines in its text separate
paragraphs, lines ``# …`` begin sections; most sets have neither, and a document is one passage then. Documents may share
a title (the passages of one page do). There are no links, so no WLP.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file
from pretrieve.corpora.builder import Article
from pretrieve.corpora.wikitext import Paragraph, Section, with_text
from pretrieve.raw.raw_text import Warnings, check_id, read_json_lines

_TABLE = re.compile(r"\.([ct]sv(\.gz|\.bz2)?|parquet)$", re.IGNORECASE)
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)$")


def sections_of(text: str) -> list[Section]:
    """Sections at Markdown headings, paragraphs at blank lines; nothing else in the text is markup.

    >>> [section.heading for section in sections_of("One.\\n\\nTwo.\\n# Three\\nFour.")]
    ['', 'Three']
    """
    sections = [Section("", 1)]
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        found = _HEADING.match(line)
        if block and (found or not line.strip()):
            sections[-1].paragraphs.append(Paragraph(" ".join(block)))
            block = []
        if found:
            sections.append(Section(found[2].rstrip(" \t#"), max(2, len(found[1]))))
        else:
            block += line.split()
    return with_text(sections)


class Document(NamedTuple):
    """A line of ``corpus.jsonl``; '' for no title."""

    doc_id: str
    title: str
    text: str


class Ids(dict[str, int]):
    """Id → line of a file. Raises DataError for one that appears twice. lacking: ids that may be expected and not be there."""

    def __init__(self, kind: str, path: Path, lacking: int = 0) -> None:
        self.kind, self.path, self._lacking = kind, path, lacking

    def take(self, name: str, line: int) -> None:
        first = self.setdefault(name, line)
        if first != line:
            raise DataError(
                f"{self.path}: line {line}: _id {name!r} was used before, in line {first}; expected every id once: "
                "give one of them another, or remove it."
            )

    def expect(self, name: str, place: Callable[[], str]) -> None:
        if name in self:
            return
        if not self._lacking:
            raise DataError(
                f"{place()}{name!r} is not an _id of a {self.kind} in {self.path}; correct it or remove the line."
            )
        self._lacking -= 1


def read_documents(path: Path, warnings: Warnings, label: str | None = "") -> Iterator[tuple[int, Document]]:
    """Line and content of each document of a ``corpus.jsonl``; ``label``: of the progress, None for none.

    Raises DataError where a field is not text, the id is empty, or the file is a table, and what
    :func:`~pretrieve.raw.raw_text.read_json_lines` raises.
    """
    if _TABLE.search(path.name):
        raise DataError(f"{path}: a table; expected what pretrieve make-corpus {path} --out DIR/corpus.jsonl writes.")
    for line, record in read_json_lines(path, ("_id", "text"), label, warnings):
        doc_id = id_of(record, path, line, warnings)
        yield line, Document(doc_id, text_of(record, "title", path, line), text_of(record, "text", path, line))


def id_of(record: dict[str, Any], path: Path, line: int, warnings: Warnings) -> str:
    """The id of a document or query; a whole number is read as text, and counted. Raises DataError where there is none."""
    value = record["_id"]
    if isinstance(value, int) and not isinstance(value, bool):
        warnings.add("id that is a number, read as text", f"{path}: line {line}: {value}")
        value = str(value)
    if not isinstance(value, str) or not value:
        found = f"{type(value).__name__} {str(value)[:60]!r}" if value != "" else "''"
        raise DataError(
            f"{path}: line {line}: '_id' is {found}; expected a text that is not empty"
            f"{f': write {json.dumps(str(value))}' if isinstance(value, float) else ''}."
        )
    check_id(f"{path}: line {line}: '_id'", value)
    return value


def text_of(record: dict[str, Any], key: str, path: Path, line: int) -> str:
    """The text of a key; '' for a title that is missing or null. Raises DataError where it is not text."""
    value = record.get(key)
    if value is None and key == "title":
        return ""
    if not isinstance(value, str):
        raise DataError(f"{path}: line {line}: {key!r} is {type(value).__name__} {str(value)[:60]!r}; expected a text.")
    return value


def read_beir_documents(paths: Iterable[Path], warnings: Warnings) -> Iterator[Article]:
    """One article for each document with text; the others are counted. Raises what :func:`read_documents` raises."""
    for path in paths:
        for line, (doc_id, title, text) in read_documents(path, warnings):
            sections = sections_of(text)
            if any(section.paragraphs for section in sections):
                yield Article(" ".join(title.split()), sections)
            else:
                warnings.add("document without text, left out", f"{path}, line {line}: {doc_id!r}")


def write_documents(path: Path, documents: Iterable[Document]) -> int:
    """Write ``corpus.jsonl`` and return the number of documents. Raises DataError when there is none."""
    count = 0
    with whole_file(path) as stream:
        for document in documents:
            count += 1
            record = {"_id": document.doc_id, "title": document.title, "text": document.text}
            stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        if not count:
            raise DataError(f"{path}: would have no document; expected files or rows with text in them.")
    return count


def write_questions(
    directory: Path, questions: Mapping[str, Mapping[str, str]], judgements: Mapping[str, Iterable[tuple[str, str]]]
) -> None:
    """Write ``queries.jsonl`` (split → query id → text) and ``qrels/{split}.tsv`` (split → query and document)."""
    with whole_file(directory / "queries.jsonl") as stream:
        for texts in questions.values():
            for query_id, text in texts.items():
                stream.write(json.dumps({"_id": query_id, "text": text}, ensure_ascii=False).encode() + b"\n")
    for split, pairs in judgements.items():
        lines = io.StringIO()
        rows = csv.writer(lines, delimiter="\t", lineterminator="\n")  # as BEIR writes them: ids with quotes are quoted
        rows.writerows([("query-id", "corpus-id", "score"), *((query_id, doc_id, 1) for query_id, doc_id in pairs)])
        with whole_file(directory / f"qrels/{split}.tsv") as stream:
            stream.write(lines.getvalue().encode())


def text_id(text: str) -> str:
    """An id that depends on the text alone."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
