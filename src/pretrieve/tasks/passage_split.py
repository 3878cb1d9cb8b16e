"""Articles of a corpus cut into passages of 100 words, as DPR cuts Wikipedia.

Karpukhin et al. 2020, §4.1: from each article the plain text is taken, without headings, tables and lists, and cut into
*disjoint blocks of 100 words*; the title is put in front of each block when it is encoded. Here

* the text of an article is its paragraphs in order, joined by a blank, so that a block may go over several;
* a word is what stands between white space;
* the last block of an article is what is left, and may be one word. (In ``psgs_w100.tsv`` it is not known how the
  authors treat it: their script is not public.)
* an article with a full page and a lead from an encyclopaedia is its page: the lead says the same again.

Titles stay in a column of their own; a task puts them in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from pretrieve.base.errors import ConfigError
from pretrieve.corpora.tables import read_table
from pretrieve.tasks.splits import draw_key

#: Words of a passage.
WORDS = 100


class SplitPassage(NamedTuple):
    """A block of an article; ``id`` is ``{article_id}-{number of the block}``, both from 0."""

    id: str
    title: str
    text: str


def blocks_of_words(text: str, words: int = WORDS) -> list[str]:
    """The disjoint blocks of ``words`` words of a text, one blank between words; the last may be shorter.

    >>> blocks_of_words("to be\\tor  not to be", words=4)
    ['to be or not', 'to be']
    """
    found = text.split()
    return [" ".join(found[start : start + words]) for start in range(0, len(found), words)]


def split_articles(articles: Path, passages: Path, words: int = WORDS, share: float = 1.0) -> Iterator[SplitPassage]:
    """The blocks of the articles of ``articles.parquet`` and ``passages.parquet`` (:mod:`pretrieve.corpora.tables`), in corpus
    order. Memory is one article and the titles.

    ``share``: of the articles that are taken, about; which ones follows from their titles alone.

    Raises
    ------
    DataError
        when a table is missing or damaged.
    ConfigError
        when ``words`` is below 1, or ``share`` not above 0 and at most 1.
    """
    if words < 1:
        raise ConfigError(f"words is {words}; expected at least 1, such as 100.")
    if not 0 < share <= 1:
        raise ConfigError(f"share is {share}; expected above 0 and at most 1, such as 0.1 for a tenth of the articles.")
    table = read_table(articles, ["title", "has_page"])
    titles, has_page = table["title"].to_pylist(), table["has_page"].to_pylist()
    for article, paragraphs in groupby(_paragraphs(passages), key=lambda row: row[0]):
        if draw_key(0, titles[article]) >= share * 2**64:
            continue
        texts = [text for _, source, text in paragraphs if source != "lead" or not has_page[article]]
        for number, block in enumerate(blocks_of_words(" ".join(texts), words)):
            yield SplitPassage(f"{article}-{number}", titles[article], block)


def _paragraphs(path: Path) -> Iterator[tuple[int, str, str]]:
    names = ["article_id", "source", "text"]
    read_table(path, names[:1])  # says in one line what is wrong with a missing or damaged file
    for batch in pq.ParquetFile(path).iter_batches(batch_size=4096, columns=names):
        yield from zip(*(batch.column(batch.schema.get_field_index(name)).to_pylist() for name in names), strict=True)
