"""Articles of any reader → the four Parquet tables of a corpus and ``stats.json``.

What an article has decides which pre-training pairs it can give (paper ``pretraining_tasks`` §3):

* text gives sentences and passages: ICT;
* text outside the first section gives BFS;
* links give the documents of WLP, and a first section its queries, for every article that links to it.

Everything is written as it comes. What stays in memory is 16 bytes for a title or redirect and one row group per
table, so a full English dump fits where a fragment does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.progress import Progress
from pretrieve.corpora.sentences import sentence_spans
from pretrieve.corpora.tables import SCHEMAS, TableWriter
from pretrieve.corpora.titles import TitleTable, title_hash
from pretrieve.corpora.wikitext import Paragraph, Section


@dataclass
class Article:
    """One article of a corpus, whatever file it was read from.

    ``sections``: in order, the first with heading '' and level 1; they and their paragraphs are gone through once, so a
    generator of a long book will do. Targets of links are normalised titles
    (:func:`~pretrieve.corpora.wikitext.link_target`). ``page_id``: number of the page where the source has one,
    else -1. ``lead``: a separately written first paragraph (:mod:`pretrieve.corpora.mediawiki`), which becomes the first
    passage.
    """

    title: str
    sections: Iterable[Section]
    page_id: int = -1
    description: str = ""
    topic: str = ""
    lead: str | None = None
    has_page: bool = True


@dataclass(frozen=True)
class Redirect:
    """Another name of an article: a link to ``title`` leads to the article ``target``. Of several of that title it is the one
    that the redirect stands behind, or else the first."""

    title: str
    target: str


@dataclass(frozen=True)
class UnplacedLink:
    """A link that the source has, but not where in the text it stands: counted, and part of no table."""

    source: str
    target: str


Item = Article | Redirect | UnplacedLink


class _Builder:
    """Writes articles to the tables and counts them."""

    def __init__(self, directory: Path) -> None:
        self.writers = {
            name: TableWriter(directory / f"{name}.parquet", SCHEMAS[name])
            for name in ("articles", "sections", "passages")
        }
        # Links are written with their title first; the article id is filled in when every title is known.
        self.raw_links = TableWriter(directory / "links.unresolved", SCHEMAS["links"])
        self.titles = TitleTable()
        self.last = ("", -1)  # title and id of an article
        names = ("pages", "redirects", "leads", "joined", "page_passages", "sentences")
        self.counts = dict.fromkeys(names, 0)

    def add(self, item: Item) -> None:
        if isinstance(item, Article):
            self._add_article(item)
        elif isinstance(item, Redirect):
            self.counts["redirects"] += 1
            title, article_id = self.last
            if item.target == title:
                self.titles.add_name(item.title, article_id)
            else:
                self.titles.add_redirect(item.title, item.target)
        else:
            self.counts["links_unplaced"] = self.counts.get("links_unplaced", 0) + 1

    def _add_article(self, article: Article) -> None:
        has_lead = article.lead is not None
        writer = self.writers["articles"]
        row = (article.page_id, article.title, article.description, article.topic, article.has_page, has_lead)
        article_id = writer.append((writer.rows, *row))
        self.titles.add_article(article.title, article_id)
        self.last = (article.title, article_id)
        self.counts["pages"] += article.has_page
        self.counts["leads"] += has_lead
        self.counts["joined"] += article.has_page and has_lead
        for index, section in enumerate(article.sections):
            section_id = self.writers["sections"].rows
            self.writers["sections"].append((section_id, article_id, section.level, section.heading))
            if index == 0 and article.lead is not None:
                self._add_passage(section_id, article_id, "lead", Paragraph(article.lead))
            for paragraph in section.paragraphs:
                self.counts["page_passages"] += 1
                self._add_passage(section_id, article_id, "page", paragraph)

    def _add_passage(self, section_id: int, article_id: int, source: str, paragraph: Paragraph) -> None:
        spans = sentence_spans(paragraph.text)
        self.counts["sentences"] += len(spans)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        writer = self.writers["passages"]
        passage_id = writer.append((writer.rows, section_id, article_id, source, paragraph.text, starts, ends))
        for link in paragraph.links:
            self.raw_links.append((passage_id, -1, link.target, link.start, link.end))


def build_corpus(
    articles: Iterable[Item],
    directory: Path,
    expected: Mapping[str, int] | None = None,
    label: str = "corpus",
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write ``articles|sections|passages|links.parquet`` and ``stats.json``; returns the counts of ``stats.json``. ``wlp_pairs``
    is the number of distinct (passage, page linked to) with a first section on both the linked page and a different page than the
    passage's.

    articles: what a reader yields; gone through once, never held. directory: where the tables go; what is there is whole, and
    nothing stays there after an exception. expected: counts that must come out exactly (``pages``, ``leads``, …) or, with the
    suffix ``_min``, at least. label: names the source in the message about a count. more: further entries of ``stats.json``,
    looked at when the last article has been read.

    Raises DataError when a count differs from what is expected, or there is no text at all.
    """
    builder = _Builder(directory)
    with (
        builder.raw_links,
        builder.writers["articles"],
        builder.writers["sections"],
        builder.writers["passages"],
        Progress("corpus", unit="articles") as progress,
    ):
        for item in articles:
            builder.add(item)
            if isinstance(item, Article):
                progress.advance()
    try:
        counts = _finish(builder, directory, expected or {}, label)
        counts.update(more or {})
        write_json(directory / "stats.json", counts)
    except BaseException:
        # The first three tables are in place by now, and an older corpus's links and counts are not theirs.
        for name in (*(f"{table}.parquet" for table in SCHEMAS), "stats.json"):
            (directory / name).unlink(missing_ok=True)
        raise
    return counts


def _finish(builder: _Builder, directory: Path, expected: Mapping[str, int], label: str) -> dict[str, Any]:
    """Resolve the links, count, and check the counts."""
    counts: dict[str, Any] = builder.counts
    builder.titles.freeze()
    raw = directory / "links.unresolved"
    try:
        counts["links"], counts["links_inside"] = _resolve_links(raw, directory / "links.parquet", builder.titles)
    finally:
        raw.unlink()
    counts.update({name: writer.rows for name, writer in builder.writers.items()})
    if not counts["passages"]:
        raise DataError(
            f"{label}: {counts['articles']:,} articles without a single paragraph of text; is it the reader's format?"
        )
    counts["wlp_pairs"] = _count_wlp_pairs(directory)
    _check(counts, expected, label)
    return counts


def _resolve_links(raw: Path, out: Path, titles: TitleTable) -> tuple[int, int]:
    """Fill in article ids, row group by row group; returns (links, links within the corpus)."""
    inside = 0
    with TableWriter(out, SCHEMAS["links"]) as writer:
        for batch in pq.ParquetFile(raw).iter_batches(batch_size=100_000):
            columns = batch.to_pydict()
            hashes = np.fromiter(
                (title_hash(title) for title in columns["title"]), dtype=np.int64, count=batch.num_rows
            )
            ids = titles.resolve(hashes).tolist()
            inside += sum(article_id >= 0 for article_id in ids)
            for row in zip(columns["passage_id"], ids, columns["title"], columns["start"], columns["end"], strict=True):
                writer.append(row)
        return writer.rows, inside


def _count_wlp_pairs(directory: Path) -> int:
    """Distinct (passage, linked article) with a first section to draw the query from, on two different articles."""
    passages = pq.read_table(directory / "passages.parquet", columns=["article_id", "section_id"])
    sections = pq.read_table(directory / "sections.parquet", columns=["level"])["level"].to_numpy()
    article = passages["article_id"].to_numpy()
    first = sections[passages["section_id"].to_numpy()] == 1
    has_first_section = np.zeros(int(article.max(initial=-1)) + 1, dtype=bool)
    has_first_section[article[first]] = True
    links = pq.read_table(directory / "links.parquet", columns=["passage_id", "article_id"])
    source, target = links["passage_id"].to_numpy(), links["article_id"].to_numpy()
    known = target >= 0
    source, target = source[known], target[known]
    usable = (article[source] != target) & (target < len(has_first_section))
    usable[usable] = has_first_section[target[usable]]
    # One number for each pair: sorted ten times faster than rows of two.
    return len(np.unique(source[usable].astype(np.int64) * len(has_first_section) + target[usable]))


def _check(counts: Mapping[str, int], expected: Mapping[str, int], label: str) -> None:
    for key, wanted in expected.items():
        name = key.removesuffix("_min")
        found = counts.get(name)
        if found is None or (found < wanted if key.endswith("_min") else found != wanted):
            bound = "at least " if key.endswith("_min") else ""
            raise DataError(
                f"{label}: the corpus has {found} {name}, expected {bound}{wanted}. The source or the reader has "
                f"changed; counts: {counts}"
            )
