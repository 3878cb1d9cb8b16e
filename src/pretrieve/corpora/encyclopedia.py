"""An encyclopaedia corpus: a MediaWiki dump, joined by title with the leads of other articles.

What an article has decides which pre-training pairs it can give (paper ``pretraining_tasks`` §3):

* a page of a dump gives sections, paragraphs and links: ICT, BFS, and the documents of WLP;
* a lead gives a first section only: ICT, and the queries of WLP for every page that links to it.

Everything is written as it is read. What stays in memory is 16 bytes for a title or redirect (a 64-bit hash and an
id), the leads, and one row group per table, so a full English dump fits where a fragment does.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pretrieve.corpora.leads import Lead, read_leads
from pretrieve.corpora.mediawiki import Page, read_pages
from pretrieve.corpora.tables import SCHEMAS, TableWriter
from pretrieve.corpora.wikitext import Section, normalise_title, parse_page
from pretrieve.errors import DataError
from pretrieve.files import write_json
from pretrieve.text.sentences import sentence_spans
from pretrieve.training.progress import Progress


def title_hash(title: str) -> int:
    """64-bit hash of a normalised title, the same in every process (Python's own hash is salted).

    The chance that any two of 20 million titles collide is 1e-5.
    """
    return int.from_bytes(hashlib.blake2b(title.encode(), digest_size=8).digest(), "little", signed=True)


class TitleTable:
    """Title hash → article id, through at most one redirect, as MediaWiki does."""

    def __init__(self) -> None:
        self._titles, self._ids = array("q"), array("q")
        self._from, self._to = array("q"), array("q")

    def add_article(self, title: str, article_id: int) -> None:
        self._titles.append(title_hash(normalise_title(title)))
        self._ids.append(article_id)

    def add_redirect(self, title: str, target: str) -> None:
        self._from.append(title_hash(normalise_title(title)))
        self._to.append(title_hash(normalise_title(target)))

    def freeze(self) -> None:
        """Sort the tables for look-up; call once, after the last title and before :meth:`resolve`."""
        titles, ids = np.array(self._titles, dtype=np.int64), np.array(self._ids, dtype=np.int64)
        order = np.argsort(titles, kind="stable")
        self._title_keys, self._title_ids = titles[order], ids[order]
        sources, targets = np.array(self._from, dtype=np.int64), np.array(self._to, dtype=np.int64)
        order = np.argsort(sources, kind="stable")
        self._redirect_keys, self._redirect_targets = sources[order], targets[order]

    @staticmethod
    def _look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, default: np.ndarray) -> np.ndarray:
        if not len(keys):
            return default
        position = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[position] == wanted, values[position], default)

    def resolve(self, hashes: np.ndarray) -> np.ndarray:
        """Article ids (n,) for title hashes (n,); -1 for a title that is not in the corpus."""
        nowhere = np.full(len(hashes), -1, dtype=np.int64)
        direct = self._look_up(self._title_keys, self._title_ids, hashes, nowhere)
        target = self._look_up(self._redirect_keys, self._redirect_targets, hashes, hashes)
        return np.where(direct >= 0, direct, self._look_up(self._title_keys, self._title_ids, target, nowhere))


class _Builder:
    """Writes articles to the four tables and counts them."""

    def __init__(self, directory: Path) -> None:
        self.writers = {
            name: TableWriter(directory / f"{name}.parquet", SCHEMAS[name])
            for name in ("articles", "sections", "passages")
        }
        # Links are written with their title first; the article id is filled in when every title is known.
        self.raw_links = TableWriter(directory / "links.unresolved", SCHEMAS["links"])
        self.titles = TitleTable()
        self.counts = dict.fromkeys(("pages", "redirects", "leads", "joined", "page_passages", "sentences"), 0)

    def add(self, title: str, page: Page | None, sections: list[Section], lead: Lead | None) -> None:
        article_id = self.writers["articles"].append(
            (
                self.writers["articles"].rows,
                page.page_id if page else -1,
                title,
                lead.description if lead else "",
                lead.topic if lead else "",
                page is not None,
                lead is not None,
            )
        )
        self.titles.add_article(title, article_id)
        for index, section in enumerate(sections):
            section_id = self.writers["sections"].rows
            self.writers["sections"].append((section_id, article_id, section.level, section.heading))
            if index == 0 and lead:
                self._add_passage(section_id, article_id, "lead", lead.text)
            for paragraph in section.paragraphs:
                passage_id = self._add_passage(section_id, article_id, "page", paragraph.text)
                for link in paragraph.links:
                    self.raw_links.append((passage_id, -1, link.target, link.start, link.end))

    def _add_passage(self, section_id: int, article_id: int, source: str, text: str) -> int:
        spans = sentence_spans(text)
        self.counts["sentences"] += len(spans)
        self.counts["page_passages"] += source == "page"
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        writer = self.writers["passages"]
        return writer.append((writer.rows, section_id, article_id, source, text, starts, ends))


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


def _pages(dump: Path, counts: dict[str, int], titles: TitleTable) -> Iterator[Page]:
    for page in read_pages(dump):
        if page.redirect is None:
            counts["pages"] += 1
            yield page
        else:
            counts["redirects"] += 1
            titles.add_redirect(page.title, page.redirect)


def build_encyclopedia(
    dump: Path, leads_file: Path | None, directory: Path, expected: dict[str, int] | None = None
) -> dict[str, int]:
    """Read a dump (and leads) and write ``articles|sections|passages|links.parquet`` and ``stats.json``.

    Parameters
    ----------
    dump:
        MediaWiki XML export, plain or compressed.
    leads_file:
        leads as in :mod:`pretrieve.corpora.leads`, or None for a dump alone.
    directory:
        where the tables go; a table appears only when it is whole.
    expected:
        counts that must come out exactly (``pages``, ``leads``, …) or, with the suffix ``_min``, at least.

    Returns
    -------
    dict
        the counts in ``stats.json``; ``wlp_pairs`` is the number of distinct (passage, page linked to) with a first
        section on both the linked page and a different page than the passage's.

    Raises
    ------
    DataError
        when a count differs from what is expected.
    """
    leads = read_leads(leads_file) if leads_file else {}
    builder = _Builder(directory)
    counts = builder.counts
    counts["leads"] = len(leads)
    pending = dict(leads)
    with (
        builder.raw_links,
        builder.writers["articles"],
        builder.writers["sections"],
        builder.writers["passages"],
        Progress("corpus", unit="articles") as progress,
    ):
        for page in _pages(dump, counts, builder.titles):
            lead = pending.pop(page.title, None)
            counts["joined"] += lead is not None
            builder.add(page.title, page, parse_page(page.text), lead)
            progress.advance()
        for title, lead in pending.items():
            builder.add(title, None, [Section("", 1)], lead)
            progress.advance()
    builder.titles.freeze()
    raw = directory / "links.unresolved"
    try:
        counts["links"], counts["links_inside"] = _resolve_links(raw, directory / "links.parquet", builder.titles)
    finally:
        raw.unlink()
    counts.update({name: writer.rows for name, writer in builder.writers.items()})
    counts["wlp_pairs"] = _count_wlp_pairs(directory)
    _check(counts, expected or {}, dump)
    write_json(directory / "stats.json", counts)
    return counts


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
    return len(np.unique(np.stack([source[usable], target[usable]]), axis=1)[0])


def _check(counts: dict[str, int], expected: dict[str, int], dump: Path) -> None:
    for key, wanted in expected.items():
        name = key.removesuffix("_min")
        found = counts.get(name)
        if found is None or (found < wanted if key.endswith("_min") else found != wanted):
            bound = "at least " if key.endswith("_min") else ""
            raise DataError(
                f"{dump}: the corpus has {found} {name}, expected {bound}{wanted}. The source or the reader has changed; "
                f"counts: {counts}"
            )
