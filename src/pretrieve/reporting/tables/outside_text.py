"""Texts from outside (queries, titles, paths) in what is written for readers: they are data there, and do nothing.

* A spreadsheet takes a CSV cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end for a formula, and runs it. Such
  a cell gets an apostrophe in front, the usual sign for text (https://owasp.org/www-community/attacks/CSV_Injection); a plain
  number such as -0.3 stays. :func:`from_cell` takes exactly that apostrophe away again.
* Markdown passes HTML on, and makes a link of ``[text](address)``, whatever the address does. The characters that begin either
  are written as entities, which Markdown shows and does not read. So are the bars of a table's cells (:func:`to_markdown_table`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_ONE = r"[+-]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*%?"
#: A number, several as claims have them (-0.04; -0.06, -0.04 > -0.06), a sign alone, or nothing: none of it runs anything.
_NUMBER = re.compile(rf"{_ONE}(?: ?[;>−] {_ONE})*|[+-]|")
_HTML = re.compile(r"<(?=[A-Za-z/!?])")


def to_cell(text: str) -> str:
    """A text as a cell of a CSV file.

    >>> [to_cell(text) for text in ("=1+1", "-0.3", "+", "-cmd", "'=1", "a=1")]
    ["'=1+1", '-0.3', '+', "'-cmd", "''=1", 'a=1']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """The text that :func:`to_cell` made a cell of; files of before have such texts as they are.

    >>> [from_cell(cell) for cell in ("'=1+1", "-0.3", "''=1", "'tis", "=1+1")]
    ['=1+1', '-0.3', "'=1", "'tis", '=1+1']
    """
    return cell[1:] if cell.startswith("'") and to_cell(cell[1:]) == cell else cell


def to_markdown_text(text: str) -> str:
    """A text as a part of a line of Markdown: without HTML, links, images and line ends. Emphasis is left as it is.

    >>> to_markdown_text("a < b, <b>c</b> ![x](javascript:y)")
    'a < b, &lt;b>c&lt;/b> ![x]&#40;javascript:y)'
    """
    return _HTML.sub("&lt;", re.sub(r"\s*[\r\n]+\s*", " ", text)).replace("](", "]&#40;")


def to_markdown_cell(text: str) -> str:
    """The same for a cell of a table, which a bar would end."""
    return to_markdown_text(text).replace("|", "\\|")


def to_markdown_table(heads: Sequence[str], body: Sequence[Sequence[str]], left: int) -> str:
    """A table of GitHub-flavoured Markdown, the first ``left`` columns aligned to the left, the others to the right.

    Cells are padded to equal widths, for a table is also read in a terminal.
    """
    lines = [[to_markdown_cell(cell) for cell in line] for line in (heads, *body)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(heads))]
    lines.insert(1, [f":{'-' * (w - 1)}" if i < left else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)])
    padded = (
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
