"""A megabyte of text that is meant to take long takes no longer than one of prose: time grows with the text, not its square.

Each text is what one of the patterns began with again and again, or what two parts of it could share out between them. A pattern
with the fault needs hours for a megabyte, so that the limit, 33 s, is far from both.

Seen to fail when: an address may have a bracket, or its label begins with any number of blanks; ``<br``, ``[[`` and ``#REDIRECT``
have two runs of blanks side by side; a heading is one pattern; empty brackets take the blanks before them; attributes and links
of extracted articles look for their end from every begin; a mark of code looks for its like.
"""

from __future__ import annotations

import re

import pytest

from pretrieve.corpora import extracted, markdown, mediawiki, wikispeedia, wikitext
from pretrieve.corpora import folder as limits
from pretrieve.corpora.folder import time_limit

SIZE = 1_000_000
WIDE = "\u3000"  # a blank that is not made one of several


def of(unit: str, end: str = "") -> str:
    return unit * (SIZE // len(unit)) + end


WIKITEXT = {
    "addresses": of("[//"),
    "address without an end": "[//" + of("a"),
    "address and blanks": "[//a" + of(" "),
    "address and labels": of("[http://a b "),
    "mail": of("[mailto:"),
    "breaks": "<br" + of(" "),
    "elements": of("<ref>"),
    "elements of two kinds": of("<ref><math>"),
    "element with blanks at its end": "<ref>" + of("</ref "),
    "empty references": of("<ref /"),
    "comments": of("<!--"),
    "templates": of("{{a|"),
    "tables": of("{|\n"),
    "rows that begin with marks": of(":*" * 20 + "\n"),
    "links": of("[["),
    "link and blanks": "[[" + of(" "),
    "links of other wikis": of("[[:fr"),
    "pictures": of("[[File:a"),
    "pictures with links": of("[[File:[[a]]"),
    "heading of blanks": "==" + of(" ") + "x",
    "heading of signs": of("=", " x"),
    "heading in a heading": "== " + of("a = "),
    "headings": of("== a\n"),
    "brackets": of("("),
    "bracket and blanks": "a (" + of(WIDE),
    "blanks and empty brackets": "a" + of(WIDE) + "( )",
    "bracket and stops": "(" + of("; "),
    "blanks before a bracket": of(f"({WIDE}") + ")",
    "blanks before a stop": "a" + of(WIDE) + "b .",
    "stops": of(", "),
    "stop and blanks": ", " + of(WIDE) + ", b",
    "quotes": of("'"),
    "entities": of("&#"),
    "words": of("__A"),
    "tags": of("<a "),
}
MARKDOWN = {
    "comments": of("<!--"),
    "pictures": of("![]("),
    "links": of("[a]("),
    "link and blanks": "[a](" + of(" ") + "x",
    "link with a title": "[a](b '" + of("a "),
    "references": of("[a]["),
    "ticks": "a " + of("`"),
    "ticks of all sizes": "a " + " ".join("`" * size for size in range(1300, 0, -1)),
    "tables": of("|-"),
    "table and blanks": of("| ") + "x",
    "rules": of("- ", "x"),
    "quotations": of(">"),
    "blanks": of(" ", "x"),
    "title": "---\ntitle: a" + of(" ", "b\n---"),
    "tags": of("<a "),
    "escapes": of("\\["),
}
EXTRACTED = {
    "links without an end": of('<a href="">'),
    "links behind the last end": '<a href="">a</a>' + of('<a href="">'),
    "addresses without an end": of('<a href="'),
    "tags": of("<a "),
}


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch):
    """``with limit():`` ends a block after 33 seconds of computing."""
    monkeypatch.setattr(limits, "SECONDS", 33)
    return lambda: time_limit("a megabyte", 0)


@pytest.mark.parametrize("name", WIKITEXT)
def test_wikitext(limit, name: str) -> None:
    with limit():
        wikitext.parse_page(WIKITEXT[name])
        wikitext.tidy(WIKITEXT[name])
        wikitext.parse_paragraph(WIKITEXT[name])


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown(limit, name: str) -> None:
    with limit():
        markdown.sections_of(f"It rained.\n\n{MARKDOWN[name]}".split("\n"))
        markdown.plain(MARKDOWN[name])


@pytest.mark.parametrize("name", EXTRACTED)
def test_extracted_articles(limit, name: str) -> None:
    with limit():
        extracted.sections_of([EXTRACTED[name]])


@pytest.mark.parametrize(
    "line", ["<doc " + of("a"), "<doc " + of('a="'), "<doc " + of('a=" '), '<doc a="' + of('" ')], ids=len
)
def test_attributes(limit, line: str) -> None:
    with limit(), pytest.raises(extracted.DataError, match="expected <doc"):
        extracted._attributes("file", 1, line)


def test_other_patterns_that_blanks_may_be_given_to(limit) -> None:
    with limit():
        assert not mediawiki._REDIRECT.match("#REDIRECT" + of(" "))
        assert wikispeedia._BRACKET.sub("", "a" + of(" ", "b")).endswith("b")


def test_no_pattern_has_two_runs_of_one_sign_side_by_side() -> None:
    """``\\s*:?\\s*``: a run of n blanks can be shared out in n ways, and from each of n begins in as many."""
    modules = (extracted, markdown, mediawiki, wikispeedia, wikitext)
    patterns = [value.pattern for module in modules for value in vars(module).values() if isinstance(value, re.Pattern)]
    assert len(patterns) > 40
    run = r"(\\s|\[ \\t\]| )[*+]"
    found = [text for text in patterns if isinstance(text, str) and re.search(rf"{run}(?:[^\\(\[]\?)?\1[*+]", text)]
    assert not found
