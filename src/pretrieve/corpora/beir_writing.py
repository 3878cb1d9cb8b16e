"""BEIR's layout, written: ``corpus.jsonl`` of a folder of texts, and a whole small data set to try things on.

Layout: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset; read by :mod:`pretrieve.benchmarks.official.beir`
and, to pre-train on, by :mod:`pretrieve.corpora.beir_documents`, which takes lines ``## …`` in a text for the headings of
sections.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import whole_file
from pretrieve.corpora.builder import Article
from pretrieve.corpora.folder import SUFFIXES, read_files
from pretrieve.corpora.plain_text import passed_over
from pretrieve.corpora.wikitext import Section
from pretrieve.raw.raw_text import Warnings

#: What a document is: a whole file, or each of its sections.
DOCUMENTS = ("files", "sections")


class Document(NamedTuple):
    """A line of ``corpus.jsonl``."""

    doc_id: str
    title: str
    text: str


def folder_documents(folder: Path, documents: str, warnings: Warnings) -> Iterator[Document]:
    """The documents of a folder of texts, or of one file (:mod:`pretrieve.corpora.folder`).

    ``documents``: ``files``: id is the file's name within the folder, sections stand in the text under their headings.
    ``sections``: one document each, id ``name#2``, title ``Title: Heading``; for files that are longer than what a model
    reads. A page of a PDF is a section. Files of other kinds are counted in ``warnings``, but for BEIR's own.

    Raises ConfigError for another word, and what the reader raises.
    """
    if documents not in DOCUMENTS:
        raise ConfigError(f"documents {documents!r} is not allowed; allowed: {', '.join(DOCUMENTS)}.")
    for file, article in read_files([folder], warnings):
        yield from _of_file(file.as_posix(), article, documents)
    for file in passed_over(folder, SUFFIXES):
        if file.parts[0] != "qrels" and not file.name.startswith(("corpus.jsonl", "queries.jsonl")):
            warnings.add(f"no {', '.join(SUFFIXES)} file, passed over", str(folder / file))


def _of_file(name: str, article: Article, documents: str) -> Iterator[Document]:
    sections = [section for section in article.sections if section.paragraphs]
    if documents == "files":
        yield Document(name, article.title, "\n\n".join(map(_with_heading, sections)))
        return
    for number, section in enumerate(sections, start=1):
        title = f"{article.title}: {section.heading}" if section.heading else article.title
        yield Document(f"{name}#{number}", title, _text(section))


def _text(section: Section) -> str:
    return "\n\n".join(paragraph.text for paragraph in section.paragraphs)


def _with_heading(section: Section) -> str:
    head = f"{'#' * max(2, section.level)} {section.heading}\n\n" if section.heading else ""
    return head + _text(section)


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
        with whole_file(directory / f"qrels/{split}.tsv") as stream:
            stream.write(b"query-id\tcorpus-id\tscore\n")
            for query_id, doc_id in pairs:
                stream.write(f"{query_id}\t{doc_id}\t1\n".encode())


def text_id(text: str) -> str:
    """An id that depends on the text alone."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
