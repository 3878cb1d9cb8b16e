"""DPR's files as one collection: passages, training questions with negatives, and test questions with answers.

=========  ======================================================================================================
passages   ``psgs_w100.tsv``; without it the documents are the passages of the training files: a smaller collection
train      a training file: judged passages and negatives
dev, test  the same, or questions with answers (:mod:`pretrieve.benchmarks.official.open_qa`), told apart by what they begin with
=========  ======================================================================================================

``query_id`` is ``{split}-{number in its file}``. Every positive is judged relevant, in file order: the gold one, which DPR
trains on, is the first, and none of the others can be mined as a negative.

**``psgs_w100.tsv``** has the 21,015,324 passages of English Wikipedia that DPR and all that follow it search: tab-separated
with a header ``id text title`` (https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz; Karpukhin et al. 2020, §4.1:
articles cut into disjoint blocks of 100 words). Texts, and titles with a quote, are quoted by RFC 4180. Read without unquoting,
the file has the right number of fields and stray quotes in every text: nothing would tell.

After unquoting, the official loader also takes all quotes off both ends of the text (facebookresearch/DPR@a31212d,
``dpr/data/retriever_data.py``, ``CsvCtxSrc``), so that a passage that begins with a quotation loses the opening quote.
That text is what DPR embeds and searches; ``strip_quotes=False`` keeps the text as the file has it.

**Training files**, ``biencoder-{nq,trivia,squad1,webquestions,curatedtrec}-{train,dev}.json``, are one JSON array, packed 0.2 to
2 GB (https://github.com/facebookresearch/DPR, "Retriever input data format"), or JSON lines (its ``JsonlQADataset``), of objects
with ``question``, ``answers`` and three lists of passages with ``title``, ``text`` and the id in ``psgs_w100.tsv``, called
``passage_id`` (Natural Questions) or ``psg_id`` (TriviaQA, SQuAD):

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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.natural_questions import LONGEST
from pretrieve.benchmarks.official.open_qa import add_questions, question_files
from pretrieve.corpora.beir_documents import Document
from pretrieve.raw.json_file import first_character, read_json_array
from pretrieve.raw.raw_text import Form, Warnings, check_characters, read_columns, read_json_lines
from pretrieve.tasks.answers import normalise_question

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Passages of the whole file (Karpukhin et al. 2020, §4.1).
OFFICIAL_COUNT = 21_015_324
COLUMNS = ("id", "text", "title")
#: What the id of a passage is called in training files.
_ID_KEYS = ("passage_id", "psg_id")


def read_passages(path: Path | str, strip_quotes: bool, warnings: Warnings) -> Iterator[tuple[int, Document]]:
    """Line number and content of the passages of ``psgs_w100.tsv`` (packed or not) or a file in its format, streaming. Raises
    DataError for another header, another number of fields, quotes that do not fit, and an id that is blank."""
    form = Form(header=True, quoted=True)
    for number, (passage_id, text, title) in read_columns(path, COLUMNS, form, warnings=warnings):
        if not passage_id.strip():
            raise DataError(f"{path}: line {number}: id {passage_id!r}; expected the number of a passage.")
        yield number, Document(passage_id, title, text.strip('"') if strip_quotes else text)


class TrainingQuestion(NamedTuple):
    """A training question: ``positives`` with the gold one first, ``hard`` and ``random`` negatives in file order; the id of a
    passage is '' where the file has none."""

    text: str
    answers: list[str]
    positives: list[Document]
    hard: list[Document]
    random: list[Document]


def is_training(path: Path | str) -> bool:
    """Whether a file is a JSON array, or JSON lines the first of which has passages."""
    first = first_character(path)
    return first == "[" or (
        first == "{" and "positive_ctxs" in next(read_json_lines(path, label=None, longest=LONGEST))[1]
    )


def read_training(path: Path | str, warnings: Warnings) -> Iterator[tuple[int, TrainingQuestion]]:
    """Number in the file (from 0) and content of each training question that has a positive, streaming. Raises DataError for
    what is no array and no JSON lines, and an element without a question or with invalid passages."""
    lines = first_character(path) == "{"
    records = read_json_lines(path, warnings=warnings) if lines else read_json_array(path)
    for number, (place, record) in enumerate(records):
        where = f"{path}: {'line' if lines else 'element'} {place}"
        text = record.get("question") if isinstance(record, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: found {str(record)[:80]!r}; expected an object with a 'question'.")
        answers = record.get("answers", [])
        if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
            raise DataError(f"{where}: answers {str(answers)[:80]!r}; expected a list of texts.")
        question = TrainingQuestion(
            text.strip(),
            list(dict.fromkeys(answer for answer in answers if answer.strip())),
            _passages(where, record, "positive_ctxs"),
            _passages(where, record, "hard_negative_ctxs"),
            _passages(where, record, "negative_ctxs"),
        )
        passages = [*question.positives, *question.hard, *question.random]
        check_characters(where, "".join([question.text, *question.answers, *chain.from_iterable(passages)]))
        if question.positives:
            yield number, question
        else:
            warnings.add("training question without a positive passage", where)


def _passages(where: str, record: dict[str, Any], key: str) -> list[Document]:
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
        passages.append(Document(passage_id.strip(), str(entry.get("title") or ""), entry["text"]))
    return passages


def read_dpr(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    negatives: str = "hard",
    strip_quotes: bool = True,
    regular_expressions: bool = False,
    official: bool = True,
) -> None:
    """Write the collection.

    files: ``passages``, ``train``, ``dev``, ``test``, each optional; documents come from ``passages`` or else from training
    files; negatives: which passages go to ``negatives.parquet``: ``hard`` ones, ``all`` (hard ones first, then random ones)
    or ``none``; strip_quotes: see :func:`read_passages`; regular_expressions: whether answers are patterns, as those of
    CuratedTREC are; official: ``passages`` must have as many as the whole file that the authors ship.

    Raises DataError when a file is damaged, or nothing gives a document.
    """
    splits = question_files(files)
    writer.variant = "passages of the training files only"
    training = {split: path for split, path in splits.items() if is_training(path)}
    if "passages" in files:
        writer.variant = "psgs_w100, quotes stripped from both ends of texts" if strip_quotes else "psgs_w100"
        if official:
            writer.expected["documents"] = OFFICIAL_COUNT
        for line, passage in read_passages(files["passages"], strip_quotes, writer.warnings):
            writer.at(files["passages"], line)
            writer.add_document(*passage)
    elif not training:
        raise DataError("DPR: no passages; expected psgs_w100.tsv as 'passages', or a training file.")
    own = _Training(writer, negatives, "passages" not in files, regular_expressions)
    if own.documents:
        own.add_documents(training.values())
    for split, path in splits.items():
        if split in training:
            own.add_questions(path, split)
        else:
            add_questions(path, split, writer, regular_expressions)


@dataclass(frozen=True)
class _Training:
    """Puts training files into the collection; ``documents``: the collection's documents are their passages."""

    writer: CollectionWriter
    negatives: str
    documents: bool
    regular_expressions: bool

    def chosen(self, question: TrainingQuestion) -> list[Document]:
        """The negatives that are kept."""
        if self.negatives == "none":
            return []
        return question.hard if self.negatives == "hard" else [*question.hard, *question.random]

    def document_id(self, passage: Document) -> str:
        """The passage's id; where the passages are the documents, one without an id is named by its content."""
        if passage.doc_id or not self.documents:
            return passage.doc_id
        return blake2b(f"{passage.title}\0{passage.text}".encode(), digest_size=8).hexdigest()

    def add_documents(self, paths: Iterable[Path]) -> None:
        """The passages of the files, each once, as it stands in the first place."""
        seen: set[str] = set()
        for path in paths:
            self.writer.at(path)
            for _, question in read_training(path, Warnings()):  # they are counted with the questions
                for passage in (*question.positives, *self.chosen(question)):
                    name = self.document_id(passage)
                    if name not in seen:
                        seen.add(name)
                        self.writer.add_document(name, passage.title, passage.text)

    def add_questions(self, path: Path, split: str) -> None:
        """The questions of a file with judgements, negatives and answers."""
        self.writer.at(path)
        for number, question in read_training(path, self.writer.warnings):
            query_id, where = f"{split}-{number}", f"{path}: element {number}"
            positives = self._ids(question.positives, where)
            if not positives:
                self.writer.warnings.add("training question whose positives have no id", where)
                continue
            self.writer.add_query(query_id, normalise_question(question.text), split)
            for doc_id in positives:
                self.writer.add_judgement(query_id, doc_id, 1, split)
            for doc_id in self._ids(self.chosen(question), where):
                if doc_id not in positives:
                    self.writer.add_negative(query_id, doc_id)
            if question.answers:
                self.writer.add_answers(query_id, question.answers, self.regular_expressions)

    def _ids(self, passages: list[Document], where: str) -> dict[str, None]:
        """The document ids of passages, each once, in order; a passage without one is counted and omitted."""
        found: dict[str, None] = {}
        for passage in passages:
            if name := self.document_id(passage):
                found[name] = None
            else:
                self.writer.warnings.add("training passage without an id", where)
        return found
