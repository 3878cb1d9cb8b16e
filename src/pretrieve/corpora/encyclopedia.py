"""An encyclopaedia: MediaWiki dumps, joined by title with the leads of other articles.

A page of a dump gives sections, paragraphs and links; a lead gives a first section only: sentences for ICT, and the
queries of WLP for every page that links to it. Leads whose page is in the dump become that page's first passage; the
others follow as articles of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pretrieve.corpora.builder import Article, Item, Redirect, build_corpus
from pretrieve.corpora.leads import read_leads
from pretrieve.corpora.mediawiki import read_pages
from pretrieve.corpora.wikitext import Section, parse_page


def read_encyclopedia(
    dumps: Iterable[Path], leads_file: Path | None = None, _warnings: object = None
) -> Iterator[Item]:
    """The articles and redirects of MediaWiki XML exports in their order, then the leads that have no page.

    Raises
    ------
    DataError
        what :func:`~pretrieve.corpora.mediawiki.read_pages` and :func:`~pretrieve.corpora.leads.read_leads` raise.
    """
    pending = read_leads(leads_file) if leads_file else {}
    for dump in dumps:
        for page in read_pages(dump):
            if page.redirect is not None:
                yield Redirect(page.title, page.redirect)
                continue
            lead = pending.pop(page.title, None)
            article = Article(page.title, parse_page(page.text), page.page_id)
            if lead is not None:
                article.description, article.topic, article.lead = lead.description, lead.topic, lead.text
            yield article
    for title, lead in pending.items():
        yield Article(
            title,
            [Section("", 1)],
            description=lead.description,
            topic=lead.topic,
            lead=lead.text,
            has_page=False,
        )


def build_encyclopedia(
    dump: Path, leads_file: Path | None, directory: Path, expected: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Read a dump (and leads) and write a corpus: :func:`~pretrieve.corpora.builder.build_corpus`."""
    return build_corpus(read_encyclopedia([dump], leads_file), directory, expected, str(dump))
