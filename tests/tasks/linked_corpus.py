"""A corpus of full pages with sections, paragraphs and links, for the tests of the tasks that are made of them."""

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


def write_corpus(directory: Path) -> Path:
    """Pages with an introduction and three sections of two paragraphs with four sentences; leads of one paragraph."""
    pages = []
    for page in range(PAGES):
        text, links = "", iter(links_of(page))
        for section in range(4):
            text += f"\n== Part {section} ==\n" if section else ""
            for paragraph in range(2):
                marks = [f" near [[Lead {target}]]" if (target := next(links, None)) is not None else "", "", "", ""]
                lines = [sentence(page, section, paragraph, n, mark) for n, mark in enumerate(marks)]
                text += " ".join([*lines, "Too short."]) + "\n\n"
        pages.append(
            f"<page><title>Page {page}</title><ns>0</ns><id>{page + 1}</id><revision><id>1</id>"
            f'<text xml:space="preserve">{escape(text)}</text></revision></page>'
        )
    dump = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">\n' + "\n".join(pages)
    (directory / "dump.xml").write_text(dump + "\n</mediawiki>\n")
    leads = {}
    for lead in range(LEADS):
        title = f"Lead {lead}"
        words = [f"This {_WORDS[(lead + n) % 10]} belongs to lead {lead} as its sentence {n} tells." for n in range(3)]
        leads[title] = {"title": title, "extract": " ".join(words), "description": "", "topic": ""}
    del leads["Lead 0"]  # a link that leads out of the corpus
    (directory / "leads.json").write_text(json.dumps(leads))
    build_corpus(read_encyclopedia([directory / "dump.xml"], directory / "leads.json"), directory)
    return directory
