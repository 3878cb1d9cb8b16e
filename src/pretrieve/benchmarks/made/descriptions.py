"""Find an article's opening sentence from its one-line description ("French mathematician" …), as a ReQA task.

Candidates are the (sentence, passage) pairs of the leads of the chosen articles, relevant is a lead's first sentence. The open
variant keeps queries, judgements, splits and ids, and adds pairs of the rest of the corpus: the setting of paper
``pretraining_tasks`` §4.4, which adds a million pairs of Wikipedia to the candidates of ReQA.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.tables import read_rows, read_table, titles_of
from pretrieve.tasks.splits import Target, draw_key, draw_pools, make_splits, shuffled
from pretrieve.tasks.task import Judgement, Passage, Query, TaskContents, write_task

_COLUMNS = ("passage_id", "article_id", "source", "text", "sentence_starts", "sentence_ends")


def passages_of(corpus: Path) -> Iterator[tuple[int, int, str, Passage]]:
    """``(passage_id, article_id, source, passage)`` of every passage of a corpus, in order; in memory are the titles."""
    titles = titles_of(corpus)
    for passage_id, article_id, source, text, starts, ends in read_rows(corpus / "passages.parquet", _COLUMNS):
        yield passage_id, article_id, source, Passage(titles[article_id], text, list(zip(starts, ends, strict=True)))


def unique_descriptions(descriptions: list[str]) -> dict[int, str]:
    """Article id → description, for the descriptions that one article alone has (compared case-folded), not empty."""
    folded = [" ".join(text.casefold().split()) for text in descriptions]
    counts = Counter(folded)
    return {i: descriptions[i].strip() for i, text in enumerate(folded) if text and counts[text] == 1}


def extra_sentences(corpus: Path, taken: set[int], limit: int | None, seed: int) -> dict[int, list[int]]:
    """Passage id → sentences to add, in corpus order: all of each passage not ``taken``, or ``limit`` drawn of them."""
    pairs = (
        (draw_key(seed, f"{passage_id}-{sentence}"), passage_id, sentence)
        for passage_id, _, _, passage in passages_of(corpus)
        if passage_id not in taken
        for sentence in range(len(passage.spans))
    )
    drawn = pairs if limit is None else heapq.nsmallest(limit, pairs)
    chosen: dict[int, list[int]] = {}
    for _, passage_id, sentence in sorted(drawn, key=lambda pair: pair[1:]):
        chosen.setdefault(passage_id, []).append(sentence)
    return chosen


def build_descriptions(
    corpus: Path,
    target: Target,
    max_queries: int | None = None,
    open_domain: bool = False,
    max_extra: int | None = None,
) -> dict[str, Any]:
    """Write the task and return its statistics.

    corpus: directory of an encyclopaedia corpus (:mod:`pretrieve.corpora.tables`); target: its seed also draws the articles, and
    the pools of :func:`~pretrieve.tasks.splits.draw_pools`; max_queries: draw at most so many articles, None takes all that have
    a lead and a description of their own; open_domain, max_extra: add the pairs of all other passages of the corpus, or
    ``max_extra`` pairs drawn from them. ``query_id`` is the article id, ``doc_id`` is ``{passage_id}-{sentence number}``.

    Raises DataError when the corpus is damaged or no article qualifies, and ConfigError when ``max_extra`` is given without
    ``open_domain``, or a size cannot be drawn.
    """
    if max_extra is not None and not open_domain:
        raise ConfigError("max-extra limits what the open variant adds; give open too, or leave max-extra out.")
    articles = read_table(corpus / "articles.parquet", ["description", "has_lead"])
    has_lead = articles["has_lead"].to_pylist()
    usable = unique_descriptions(articles["description"].to_pylist())
    order = shuffled((str(article) for article in usable if has_lead[article]), target.seed)[:max_queries]
    if not order:
        raise DataError(f"{corpus}/articles.parquet: no article has a lead and a description that no other one has.")
    contents = TaskContents()
    chosen, taken = set(order), set()
    for passage_id, article_id, source, passage in passages_of(corpus):
        if source != "lead" or str(article_id) not in chosen:
            continue
        taken.add(passage_id)
        contents.add_candidates(str(passage_id), passage, range(len(passage.spans)))
        contents.queries.append(Query(str(article_id), usable[article_id]))
        contents.judgements.append(Judgement(str(article_id), f"{passage_id}-0"))
    if open_domain:
        extra = extra_sentences(corpus, taken, max_extra, target.seed)
        for passage_id, _, _, passage in passages_of(corpus):
            if passage_id in extra:
                contents.add_candidates(str(passage_id), passage, extra[passage_id])
    dev, pool_train, pool_test = draw_pools(order, target.seed)
    query_ids = [query.query_id for query in contents.queries]
    contents.splits = make_splits(query_ids, pool_train, pool_test, dev, target.sizes, target.seed)
    return write_task(target.out, contents, target.tokenizer)
