"""SQuAD v1.1 → ReQA: find the sentence, and the passage around it, that answers a question.

Retrieval Question-Answering (Ahmad et al. 2019, as used in paper ``pretraining_tasks`` §4.1): every passage is split
into sentences, every pair (sentence, passage) is a candidate, and the one that holds the answer is relevant. Questions
that are written in the same words are one query, relevant to the sentence of each of their answers; that is how Table
2 of the paper comes to more tuples than questions, and it keeps a test question from being seen in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pretrieve.errors import DataError
from pretrieve.tasks.splits import make_splits
from pretrieve.tasks.squad_json import Paragraph, read_squad
from pretrieve.tasks.task import Candidate, Judgement, Query, TaskContents, make_passage, write_task
from pretrieve.text.sentences import sentence_of


def _paragraphs(path: Path) -> list[Paragraph]:
    paragraphs, problems = read_squad(path)
    if problems:
        more = f" ({len(problems) - 1} more faults in this file)" if len(problems) > 1 else ""
        raise DataError(problems[0] + more)
    return paragraphs


def build_squad(
    train: Path, test: Path, dev: Path | None, tokenizer: Tokenizer, out: Path, sizes: Mapping[str, float], seed: int
) -> dict[str, Any]:
    """Write the ReQA task of three SQuAD files and return its statistics.

    The candidates come from all files; ``doc_id`` is ``{passage number}-{sentence number}``, both from 0, in file
    order with identical contexts counted once. ``train`` and ``test`` form the pool, training questions come from
    ``train`` only (:func:`pretrieve.tasks.splits.make_splits`); ``dev`` may be None.

    Raises
    ------
    DataError
        when a file is not SQuAD v1.1 (naming file, article and question), or one id stands for two questions.
    ConfigError
        when a size cannot be drawn.
    """
    contents = TaskContents()
    number_of: dict[str, int] = {}
    query_of: dict[str, str] = {}
    owner: dict[str, str] = {}
    pools: dict[str, list[str]] = {"train": [], "test": [], "dev": []}
    judged: dict[Judgement, None] = {}
    for pool, path in (("train", train), ("test", test), ("dev", dev)):
        for paragraph in _paragraphs(path) if path else ():
            number = number_of.get(paragraph.context)
            if number is None:
                number = number_of[paragraph.context] = contents.add_passage(
                    make_passage(paragraph.article, paragraph.context)
                )
                sentences = range(len(contents.passages[number].spans))
                contents.candidates += [Candidate(f"{number}-{sentence}", number, sentence) for sentence in sentences]
            spans = contents.passages[number].spans
            for question in paragraph.questions:
                if question.id in owner:
                    raise DataError(
                        f"{path}: article '{paragraph.article}', question '{question.id}': the id was used before, in "
                        f"article '{owner[question.id]}'; ids must be unique over all files."
                    )
                owner[question.id] = paragraph.article
                if question.text not in query_of:
                    query_of[question.text] = question.id
                    contents.queries.append(Query(question.id, question.text))
                    pools[pool].append(question.id)
                for answer in question.answers:
                    doc_id = f"{number}-{sentence_of(spans, answer.start)}"
                    judged[Judgement(query_of[question.text], doc_id)] = None
    contents.judgements = list(judged)
    query_ids = [query.query_id for query in contents.queries]
    contents.splits = make_splits(query_ids, pools["train"], pools["test"], pools["dev"], sizes, seed)
    return write_task(out, contents, tokenizer)
