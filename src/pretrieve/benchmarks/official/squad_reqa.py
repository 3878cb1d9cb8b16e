"""SQuAD v1.1 → ReQA: find the sentence, and the passage around it, that answers a question.

Retrieval Question-Answering (Ahmad et al. 2019, as used in paper ``pretraining_tasks`` §4.1): every passage is split
into sentences, every pair (sentence, passage) is a candidate, and the one that holds the answer is relevant. Questions
that are written in the same words are one query, relevant to the sentence of each of their answers; that is how Table
2 of the paper comes to more tuples than questions, and it keeps a test question from being seen in training.

**More candidates** (paper ``pretraining_tasks`` §4.4): (sentence, passage) pairs of a corpus are added; questions, judgements and
splits stay.

**Whole articles** can be what is searched for, documents many times longer than what a model reads of them, as MS MARCO's are: an
article is its paragraphs in file order, a blank line between them, and relevant to their questions. An encoder reads the
beginning of a document (FirstP) or takes the best of its windows (MaxP; Xiong et al. 2021, paper ``seed_encoder`` §4.3).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.descriptions import extra_sentences, passages_of
from pretrieve.benchmarks.official.squad_json import Paragraph, squad_paragraphs
from pretrieve.corpora.sentences import sentence_of, sentence_spans
from pretrieve.corpora.tables import read_rows, titles_of
from pretrieve.corpora.wikitext import article_title
from pretrieve.tasks.answers import Answers
from pretrieve.tasks.splits import Target, draw_key, draw_pools, make_splits, shuffled
from pretrieve.tasks.task import Judgement, Passage, TaskContents, write_task

#: The pool of what one file plays: train, dev and test are drawn.
DRAWN = "drawn"


def make_passage(title: str, text: str) -> Passage:
    """A passage with the project's sentence boundaries."""
    return Passage(title, text, sentence_spans(text))


class Source(NamedTuple):
    """Paragraphs of one file; ``pool`` is train, dev, test or :data:`DRAWN`, ``name`` stands in messages."""

    pool: str
    name: str
    paragraphs: Iterable[Paragraph]


def build_squad(
    files: Mapping[str, Path],
    target: Target,
    corpus: Path | None = None,
    max_extra: int | None = None,
    articles: bool = False,
    sentences: bool = False,
) -> dict[str, Any]:
    """Write the task of SQuAD v1.1 files, packed or not, and return its statistics. See :func:`build_reqa`.

    files: ``train``, ``test`` and, where there is one, ``dev``; or ``file`` alone, which serves as all three: questions are
    drawn, not articles (paper ``pretraining_tasks`` §4.1), so paragraphs of test questions may be seen in training.

    Raises DataError when a file is not SQuAD v1.1, and else as :func:`build_reqa`.
    """
    # In this order: candidates are numbered by it.
    pools = {"train": "train", "test": "test", "dev": "dev", "file": DRAWN}
    sources = (
        Source(pool, str(files[name]), squad_paragraphs(files[name])) for name, pool in pools.items() if name in files
    )
    return build_reqa(sources, target, corpus, max_extra, articles, sentences)


def build_reqa(
    sources: Iterable[Source],
    target: Target,
    corpus: Path | None = None,
    max_extra: int | None = None,
    articles: bool = False,
    sentences: bool = False,
) -> dict[str, Any]:
    """Write the task of paragraphs with questions and return its statistics; answers go to ``answers.parquet``.

    ``doc_id`` is ``{passage number}-{sentence number}``, both from 0, in file order with identical contexts counted once.
    ``train`` and ``test`` form the pool, training questions come from ``train`` only
    (:func:`pretrieve.tasks.splits.make_splits`). Questions of a source that is :data:`DRAWN` are drawn into the three, those in
    the same words together.

    corpus: a directory of :mod:`pretrieve.corpora.tables`: candidates are whole passages, those of the sources (``doc_id`` is the
    passage number) and all others of the corpus (``c{passage_id}``), or with ``articles`` whole articles. With ``sentences`` they
    are those without a corpus, and pairs of the corpus's articles of other titles (``c{passage_id}-{sentence number}``).
    max_extra: so many of the corpus are drawn.

    Raises DataError when one id stands for two questions, or there is no question, and ConfigError when a size cannot be drawn.
    """
    passages = corpus is not None and not sentences
    contents = TaskContents()
    number_of: dict[str, int] = {}
    owner: dict[str, str] = {}
    pools: dict[str, list[str]] = {"train": [], "test": [], "dev": [], DRAWN: []}
    judged: dict[Judgement, None] = {}
    answers: dict[str, dict[str, None]] = {}
    for source in sources:
        for paragraph in source.paragraphs:
            number = number_of.get(paragraph.context)
            if number is None:
                number = number_of[paragraph.context] = len(contents.passages)
                passage = make_passage(paragraph.article, paragraph.context)
                contents.add_candidates(str(number), passage, None if passages else range(len(passage.spans)))
            spans = contents.passages[number].spans
            for question in paragraph.questions:
                if question.id in owner:
                    raise DataError(
                        f"{source.name}: article '{paragraph.article}', question '{question.id}': the id was used before, in "
                        f"article '{owner[question.id]}'; ids must be unique over all files."
                    )
                owner[question.id] = paragraph.article
                query_id = contents.add_question(question.id, question.text)
                if query_id == question.id:
                    pools[source.pool].append(query_id)
                for answer in question.answers:
                    doc_id = str(number) if passages else f"{number}-{sentence_of(spans, answer.start)}"
                    judged[Judgement(query_id, doc_id)] = None
                    answers.setdefault(query_id, {})[answer.text] = None
    contents.judgements = list(judged)
    if corpus is not None and articles:
        join_articles(contents)
        add_corpus_articles(contents, corpus, max_extra, target.seed)
    elif corpus is not None and sentences:
        add_corpus_sentences(contents, corpus, max_extra, target.seed)
    elif corpus is not None:
        _add_corpus(contents, corpus, set(number_of), max_extra, target.seed)
    for pool, drawn in zip(("dev", "train", "test"), draw_pools(pools[DRAWN], target.seed), strict=True):
        pools[pool] += drawn
    query_ids = [query.query_id for query in contents.queries]
    contents.splits = make_splits(query_ids, pools["train"], pools["test"], pools["dev"], target.sizes, target.seed)
    contents.answers = {query_id: Answers(list(texts)) for query_id, texts in answers.items()}
    return write_task(target.out, contents, target.tokenizer)


def add_corpus_sentences(contents: TaskContents, corpus: Path, limit: int | None, seed: int) -> None:
    """Add the (sentence, passage) pairs of a corpus's articles with a title that no passage of the task has (titles are compared
    as MediaWiki normalises them), or ``limit`` that are drawn of them. ``doc_id`` is ``c{passage_id}-{sentence number}``, in
    corpus order."""
    known = {article_title(passage.title) for passage in contents.passages}
    own = {article for article, title in enumerate(titles_of(corpus)) if article_title(title) in known}
    rows = read_rows(corpus / "passages.parquet", ["passage_id", "article_id"])
    extra = extra_sentences(corpus, {passage_id for passage_id, article in rows if article in own}, limit, seed)
    for passage_id, _, _, passage in passages_of(corpus):
        if passage_id in extra:
            contents.add_candidates(f"c{passage_id}", passage, extra[passage_id])


def _add_corpus(contents: TaskContents, corpus: Path, taken: set[str], limit: int | None, seed: int) -> None:
    """The passages of a corpus whose text is not among ``taken``, each once; or so many that are drawn of them."""
    others: dict[str, tuple[int, Passage]] = {}
    for passage_id, _, _, passage in passages_of(corpus):
        if passage.text not in taken:
            others.setdefault(passage.text, (passage_id, passage))
    chosen = heapq.nsmallest(
        len(others) if limit is None else limit, others.values(), key=lambda p: draw_key(seed, f"c{p[0]}")
    )
    for passage_id, passage in sorted(chosen, key=lambda pair: pair[0]):
        contents.add_candidates(f"c{passage_id}", passage)


BETWEEN = "\n\n"


def joined(title: str, passages: Iterable[Passage]) -> Passage:
    """Passages as one, a blank line between them; its sentences are theirs."""
    texts, spans, start = [], [], 0
    for passage in passages:
        texts.append(passage.text)
        spans += [(start + begin, start + end) for begin, end in passage.spans]
        start += len(passage.text) + len(BETWEEN)
    return Passage(title, BETWEEN.join(texts), spans)


def join_articles(contents: TaskContents) -> None:
    """Make the articles of a task's passages its candidates, in the order of their first passage; ``doc_id`` is the article's
    number, from 0. Judgements of passages become those of their articles."""
    parts: dict[str, list[Passage]] = {}
    for passage in contents.passages:
        parts.setdefault(passage.title, []).append(passage)
    number_of = {title: number for number, title in enumerate(parts)}
    article_of = {
        candidate.doc_id: number_of[contents.passages[candidate.passage].title] for candidate in contents.candidates
    }
    contents.passages, contents.candidates = [], []
    for title, passages in parts.items():
        contents.add_candidates(str(number_of[title]), joined(title, passages))
    judged = (Judgement(query_id, str(article_of[doc_id]), *more) for query_id, doc_id, *more in contents.judgements)
    contents.judgements = list(dict.fromkeys(judged))


def add_corpus_articles(contents: TaskContents, corpus: Path, limit: int | None, seed: int) -> None:
    """As :func:`add_corpus_sentences`, but whole articles, if they have a passage; ``doc_id`` is ``a{article_id}``."""
    titles = titles_of(corpus)
    written = {article for (article,) in read_rows(corpus / "passages.parquet", ["article_id"])}
    taken = {article_title(passage.title) for passage in contents.passages}
    others = {f"a{article}": article for article in sorted(written) if article_title(titles[article]) not in taken}
    drawn = set(shuffled(others, seed)[:limit])
    parts: dict[int, list[Passage]] = {article: [] for doc_id, article in others.items() if doc_id in drawn}
    for _, article, _, passage in passages_of(corpus):
        if article in parts:
            parts[article].append(passage)
    for article, passages in parts.items():
        contents.add_candidates(f"a{article}", joined(titles[article], passages))
