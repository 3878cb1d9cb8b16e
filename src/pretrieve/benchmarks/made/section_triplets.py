"""Wikipedia section triplets, built from the corpus: which of two sentences is from the anchor's section?

Ein Dor et al. 2018 (*Learning Thematic Similarity Metric from Article Sections Using Triplet Networks*) take a
sentence as pivot, another sentence of its section as positive and a sentence of another section of the same article as
negative; Reimers & Gurevych 2019 (§4.4) and paper ``condenser`` §4.2 train and test on their triplets. Here every
usable sentence is an anchor once; positive and negative are drawn at random. Our own choices, where the rule leaves
them open: a section is what stands under a top-level heading, subsections included; the introduction is not a section,
because it sums up all others; at most ``per_article`` anchors come from one article. Whole articles train, validate or
test.

Articles with their usable sentences (:func:`articles_of`) make :mod:`pretrieve.benchmarks.made.structure_sts`, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_rows
from pretrieve.tasks.example_splits import SHARES, drawn, parts_of_groups
from pretrieve.tasks.example_task import Example, ExampleContents
from pretrieve.tasks.splits import Target, draw_key

Item = TypeVar("Item")
_WORD = re.compile(r"\w+")
#: Words of a sentence that can be used: shorter ones are headings and remains of lists, longer ones are lists.
WORDS = (5, 50)
#: Level of the headings that divide an article; deeper ones belong to the section that they stand in.
TOP_LEVEL = 2


class Sentence(NamedTuple):
    """``place``: its number in its passage; ids are those of the corpus tables, ``section`` that of the top level."""

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
    """An article's usable sentences in order; ``introduction``: section id of what stands before its first heading."""

    article_id: int
    sentences: list[Sentence] = field(default_factory=list)
    introduction: int = -1


def usable(sentence: str) -> bool:
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


def pick(items: Sequence[Item], seed: int, key: str) -> Item:
    """One of ``items``, at random, decided by the seed and the key alone."""
    return items[draw_key(seed, key) % len(items)]


def triplets_of(article: Article, seed: int, per_article: int) -> Iterator[tuple[Sentence, Sentence, Sentence]]:
    """(anchor, positive, negative) of one article, in the order of the anchors; none if it has one section only.

    Positive and negative have other words than the anchor.
    """
    sections: dict[int, list[Sentence]] = {}
    for sentence in article.sentences:
        if sentence.section != article.introduction:
            sections.setdefault(sentence.section, []).append(sentence)
    if len(sections) < 2:
        return
    body = [sentence for own in sections.values() for sentence in own]
    chosen = drawn([sentence.id for sentence in body], per_article, seed)
    for anchor in body:
        if anchor.id not in chosen:
            continue
        near = [s for s in sections[anchor.section] if s.text != anchor.text]
        far = [s for s in body if s.section != anchor.section and s.text != anchor.text]
        if near and far:
            yield anchor, pick(near, seed, f"positive {anchor.id}"), pick(far, seed, f"negative {anchor.id}")


def build_section_triplets(
    corpus: Path, target: Target, per_article: int = 100, max_examples: int | None = None
) -> dict[str, Any]:
    """Write the task and return its statistics. An example's id is that of its anchor, ``{passage id}-{sentence}``.
    max_examples: at most this many triplets, drawn from all; None: all.

    Raises DataError when the corpus is damaged, or no article has two sections, and ConfigError when a size cannot be drawn.
    """
    seed = target.seed
    triplets = {t[0].id: t for article in articles_of(corpus) for t in triplets_of(article, seed, per_article)}
    if not triplets:
        raise DataError(
            f"{corpus}/passages.parquet: no article has usable sentences in two sections; take a larger corpus."
        )
    kept = drawn(list(triplets), max_examples, seed)
    article_of = {example_id: str(triplet[0].article) for example_id, triplet in triplets.items() if example_id in kept}
    part_of_article = parts_of_groups(Counter(article_of.values()), SHARES, seed)
    contents = ExampleContents()
    for example_id, article in article_of.items():
        rows = [contents.row(sentence.id, sentence.text) for sentence in triplets[example_id]]
        contents.add(Example(example_id, rows), part_of_article[article])
    about = {
        "task": "section triplets of the corpus",
        "articles": len(part_of_article),
        "per_article": per_article,
        "max_examples": max_examples,
        "seed": seed,
    }
    return contents.write("triplet", target, about)
