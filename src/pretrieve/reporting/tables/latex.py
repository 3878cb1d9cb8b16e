"""A filled table as a LaTeX fragment: a ``tabular`` for somebody's own ``table``, in the layout of its paper.

It wants the packages ``booktabs`` and ``multirow``, and for the texts of case studies an engine that reads UTF-8. What a reader
must know beside the numbers (scale, what marks and brackets mean) stands above it as comments; to be said in the caption.
"""

from __future__ import annotations

from collections.abc import Sequence

from pretrieve.references.tables import Table
from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.layout import CHANCE, Page, Row, Shown, make_page
from pretrieve.reporting.tables.results import Setting

#: What LaTeX reads as something else than itself, and the signs of a page.
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "–": "--",
    "…": r"\ldots{}",
    "✓": r"$\checkmark$",
    "≈": r"$\approx$",
    "↓": r"$\downarrow$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
}
_TABLE = str.maketrans(_ESCAPES)
#: Width of a column of texts, as a share of the line.
_TEXT_WIDTH = 0.3


def to_latex(table: Table, lines: Sequence[Line], setting: Setting) -> str:
    """The fragment. Row heads that repeat are printed once, with a rule above each block, as papers do."""
    page = make_page(table, lines, setting)
    body = []
    for before, row in zip([None, *page.rows], page.rows, strict=False):
        if before and row.spans[0] and len(row.heads) > 1 and (row.spans[0] > 1 or not before.spans[0]):
            body.append(r"\midrule")
        body.append(_row(row, page))
    parts = [
        *_comments(page),
        _begin(page),
        r"\toprule",
        *_heads(page),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX prints it.

    >>> escaped("50 % of R&D_1 ‡")
    '50 \\\\% of R\\\\&D\\\\_1 $\\\\ddagger$'
    """
    return text.translate(_TABLE)


def _comments(page: Page) -> list[str]:
    said = [f"{page.heading}: {page.caption}", f"{page.title}. {page.source}", page.measured_on, page.warning]
    said += [*page.notes, *(f"{term}: {sentence}" for term, sentence in page.legend), f"Make it again: {page.command}"]
    packages = r"\usepackage{booktabs,multirow}, amssymb for signs, and xcolor for values at chance"
    return [f"% {' '.join(text.split())}" for text in (*said, f"Packages: {packages}") if text]


def _begin(page: Page) -> str:
    texts = {i for row in page.rows for i, cell in enumerate(row.cells) if cell and cell.text}
    columns = "".join(rf"p{{{_TEXT_WIDTH}\linewidth}}" if i in texts else "r" for i in range(len(page.columns)))
    return rf"\begin{{tabular}}{{{'l' * len(page.row_columns)}{columns}{'r' if page.has_wall else ''}}}"


def _heads(page: Page) -> list[str]:
    heads = [*page.row_columns, *page.columns, *(["Wall s"] if page.has_wall else [])]
    lines = [" & ".join(map(escaped, heads)) + r" \\"]
    if page.column_group:
        left, wide = len(page.row_columns), len(page.columns)
        above = (
            f"{'& ' * left}\\multicolumn{{{wide}}}{{c}}{{{escaped(page.column_group)}}}{' &' if page.has_wall else ''}"
        )
        lines = [rf"{above} \\", rf"\cmidrule{{{left + 1}-{left + wide}}}", *lines]
    return lines


def _row(row: Row, page: Page) -> str:
    heads = []
    for head, span in zip(row.heads, row.spans, strict=True):
        text = escaped(head) if span else ""
        heads.append(rf"\multirow{{{span}}}{{*}}{{{text}}}" if span > 1 else text)
    cells = [*heads, *map(_cell, row.cells), *([escaped(row.wall)] if page.has_wall else [])]
    return " & ".join(cells) + r" \\"


def _cell(cell: Shown | None) -> str:
    if cell is None:
        return ""
    value = escaped(cell.value)
    value = rf"\textbf{{{value}}}" if cell.best else value
    mark = rf"\textsuperscript{{{escaped(cell.mark)}}}" if cell.mark else ""
    sd = rf" $\pm$ {escaped(cell.sd)}" if cell.sd else ""
    published = rf" ({escaped(cell.published)})" if cell.published else ""
    if cell.guessed:
        value, sd = rf"\textcolor{{gray}}{{{value}", rf"{sd} {escaped(CHANCE)}}}"
    return f"{value}{mark}{sd}{published}{' ' + escaped(cell.sign) if cell.sign else ''}"
