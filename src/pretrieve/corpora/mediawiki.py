"""MediaWiki XML dumps (``pages-articles``, export-0.3 … 0.11), read as a stream.

Format: https://www.mediawiki.org/wiki/Help:Export#Export_format. A dump is one ``<mediawiki>`` element with a
``<page>`` for each page; multistream dumps are many bz2 streams behind one another, which are read as one
(:func:`~pretrieve.corpora.raw_bytes.open_raw`).
Only one page is in memory at a time, so a 20 GB dump needs as much memory as a small one.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pretrieve.corpora.raw_bytes import open_raw
from pretrieve.errors import DataError


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

    Raises
    ------
    DataError
        when the file is truncated, is not bz2/gzip/XML, or holds no ``<mediawiki>`` element; the message names the
        file, the line (of the XML) and the last page that was read whole.
    """
    last = "none"
    root, seen_root = None, False
    try:
        with open_raw(path) as stream:
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                tag = _local(element.tag)
                if event == "start":
                    if root is None:
                        root = element
                        seen_root = tag == "mediawiki"
                        if not seen_root:
                            raise DataError(
                                f"{path}: the root element is <{tag}>, expected <mediawiki>. "
                                "Give a MediaWiki XML export such as enwiki-YYYYMMDD-pages-articles.xml.bz2."
                            )
                    continue
                if tag != "page":
                    continue
                page = _page(element)
                root.clear()  # what has been read is freed, or memory grows with the dump
                last = page[1].title
                if page[0] == namespace:
                    yield page[1]
    except ElementTree.ParseError as error:
        raise DataError(
            f"{path}: not well-formed XML at line {error.position[0]} (last whole page: {last}): {error}. "
            "The file is damaged or truncated; fetch it again."
        ) from error
    except DataError as error:
        if root is not None and not seen_root:
            raise
        raise DataError(f"{error} (last whole page: {last})") from None
    if not seen_root:
        raise DataError(f"{path}: empty file, expected a MediaWiki XML export.")


def _page(element: ElementTree.Element) -> tuple[int, Page]:
    title, text, redirect, page_id, namespace = "", "", None, -1, 0
    for child in element:
        tag = _local(child.tag)
        if tag == "title":
            title = child.text or ""
        elif tag == "ns":
            namespace = int(child.text or 0)
        elif tag == "id":
            page_id = int(child.text or -1)
        elif tag == "redirect":
            redirect = child.get("title") or ""
        elif tag == "revision":
            for part in child:
                if _local(part.tag) == "text":
                    text = part.text or ""
    return namespace, Page(page_id, title, redirect, text)
