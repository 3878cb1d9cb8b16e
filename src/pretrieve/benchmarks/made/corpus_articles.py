"""The articles of an encyclopaedia corpus with their sentences, for the tasks that are made from a text's structure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pretrieve.corpora.tables import read_rows

_WORD = re.compile(r"\w+")
#: Words of a sentence that can be used: shorter ones are headings and remains of lists, longer ones are lists.
WORDS = (5, 50)
#: Level of the headings that divide an article; deeper ones belong to the section that they stand in.
TOP_LEVEL = 2


class Sentence(NamedTuple):
    """``place``: its number in its passage; ids are those of the corpus tables; ``section`` that of its top-level
    section."""

    article: int
    section: int
    passage: int
    place: int
    text: str

    @property
    def id(self) -> str:
        return f"{self.passage}-{self.place}"


@dataclass
class Article:
    """An article's usable sentences in order; ``introduction``: the section id of what stands before its first
    heading."""

    article_id: int
    sentences: list[Sentence] = field(default_factory=list)
    introduction: int = -1


def usable(sentence: str) -> bool:
    """Whether a sentence has 5 to 50 words."""
    return WORDS[0] <= len(_WORD.findall(sentence)) <= WORDS[1]


def _top_level(corpus: Path) -> tuple[list[int], list[int]]:
    """For each section of the corpus: its top-level section's id, and its level."""
    owner: list[int] = []
    levels: list[int] = []
    article, current = -1, -1
    for section_id, article_id, level in read_rows(corpus / "sections.parquet", ["section_id", "article_id", "level"]):
        levels.append(level)
        if article_id != article or level <= TOP_LEVEL:
            article, current = article_id, section_id
        elif levels[current] == 1:
            current = section_id  # a page whose first heading is a deep one: it does not belong to the introduction
        owner.append(current)
    return owner, levels


def articles_of(corpus: Path, sources: tuple[str, ...] = ("page",)) -> Iterator[Article]:
    """Articles in corpus order, one in memory at a time, with those of their sentences that are usable and stand in a
    passage of one of ``sources`` ('page': full text, 'lead': an encyclopaedia's introduction).

    A sentence that stood in an earlier article word for word is omitted: two parts of a task must not share it.
    """
    corpus = Path(corpus)
    owner, levels = _top_level(corpus)
    columns = ["passage_id", "section_id", "article_id", "source", "text", "sentence_starts", "sentence_ends"]
    seen: dict[str, int] = {}
    for article_id, passages in groupby(read_rows(corpus / "passages.parquet", columns), key=itemgetter(2)):
        article = Article(article_id)
        for passage_id, section_id, _, source, text, starts, ends in passages:
            if source not in sources:
                continue
            section = owner[section_id]
            if levels[section] == 1:
                article.introduction = section
            for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
                words = text[start:end]
                if usable(words) and seen.setdefault(words, article_id) == article_id:
                    article.sentences.append(Sentence(article_id, section, passage_id, place, words))
        if article.sentences:
            yield article
