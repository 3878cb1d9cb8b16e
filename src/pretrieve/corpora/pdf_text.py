"""The text of a PDF → title and one section for each page (pypdf).

Lines are joined to paragraphs as in plain text; a word that is cut at the end of a line is put together. A page of pictures has
no text, and nobody reads them here.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.base.sizes import too_large, unpacked_limit
from pretrieve.corpora.plain_text import UnreadableFile, paragraphs_of
from pretrieve.corpora.wikitext import Paragraph, Section

_CUT_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_])")


def read_pdf(path: Path) -> tuple[str, list[Section]]:
    """Title ('' for none) and a section for each page with text.

    Raises
    ------
    UnreadableFile
        when it cannot be read.
    DataError
        when the text is far longer than the file.
    """
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it fixes it also mentions, page by page
    limit, length = unpacked_limit(path.stat().st_size), 0
    sections: list[Section] = []
    try:
        reader = PdfReader(path)
        title = str((reader.metadata or {}).get("/Title") or "")
        for page in reader.pages:
            text = page.extract_text()
            length += len(text)
            if length > limit:
                raise too_large(f"{path}, its text", length, limit, "the same as for packed files")
            # Half a surrogate pair, of a font that states nonsense, is in no text.
            lines = _CUT_WORD.sub("", text.encode(errors="ignore").decode()).splitlines()
            paragraphs = [Paragraph(paragraph) for paragraph in paragraphs_of(lines)]
            if paragraphs:
                sections.append(Section("", 1, paragraphs))
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a parser of a format that says little of what may come
        raise UnreadableFile(
            f"{path}: cannot be read as a PDF: {type(error).__name__}: {error}".splitlines()[0]
        ) from error
    return " ".join(title.encode(errors="ignore").decode().split()), sections
