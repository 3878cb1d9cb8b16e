"""Hits@k of open-domain question answering: does one of the first k passages contain an answer?

No passage is judged by hand. A passage is a hit when an answer occurs in its text, found in one of two ways
(facebookresearch/DPR@a31212d, ``dpr/data/qa_validation.py:175-213`` and ``dpr/utils/tokenizers.py:157-199``):

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

    hits@k(q) = 1 if any of the first k passages of q is a hit, else 0

The task file ``answers.parquet`` has one row for each question:

==================== ==========================================================
query_id             string
answers              list<string>, one or more
regular_expressions  bool, whether the answers are patterns
==================== ==========================================================
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import regex

from pretrieve.corpora.tables import TableWriter, read_table
from pretrieve.errors import ConfigError, DataError
from pretrieve.retrieval.run import Run

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


def has_answer(answers: Answers, text: str) -> bool:
    """Whether the text of a passage contains one of the answers.

    >>> has_answer(Answers(["Beyoncé"]), "sung by BEYONCE\\u0301."), has_answer(Answers(["Beyoncé"]), "by Beyonce")
    (True, False)
    """
    return _found(answers, Passages({"": text}), "")


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


def _found(answers: Answers, passages: Passages, doc_id: str) -> bool:
    if not answers.regular_expressions:
        words = passages.words(doc_id)
        return any(_needle(answer) in words for answer in answers.texts)
    patterns = (_pattern(answer) for answer in answers.texts)
    return any(pattern is not None and pattern.search(passages.nfd(doc_id)) is not None for pattern in patterns)


def hits_at(
    run: Run,
    answers: Mapping[str, Answers],
    passages: Passages | Mapping[str, str],
    cuts: Sequence[int],
) -> dict[int, dict[str, int]]:
    """``hits[k][query_id]``, 0 or 1, for every question of ``answers`` and in its order.

    A question that is missing from the run, or has no hits there, counts 0; one that only the run has is left out.
    Each passage is cut into words at most once, and none behind the first hit of its question.

    Raises
    ------
    ConfigError
        when a cut is below 1 or there is none.
    DataError
        when a document of the run has no passage.
    """
    if not cuts or min(cuts) < 1:
        raise ConfigError(f"hits@k for k in {list(cuts)}; expected one or more cuts of at least 1, such as 20.")
    if not isinstance(passages, Passages):
        passages = Passages(passages)
    ranked = dict(zip(run.query_ids, run.doc_ids, strict=True))
    first = {}
    for query_id, accepted in answers.items():
        hits = ranked.get(query_id, [])[: max(cuts)]
        first[query_id] = next((rank for rank, doc in enumerate(hits, 1) if _found(accepted, passages, doc)), None)
    return {cut: {q: int(rank is not None and rank <= cut) for q, rank in first.items()} for cut in cuts}


class TaskAnswers:
    """``answers.parquet`` and the passages of ``corpus.parquet`` of a task's directory, read when first needed.

    Passages are kept between runs, so an evaluation of several runs reads and cuts each of them once.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._answers: dict[str, Answers] | None = None
        self._passages = Passages({}, self.directory / "corpus.parquet")

    def hits(self, run: Run, query_ids: Collection[str], cuts: Sequence[int]) -> dict[int, dict[str, int]]:
        """:func:`hits_at` for ``query_ids``.

        Raises
        ------
        DataError
            when a file is missing or damaged, a question has no row in ``answers.parquet``, or a document of the run
            none in ``corpus.parquet``; file and id are named.
        """
        path = self.directory / "answers.parquet"
        if self._answers is None:
            if not path.is_file():
                raise DataError(
                    f"{path}: no such file, and hits@{min(cuts)} needs it: it has the answers of each question. "
                    "Write it with the task, or leave hits out of the metrics."
                )
            self._answers = read_answers(path)
        missing = [query_id for query_id in query_ids if query_id not in self._answers]
        if missing:
            raise DataError(
                f"{path}: {len(missing)} of {len(query_ids)} questions have no answers, the first is '{missing[0]}'; "
                "expected a row for every test question."
            )
        asked = {query_id: self._answers[query_id] for query_id in query_ids}
        wanted = {
            doc_id
            for query_id, doc_ids in zip(run.query_ids, run.doc_ids, strict=True)
            if query_id in asked
            for doc_id in doc_ids[: max(cuts)]
        }
        self._passages.texts.update(read_passages(self._passages.source, wanted - self._passages.texts.keys()))
        return hits_at(run, asked, self._passages, cuts)


def read_passages(path: Path, doc_ids: Collection[str]) -> dict[str, str]:
    """The texts, without titles, of ``doc_ids`` from a task's ``corpus.parquet``, row group by row group.

    Ids that the file lacks are left out. A missing or damaged file is a DataError.
    """
    if not doc_ids:
        return {}
    try:
        file = pq.ParquetFile(path)
        complete = {"doc_id", "passage"} <= set(file.schema_arrow.names)
    except (OSError, pa.ArrowInvalid):
        complete = False
    if not complete:
        read_table(path, ["doc_id", "passage"])  # says in one line what is wrong
    wanted = pa.array(sorted(doc_ids), type=pa.string())
    found: dict[str, str] = {}
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["doc_id"])["doc_id"]
        chosen = pc.is_in(ids, value_set=wanted)
        if pc.any(chosen).as_py():
            texts = file.read_row_group(group, columns=["passage"])["passage"]
            found.update(zip(ids.filter(chosen).to_pylist(), texts.filter(chosen).to_pylist(), strict=True))
    return found


def write_answers(path: Path | str, answers: Iterable[tuple[str, Answers]]) -> None:
    """Write ``answers.parquet`` from (query_id, answers); equal input gives equal bytes.

    Raises
    ------
    DataError
        when a question comes twice or has no answer, or an answer is no text; nothing is written then.
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

    Raises
    ------
    DataError
        when the file is missing or damaged, a question comes twice or has no answer, or an answer is no text; file
        and question are named.
    """
    table = read_table(Path(path), list(SCHEMA.names))
    answers: dict[str, Answers] = {}
    columns = (table[name].to_pylist() for name in SCHEMA.names)
    for query_id, texts, regular_expressions in zip(*columns, strict=True):
        _check(path, query_id, texts, query_id in answers)
        if regular_expressions is None:
            raise DataError(f"{path}: question '{query_id}' has no value in regular_expressions; expected a bool.")
        answers[query_id] = Answers(texts, regular_expressions)
    return answers


def _check(path: Path | str, query_id: str, texts: list[str] | None, known: bool) -> None:
    if known:
        raise DataError(f"{path}: question '{query_id}' comes twice; join its answers in one row.")
    if not texts:
        raise DataError(f"{path}: question '{query_id}' has no answer; expected one or more texts. Leave it out.")
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise DataError(f"{path}: question '{query_id}' has the answer {wrong[0]!r}; expected text.")
