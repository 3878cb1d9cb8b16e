"""Natural Questions: questions to a search engine with a long and a short answer on a page of Wikipedia.

One JSON object a line (Kwiatkowski et al. 2019; https://github.com/google-research-datasets/natural-questions), in two forms:

simplified (``v1.0-simplified_simplified-nq-train.jsonl.gz``, train only)
    ``document_text``: tokens separated by one blank each (``text_utils.py`` there: never split at other white space),
    tags among them; ``document_url``, whose parameter ``title`` names the page.
original (``nq-train-??.jsonl.gz``, ``nq-dev-??.jsonl.gz``)
    ``document_html`` and ``document_tokens`` (``token``, ``html_token``, offsets in bytes), ``document_title``.

Both have ``example_id``, ``question_text``, ``long_answer_candidates`` and ``annotations`` (one in train, five in dev):
``long_answer`` and ``short_answers`` with ``start_token`` and ``end_token``, the end exclusive; -1 is not an answer.

**As ReQA** (paper ``pretraining_tasks`` §4.1). The paper does not say how; it follows Ahmad et al. 2019, whose conversion
is public (google/retrieval-qa-eval, ``nq_to_squad.py``). From each record it makes one question with one paragraph, if the
first annotation has **exactly one short answer** and a long answer that is a **paragraph** (``<P>``); the paragraph without
tags is the context. In the simplified form tokens are joined by a blank ("strings , and"), so counts of sentences and words
differ a little from the original form, where the white space of the page is kept.

**As open QA** (Lee et al. 2019; google-research/language, ``orqa/preprocessing/convert_to_nq_open.py``): a question with
every short answer of at most **five tokens**, HTML tags included, of all annotations; entities are resolved (``A&amp;M`` is A&M,
as BeautifulSoup reads it there); one without such an answer is omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.squad_json import Answer, Paragraph, Question
from pretrieve.benchmarks.official.squad_reqa import DRAWN, Source, build_reqa
from pretrieve.corpora.wikitext import unescaped
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.tasks.splits import Target

#: Tokens of the longest short answer of NQ-open.
OPEN_ANSWER_TOKENS = 5
#: Bytes of the longest line: one is a whole page.
LONGEST = 256 << 20

_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*(?:_[^>]*)?/?>")
_SPACE = re.compile(r"\s")
_KEYS = ("question_text", "annotations")


class _Page:
    """The tokens of a record's page, in either form."""

    def __init__(self, record: dict[str, Any], where: str) -> None:
        self.where = where
        self.simplified = isinstance(record.get("document_text"), str)
        if self.simplified:
            self.tokens = record["document_text"].split(" ")
        elif isinstance(record.get("document_html"), str) and isinstance(record.get("document_tokens"), list):
            self.tokens = record["document_tokens"]
            self._bytes = record["document_html"].encode()
        else:
            raise DataError(
                f"{where}: no page; expected 'document_text' (simplified form), or 'document_html' and 'document_tokens'."
            )

    def tag(self, place: int) -> str:
        """The token at ``place`` when it is a tag, else ''."""
        token = self.tokens[place]
        if self.simplified:
            return token if _TAG.fullmatch(token) else ""
        try:
            tag = token["token"] if token["html_token"] else ""
        except (KeyError, TypeError):
            raise self._fault(place) from None
        if not isinstance(tag, str):
            raise self._fault(place)
        return tag

    def words(self, start: int, end: int) -> list[int]:
        """Places of the tokens of a span that are no tags."""
        return [place for place in range(start, end) if not self.tag(place)]

    def text(self, start: int, end: int) -> tuple[str, dict[int, int]]:
        """The text of a span without tags, and the character at which each of its tokens begins in it."""
        text, begin, last = "", {}, None
        for place in self.words(start, end):
            if last is not None and self._apart(last, place):
                text += " "
            begin[place] = len(text)
            word = self.tokens[place] if self.simplified else self.tokens[place].get("token")
            if not isinstance(word, str):
                raise self._fault(place)
            text += word
            last = place
        return text, begin

    def _apart(self, left: int, right: int) -> bool:
        """Whether white space stands between two tokens, outside of tags."""
        if self.simplified:
            return True
        begin, end = self.tokens[left].get("end_byte"), self.tokens[right].get("start_byte")
        for place, byte in ((left, begin), (right, end)):
            if not isinstance(byte, int) or not 0 <= byte <= len(self._bytes):
                raise self._fault(place)
        try:
            between = self._bytes[begin:end].decode()
        except UnicodeDecodeError:
            raise DataError(
                f"{self.where}: bytes {begin:,} to {end:,} of document_html, between the tokens {left:,} and {right:,}, begin "
                "or end within a character; expected the offsets of this page."
            ) from None
        return _SPACE.search(re.sub(r"<[^>]*>", "", between)) is not None

    def _fault(self, place: int) -> DataError:
        return DataError(
            f"{self.where}: token {place:,} is {str(self.tokens[place])[:80]!r}; expected an object with 'token' (text), "
            f"'html_token', and 'start_byte' and 'end_byte' within the {len(self._bytes):,} bytes of 'document_html'."
        )

    def span(self, entry: Any) -> tuple[int, int]:
        """Start and end token of an answer."""
        try:
            start, end = int(entry["start_token"]), int(entry["end_token"])
        except (TypeError, KeyError, ValueError, OverflowError):
            raise DataError(
                f"{self.where}: answer {str(entry)[:80]!r}; expected 'start_token' and 'end_token', whole numbers."
            ) from None
        if not (start == -1 or 0 <= start < end <= len(self.tokens)):
            raise DataError(
                f"{self.where}: answer of tokens {start} to {end}; the page has {len(self.tokens):,} tokens."
            )
        return start, end


def _annotations(record: dict[str, Any], where: str) -> list[dict[str, Any]]:
    annotations = record["annotations"]
    if not isinstance(annotations, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("short_answers"), list) and "long_answer" in entry
        for entry in annotations
    ):
        raise DataError(
            f"{where}: annotations without 'long_answer' and 'short_answers'; expected a list of such objects."
        )
    return annotations


def page_title(record: dict[str, Any]) -> str:
    """The title of a record's page, '' when neither the record nor its address has one.

    >>> page_title({"document_url": "https://en.wikipedia.org//w/index.php?title=Email_marketing&amp;oldid=814071202"})
    'Email marketing'
    """
    if record.get("document_title"):
        return str(record["document_title"])
    address = unescaped(str(record.get("document_url", "")))
    try:
        titles = parse_qs(urlsplit(address).query).get("title") or [""]
    except ValueError:  # no address, such as one with a single bracket
        return ""
    return titles[0].replace("_", " ").strip()


def read_paragraphs(path: Path | str, warnings: Warnings) -> Iterator[Paragraph]:
    """The paragraphs of the ReQA task, one question each, in file order and constant memory. Records that the conversion omits
    are counted in ``warnings`` by their reason.

    Raises DataError for a record without question, page or annotations, and a span outside of the page.
    """
    for number, record in read_json_lines(path, [*_KEYS, "example_id"], warnings=warnings, longest=LONGEST):
        where = f"{path}: line {number}"
        paragraph = _paragraph(record, where)
        if isinstance(paragraph, str):
            warnings.add(paragraph, f"{path}, line {number}")
        else:
            yield paragraph


def _paragraph(record: dict[str, Any], where: str) -> Paragraph | str:
    """The question of a record with its paragraph, or why it has none."""
    annotations = _annotations(record, where)
    if not annotations or len(annotations[0]["short_answers"]) != 1:
        return "not exactly one short answer"
    page = _Page(record, where)
    start, end = page.span(annotations[0]["long_answer"])
    if start < 0:
        return "no long answer"
    if page.tag(start).upper() != "<P>":
        return "the long answer is no paragraph"
    context, begin = page.text(start, end)
    first, last = page.span(annotations[0]["short_answers"][0])
    words = page.words(first, last) if first >= 0 else []
    if not words or words[0] not in begin:
        return "the short answer is not in the paragraph"
    text = page.text(first, last)[0]
    if not text.strip():
        return "the short answer is blank"
    question = _question(record, where)
    answer = Answer(text, begin[words[0]])
    return Paragraph(page_title(record), context, [Question(str(record["example_id"]), question, (answer,))])


def _question(record: dict[str, Any], where: str) -> str:
    text = record["question_text"]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: question_text {text!r}; expected text.")
    return text.strip()


def build_natural_questions(
    file: Path,
    target: Target,
    warnings: Warnings,
    corpus: Path | None = None,
    max_extra: int | None = None,
    articles: bool = False,
    sentences: bool = False,
) -> dict[str, Any]:
    """Write the ReQA task of one file, whose questions are drawn into train, dev and test, and return its statistics: see
    :func:`~pretrieve.benchmarks.official.squad_reqa.build_reqa`. The paper uses the training file.

    Raises DataError as :func:`read_paragraphs`, or when no record can be used, and ConfigError when a size cannot be drawn.
    """
    source = Source(DRAWN, str(file), read_paragraphs(file, warnings))
    return build_reqa([source], target, corpus, max_extra, articles, sentences)


def open_question(record: dict[str, Any], where: str) -> tuple[str, list[str]] | None:
    """The question of a record and its short answers of at most five tokens; None without any. ``where`` is in front of
    messages."""
    spans = [entry for annotation in _annotations(record, where) for entry in annotation["short_answers"]]
    if not spans:
        return None
    page = _Page(record, where)
    answers: dict[str, None] = {}
    for start, end in map(page.span, spans):
        if start >= 0 and end - start <= OPEN_ANSWER_TOKENS and (text := page.text(start, end)[0]):
            answers[unescaped(text)] = None
    return (_question(record, where), list(answers)) if answers else None
