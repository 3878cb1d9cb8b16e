"""Whole articles as what is searched for: documents many times longer than what a model reads of them, as MS MARCO's are.

SQuAD's and Natural Questions' paragraphs name their article. Here an article is one document, its paragraphs in file order, a
blank line between them; relevant to a question is the article of its paragraph. An encoder reads the beginning of a document
(FirstP) or takes the best of its windows (MaxP; Xiong et al. 2021, paper ``seed_encoder`` §4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pretrieve.benchmarks.made.descriptions import passages_of
from pretrieve.corpora.tables import read_table
from pretrieve.corpora.wikitext import normalise_title
from pretrieve.tasks.splits import shuffled
from pretrieve.tasks.task import Candidate, Judgement, Passage, TaskContents

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
    """Make the articles of a task's passages its candidates, in the order of their first passage.

    ``doc_id`` is the article's number, from 0. Judgements of passages become those of their articles.
    """
    parts: dict[str, list[Passage]] = {}
    for passage in contents.passages:
        parts.setdefault(passage.title, []).append(passage)
    number_of = {title: number for number, title in enumerate(parts)}
    article_of = {
        candidate.doc_id: number_of[contents.passages[candidate.passage].title] for candidate in contents.candidates
    }
    contents.passages = [joined(title, passages) for title, passages in parts.items()]
    contents.candidates = [Candidate(str(number), number, -1) for number in number_of.values()]
    judged = (Judgement(query_id, str(article_of[doc_id]), *more) for query_id, doc_id, *more in contents.judgements)
    contents.judgements = list(dict.fromkeys(judged))


def add_corpus_articles(contents: TaskContents, corpus: Path, limit: int | None, seed: int) -> None:
    """Add the articles of a corpus with a title that no passage of the task has, compared as MediaWiki normalises titles; or
    ``limit`` that are drawn of them. ``doc_id`` is ``a{article_id}``, in corpus order. One without a passage is no article.
    """
    titles = read_table(Path(corpus) / "articles.parquet", ["title"])["title"].to_pylist()
    written = set(read_table(Path(corpus) / "passages.parquet", ["article_id"])["article_id"].to_pylist())
    taken = {normalise_title(passage.title) for passage in contents.passages}
    others = {f"a{article}": article for article in sorted(written) if normalise_title(titles[article]) not in taken}
    drawn = set(shuffled(others, seed)[:limit])
    parts: dict[int, list[Passage]] = {article: [] for doc_id, article in others.items() if doc_id in drawn}
    for _, article, _, passage in passages_of(Path(corpus), titles):
        if article in parts:
            parts[article].append(passage)
    for article, passages in parts.items():
        number = contents.add_passage(joined(titles[article], passages))
        contents.candidates.append(Candidate(f"a{article}", number, -1))
