"""A folder of plain-text and Markdown files: the corpus of one's own.

Every ``.txt``, ``.md`` and ``.markdown`` file below the folder is an article, in the order of the names. A Markdown
file's title is its ``title:`` or first heading, another's the name of the file; headings divide it into sections,
links between files become links of the corpus (:mod:`pretrieve.corpora.markdown`). In a plain-text file blank lines
separate paragraphs. All text counts: unlike an encyclopaedia's, a short paragraph of a manual is no remains of a
layout.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from pretrieve.corpora.builder import Article, Redirect
from pretrieve.corpora.markdown import sections_of
from pretrieve.corpora.plain_text import paragraphs_of, stem, text_files
from pretrieve.corpora.wikitext import Paragraph, Section
from pretrieve.raw.raw_text import Warnings, read_lines

MARKDOWN = (".md", ".markdown")
SUFFIXES = (*MARKDOWN, ".txt")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|$")


def _linked_file(file: Path, address: str) -> str | None:
    """The place in the folder that a relative link leads to; None for an address of the web or within the page."""
    if _SCHEME.match(address):
        return None
    place = unquote(address.partition("#")[0].partition("?")[0])
    # As in a repository's own pages, a link from the root begins with a slash.
    joined = place.lstrip("/") if place.startswith("/") else posixpath.join(file.parent.as_posix(), place)
    return posixpath.normpath(joined)


def read_files(paths: Iterable[Path], warnings: Warnings) -> Iterator[tuple[Path, Article]]:
    """The files with text in them, by their places in the folder, and the article of each.

    Raises
    ------
    DataError
        what :func:`~pretrieve.corpora.plain_text.text_files` and :func:`~pretrieve.raw.raw_text.read_lines` raise.
    """
    for folder, file in text_files(paths, SUFFIXES):
        texts = (line.text for line in read_lines(folder / file))
        title, sections = "", [Section("", 1)]
        if file.name.lower().endswith(MARKDOWN):
            title, sections = sections_of(texts, partial(_linked_file, file))
        else:
            sections[0].paragraphs = [Paragraph(text) for text in paragraphs_of(texts)]
        if not any(section.paragraphs for section in sections):
            warnings.add("file without text, left out", str(folder / file))
            continue
        yield file, Article(title or stem(file, SUFFIXES), sections)


def read_folder(paths: Iterable[Path], warnings: Warnings) -> Iterator[Article | Redirect]:
    """The articles of the files; behind each its places as other names, which links to files lead through.

    Raises
    ------
    DataError
        what :func:`read_files` raises.
    """
    for file, article in read_files(paths, warnings):
        yield article
        name = stem(file, SUFFIXES)
        # [text](guide/setup.md), [[guide/setup]] and, as note-taking programs write it, [[setup]].
        for other in dict.fromkeys((file.as_posix(), name, posixpath.basename(name))):
            if other != article.title:
                yield Redirect(other, article.title)
