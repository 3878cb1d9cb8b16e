"""Open-domain question answering over the project's own corpus: its articles as passages, and questions it can answer.

The corpora that DPR's questions belong to have 21 million passages. On a smaller one most of the questions have no answer,
and a system would be scored for what nobody could find. This reader makes a collection of

* the articles of a corpus, as passages of 100 words (:mod:`pretrieve.tasks.passage_split`);
* those questions of the given files (:mod:`pretrieve.benchmarks.official.open_qa`) of which at least one answer stands in at
  least one passage, by the rule that hits@k is counted with (:mod:`pretrieve.benchmarks.made.answer_search`). The others are
  counted in ``warnings``.

Nobody judged a passage, so ``qrels.parquet`` is empty: test questions are scored by hits@k, and retrievers come from another
data set. hits@k on such a collection is no number of DPR's paper: the questions that are left are those with frequent
answers ("1", "England"), and there are fewer passages to tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.answer_search import AnswerSearch
from pretrieve.benchmarks.official.open_qa import OpenQuestion, question_files, read_questions
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.answers import Answers
from pretrieve.tasks.passage_split import WORDS, split_articles

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter


def read_corpus(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    words: int = WORDS,
    regular_expressions: bool = False,
    share: float = 1.0,
) -> None:
    """Write the collection; texts stream, questions and their answers are held in memory.

    Parameters
    ----------
    files:
        ``articles`` and ``passages``: tables of a corpus; ``train``, ``dev`` and ``test``: questions, at least one of them.
    words:
        words of a passage.
    regular_expressions:
        whether answers are patterns, as those of CuratedTREC are.
    share:
        of the articles that are searched, drawn by their titles: a large corpus takes long to embed for every system.

    Raises
    ------
    DataError
        when a file is damaged, there is no file of questions, or no question can be answered.
    ConfigError
        when ``words`` is below 1, or ``share`` not above 0 and at most 1.
    """
    paths = question_files(files)
    if not paths:
        raise DataError("reader 'corpus': no questions; expected a file of questions as train, dev or test.")
    questions = _questions(paths, writer.warnings)
    answers = {
        query_id: Answers(question.answers, regular_expressions) for query_id, (_, question) in questions.items()
    }
    search = AnswerSearch(answers)
    part = "" if share == 1 else f" of {share:g} of the articles"
    writer.variant = f"blocks of {words} words{part}; questions with an answer in a passage"
    writer.at(files["passages"])
    for passage in split_articles(files["articles"], files["passages"], words, share):
        writer.add_document(passage.id, passage.title, passage.text)
        search.add(passage.text)
    found = search.finish()
    if not found:
        raise DataError(
            f"{files['passages']}: no answer of the {len(questions):,} questions of "
            f"{', '.join(map(str, paths.values()))} stands in a passage; expected at least one. Take a larger corpus."
        )
    for query_id, (line, question) in questions.items():
        split = query_id.partition("-")[0]
        if query_id in found:
            writer.at(paths[split], line)
            writer.add_query(query_id, question.text, split)
            writer.add_answers(query_id, question.answers, regular_expressions)
        else:
            writer.warnings.add("question without an answer in any passage", f"{paths[split]}, line {line}")


def _questions(paths: Mapping[str, Path], warnings: Warnings) -> dict[str, tuple[int, OpenQuestion]]:
    """``{split}-{number in its file}`` → line and question; the number is that of the whole file, whatever is left out."""
    return {
        f"{split}-{number}": entry
        for split, path in paths.items()
        for number, entry in enumerate(read_questions(path, warnings))
    }
