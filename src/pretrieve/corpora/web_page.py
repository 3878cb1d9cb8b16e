"""A web page → title, sections and paragraphs of its text.

Beautiful Soup reads what browsers read: broken markup, and the encoding that the page states. Scripts, styles, navigation and
forms go; headings begin sections, block elements are paragraphs. Links are not followed.
"""

from __future__ import annotations

from pathlib import Path

from pretrieve.corpora.plain_text import UnreadableFile
from pretrieve.corpora.wikitext import Paragraph, Section, with_text

#: Elements without prose.
_DROPPED = {"script", "style", "noscript", "template", "nav", "svg", "form", "button", "select", "iframe", "head"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    "address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "figcaption", "figure", "footer",
    "header", "hr", "html", "li", "main", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul",
}  # fmt: skip


def read_web_page(path: Path) -> tuple[str, list[Section]]:
    """Title ('' for none) and sections of a page, the first one without a heading.

    Raises UnreadableFile when the parser gives up.
    """
    from bs4 import BeautifulSoup, Tag
    from bs4.element import PreformattedString

    try:
        soup = BeautifulSoup(path.read_bytes(), "html.parser")
    except (OSError, MemoryError):
        raise
    except Exception as error:  # html.parser's own, of declarations that are none and numbers of 5,000 digits
        raise UnreadableFile(
            f"{path}: cannot be read as a web page: {type(error).__name__}: {error}".splitlines()[0]
        ) from error
    named = soup.title or soup.h1
    page = _Page()
    # The block that each element is in, None within what is dropped; a parent comes before what is in it.
    block_of: dict[int, Tag | None] = {id(soup): soup}
    for element in soup.descendants:
        block = block_of[id(element.parent)]
        if isinstance(element, Tag):
            if element.name in _DROPPED:
                block = None
            elif block is not None and element.name in _BLOCKS:
                block = element
                page.end_block()
            block_of[id(element)] = block
        elif block is not None and not isinstance(element, PreformattedString):  # comments are such
            page.add(block, str(element))
    page.end_block()
    title = _plain(named.get_text()) if named else ""
    return title, with_text(page.sections)


def _plain(text: str) -> str:
    """On one line, without halves of surrogate pairs, which some stated encodings make."""
    return " ".join(text.encode(errors="ignore").decode().split())


class _Page:
    """Texts of a page in their order, cut where another block begins."""

    def __init__(self) -> None:
        self.sections = [Section("", 1)]
        self._block: object = None
        self._name = ""
        self._texts: list[str] = []

    def add(self, block: object, text: str) -> None:
        if block is not self._block:
            self.end_block()
            self._block, self._name = block, block.name
        self._texts.append(text)

    def end_block(self) -> None:
        text = _plain("".join(self._texts))
        self._texts, self._block = [], None
        if text and self._name in _HEADINGS:
            self.sections.append(Section(text, max(2, int(self._name[1]))))
        elif text:
            self.sections[-1].paragraphs.append(Paragraph(text))
