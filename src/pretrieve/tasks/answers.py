"""Answers of questions, the file ``answers.parquet`` of a task, and when a passage contains one of them.

Open-domain question answering has no passage judged by hand. A passage is a hit when an answer occurs in its text, found in
one of two ways (facebookresearch/DPR@a31212d, ``dpr/data/qa_validation.py:175-213`` and ``dpr/utils/tokenizers.py:157-199``):

words (Natural Questions, TriviaQA, WebQuestions, SQuAD)
    1. Text and answer are brought to Unicode NFD, so that é is e and an accent however it was typed.
    2. Both are cut into words by ``[\\p{L}\\p{N}\\p{M}]+|[^\\p{Z}\\p{C}]``: a run of letters, digits and marks, or any one
       other character that is neither blank nor control. Punctuation counts: "U.S." is four words.
    3. Words are lower-cased one by one; articles, accents and punctuation stay.
    4. The passage is a hit when the answer's words stand in it one after another.

regular expressions (CuratedTREC)
    Each answer is a pattern of the ``regex`` package, in NFD, searched in the NFD text with IGNORECASE, UNICODE and
    MULTILINE. A pattern that does not compile matches nothing: three of the 694 of CuratedTREC's test set break when
    NFD takes ``\\é`` apart, so their questions are always misses, in the published numbers too.

What follows from these definitions and looks odd: the **title is not searched**; a whole run of Chinese characters is
one word, so 東京 is not found in 東京都; "1" is found in "1,000"; an answer without any word, such as "", is found
everywhere. Questions (not answers) have ’ replaced by ' before they are encoded (:func:`normalise_question`).

The task file ``answers.parquet`` has one row for each question:

==================== ==========================================================
query_id             string
answers              list<string>, one or more
regular_expressions  bool, whether the answers are patterns
==================== ==========================================================
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import regex

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import TableWriter, read_rows

SCHEMA = pa.schema([("query_id", pa.string()), ("answers", pa.list_(pa.string())), ("regular_expressions", pa.bool_())])

_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", flags=_FLAGS)


class Answers(NamedTuple):
    """The answers of one question; any of them will do."""

    texts: list[str]
    regular_expressions: bool = False


def normalise_question(text: str) -> str:
    """A question as DPR encodes it (``dpr/utils/data_utils.py:63``).

    >>> normalise_question("who’s the queen")
    "who's the queen"
    """
    return text.replace("’", "'")


def answer_words(text: str) -> list[str]:
    """The lower-cased words that are compared.

    >>> answer_words("The U.S., 1,000 times")
    ['the', 'u', '.', 's', '.', ',', '1', ',', '000', 'times']
    """
    return [word.lower() for word in _WORD.findall(unicodedata.normalize("NFD", text))]


class Passages:
    """Texts by document id, each brought to the compared form once, when it is first needed.

    ``source`` is the file they come from, for messages.
    """

    def __init__(self, texts: Mapping[str, str], source: Path | str = "passages") -> None:
        self.texts = dict(texts)
        self.source = source
        self._words: dict[str, str] = {}
        self._nfd: dict[str, str] = {}

    def _text(self, doc_id: str) -> str:
        try:
            return self.texts[doc_id]
        except KeyError:
            raise DataError(
                f"{self.source}: document '{doc_id}' of the run has no passage; expected every document. "
                "Search this corpus again."
            ) from None

    def words(self, doc_id: str) -> str:
        """The words of a passage, a blank on either side of each: no word has one, so ``in`` compares whole words."""
        if doc_id not in self._words:
            self._words[doc_id] = " " + "".join(f"{word} " for word in answer_words(self._text(doc_id)))
        return self._words[doc_id]

    def nfd(self, doc_id: str) -> str:
        """The text of a passage in Unicode NFD."""
        if doc_id not in self._nfd:
            self._nfd[doc_id] = unicodedata.normalize("NFD", self._text(doc_id))
        return self._nfd[doc_id]


@lru_cache(maxsize=100_000)
def _needle(answer: str) -> str:
    words = answer_words(answer)
    return f" {' '.join(words)} " if words else ""  # as in DPR, no words at all are found everywhere


@lru_cache(maxsize=100_000)
def _pattern(answer: str) -> regex.Pattern | None:
    try:
        return regex.compile(unicodedata.normalize("NFD", answer), flags=_FLAGS)
    except Exception:  # not only regex.error: what a broken pattern raises is not documented, and all are misses
        return None


def contains(passages: Passages, doc_id: str, answers: Answers) -> bool:
    """Whether a passage contains one of the answers.

    >>> [contains(Passages({"d": text}), "d", Answers(["Beyoncé"])) for text in ("sung by BEYONCE\\u0301.", "by Beyonce")]
    [True, False]
    """
    if not answers.regular_expressions:
        words = passages.words(doc_id)
        return any(_needle(answer) in words for answer in answers.texts)
    patterns = (_pattern(answer) for answer in answers.texts)
    return any(pattern is not None and pattern.search(passages.nfd(doc_id)) is not None for pattern in patterns)


def write_answers(path: Path | str, answers: Iterable[tuple[str, Answers]]) -> None:
    """Write ``answers.parquet`` from (query_id, answers); equal input gives equal bytes.

    Raises DataError when a question appears twice or has no answer, or an answer is not text; nothing is written then.
    """
    rows: dict[str, Answers] = {}
    for query_id, accepted in answers:
        _check(path, query_id, accepted.texts, query_id in rows)
        rows[query_id] = accepted
    with TableWriter(Path(path), SCHEMA) as writer:
        for query_id, accepted in rows.items():
            writer.append((query_id, accepted.texts, accepted.regular_expressions))


def read_answers(path: Path | str) -> dict[str, Answers]:
    """Read ``answers.parquet``, in file order.

    Raises DataError when the file is missing or damaged, a question appears twice or has no answer, or an answer is not text;
    file and question are named.
    """
    answers: dict[str, Answers] = {}
    for query_id, texts, regular_expressions in read_rows(Path(path), SCHEMA.names):
        _check(path, query_id, texts, query_id in answers)
        if regular_expressions is None:
            raise DataError(f"{path}: question '{query_id}' has no value in regular_expressions; expected a bool.")
        answers[query_id] = Answers(texts, regular_expressions)
    return answers


def _check(path: Path | str, query_id: str, texts: list[str] | None, known: bool) -> None:
    if known:
        raise DataError(f"{path}: question '{query_id}' appears twice; join its answers in one row.")
    if not texts:
        raise DataError(f"{path}: question '{query_id}' has no answer; expected one or more texts. Remove it.")
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise DataError(f"{path}: question '{query_id}' has the answer {wrong[0]!r}; expected text.")
