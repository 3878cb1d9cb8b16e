"""A filled table as Markdown (for terminals and repositories) and as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jinja2

from pretrieve.base.code_folder import package_file
from pretrieve.references.tables import Table
from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.heads import head_rows
from pretrieve.reporting.tables.layout import Page, Row, Shown, head_spans, make_page
from pretrieve.reporting.tables.legend import CHANCE, explain_cells
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import to_markdown_cell, to_markdown_table, to_markdown_text


def fill_template(template: str, **values: Any) -> str:
    """The file ``template`` of ``reporting/templates`` with these values, escaped; a name that is not given is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(package_file("reporting/templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)


def to_markdown(table: Table, lines: Sequence[Line], setting: Setting) -> str:
    """The table as GitHub-flavoured Markdown, in the paper's layout, each value as ``measured ± sd (published)``."""
    page = make_page(table, lines, setting)
    entries = [f"- {_plain(note)}" for note in page.notes]
    entries += [f"- **{term}** {sentence}" for term, sentence in page.legend]
    facts = (f"| {to_markdown_cell(name)} | {to_markdown_cell(text)} |" for name, text in page.provenance)
    blocks = [
        f"# {page.heading}: {page.caption}",
        f"*{page.title}.* {page.source}",
        page.measured_on,
        page.warning and f"> **{page.warning}**",
        page.column_group and f"Columns: {page.column_group}.",
        _markdown_table(page),
        "\n".join(entries),
        "\n".join(["| | |", "|---|---|", *facts]),
        f"Make it again:\n\n```\n{page.command}\n```",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def to_html(table: Table, lines: Sequence[Line], setting: Setting) -> str:
    """The table as an HTML page that loads nothing, follows the reader's light or dark setting, and can be printed.

    Rows without a measured value come last, which the paper may have first. The CSV and the manifest lie beside the page."""
    page = make_page(table, lines, setting)
    parts = []  # the rows with measured values and those without, each with spans of its own
    for aside in (False, True):
        rows = [row for row in page.rows if is_aside(row, page) == aside]
        heads = [row.heads for row in rows]
        parts.append([replace(row, spans=head_spans(heads, i)) for i, row in enumerate(rows)])
    return fill_template(
        "table.html.j2",
        page=page,
        head=head_rows(page.columns, page.column_group),
        parts=parts,
        reading=explain_cells(lines, page.columns),
        name=table.name,
        url=table.url,
    )


def is_aside(row: Row, page: Page) -> bool:
    """Whether nothing of a row is measured, in a table that has measured rows: HTML pages show such rows last. A failed cell
    keeps its row in sight."""

    def unmeasured(row: Row) -> bool:
        return all(cell.status in ("quoted", "not-run") for cell in row.cells if cell)

    return unmeasured(row) and not all(map(unmeasured, page.rows))


def _markdown_table(page: Page) -> str:
    lines = [[*page.row_columns, *page.columns, *(["Wall s"] if page.has_wall else [])]]
    for row in page.rows:
        heads = [head if span else "" for head, span in zip(row.heads, row.spans, strict=True)]
        lines.append([*heads, *map(_markdown_cell, row.cells), *([row.wall] if page.has_wall else [])])
    return to_markdown_table(lines[0], lines[1:], len(page.row_columns))


def _markdown_cell(cell: Shown | None) -> str:
    if cell is None:
        return ""
    value = f"**{cell.value}**" if cell.best else _plain(cell.value)
    guessed = CHANCE if cell.guessed else ""
    further = [cell.sd and f"± {cell.sd}", guessed, cell.published and f"({_plain(cell.published)})", cell.sign]
    return " ".join([f"{value}{cell.mark}", *filter(None, further)])


def _plain(text: str) -> str:
    """A footnote mark must stay one: in Markdown an asterisk opens a list or emphasis."""
    return to_markdown_text(text).replace("*", "\\*")
