"""FanOutQA as page retrieval: which article of the encyclopaedia does a question need?

FanOutQA (Zhu et al. 2024, CC BY-SA 4.0; the data come with the package ``fanoutqa``) has two files, each a JSON list:

* dev: questions taken apart by hand, ``{"id", "question", "decomposition": [...]}``, recursively; a leaf (empty
  ``decomposition``) is a simple question with the page that answers it, ``"evidence": {"title", ...}``;
* test: ``{"id", "question", "necessary_evidence": [{"title", ...}, ...]}``, all pages that the question needs.

Leaves give one relevant page each, test questions several. Pages that the corpus lacks are omitted, and so are
questions that keep none. No question is for training: every one is ``test``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.descriptions import passages_of
from pretrieve.corpora.tables import read_rows, titles_of
from pretrieve.corpora.wikitext import article_title
from pretrieve.raw.json_file import read_json
from pretrieve.tasks.splits import Target, all_test
from pretrieve.tasks.task import Judgement, TaskContents, write_task


class PageQuestion(NamedTuple):
    """A question and the titles of the pages that answer it."""

    id: str
    text: str
    titles: list[str]


def read_fanoutqa(path: Path) -> list[PageQuestion]:
    """Questions of a dev file (its leaves) or a test file, in file order. Raises DataError for what is no list of questions,
    naming the file and the question."""
    entries = read_json(path, "a FanOutQA dev or test file")
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{path}: holds {str(entries)[:60]!r}, expected a list of FanOutQA questions.")
    return [
        question for number, entry in enumerate(entries) for question in _questions(path, f"question {number}", entry)
    ]


def _questions(path: Path, where: str, entry: Any) -> Iterator[PageQuestion]:
    if not isinstance(entry, dict) or not all(
        isinstance(entry.get(key), str) and entry[key].strip() for key in ("id", "question")
    ):
        raise DataError(f"{path}: {where}: expected an object with 'id' and 'question', found {str(entry)[:80]!r}.")
    where = f"question '{entry['id']}'"
    if "necessary_evidence" in entry:
        evidence = entry["necessary_evidence"]
    elif parts := entry.get("decomposition"):
        if not isinstance(parts, list):
            raise DataError(f"{path}: {where}: decomposition {str(parts)[:80]!r}; expected a list of questions.")
        for part in parts:
            yield from _questions(path, f"{where}, part", part)
        return
    else:
        evidence = [entry.get("evidence")]
    try:
        titles = [page["title"] for page in evidence]
        if not all(isinstance(title, str) for title in titles):
            raise TypeError
    except (TypeError, KeyError):
        raise DataError(
            f"{path}: {where}: expected pages with a 'title' in 'evidence' (dev) or 'necessary_evidence' (test), found "
            f"{str(evidence)[:80]!r}."
        ) from None
    yield PageQuestion(entry["id"], entry["question"].strip(), titles)


def _first_passages(corpus: Path, contents: TaskContents) -> dict[int, str]:
    """Add one candidate for each article, its lead or else the first passage of its first section; article → doc id."""
    first_section: dict[int, int] = {}
    for section, article in read_rows(corpus / "sections.parquet", ["section_id", "article_id"]):
        first_section.setdefault(article, section)
    wanted: dict[int, int] = {}  # a lead stands first in the first section, so one rule serves both
    for passage, section, article in read_rows(corpus / "passages.parquet", ["passage_id", "section_id", "article_id"]):
        if section == first_section[article]:
            wanted.setdefault(article, passage)
    doc_of: dict[int, str] = {}
    for passage_id, article_id, _, passage in passages_of(corpus):
        if wanted.get(article_id) == passage_id:
            doc_of[article_id] = str(passage_id)
            contents.add_candidates(doc_of[article_id], passage)
    return doc_of


def build_fanoutqa(questions: Path, corpus: Path, target: Target) -> dict[str, Any]:
    """Write the page-retrieval task of one FanOutQA file and return its statistics. A candidate is the first passage of an
    article; ``doc_id`` is its passage id in the corpus. Titles match as they are or as MediaWiki normalises them. Questions in
    the same words are one query, with the pages of all of them.

    Raises DataError when a file is damaged or no page that a question needs is in the corpus.
    """
    titles = titles_of(corpus)
    contents = TaskContents()
    doc_of = _first_passages(corpus, contents)
    article_of = {title: article for article, title in enumerate(titles) if article in doc_of}
    for title, article in list(article_of.items()):
        article_of.setdefault(article_title(title), article)
    judged: dict[Judgement, None] = {}
    for question in read_fanoutqa(questions):
        named = (article_of.get(title, article_of.get(article_title(title))) for title in question.titles)
        found = [article for article in named if article is not None]
        if not found:
            continue
        query_id = contents.add_question(question.id, question.text)
        judged |= dict.fromkeys(Judgement(query_id, doc_of[article]) for article in found)
    if not judged:
        raise DataError(f"{questions}: none of the pages it names is among the {len(titles)} articles of {corpus}.")
    contents.judgements = list(judged)
    contents.splits = all_test([query.query_id for query in contents.queries], target.sizes)
    return write_task(target.out, contents, target.tokenizer)
