"""Graded relatedness of two sentences, from where they stand. It substitutes for STS-B where that is not available.

This is **not** STS-B: no person judged the pairs, and what is graded is topical nearness, not equal meaning. It has
STS-B's form (two sentences, a score from 0 to 5), so the same recipe and metric apply. The grades:

=====  ==================================================================
5      neighbouring sentences of one paragraph
4      the same paragraph, not neighbouring
3      the same section (top-level heading), another paragraph
2      the same article, another section (the introduction is one)
1      two articles, one of which links to the other
0      two articles without a link between them
=====  ==================================================================

Every part (train, valid, dev, test) has equally many pairs of each grade. Articles belong to one part: a page with full
text, together with the articles that it is the first to link to, so that linked pairs exist within each part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.made.section_triplets import Article, Sentence, articles_of, pick
from pretrieve.corpora.tables import read_rows, read_table
from pretrieve.tasks.example_splits import SHARES, parts_of_groups
from pretrieve.tasks.example_task import Example, ExampleContents
from pretrieve.tasks.splits import Target, draw_key

GRADES = (0, 1, 2, 3, 4, 5)
Pair = tuple[Sentence, Sentence]


def grade(first: Sentence, second: Sentence) -> int:
    """5 to 2 for two different sentences of one article (see the module's table)."""
    if first.passage == second.passage:
        return 5 if abs(first.place - second.place) == 1 else 4
    return 3 if first.section == second.section else 2


def linked_articles(corpus: Path) -> dict[int, list[int]]:
    """Article → the other articles of the corpus that it links to, each once, in the order of its text."""
    home = read_table(corpus / "passages.parquet", ["article_id"])["article_id"].to_pylist()
    found: dict[int, dict[int, None]] = {}
    for passage, target in read_rows(corpus / "links.parquet", ["passage_id", "article_id"]):
        if target >= 0 and target != home[passage]:
            found.setdefault(home[passage], {})[target] = None
    return {article: list(targets) for article, targets in found.items()}


def groups_of(articles: Mapping[int, Article], links: Mapping[int, list[int]]) -> dict[int, str]:
    """Article → group: one that links is a group of its own; another belongs to the first article that links to it."""
    group = {article: str(article) for article in articles}
    for source in sorted(links):
        for target in links[source]:
            if target not in links and group.get(target) == str(target) and source in group:
                group[target] = group[source]
    return group


def _pairs_within(article: Article, seed: int) -> dict[int, list[Pair]]:
    """For each grade from 2 to 5, at most one pair for each sentence that can be its first."""
    pairs: dict[int, list[Pair]] = {value: [] for value in (2, 3, 4, 5)}
    places = {(s.section, s.passage): [] for s in article.sentences}
    for sentence in article.sentences:
        places[sentence.section, sentence.passage].append(sentence)
    sections = {section for section, _ in places}
    # What is far is the same for all sentences of a section, or of a paragraph.
    elsewhere = {own: [s for s in article.sentences if s.section != own] for own in sections}
    for (section, passage), together in places.items():
        beside = [s for (other, place), some in places.items() for s in some if other == section and place != passage]
        for first in together:
            seconds = {2: elsewhere[section], 3: beside}
            for value in (4, 5):
                seconds[value] = [s for s in together if s is not first and grade(first, s) == value]
            for value, some in seconds.items():
                if some and (second := pick(some, seed, f"{value} {first.id}")).text != first.text:
                    pairs[value].append((first, second))
    return pairs


def _pairs_between(articles: list[Article], links: Mapping[int, list[int]], seed: int) -> dict[int, list[Pair]]:
    """Pairs of grade 1 (one for each link) and 0 (as many as there are articles) within one part."""
    inside = {article.article_id: article for article in articles}
    pairs: dict[int, list[Pair]] = {0: [], 1: []}
    for article in articles:
        for target in links.get(article.article_id, ()):
            if target in inside:
                key = f"1 {article.article_id} {target}"
                ends = (pick(article.sentences, seed, key), pick(inside[target].sentences, seed, key + " target"))
                pairs[1].append(ends)
        other = pick(articles, seed, f"0 {article.article_id}")
        near = {*links.get(article.article_id, ()), article.article_id}
        if other.article_id not in near and article.article_id not in links.get(other.article_id, ()):
            key = f"0 {article.article_id} {other.article_id}"
            pairs[0].append((pick(article.sentences, seed, key), pick(other.sentences, seed, key + " other")))
    return pairs


def _unique(pairs: list[Pair], seed: int, value: int) -> list[Pair]:
    """The pairs in a random order, each two sentences once."""
    kept = {frozenset((first.id, second.id)): (first, second) for first, second in reversed(pairs)}
    return sorted(
        kept.values(), key=lambda pair: (draw_key(seed, f"{value} {pair[0].id} {pair[1].id}"), pair[0].id, pair[1].id)
    )


def build_structure_sts(corpus: Path, target: Target, max_examples: int | None = None) -> dict[str, Any]:
    """Write the task and return its statistics; the sentences of the corpus are held in memory. Ids are
    ``{grade}:{sentence id}:{sentence id}``. max_examples: at most about this many in all parts together; None: as many as the
    rarest grade of each part allows.

    Raises DataError when the corpus is damaged, or a part has no pair of some grade, and ConfigError when ``max_examples`` is
    below 60, or a size cannot be drawn.
    """
    if max_examples is not None and max_examples < 60:
        raise ConfigError(f"max-examples is {max_examples}; expected at least 60, ten of each grade.")
    seed = target.seed
    articles = {article.article_id: article for article in articles_of(corpus, ("page", "lead"))}
    links = linked_articles(corpus)
    group = groups_of(articles, links)
    # Only what links has pairs of all grades: it is shared out by itself, by its links, and all other articles after it.
    weights: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    sources = {group[article_id] for article_id in articles if links.get(article_id)}
    for article_id in articles:
        weights[group[article_id] not in sources][group[article_id]] += len(links.get(article_id, ())) or 1
    part_of_group = {g: part for weight in weights for g, part in parts_of_groups(weight, SHARES, seed).items()}
    contents = ExampleContents()
    for part, share in SHARES.items():
        members = [article for article_id, article in articles.items() if part_of_group[group[article_id]] == part]
        pairs: dict[int, list[Pair]] = {value: [] for value in GRADES}
        for found in (_pairs_between(members, links, seed), *(_pairs_within(article, seed) for article in members)):
            for value, some in found.items():
                pairs[value] += some
        pairs = {value: _unique(some, seed, value) for value, some in pairs.items()}
        number = min(map(len, pairs.values()))
        if not number:
            missing = [value for value, some in pairs.items() if not some]
            raise DataError(f"{corpus}: the part '{part}' has no pair of grade {missing[0]}; take a larger corpus.")
        if max_examples is not None:
            number = min(number, max(1, round(max_examples * share / len(GRADES))))
        for value, some in pairs.items():
            for first, second in some[:number]:
                rows = [contents.row(sentence.id, sentence.text) for sentence in (first, second)]
                contents.add(Example(f"{value}:{first.id}:{second.id}", rows, [value]), part)
    about = {"task": "relatedness from the text's structure (not STS-B)", "max_examples": max_examples, "seed": seed}
    return contents.write("regression", target, about)
