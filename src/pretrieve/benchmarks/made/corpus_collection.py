"""Open-domain question answering over the project's own corpus: its articles as passages, and questions it can answer.

The corpora that DPR's questions belong to have 21 million passages. On a smaller one most of the questions have no answer,
and a system would be scored for what nobody could find. This reader makes a collection of

* the articles of a corpus, as passages of 100 words;
* those questions of the given files (:mod:`pretrieve.benchmarks.official.open_qa`) of which at least one answer stands in at
  least one passage. The others are counted in ``warnings``.

Nobody judged a passage, so ``qrels.parquet`` is empty: test questions are scored by hits@k, and retrievers come from another
data set. hits@k cannot be compared with DPR's paper: the questions that are left are those with frequent answers ("1",
"England"), and there are fewer passages to tell apart.

**Passages.** Karpukhin et al. 2020, §4.1: the plain text of each article, without headings, tables and lists, is cut into
*disjoint blocks of 100 words*; the title is put in front when a block is encoded. Here

* the text of an article is its paragraphs in order, joined by a blank, so that a block may go over several;
* a word is what stands between white space;
* the last block of an article is what is left, and may be one word (how the authors treat it is not known);
* an article with a full page and a lead from an encyclopaedia is its page: the lead says the same again.

**Answers.** The rule is that of hits@k (:mod:`pretrieve.tasks.answers`): an answer's words stand in the passage one after
another, or a regular expression is found in its text; titles are not looked at. So that this does not cost questions x passages,

* each passage is cut into words once, and at every place the answers that begin with these two words (or are this one
  word) are looked up. An answer that was found once is dropped;
* a regular expression is searched in a block of passages at once, joined by an empty line, and only where it is found
  there in each half of the block, and so on; the last is a passage alone, which decides.

An answer without any word, which hits@k finds everywhere, is found nowhere here: a question with no other answer asks
nothing of a corpus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.open_qa import OpenQuestion, question_files, read_questions
from pretrieve.corpora.beir_documents import Document
from pretrieve.corpora.tables import read_rows, read_table
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.answers import Answers, Passages, answer_words, contains
from pretrieve.tasks.splits import draw_key

if TYPE_CHECKING:
    from pretrieve.tasks.collection import CollectionWriter

#: Words of a passage.
WORDS = 100
#: Passages whose text is joined for the search of regular expressions.
BLOCK = 512


class AnswerSearch:
    """Look for the answers of many questions; :attr:`found` are the ids of those that have one in a text so far."""

    def __init__(self, answers: Mapping[str, Answers]) -> None:
        self.found: set[str] = set()
        self._patterns = {query_id: accepted for query_id, accepted in answers.items() if accepted.regular_expressions}
        self._block: list[str] = []
        owners: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for query_id, accepted in answers.items():
            if not accepted.regular_expressions:
                for text in accepted.texts:
                    if words := tuple(answer_words(text)):
                        owners[words].append(query_id)
        self._owners = dict(owners)
        self._needles: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
        for words in self._owners:
            self._needles[words[:2]].append(words)

    def add(self, text: str) -> None:
        """Search one passage."""
        if self._owners:
            self._search_words(answer_words(text))
        if self._patterns:
            self._block.append(text)
            if len(self._block) == BLOCK:
                self._search_patterns()

    def finish(self) -> set[str]:
        """Search what is left, and give the ids of the questions that have an answer."""
        if self._block:
            self._search_patterns()
        return self.found

    def _search_words(self, words: list[str]) -> None:
        needles = self._needles
        for place, word in enumerate(words):
            for begin in ((word,), tuple(words[place : place + 2])):
                if begin not in needles:
                    continue
                hits = [needle for needle in needles[begin] if tuple(words[place : place + len(needle)]) == needle]
                for needle in hits:
                    self.found.update(self._owners.pop(needle))
                    needles[begin].remove(needle)
                if not needles[begin]:
                    del needles[begin]

    def _search_patterns(self) -> None:
        joined = Passages({})
        for query_id, accepted in list(self._patterns.items()):
            if self._found_in(joined, 0, len(self._block), accepted):
                self.found.add(query_id)
                del self._patterns[query_id]
        self._block = []

    def _found_in(self, joined: Passages, start: int, end: int, accepted: Answers) -> bool:
        """Whether a passage from ``start`` to ``end`` - 1 matches: their joined text must, and then that of one half."""
        span = f"{start}:{end}"
        if span not in joined.texts:
            joined.texts[span] = "\n\n".join(self._block[start:end])
        if not contains(joined, span, accepted):
            return False
        middle = (start + end) // 2
        return middle == start or any(
            self._found_in(joined, *half, accepted) for half in ((start, middle), (middle, end))
        )


def blocks_of_words(text: str, words: int = WORDS) -> list[str]:
    """The disjoint blocks of ``words`` words of a text, one blank between words; the last may be shorter.

    >>> blocks_of_words("to be\\tor  not to be", words=4)
    ['to be or not', 'to be']
    """
    found = text.split()
    return [" ".join(found[start : start + words]) for start in range(0, len(found), words)]


def split_articles(articles: Path, passages: Path, words: int = WORDS, share: float = 1.0) -> Iterator[Document]:
    """The blocks of the articles of ``articles.parquet`` and ``passages.parquet`` (:mod:`pretrieve.corpora.tables`), in corpus
    order; ``doc_id`` is ``{article_id}-{number of the block}``, both from 0. Memory is one article and the titles. ``share``: of
    the articles that are taken, about; which ones follows from their titles alone.

    Raises DataError when a table is missing or damaged.
    """
    table = read_table(articles, ["title", "has_page"])
    titles, has_page = table["title"].to_pylist(), table["has_page"].to_pylist()
    rows = read_rows(passages, ["article_id", "source", "text"])
    for article, paragraphs in groupby(rows, key=itemgetter(0)):
        if draw_key(0, titles[article]) >= share * 2**64:
            continue
        texts = [text for _, source, text in paragraphs if source != "lead" or not has_page[article]]
        for number, block in enumerate(blocks_of_words(" ".join(texts), words)):
            yield Document(f"{article}-{number}", titles[article], block)


def read_corpus(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    words: int = WORDS,
    regular_expressions: bool = False,
    share: float = 1.0,
) -> None:
    """Write the collection; texts stream, questions and their answers are held in memory.

    files: ``articles`` and ``passages``: tables of a corpus; ``train``, ``dev`` and ``test``: questions, at least one of
    them; words: words of a passage; regular_expressions: whether answers are patterns, as those of CuratedTREC are; share: of
    the articles that are searched, drawn by their titles: a large corpus takes long to embed for every system.

    Raises DataError when a file is damaged, there is no file of questions, or no question can be answered.
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
        writer.add_document(*passage)
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
    """``{split}-{number in its file}`` → line and question; the number is that of the whole file, whatever is omitted."""
    return {
        f"{split}-{number}": entry
        for split, path in paths.items()
        for number, entry in enumerate(read_questions(path, warnings))
    }
