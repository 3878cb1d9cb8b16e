"""A filled table as a LaTeX fragment for somebody's own ``table``, in the layout of its paper and no wider than the line.

It wants the packages ``booktabs``, ``adjustbox``, ``array``, ``amssymb`` and ``xcolor``, and an engine that reads UTF-8. As it
comes it has what was measured alone; rows and columns without a measured value are left out. Where ``\\withpublished`` is defined
before the fragment is read, it has all rows and columns, and the published values below the measured ones. What a reader must
know beside the numbers (scale, what marks mean) stands above it as comments, for the caption.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import groupby, zip_longest

from pretrieve.references.tables import Table
from pretrieve.reporting.tables.filling import MEASURED, Line
from pretrieve.reporting.tables.heads import columns_here, split_names
from pretrieve.reporting.tables.layout import Page, Row, Shown, make_page
from pretrieve.reporting.tables.legend import NOTHING
from pretrieve.reporting.tables.results import Setting

#: What LaTeX reads as something else than itself, and the signs of a page: with a backslash, as a command of text, of formulas.
_ESCAPES = {sign: rf"\{sign}" for sign in "{}&%$#_"} | {"–": "--"}
_TEXT = ("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "ldots")
_ESCAPES |= {sign: rf"\{name}{{}}" for sign, name in zip(r"\~^<>…", _TEXT, strict=True)}
_MATH = ("pm", "dagger", "ddagger", "checkmark", "approx", "downarrow", "blacktriangle", "blacktriangledown")
_ESCAPES |= {sign: rf"$\{name}$" for sign, name in zip("±†‡✓≈↓▲▼", _MATH, strict=True)}
_TABLE = str.maketrans(_ESCAPES)
#: Width of a column of texts, as a share of the line.
_TEXT_WIDTH = 0.3
#: Letters of a row's head on a line, of a group of one column, and of each further column that a group has.
ROW_HEAD, ONE, MORE = 26, 11, 8
#: A value that guessing has: grey, and with this letter, for grey is lost in print.
_CHANCE = "c"
#: No larger than the page. What fits is not scaled.
_BOX = r"\begin{adjustbox}{max width=\linewidth,max totalheight=0.85\textheight}"
_HOW = (
    r"As it is: what was measured. With \def\withpublished{} before \input: all rows and columns, and published values in "
    "italics below the measured ones",
    rf"Grey with {_CHANCE}: no better than guessing",
    r"Packages: \usepackage{adjustbox,amssymb,array,booktabs,xcolor}",
)


def to_latex(table: Table, lines: Sequence[Line], setting: Setting) -> str:
    """The fragment: the measured values, and where the paper has values a second form with these."""
    page = make_page(table, lines, setting)
    here = columns_here(table, lines, setting)
    rows = [row for row in page.rows if any(map(_is_measured, row.cells))]
    places = [i for i in range(len(page.columns)) if any(_is_measured(row.cells[i]) for row in rows)]
    measured = [rf"\emph{{Not measured at the {escaped(setting.scale)} scale.}}"]
    if rows:
        measured = _tabular(page, here, places, rows, published=False)
    parts = measured
    if any(line.published for line in lines):
        whole = _tabular(page, here, range(len(page.columns)), page.rows, published=True)
        parts = [r"\ifdefined\withpublished", *whole, r"\else", *measured, r"\fi"]
    begin = r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}\noindent"
    return "\n".join([*_comments(page), begin, *parts, r"\endgroup"]) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX prints it.

    >>> escaped("50 % of R&D_1 ‡")
    '50 \\\\% of R\\\\&D\\\\_1 $\\\\ddagger$'
    """
    return text.translate(_TABLE)


def _comments(page: Page) -> list[str]:
    said = [f"{page.heading}: {page.caption}", f"{page.title}. {page.source}", page.measured_on, page.warning]
    said += [*page.notes, *(f"{term}: {sentence}" for term, sentence in page.legend), f"Make it again: {page.command}"]
    return [f"% {' '.join(text.split())}" for text in (*said, *_HOW) if text]


def _tabular(
    page: Page, here: Sequence[Sequence[str]], places: Sequence[int], rows: Sequence[Row], published: bool
) -> list[str]:
    """The lines of a table of some rows and of the columns at ``places``. A first head that repeats is printed once, with a rule
    above each such block, as papers do."""
    body: list[str] = []
    blocks = [list(block) for _, block in groupby(rows, key=lambda row: row.heads[:-1] and row.heads[0])]
    for before, block in zip([[], *blocks], blocks, strict=False):
        if before and max(len(before), len(block)) > 1 and len(page.row_columns) > 1:
            body.append(r"\midrule")
        for i, row in enumerate(block):
            body += _row(row, page, places, i > 0 and len(page.row_columns) > 1, published)
    heads = head_lines(
        [escaped(head) for head in page.row_columns],
        [escaped(page.names[i]) for i in places],
        [[escaped(text if text.startswith("trained") else f"here {text}") for text in here[i]] for i in places],
        escaped(page.column_group),
        ["Wall s"] if page.has_wall else [],
    )
    texts = {i for row in page.rows for i, cell in enumerate(row.cells) if cell and cell.text}
    wide = rf">{{\raggedright\arraybackslash}}p{{{_TEXT_WIDTH}\linewidth}}"
    columns = "".join(wide if i in texts else "r" for i in places) + "r" * page.has_wall
    begin = rf"\begin{{tabular}}{{{'l' * len(page.row_columns)}{columns}}}"
    return [_BOX, begin, r"\toprule", *heads, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{adjustbox}"]


def head_lines(
    left: Sequence[str], columns: Sequence[str], here: Sequence[Sequence[str]], group: str, right: Sequence[str]
) -> list[str]:
    """Lines of the head, escaped text: the ``group`` of all columns, what they were measured on (``here``), the words that names
    of neighbours begin with, and the rest of the names, beside the heads of the ``left`` and ``right`` columns."""
    names = split_names(columns)
    levels = [[group] * len(columns)] if group else []
    levels += zip_longest(*here, fillvalue="")
    above = list(zip_longest(*(name[:-1] for name in names), fillvalue=""))
    lines: list[str] = []
    for i, level in enumerate([*levels, *above]):
        # A group of one level does not reach across the groups of the levels above it.
        parents = above[: max(0, i - len(levels))]
        lines += _group_line(level, parents, len(left), len(right))
    return [*lines, _line(*left, *(stacked(name[-1], ONE, "r") for name in names), *right)]


def _line(*cells: str) -> str:
    return " & ".join(cells) + r" \\"


def _group_line(level: Sequence[str], parents: Sequence[Sequence[str]], left: int, right: int) -> list[str]:
    """A line of heads across columns, and the rules below it."""
    cells, rules, at = [""] * left, [], left + 1
    keys = list(zip(level, *parents, strict=True))
    for key, some in groupby(keys):
        wide = len(list(some))
        if key[0]:
            cells.append(rf"\multicolumn{{{wide}}}{{c}}{{{stacked(key[0], ONE + MORE * (wide - 1), 'c')}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + wide - 1}}}")
        else:
            cells += [""] * wide
        at += wide
    return [_line(*cells, *[""] * right), " ".join(rules)]


def stacked(text: str, width: int, align: str) -> str:
    """Escaped text on lines of at most ``width`` letters, where words allow that.

    >>> stacked("Best DeepCT", 20, "l"), stacked("Best DeepCT", 8, "l")
    ('Best DeepCT', '\\\\begin{tabular}[t]{@{}l@{}}Best\\\\\\\\DeepCT\\\\end{tabular}')
    """
    lines = textwrap.wrap(text, width, break_long_words=False)
    if len(lines) < 2:
        return text
    # Heads of columns stand on their rule, a row's first line on that of its values.
    where = "b" if align != "l" else "t"
    joined = r"\\".join(lines)
    return rf"\begin{{tabular}}[{where}]{{@{{}}{align}@{{}}}}{joined}\end{{tabular}}"


def _row(row: Row, page: Page, places: Sequence[int], repeats: bool, published: bool) -> list[str]:
    """A row as its measured values, and below them the published ones where these are shown."""
    heads = [stacked(escaped(head), ROW_HEAD, "l") for head in row.heads]
    if repeats:
        heads[0] = ""
    cells = [row.cells[i] for i in places]
    wall = [escaped(row.wall)] if page.has_wall else []
    below = [_published(cell) for cell in cells] if published else []
    if any(below) and not any(map(_is_measured, cells)):
        return [_line(*heads, *below, *wall)]
    lines = [_line(*heads, *map(_measured, cells), *wall)]
    if any(below):
        lines.append(_line(*[""] * (len(heads) - 1), r"\quad\itshape published", *below, *[""] * len(wall)))
    return lines


def _is_measured(cell: Shown | None) -> bool:
    return cell is not None and cell.status in MEASURED


def _measured(cell: Shown | None) -> str:
    if cell is None:
        return ""
    if not _is_measured(cell):
        return "failed" if cell.status == "failed" else escaped(NOTHING)
    value = _escaped_cell(cell.value, cell)
    value = rf"\textbf{{{value}}}" if cell.best else value
    sd = rf"{{\scriptsize$\pm$\,{escaped(cell.sd)}}}" if cell.sd else ""
    if cell.guessed:
        return rf"\textcolor{{gray}}{{{value}\textsuperscript{{{_CHANCE}}}{sd}}}"
    mark = rf"\textsuperscript{{{escaped(cell.mark)}}}" if cell.mark else ""
    return f"{value}{mark}{sd}{' ' + escaped(cell.sign) if cell.sign else ''}"


def _published(cell: Shown | None) -> str:
    if cell is None or not cell.published:
        return ""
    return rf"\textit{{{_escaped_cell(cell.published, cell)}}}"


def _escaped_cell(value: str, cell: Shown) -> str:
    """A text may end a line within an address."""
    text = escaped(value)
    return re.sub(r"(?<=[/.?=-])(?=\S)|(?<=\\_)(?=\S)", r"\\allowbreak{}", text) if cell.text else text
