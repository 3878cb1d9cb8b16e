"""MultiReQA: retrieve the sentence that answers a question, with the sentence boundaries its authors publish.

MultiReQA (Guo et al. 2021) redistributes no texts. A task needs two files of one split and one data set:

``candidates.json.gz``, https://github.com/google-research-datasets/MultiReQA
    JSON lines ``{"candidate_id": "SQuAD_<qid>/<qid>/…/_<n>", "response_start", "response_end"}``: sentence n of the
    context of these questions, as characters of that context, the end exclusive. HotpotQA numbers paragraphs and their
    sentences, ``_0_1``. The lines of a context are sorted as strings (``_1``, ``_10``, ``_2``). Sentences may be missing: half
    of the contexts of Natural Questions lack some.
``{SQuAD,NaturalQuestions,…}.jsonl.gz``, https://github.com/mrqa/MRQA-Shared-Task-2019
    a header, then one context a line with ``qas``: ``qid``, ``question``, ``detected_answers`` with ``char_spans``, whose
    end is **inclusive**, unlike that of the candidates.

A candidate is the pair (sentence, context), or with ``context: false`` its sentence alone: in paper ``dual_encoders`` §4 "the
answer candidates are individual sentences". Relevant are the candidates in which a detected answer begins; a question that is
blank, or none of whose answers begins in a candidate, is omitted and counted. An encoder of pairs reads the whole context.

Counts of candidates in the README there agree with the dev files; ``train/SQuAD`` has 95,659, the README says 87,133, and
``test/TextbookQA`` 71,147, the README says 3,701.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.tasks.answers import Answers
from pretrieve.tasks.splits import Target, all_test, draw_pools, make_splits
from pretrieve.tasks.task import Candidate, Judgement, Passage, TaskContents, write_task

#: Kind of the warning for a question without words: all of them would be one query, with the answers of each.
BLANK = "blank question left out"
#: A candidate's id; its group holds the questions. No context has a number of ten digits.
_ID = re.compile(r"[^_]*_(.+)/(?:_[0-9]{1,9})+")


class SentenceCandidate(NamedTuple):
    """A sentence of the context of ``questions``: its characters ``start`` to ``end`` (exclusive)."""

    id: str
    questions: list[str]
    start: int
    end: int


class MrqaQuestion(NamedTuple):
    """A question of a context, and where its detected answers begin."""

    id: str
    text: str
    answers: list[str]
    starts: list[int]


def read_candidates(path: Path | str) -> Iterator[SentenceCandidate]:
    """The candidates of a file, in file order. Raises DataError for an invalid id or offsets."""
    for line, record in read_json_lines(path, ["candidate_id", "response_start", "response_end"]):
        name, start, end = record["candidate_id"], record["response_start"], record["response_end"]
        found = _ID.fullmatch(str(name))
        if found is None:
            raise DataError(f"{path}: line {line}: candidate_id {name!r}; expected DATASET_QID/QID/…/_NUMBER.")
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end):
            raise DataError(
                f"{path}: line {line}: candidate '{name}' is characters {start!r} to {end!r}; expected a start below the end."
            )
        yield SentenceCandidate(name, found[1].split("/"), start, end)


def read_mrqa(path: Path | str) -> Iterator[tuple[int, str, list[MrqaQuestion]]]:
    """Line, context and questions of each line of an MRQA file but the header; a question's text may be blank.

    Raises DataError for a context, question or answer that lacks a part, an answer that is not text, or one outside of its
    context.
    """
    for line, record in read_json_lines(path):
        if "header" in record:
            continue
        where = f"{path}: line {line}"
        context, entries = record.get("context"), record.get("qas")
        if not isinstance(context, str) or not isinstance(entries, list):
            raise DataError(f"{where}: no 'context' with 'qas'; expected a line of an MRQA file: {str(record)[:80]}")
        yield line, context, [_question(where, context, entry) for entry in entries]


def _question(where: str, context: str, entry: Any) -> MrqaQuestion:
    try:
        spans = [
            (answer["text"], int(start), int(end))
            for answer in entry["detected_answers"]
            for start, end in answer["char_spans"]
        ]
        qid, question = str(entry["qid"]), entry["question"].strip()
    except (TypeError, KeyError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(
            f"{where}: question {str(entry)[:80]!r} ({error!r}); expected 'qid', 'question' and "
            "'detected_answers' with 'char_spans'."
        ) from None
    for text, start, end in spans:
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{where}: question '{qid}': answer {str(text)[:80]!r}; expected text.")
        if not 0 <= start <= end < len(context):
            raise DataError(
                f"{where}: question '{qid}': answer at characters {start} to {end}; the context has {len(context)}."
            )
    return MrqaQuestion(qid, question, list(dict.fromkeys(span[0] for span in spans)), [start for _, start, _ in spans])


def _spans(where: str, context: str, candidates: list[SentenceCandidate]) -> tuple[list[tuple[int, int]], list[int]]:
    """Spans that hold all of a context, and which of them each candidate is. What lies between candidates is a span of its own
    when it is more than white space."""
    spans: list[tuple[int, int]] = []
    index, reached = [], 0

    def fill(start: int, end: int) -> None:
        text = context[start:end]
        if text.strip():
            begin = start + len(text) - len(text.lstrip())
            spans.append((begin, begin + len(text.strip())))

    for candidate in candidates:
        if candidate.start < reached or candidate.end > len(context):
            raise DataError(
                f"{where}: candidate '{candidate.id}' is characters {candidate.start} to {candidate.end}; expected none before "
                f"{reached} and at most {len(context)}: the candidates are those of other texts."
            )
        fill(reached, candidate.start)
        index.append(len(spans))
        spans.append((candidate.start, candidate.end))
        reached = candidate.end
    fill(reached, len(context))
    return spans, index


def build_multireqa(
    candidates: Path, texts: Path, target: Target, warnings: Warnings, role: str = "test", context: bool = True
) -> dict[str, Any]:
    """Write the task of one split of one data set and return its statistics; answers go to ``answers.parquet``. ``doc_id`` is the
    candidate's id. Questions in the same words are one query.

    role: ``test`` makes every question test, as the benchmark's dev files are used; ``train`` lets every question train, as its
    train files; ``draw`` draws train, dev and test from one split. context: whether a candidate has that of its sentence.

    Raises DataError when a file is damaged, or the two do not belong together, and ConfigError when a size cannot be drawn.
    """
    of_question: dict[str, list[SentenceCandidate]] = {}
    for candidate in read_candidates(candidates):
        of_question.setdefault(candidate.questions[0], []).append(candidate)
    contents = TaskContents()
    judged: dict[Judgement, None] = {}
    answers: dict[str, dict[str, None]] = {}
    for line, text, questions in read_mrqa(texts):
        where = f"{texts}: line {line}"
        own = [candidate for question in questions for candidate in of_question.pop(question.id, [])]
        own.sort(key=lambda candidate: candidate.start)
        spans, index = _spans(where, text, own)
        if not context:
            for candidate in own:
                sentence = text[candidate.start : candidate.end]
                contents.add_candidates(candidate.id, Passage("", sentence, [(0, len(sentence))]))
        elif own:
            number = len(contents.passages)
            contents.passages.append(Passage("", text, spans))
            contents.candidates += [Candidate(c.id, number, i) for c, i in zip(own, index, strict=True)]
        for question in questions:
            if not question.text:
                warnings.add(BLANK, f"{where}, question '{question.id}'")
                continue
            gold = [c.id for start in question.starts for c in own if c.start <= start < c.end]
            if not gold:
                warnings.add("question whose answer begins in no candidate", f"{where}, question '{question.id}'")
                continue
            query_id = contents.add_question(question.id, question.text)
            judged |= dict.fromkeys(Judgement(query_id, doc_id) for doc_id in gold)
            answers.setdefault(query_id, {}).update(dict.fromkeys(question.answers))
    if of_question:
        raise DataError(
            f"{candidates}: question '{next(iter(of_question))}' and {len(of_question) - 1} more are not in {texts}; expected "
            "the MRQA file of the same data set and split."
        )
    if not contents.queries:
        raise DataError(
            f"{texts}: no question that can be used; expected one whose answer begins in a candidate of {candidates}."
            + "".join(f" {line}." for line in warnings.summary().splitlines())
        )
    contents.judgements = list(judged)
    query_ids = [query.query_id for query in contents.queries]
    if role == "test":
        contents.splits = all_test(query_ids, target.sizes)
    else:
        dev, train, test = draw_pools(query_ids, target.seed) if role == "draw" else ([], query_ids, [])
        contents.splits = make_splits(query_ids, train, test, dev, target.sizes, target.seed)
    contents.answers = {query_id: Answers(list(texts)) for query_id, texts in answers.items()}
    return write_task(target.out, contents, target.tokenizer)
