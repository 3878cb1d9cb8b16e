"""Text with Markdown headings → sections and paragraphs.

markdown-it-py reads it as CommonMark (https://spec.commonmark.org/0.31.2/) with tables. Headings divide, and the items of a tight
list are one paragraph. Code blocks, tables, rules, images and HTML comments go; the marks of lists, quotations, emphasis and code
spans go and their text stays. ``[label](page.md)`` and ``[[Page|label]]`` become links. A front matter between two lines ``---``
goes, but for its ``title:``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pretrieve.corpora.wikitext import Section, parse_paragraph, unescaped, with_text

#: Of HTML between paragraphs, whose text stays.
_HTML = re.compile(r"<!--.*?(?:-->|$)|</?[a-zA-Z][^<>]*>", re.S)
#: The mark of a task that is done, or not.
_TASK = re.compile(r"^\[[ xX]\][ \t]+")
_TITLE = re.compile("title:(.+)")
#: Tokens that end no block.
_WITHIN = ("inline", "bullet_list", "ordered_list", "list_item")

#: A link's address → the title it leads to, or None for one that leads out of the corpus.
Target = Callable[[str], str | None]


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _text(tokens: Sequence[Token], target: Target) -> str:
    """Tokens of one block without Markdown's marks; links to titles as ``[[title|label]]``."""
    pieces, ends = [], list[str]()  # what ends the links that are open
    for token in tokens:
        if token.type == "link_open":
            title = target(str(token.attrGet("href")))
            pieces.append("" if title is None else f"[[{title}|")
            ends.append("" if title is None else "]]")
        elif token.type == "link_close":
            pieces.append(ends.pop())
        elif token.type in ("text", "code_inline"):
            pieces.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
    return "".join(pieces)


def sections_of(lines: Iterable[str], target: Target = lambda address: None) -> tuple[str, list[Section]]:
    """The title ('' where there is none: ``title:`` of the front matter, else a first heading that stands before all
    text) and the sections; the first section has level 1 and is there even when it is empty, the others are those with
    text.
    """
    title, lines = _front_matter(list(lines))
    sections = [Section("", 1)]
    block: list[str] = []
    in_table, level = False, 0

    def end_block() -> None:
        paragraph = parse_paragraph(" ".join(" ".join(block).split()))
        block.clear()
        if any(character.isalnum() for character in paragraph.text):
            sections[-1].paragraphs.append(paragraph)

    for token in _reader().parse("\n".join(lines)):
        if not (token.hidden or token.type.startswith(_WITHIN)):
            end_block()
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "heading_open":
            level = int(token.tag[1])
        elif token.type == "html_block":
            block.append(unescaped(_HTML.sub("", token.content)))
        elif token.type == "inline" and level:
            text = parse_paragraph(" ".join(_text(token.children, lambda address: None).split())).text
            if len(sections) == 1 and not sections[0].paragraphs and level == 1 and title in ("", text):
                title = text
            else:
                sections.append(Section(text, max(2, level)))
            level = 0
        elif token.type == "inline" and not in_table:
            block.append(_TASK.sub("", _text(token.children, target), count=1))
    end_block()
    return title, with_text(sections)


def _front_matter(lines: list[str]) -> tuple[str, list[str]]:
    if not lines or lines[0].rstrip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        return "", lines
    end = next(place for place, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    titles = [found[1].strip().strip("\"'") for line in lines[1:end] if (found := _TITLE.match(line))]
    return (titles[0] if titles else ""), lines[end + 1 :]
