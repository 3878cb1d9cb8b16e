"""A folder of texts: the corpus of one's own.

Every plain-text, Markdown, HTML and PDF file below the folder is an article, in the order of the names. Its title is the one that
stands in it, or the name of the file. Headings of Markdown (:mod:`pretrieve.corpora.markdown`) and of web pages, and pages of a
PDF divide it into sections; links between Markdown files become links of the corpus. In a plain-text file and on a page of a PDF
blank lines separate paragraphs. All text counts: unlike an encyclopaedia's, a short paragraph of a manual is not a remnant of a
layout.

Of a PDF a word that is cut at the end of a line is put together. A page of pictures has no text, and nobody reads them here.

Beautiful Soup reads of a web page what browsers read: broken markup, and the encoding that the page states, or UTF-8. It guesses
where that does not fit (:func:`decoded`). Scripts, styles, navigation and the fields of forms go, not a form's text: ASP.NET puts
all of a page into one. Headings begin sections, block elements are paragraphs. Links are not followed.

Parsers of these formats take time that grows with the square of some inputs: a megabyte of ``<!--`` is hours. So a file has a
limit of time (:func:`time_limit`): what the process computes, not the clock's, for a machine may be busy elsewhere.
"""

from __future__ import annotations

import codecs
import logging
import posixpath
import re
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import FACTOR, factor, too_large, unpacked_limit
from pretrieve.corpora.builder import Article, Redirect
from pretrieve.corpora.markdown import sections_of
from pretrieve.corpora.plain_text import UnreadableFile, paragraphs_of, stem, text_files, text_lines
from pretrieve.corpora.wikitext import Paragraph, Section, with_text
from pretrieve.raw.raw_text import LONGEST, Warnings

MARKDOWN, HTML, PDF = (".md", ".markdown"), (".html", ".htm"), ".pdf"
SUFFIXES = (*MARKDOWN, *HTML, PDF, ".txt")
#: A word that is cut at the end of a line.
_CUT_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_])")
#: Where a browser may cut a word: nobody sees it, and BM25 takes it for a part of the word.
_SOFT_HYPHEN = "\u00ad"
#: What means something in ``[[page#section|label]]``, within the name of a file.
_MARKS = str.maketrans({mark: quote(mark) for mark in "#|[]"})
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|$")
#: What browsers read as a wider encoding than its name says, or Python does not know by this name [Encoding Standard, WHATWG].
#: A statement that can be read as ASCII is not in UTF-16.
_AS_BROWSERS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "big5": "big5hkscs", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "shift_jis": "cp932",
    "x-sjis": "cp932", "x-euc-jp": "euc_jp", "utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8",
}  # fmt: skip
#: Elements without prose. All elements of a head that have text are here: the head itself may lack its end tag.
_DROPPED = {
    "button",
    "datalist",
    "iframe",
    "nav",
    "noscript",
    "script",
    "select",
    "style",
    "svg",
    "template",
    "title",
}
#: Within a form they are its fields and their names; elsewhere a label may be a heading that opens something.
_OF_FIELDS = {"label", "legend", "textarea"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "ol", "p", "pre",
    "section", "summary", "table", "td", "th", "tr", "ul",
}  # fmt: skip


def _linked_file(file: Path, address: str) -> str | None:
    """The place in the folder that a relative link leads to; None for an address of the web or within the page."""
    if _SCHEME.match(address):
        return None
    place = unquote(address.partition("#")[0].partition("?")[0])
    # As in a repository's own pages, a link from the root begins with a slash.
    joined = place.lstrip("/") if place.startswith("/") else posixpath.join(file.parent.as_posix(), place)
    return posixpath.normpath(joined).translate(_MARKS)


def read_files(paths: Iterable[Path], warnings: Warnings) -> Iterator[tuple[Path, Article]]:
    """The files with text in them, by their places in the folder, and the article of each.

    Raises what :func:`~pretrieve.corpora.plain_text.text_files` and :func:`~pretrieve.corpora.plain_text.text_lines` raise.
    """
    for folder, file in text_files(paths, SUFFIXES):
        if file.name.lower().endswith(HTML) and (folder / file).stat().st_size > LONGEST:
            warnings.add(f"web page of more than {LONGEST:,} bytes, left out", str(folder / file))
            continue
        try:
            with time_limit(folder / file, (folder / file).stat().st_size):
                title, sections = _contents(folder, file, warnings)
        except UnreadableFile as error:
            warnings.add(
                f"{'PDF' if file.name.lower().endswith(PDF) else 'web page'} that cannot be read, left out", str(error)
            )
            continue
        except TooSlow as error:
            warnings.add("file that takes too long to read, left out", str(error))
            continue
        if not any(section.paragraphs for section in sections):
            warnings.add("file without text, left out", str(folder / file))
            continue
        yield file, Article(title or stem(file, SUFFIXES), sections)


def _contents(folder: Path, file: Path, warnings: Warnings) -> tuple[str, list[Section]]:
    """Title ('' for none) and sections of a file."""
    path, name = folder / file, file.name.lower()
    if name.endswith(PDF):
        return read_pdf(path)
    if name.endswith(HTML):
        return read_web_page(path, warnings)
    if name.endswith(MARKDOWN):
        return sections_of(text_lines(path), partial(_linked_file, file))
    return "", [Section("", 1, [Paragraph(text) for text in paragraphs_of(text_lines(path))])]


def read_pdf(path: Path) -> tuple[str, list[Section]]:
    """Title ('' for none) and a section for each page with text.

    Raises UnreadableFile when it cannot be read, and DataError when the text is far longer than the file.
    """
    from pypdf import PdfReader
    from pypdf.generic import NullObject

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it fixes it also mentions, page by page
    limit, length = unpacked_limit(path.stat().st_size), 0
    sections: list[Section] = []
    try:
        reader = PdfReader(path)
        found = (reader.metadata or {}).get("/Title", NullObject()).get_object()  # what a reference leads to
        title = str(found) if isinstance(found, str | bytes) else ""  # null is none
        for number, page in enumerate(reader.pages, start=1):
            text = page.extract_text()
            length += len(text)
            if length > limit:
                raise too_large(f"{path}, its text", length, limit, "the same as for packed files")
            # Half a surrogate pair, of a font that states nonsense, is in no text.
            lines = _CUT_WORD.sub("", text.encode(errors="ignore").decode()).splitlines()
            paragraphs = [Paragraph(paragraph) for paragraph in paragraphs_of(lines)]
            if paragraphs:
                sections.append(Section("", 1, paragraphs, number))
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a parser of a format that says little of what may come
        raise UnreadableFile(
            f"{path}: cannot be read as a PDF: {type(error).__name__}: {error}".splitlines()[0]
        ) from error
    return _on_one_line(title), sections


def _on_one_line(text: str) -> str:
    """Without halves of surrogate pairs, which some stated encodings and fonts make, and without soft hyphens."""
    return " ".join(text.encode(errors="ignore").decode().replace(_SOFT_HYPHEN, "").split())


def decoded(page: bytes) -> str | bytes:
    """A page as text, by its byte order mark, the encoding that it states, or UTF-8. Single bytes that do not fit become U+FFFD,
    as in browsers; for one such byte Beautiful Soup would take another encoding for the whole page. The page itself where fewer
    characters beyond ASCII fit than do not, or which has NUL, as UTF-16 read as UTF-8 has: then the statement is wrong."""
    from bs4.dammit import EncodingDetector

    content, marked = EncodingDetector.strip_byte_order_mark(page)
    stated = marked or EncodingDetector.find_declared_encoding(content, is_html=True) or "utf-8"
    try:
        name = codecs.lookup(_AS_BROWSERS.get(stated, stated)).name
        text = content.decode(name if marked else _AS_BROWSERS.get(name, name), "replace")
    except (LookupError, ValueError):  # no encoding of texts, or one that replaces nothing
        text = "\ufffd"
    if "\ufffd" in text and not marked:
        with suppress(UnicodeDecodeError):
            text = content.decode()  # that all bytes are UTF-8 is no accident
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return page if "\0" in text or 2 * text.count("\ufffd") > beyond else text


def read_web_page(path: Path, warnings: Warnings | None = None) -> tuple[str, list[Section]]:
    """Title ('' for none) and sections of a page, the first one without a heading. A guessed encoding is counted in ``warnings``.

    Raises UnreadableFile when the parser gives up.
    """
    from bs4 import BeautifulSoup, Tag
    from bs4.element import PreformattedString

    try:
        soup = BeautifulSoup(decoded(path.read_bytes()), "html.parser")
    except (OSError, MemoryError):
        raise
    except Exception as error:  # html.parser's own, of declarations that are none and numbers of 5,000 digits
        raise UnreadableFile(
            f"{path}: cannot be read as a web page: {type(error).__name__}: {error}".splitlines()[0]
        ) from error
    if soup.original_encoding not in (None, "ascii") and warnings is not None:  # of bytes alone
        warnings.add("web page whose encoding is a guess", f"{path}: {soup.original_encoding}")
    sections = [Section("", 1)]
    texts, owner = list[str](), None  # of one block, cut where another one begins

    def end_block() -> None:
        text = _on_one_line("".join(texts))
        texts.clear()
        if text and owner.name in _HEADINGS:
            sections.append(Section(text, max(2, int(owner.name[1]))))
        elif text:
            sections[-1].paragraphs.append(Paragraph(text))

    # The block that each element is in, None within what is dropped; a parent comes before what is in it.
    block_of: dict[int, Tag | None] = {id(soup): soup}
    for element in soup.descendants:
        block = block_of[id(element.parent)]
        if isinstance(element, Tag):
            if element.name in _DROPPED or (element.name in _OF_FIELDS and element.find_parent("form")):
                block = None
            elif block is not None and element.name in _BLOCKS:
                block = element
                end_block()
            block_of[id(element)] = block
        elif block is not None and not isinstance(element, PreformattedString):  # comments are such
            if block is not owner:
                end_block()
                owner = block
            texts.append(str(element))
    end_block()
    # A drawing (svg) has a title too, which is not the page's.
    named = (tag for name in ("title", "h1") for tag in soup.find_all(name) if not tag.find_parent("svg"))
    return next(filter(None, (_on_one_line(tag.get_text()) for tag in named)), ""), with_text(sections)


def read_folder(paths: Iterable[Path], warnings: Warnings) -> Iterator[Article | Redirect]:
    """The articles of the files; after each its places as other names, which links to files lead through.

    Raises what :func:`read_files` raises.
    """
    stems = {stem(file, SUFFIXES) for _, file in text_files(paths, SUFFIXES)}
    for file, article in read_files(paths, warnings):
        yield article
        # [text](guide/setup.md), [[guide/setup]] and, as note-taking programs write it, [[setup]] where no setup.md is.
        names = [file.as_posix(), stem(file, SUFFIXES)]
        if (short := posixpath.basename(names[1])) not in stems:
            names.append(short)
        for name in names:
            if name != article.title:
                yield Redirect(name.translate(_MARKS), article.title)


#: Seconds for any file, and bytes for which there is one second more: ordinary files take a hundredth of it.
SECONDS, BYTES_PER_SECOND = 20, 100_000


class TooSlow(DataError):
    """A file that took longer to read than :func:`time_limit` allows."""


class _Rung(BaseException):
    """Raised wherever the time is over; no parser takes it for a fault of its own."""


@contextmanager
def time_limit(what: object, size: int) -> Iterator[None]:
    """End the block when it has computed longer than a file of so many bytes may take. Threads besides the main one have no
    limit: the system's timers are the main thread's.

    Raises TooSlow with ``what`` in front, the seconds, and how to raise them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = (SECONDS + size / BYTES_PER_SECOND) * factor()

    def ring(*_: object) -> None:
        raise _Rung

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        # Again each second, for what ends where no exception can pass.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Rung:
        raise TooSlow(
            f"{what}: not read after {seconds:g} seconds of computing, far more than a file of {size:,} bytes takes. If you "
            f"trust it, set {FACTOR} to a factor for the limit, such as 10."
        ) from None
    finally:
        signal.signal(signal.SIGVTALRM, before)
