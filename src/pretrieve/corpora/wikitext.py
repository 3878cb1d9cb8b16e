"""Wikitext → sections of plain paragraphs with their links.

A full parse (wikitextparser, mwparserfromhell) builds a tree of every template and tag; a corpus needs only
the prose and the links in it. So the text is cleaned by passes of compiled regular expressions, and links are read
last, paragraph by paragraph, so that their offsets are exact. The time of each pass grows with the text and not with
its square, whatever is in it: what may repeat is never followed by what may begin alike.

Order of the passes (each relies on the ones before it):

1. comments, references, formulas, galleries, tables and other non-prose elements go away with their content;
2. templates are resolved innermost first: the few that carry prose (``{{convert}}``, ``{{lang}}`` …) become
   their text (:mod:`pretrieve.corpora.wiki_templates`), every other one becomes nothing;
3. files, categories and interwiki links go away, with one level of links nested in a caption;
4. the text is split at headings; lists, indented lines and what is left of tables are dropped;
5. ``[[target|label]]`` becomes its label and a :class:`Link` with offsets into the finished paragraph.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from pretrieve.corpora.wiki_templates import template_text

#: A prose paragraph has at least this many characters; shorter ones are captions or leftovers of layout.
MIN_PARAGRAPH_CHARS = 60

#: Sections that hold references and link lists instead of prose (compared in lower case).
NON_PROSE_HEADINGS = {
    "references", "notes", "footnotes", "citations", "sources", "bibliography", "further reading", "external links",
    "see also", "works cited", "notes and references", "references and notes", "explanatory notes", "gallery",
    "filmography", "discography",
}  # fmt: skip


@dataclass(frozen=True)
class Link:
    """One internal link. ``start``/``end`` are character offsets of its label in the paragraph's text."""

    target: str
    start: int
    end: int


@dataclass
class Paragraph:
    """One paragraph of prose and the links in it, in text order."""

    text: str
    links: list[Link] = field(default_factory=list)


@dataclass
class Section:
    """A section: its heading ('' for the first section), level (1 for the first, then 2..6), paragraphs; ``page`` of a PDF, from
    1, else 0."""

    heading: str
    level: int
    paragraphs: list[Paragraph] = field(default_factory=list)
    page: int = 0


_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_EMPTY_REF = re.compile(r"<ref\b[^<>]*?/\s*>", re.I)
_DROPPED_ELEMENT = re.compile(
    r"<(ref|gallery|timeline|imagemap|syntaxhighlight|source|score|math|chem|table|references)\b[^<>]*>"
    # Up to its end, never over the next one of its kind: an unclosed element costs no more than a closed one. The loop is
    # unrolled at "<", much faster than a test at every character. It is not possessive (*+): CPython 3.11 before 3.11.5
    # matches such a group wrongly, and cut 270 passages of the demo.
    r"[^<]*(?:<(?!\1\b|/\1\s*>)[^<]*)*</\1\s*>",
    re.S | re.I,
)
_NOWIKI = re.compile(r"</?nowiki\s*/?>", re.I)
_BREAK = re.compile(r"<(?:br|hr)\s*(?:/\s*)?>|</?(?:p|div|blockquote|poem|center)\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_INNERMOST_TEMPLATE = re.compile(r"\{\{([^{}]*)\}\}")
_INNERMOST_TABLE = re.compile(r"^[ \t:*]*\{\|(?:(?!^[ \t:*]*\{\|).)*?^[ \t]*\|\}", re.S | re.M)
_MEDIA = re.compile(
    r"\[\[\s*(?::\s*)?(?:(?:file|image|media|category|wikt|wiktionary|commons)\s*:|[a-z]{2,3}(?:-[a-z]+)?:(?!\s))"
    r"(?:[^\[\]]|\[\[[^\[\]]*\]\]|\[[^\[\]]*\])*\]\]",
    re.I,
)
#: A link in prose to another wiki (``[[:fr:Paris|Paris]]``): its label is part of the sentence.
_INTERWIKI = re.compile(
    r"\[\[\s*(?::\s*[a-z]{2,3}(?:-[a-z]+)?|(?::\s*)?(?:wikt|wiktionary|commons)):(?!\s)[^\[\]|]*\|([^\[\]]*)\]\]",
    re.I,
)
#: An address, and its label after blanks. Neither has a bracket, so that no second one is looked for the end of the first.
_EXTERNAL = re.compile(r"\[(?:(?:https?:|ftp:|mailto:)?//|mailto:)[^\s\[\]]*(?:\s([^\[\]]*))?\]", re.I)
_MAYBE_HEADING = re.compile(r"^==.+$", re.M)
_LONG_NUMBER = re.compile(r"&#[0-9]{10,};?")
_QUOTES = re.compile(r"''{1,4}")  # two to five; the first one as a literal, which is searched for seven times faster
_OTHER_SPACES = "\t\u00a0\u2009\u200a\u202f"
_SPACES = re.compile(r"  +")
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_LINK = re.compile(r"\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]([a-z]*)")
_EMPTY_BRACKETS = re.compile(r"\((?:[;,:.\s]|\bor\b|\band\b)*\)")
_BRACKET_LEAD = re.compile(r"\(\s*[;,:][;,:\s]*")
_BRACKET_TAIL = re.compile(r"(?<![\s;,:])[\s;,:]+\)")
_SPACE_BEFORE_STOP = re.compile(r"(?<!\s)\s+([,.;:!?])(?=\s|$)")
# A substitution whose pattern starts with blanks is tried at every blank, so it runs only where one of these, which start
# with a rare character, finds what it needs.
_HAS_BRACKET_TAIL = re.compile(r"\)(?<=[\s;,:]\))")
_HAS_SPACE_BEFORE_STOP = re.compile(r"[,.;:!?](?<=\s.)(?=\s|$)")
_DOUBLE_STOP = re.compile(r"([,;])(?:\s*[,;])+")
_LIST_MARK = ("*", "#", ":", ";", "|", "!", "{", "}", "=", "<")


def strip_markup(wikitext: str) -> str:
    """Remove everything but prose, headings, lists marks and ``[[links]]`` from a page's wikitext."""
    text = _COMMENT.sub("", wikitext)
    text = _EMPTY_REF.sub("", text)
    # Twice: a reference can hold a <math> or a <gallery> element.
    text = _DROPPED_ELEMENT.sub("", text)
    for _ in range(12):  # nesting depth seen on real pages is below 8; a malformed page must end too
        text, count = _INNERMOST_TEMPLATE.subn(template_text, text)
        if not count:
            break
    for _ in range(6):
        text, count = _INNERMOST_TABLE.subn("", text)
        if not count:
            break
    text = _DROPPED_ELEMENT.sub("", text)
    text = _INTERWIKI.sub(r"\1", text)
    text = _MEDIA.sub("", text)
    text = _MEDIA.sub("", text)  # an image whose caption held an image
    text = _EXTERNAL.sub(lambda m: (m.group(1) or "").lstrip(), text)
    text = _BREAK.sub("\n", text)
    for pattern in (_NOWIKI, _TAG, _MAGIC_WORD, _QUOTES):
        text = pattern.sub("", text)
    return unescaped(text)  # last: what an entity stands for is text and never markup


def unescaped(text: str) -> str:
    """``&amp;`` and ``&#38;`` as characters. Numbers of more digits than Python reads are none."""
    try:
        return html.unescape(text)
    except ValueError:
        return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


def article_title(title: str) -> str:
    """A title as MediaWiki has it: underscores as spaces, first letter upper case.

    >>> article_title("c#_(programming language) ")
    'C# (programming language)'
    """
    title = " ".join(title.replace("_", " ").lstrip(":").split())
    return title[:1].upper() + title[1:]


def link_target(target: str) -> str:
    """A link target as the title of the article that it leads to: without the section.

    >>> link_target("anarcho-capitalism#History ")
    'Anarcho-capitalism'
    """
    return article_title(target.partition("#")[0])


def tidy(line: str) -> str:
    """A line with single blanks, and without what removed markup leaves: empty brackets, blanks before stops.

    >>> tidy("Rome ( ; Latin: Roma ) , a  city")
    'Rome (Latin: Roma), a city'
    """
    for space in _OTHER_SPACES:
        line = line.replace(space, " ")
    if "  " in line:
        line = _SPACES.sub(" ", line)
    line = line.strip()
    if "(" in line:
        *before, rest = _EMPTY_BRACKETS.split(line)
        line = "".join(part.rstrip() for part in before) + rest
        line = _BRACKET_LEAD.sub("(", line)
        if _HAS_BRACKET_TAIL.search(line):
            line = _BRACKET_TAIL.sub(")", line)
    if _HAS_SPACE_BEFORE_STOP.search(line):
        line = _SPACE_BEFORE_STOP.sub(r"\1", line)
    return _DOUBLE_STOP.sub(r"\1", line)


def parse_paragraph(line: str) -> Paragraph:
    """Turn one cleaned line with ``[[links]]`` into its text and links.

    >>> parse_paragraph("An [[political philosophy|idea]] of [[state]]s.")
    Paragraph(text='An idea of states.', links=[Link(target='Political philosophy', start=3, end=7), \
Link(target='State', start=11, end=17)])
    """
    pieces: list[str] = []
    links: list[Link] = []
    length = position = 0
    for match in _LINK.finditer(line):
        before = line[position : match.start()]
        target, label, trail = match.groups()
        label = (target if label is None else label) or target.split("(")[0].strip()
        label = label.lstrip(":") + trail
        pieces += (before, label)
        start = length + len(before)
        length = start + len(label)
        position = match.end()
        title = link_target(target)
        if title and label:
            links.append(Link(title, start, length))
    pieces.append(line[position:])
    text = "".join(pieces)
    if "[[" in text or "]]" in text:  # unbalanced brackets of a broken page: keep the words, drop the offsets
        text = text.replace("[[", "").replace("]]", "")
        links = []
    return Paragraph(text, links)


def _paragraphs(body: str) -> list[Paragraph]:
    paragraphs = []
    for line in body.split("\n"):
        if len(line) < MIN_PARAGRAPH_CHARS or line.startswith(_LIST_MARK) or "{{" in line or "}}" in line:
            continue
        paragraph = parse_paragraph(tidy(line))
        if is_prose(paragraph.text):
            paragraphs.append(paragraph)
    return paragraphs


def _heading(line: str) -> tuple[int, str] | None:
    """Level and text of a heading; None for another line. The level is that of the side with fewer signs.

    >>> _heading("=== Keels and ''ballast'' == "), _heading("====="), _heading("== 1 + 1 = 2")
    ((2, "= Keels and ''ballast''"), (2, '='), None)
    """
    line = line.rstrip(" \t")
    begin, end = len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("="))
    level = min(begin, end, 6) if begin < len(line) else min((len(line) - 1) // 2, 6)
    return (level, line[level : len(line) - level].strip(" \t")) if level > 1 else None


def is_prose(text: str) -> bool:
    """Whether a paragraph of an article is prose: 60 characters or more, and an end that a sentence can have.

    >>> is_prose("A sentence that is long enough for a paragraph of prose ends in a stop."), is_prose("Length: 12 m")
    (True, False)
    """
    return len(text) >= MIN_PARAGRAPH_CHARS and text[-1] in ".!?\"'”’):;"


def with_text(sections: list[Section], of_prose: bool = False) -> list[Section]:
    """The first section, and of the others those with paragraphs; ``of_prose``: without :data:`NON_PROSE_HEADINGS`."""
    omitted = NON_PROSE_HEADINGS if of_prose else ()
    first, *rest = sections
    return [first, *(section for section in rest if section.paragraphs and section.heading.lower() not in omitted)]


def parse_page(wikitext: str) -> list[Section]:
    """All sections of a page that hold prose, in page order; the first section has heading '' and level 1.

    The first section is always present, even when it is empty: body-first selection and link prediction need to
    know that a page has no introduction.
    """
    text = strip_markup(wikitext)
    sections = [Section("", 1)]
    position = 0
    for match in _MAYBE_HEADING.finditer(text):
        if heading := _heading(match.group()):
            sections[-1].paragraphs = _paragraphs(text[position : match.start()])
            sections.append(Section(parse_paragraph(heading[1]).text.strip(), heading[0]))
            position = match.end()
    sections[-1].paragraphs = _paragraphs(text[position:])
    return with_text(sections, of_prose=True)
