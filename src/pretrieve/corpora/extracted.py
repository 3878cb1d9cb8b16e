"""Extracted Wikipedia: the ``<doc>`` blocks that WikiExtractor makes of a dump.

Format: https://github.com/attardi/wikiextractor, section "Usage". ::

    <doc id="12" url="http://en.wikipedia.org/wiki?curid=12" title="Anarchism">
    Anarchism

    Anarchism is a political philosophy that advocates stateless societies …
    Etymology and terminology.
    The term "anarchism" is a compound word composed from …

    </doc>

Line 1 repeats the title. Every other line is a paragraph, or a heading with a full stop after it. Nothing tells the
two apart, nor the level of a heading, so here:

* a line of less than 60 characters is never a paragraph (as in :mod:`pretrieve.corpora.wikitext`);
* such a line is a heading, of level 2, when it ends with ``.``, begins with a capital, a digit or a quotation mark,
  and is not a sentence: it holds none of :data:`VERBS` and no other full stop that ends a sentence;
* sections of references and of nothing but headings are omitted, like lists, lone formulas and everything else that
  is not prose by :func:`~pretrieve.corpora.wikitext.is_prose`.

Links are kept where the extractor was told to keep them (``--links``): ``<a href="Title">label</a>``, also with ``<``
and ``>`` written as entities, which some versions do. Other tags go; their text stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article
from pretrieve.corpora.wikitext import (
    MIN_PARAGRAPH_CHARS,
    Paragraph,
    Section,
    is_prose,
    parse_paragraph,
    tidy,
    unescaped,
    with_text,
)
from pretrieve.raw.raw_text import Warnings, read_lines

_NAME, _VALUE_END = re.compile(r'\b(\w+)="'), re.compile(r'"(?=\s+\w+="|\s*>$)')
_ANCHOR, _ANCHOR_END = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.I), re.compile("</a>", re.I)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
#: Numbers of this many digits are sure to fit the corpus's column; Wikipedia's have 8.
_ID_DIGITS = 18
_INNER_STOP = re.compile(r"[a-z)]{2}[.;] ")
#: Verbs that make a short line a sentence. Headings have participles, but hardly ever one of these.
VERBS = frozenset(
    re.findall(
        r"\w+",
        "is are was were be been has have had does do did can could may might must shall should will would see means "
        "became become includes include contains denotes denote says said gives",
    )
)


def is_heading(line: str) -> bool:
    """Whether a line of less than 60 characters is a heading.

    >>> is_heading("Etymology and terminology."), is_heading("An atlas is a collection of maps.")
    (True, False)
    """
    return (
        line.endswith(".")
        and not line.endswith("..")
        and (line[0].isupper() or line[0].isdigit() or line[0] in "\"'“‘(¡¿")
        and not _INNER_STOP.search(line)
        and not VERBS.intersection(line[:-1].lower().split())
    )


def _attributes(path: Path, number: int, line: str) -> dict[str, str]:
    """``title="…"`` may hold quotation marks of its own: a value goes on to the mark in front of the next name."""
    found, end = dict[str, str](), 0
    while (name := _NAME.search(line, end)) and (value_end := _VALUE_END.search(line, name.end())):
        found[name[1]], end = line[name.end() : value_end.start()], value_end.end()
    if not found.get("title", "").strip():
        raise DataError(
            f'{path}: line {number}: found {line[:80]!r}; expected <doc id="…" url="…" title="…">, as WikiExtractor '
            "writes it."
        )
    return found


def _paragraph(line: str) -> Paragraph:
    if "<" in line:
        # The links of a dump have a reader; what it reads differently is hidden from it.
        line = line.replace("[[", "[").replace("]]", "]")
        end = max((match.end() for match in _ANCHOR_END.finditer(line)), default=0)  # what begins behind it has no end
        links = _ANCHOR.sub(lambda m: f"[[{unquote(m[1]).replace('|', ' ')}|{m[2].replace('|', ' ')}]]", line[:end])
        return parse_paragraph(tidy(_TAG.sub("", links + line[end:])))
    return Paragraph(tidy(line))


def sections_of(lines: Iterable[str]) -> list[Section]:
    """The sections of prose of an article's lines, without its title line; the first is there even when it is empty."""
    sections = [Section("", 1)]
    for line in lines:
        if "&" in line:
            line = unescaped(line)
        line = line.strip()
        if len(line) < MIN_PARAGRAPH_CHARS:
            if line and is_heading(line):
                sections.append(Section(line[:-1], 2))
            continue
        paragraph = _paragraph(line)
        if is_prose(paragraph.text):
            sections[-1].paragraphs.append(paragraph)
    return with_text(sections, of_prose=True)


def read_extracted(paths: Iterable[Path], warnings: Warnings) -> Iterator[Article]:
    """The articles of files (plain, gzip or bzip2) of ``<doc>`` blocks; an article's lines are in memory, no more.

    Raises DataError for text between the blocks, a block that does not end, an ``id`` no page can have, and what
    :func:`~pretrieve.raw.raw_text.read_lines` raises.
    """
    for path in paths:
        begin, attributes, lines = 0, {}, []
        for number, line in read_lines(path):
            if line.startswith("<doc "):
                if begin:
                    raise _open_block(path, begin, f"line {number} begins another")
                begin, attributes, lines = number, _attributes(path, number, line), []
            elif line.startswith("</doc>"):
                if not begin:
                    raise DataError(f"{path}: line {number}: </doc> without a <doc …> before it; fetch the file again.")
                yield _article(path, begin, attributes, lines, warnings)
                begin = 0
            elif begin:
                lines.append(line)
            elif line.strip():
                raise DataError(
                    f"{path}: line {number}: found {line[:80]!r} outside of a <doc …> block; expected a file of "
                    f"WikiExtractor's blocks."
                )
        if begin:
            raise _open_block(path, begin, "the file ends")


def _open_block(path: Path, begin: int, what: str) -> DataError:
    return DataError(f"{path}: the block of line {begin} has no </doc>: {what}. The file is cut off; fetch it again.")


def _article(path: Path, begin: int, attributes: dict[str, str], lines: list[str], warnings: Warnings) -> Article:
    title = unescaped(attributes["title"])
    if lines and unescaped(lines[0]).strip() == title.strip():
        lines = lines[1:]
    else:
        warnings.add("first line is not the title", f"{path}, line {begin + 1}")
    sections = sections_of(lines)
    if not any(section.paragraphs for section in sections):
        warnings.add("article without a paragraph", f"{path}, line {begin}: {title}")
    number = attributes.get("id", "")
    if number.isdecimal() and len(number) > _ID_DIGITS:
        raise DataError(
            f"{path}: line {begin}: id {number[:40]!r} has {len(number):,} digits; expected the number of a page, at most "
            f"{_ID_DIGITS} digits."
        )
    return Article(title, sections, int(number) if number.isdecimal() else -1)
