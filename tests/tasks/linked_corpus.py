"""Corpora of pages and leads for the tests of tasks; one of full pages with sections, paragraphs and links."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import escape

from pretrieve.corpora.builder import build_corpus
from pretrieve.corpora.mediawiki import read_encyclopedia

PAGES, LEADS = 20, 108
_WORDS = ["amber", "basalt", "cedar", "dune", "ember", "fjord", "grove", "harbour", "island", "jungle"]


def sentence(page: int, section: int, paragraph: int, number: int, link: str = "") -> str:
    """A sentence that no other place has."""
    word = _WORDS[(page + 3 * section + number) % 10]
    return (
        f"The {word} of page {page} lies in section {section}, paragraph {paragraph}, as sentence {number} says{link}."
    )


def links_of(page: int) -> list[int]:
    """Leads that a page links to, in order: eight, three of them shared with the next page."""
    return [5 * page + i for i in range(8)]


def corpus_of(directory: Path, pages: dict[str, str], leads: dict[str, tuple[str, str]] | None = None) -> Path:
    """A corpus of pages (title → wikitext) and leads (title → lead and description)."""
    dump = "".join(
        f"<page><title>{title}</title><ns>0</ns><id>{number}</id><revision><id>1</id>"
        f'<text xml:space="preserve">{escape(text)}</text></revision></page>\n'
        for number, (title, text) in enumerate(pages.items(), start=1)
    )
    namespace = "http://www.mediawiki.org/xml/export-0.10/"
    (directory / "dump.xml").write_text(f'<mediawiki xmlns="{namespace}" version="0.10">\n{dump}</mediawiki>\n')
    entries = {
        title: {"title": title, "extract": lead, "description": description, "topic": ""}
        for title, (lead, description) in (leads or {}).items()
    }
    file = None if leads is None else directory / "leads.json"
    if file:
        file.write_text(json.dumps(entries))
    build_corpus(read_encyclopedia([directory / "dump.xml"], file), directory)
    return directory


def write_corpus(directory: Path) -> Path:
    """Pages with an introduction and three sections of two paragraphs with four sentences; leads of one paragraph."""
    pages = {}
    for page in range(PAGES):
        text, links = "", iter(links_of(page))
        for section in range(4):
            text += f"\n== Part {section} ==\n" if section else ""
            for paragraph in range(2):
                marks = [f" near [[Lead {target}]]" if (target := next(links, None)) is not None else "", "", "", ""]
                lines = [sentence(page, section, paragraph, n, mark) for n, mark in enumerate(marks)]
                text += " ".join([*lines, "Too short."]) + "\n\n"
        pages[f"Page {page}"] = text
    leads = {}
    for lead in range(1, LEADS):  # a link to Lead 0 leads out of the corpus
        words = [f"This {_WORDS[(lead + n) % 10]} belongs to lead {lead} as its sentence {n} tells." for n in range(3)]
        leads[f"Lead {lead}"] = " ".join(words), ""
    return corpus_of(directory, pages, leads)
