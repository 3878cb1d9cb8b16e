"""The LaTeX fragment: every row and cell in its place, nothing in it that LaTeX would read as something else, and no line that
is wider than the page.

A full TeX is not asked for: the fragment is taken apart by LaTeX's own rules (`&` between cells, two backslashes behind a row,
groups in braces). Where `pdflatex` is installed, the last tests set it, and read in the log what did not fit.

Seen to fail when: `%` of a text is not escaped; the wall column has no head; a head that covers rows is printed in each; the mark
is left out; the box around a table is left out; addresses cannot be broken; heads of columns are not broken or not grouped; a row
without a measured value stands in the measured form.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.references.tables import Table, load_table
from pretrieve.reporting.tables.filling import MEASURED, Line, fill_table, read_lines
from pretrieve.reporting.tables.latex import escaped, head_lines, to_latex
from pretrieve.reporting.tables.results import Setting
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "references"
TABLES = sorted(f"{path.parent.name}/{path.stem}" for path in REFERENCES.glob("*/*.csv"))
PUBLISHED = max(ROOT.glob("results/published/*-demo-*"))
PDFLATEX = shutil.which("pdflatex")
#: Width of a line of the class article, in points, and how much wider a table may be by itself: it is scaled down by as much.
LINE, WIDER = 345, {"measured": 1.35, "published": 2}


def forms(text: str) -> tuple[str, str]:
    """The form with published values ('' where there is none), and the measured one."""
    found = re.search(r"\\ifdefined\\withpublished\n(.*)\n\\else\n(.*)\n\\fi\n", text, re.S)
    return (found[1], found[2]) if found else ("", text)


def cells_of(line: str) -> list[str]:
    """The cells of a row: parted at every & that is not escaped."""
    assert line.endswith(r" \\")
    return [cell.strip() for cell in re.split(r"(?<!\\)&", line[:-3])]


def taken_apart(form: str) -> tuple[str, list[list[str]], list[list[str]]]:
    """The preamble's column letters, rows of heads, and the other rows."""
    begin, inside = re.search(r"\\begin\{tabular\}\{(.+)\}\n\\toprule\n(.*)\\bottomrule\n", form, re.S).groups()
    letters = re.sub(r">\{[^}]*\}p\{[^}]*\}", "p", begin)
    parts = inside.split("\\midrule\n", 1)
    heads, rows = (
        [line for line in part.splitlines() if not re.match(r"\\(midrule|cmidrule)", line)] for part in parts
    )
    return letters, [cells_of(line) for line in heads], [cells_of(line) for line in rows]


def balanced(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    return depth == 0


def test_every_value_in_its_place(table, setting):
    lines = fill_table(table, setting)
    text = to_latex(table, lines, setting)
    whole, measured = forms(text)
    letters, (heads,), rows = taken_apart(whole)
    assert letters == "llrrr" and heads == ["ratio", "encoder", "R@1", "R@5", "Wall s"]
    below = r"\quad\itshape published"
    names = ["BM-25", below, "Ours", below, "Theirs", "Other", "Ours", "Open", "Open BM-25", "Data", below]
    assert [row[1] for row in rows] == names
    assert [row[0] for row in rows] == [r"1\%", *[""] * 5, r"5\%", "", "", "", ""]
    best = r"\textbf{100.00}\textsuperscript{$\ddagger$}{\scriptsize$\pm$\,0.00}"
    assert rows[2][2:] == [best, r"\textbf{45.00}{\scriptsize$\pm$\,7.07}", "122"]
    assert rows[3][2:] == [r"\textit{99.00}", r"\textit{41.50}", ""]
    assert rows[4][2:4] == [r"\textit{1,234}", ""]
    letters, (heads,), rows = taken_apart(measured)
    assert [row[1] for row in rows] == ["BM-25", "Ours", "Data"] and rows[1][2] == best
    assert whole.count(r"\midrule") == 2, "below the heads, and between the two blocks"
    assert "% Measured at the demo scale" in text
    assert "% Make it again: snakemake results/demo/tables/tiny/table9.csv" in text


def test_what_columns_share_stands_once_above_them():
    lines = head_lines(
        ["Model"], ["NQ Top-5 1K", "NQ Top-5 10K", "NQ MRR", "AUC"], [["here a"], ["here a"], [], []], "", ["s"]
    )
    heads = [cells_of(line) for line in lines if line.endswith(r" \\")]
    assert heads == [
        ["", r"\multicolumn{2}{c}{here a}", "", "", ""],
        ["", r"\multicolumn{3}{c}{NQ}", "", ""],
        ["", r"\multicolumn{2}{c}{Top-5}", "", "", ""],
        ["Model", "1K", "10K", "MRR", "AUC", "s"],
    ]
    rules = [line for line in lines if "cmidrule" in line]
    assert rules == [r"\cmidrule(lr){2-3}", r"\cmidrule(lr){2-4}", r"\cmidrule(lr){2-3}"]


@pytest.mark.parametrize(
    "raw", ["50 % of R&D", "a_b {c} #1 $5 ~ ^", "back\\slash", "<x>", "± † ‡ – …", "✓ ≈ ▲ ▼", "naïve Ω"]
)
def test_nothing_is_left_that_latex_reads(raw):
    text = escaped(raw)
    assert not re.search(r"(?<!\\)[&%#_]", text) and balanced(text)
    assert not set(text) & set("±†‡–…✓≈▲▼~^<>")
    assert ("naïve Ω" in text) == ("naïve" in raw)


def columns_across(cells: list[str]) -> int:
    return sum(int(found[1]) if (found := re.match(r"\\multicolumn\{(\d+)\}", cell)) else 1 for cell in cells)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_taken_apart(name):
    table = load_table(REFERENCES / name.split("/")[0] / "paper.yaml", REFERENCES / f"{name}.csv")
    setting = Setting("results/empty", "demo", (1,), {}, frozenset(), frozenset())
    text = to_latex(table, fill_table(table, setting), setting)
    whole, measured = forms(text)
    assert r"\emph{Not measured at the demo scale.}" in measured
    assert balanced("".join(line for line in text.splitlines() if line[0] != "%"))
    if not whole:
        assert not any(cell.published for cell in table.cells)
        return
    letters, heads, rows = taken_apart(whole)
    width = len(table.row_columns) + len(table.columns)
    assert len(letters) == width and {columns_across(row) for row in [*heads, *rows]} == {width}
    assert len(rows) == len(table.rows)
    if name == "seed_encoder/table5":
        assert letters == "llpp"


# -- set by LaTeX


def published_tables() -> Iterator[tuple[str, Table, list[Line], Setting]]:
    """The tables of the published demo."""
    plan = Plan.load(read_config(ROOT / "config.yaml"), REFERENCES, ROOT / "resources/sources.tsv")
    for name in TABLES:
        paper = name.split("/")[0]
        if (PUBLISHED / f"{name}.csv").is_file():
            lines = read_lines(PUBLISHED / f"{name}.csv")
            yield (
                name,
                load_table(REFERENCES / paper / "paper.yaml", REFERENCES / f"{name}.csv"),
                lines,
                Setting.of(plan.setting(paper)),
            )


def log_of(fragments: dict[str, str], folder: Path) -> str:
    """What LaTeX says when it sets each fragment alone on a page, measured and with published values, and how wide it is."""
    pages = []
    for i, (name, text) in enumerate(fragments.items()):
        (folder / f"{i}.tex").write_text(text, encoding="utf-8")
        unboxed = re.sub(r"\\(begin|end)\{adjustbox\}.*", "", text)
        (folder / f"{i}-unboxed.tex").write_text(unboxed, encoding="utf-8")
        for form, switch in (("measured", ""), ("published", r"\def\withpublished{}")):
            pages.append(
                rf"{{{switch}\typeout{{NEXT {name}}}\begin{{table}}[p]\centering\input{{{i}.tex}}\end{{table}}\clearpage"
                rf"\sbox0{{\input{{{i}-unboxed.tex}}}}\typeout{{WIDTH {form} \the\wd0}}}}"
            )
    packages = (
        r"\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{adjustbox,amssymb,array,booktabs,xcolor}"
    )
    whole = "\n".join([rf"\documentclass{{article}}{packages}\begin{{document}}", *pages, r"\end{document}"])
    (folder / "whole.tex").write_text(whole)
    program = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "whole.tex"]
    wide = os.environ | {"max_print_line": "1000"}  # a line of the log that is broken hides names
    ended = subprocess.run(program, cwd=folder, env=wide, capture_output=True, encoding="utf-8", errors="replace")
    if lacking := re.search(r"File `(\w+\.sty)' not found", ended.stdout):
        pytest.skip(f"this LaTeX has no {lacking[1]}")
    assert ended.returncode == 0, ended.stdout[-2000:]
    return ended.stdout


def too_wide(log: str) -> list[str]:
    """Tables with a box that is more than 1 point too wide or too high."""
    parts = re.split(r"NEXT (\S+)", log)
    return [
        name
        for name, said in zip(parts[1::2], parts[2::2], strict=True)
        if any(float(points) > 1 for points in re.findall(r"Overfull \\[hv]box \(([\d.]+)pt too", said))
    ]


needs_latex = pytest.mark.skipif(PDFLATEX is None, reason="no pdflatex to set tables with")


@needs_latex
def test_published_tables_fit_a_page_and_can_be_read(tmp_path):
    found = {name: to_latex(table, lines, setting) for name, table, lines, setting in published_tables()}
    log = log_of(found, tmp_path)
    assert len(found) > 20 and too_wide(log) == []
    widths = [(form, float(points)) for form, points in re.findall(r"WIDTH (\w+) ([\d.]+)pt", log)]
    assert len(widths) == 2 * len(found)
    assert all(points <= WIDER[form] * LINE for form, points in widths), widths


@needs_latex
def test_wide_and_long_tables_fit_a_page(table, setting, tmp_path):
    """As many columns and rows as no paper has; every cell has a value, a deviation, a mark and a published value."""
    lines = fill_table(table, setting)
    ours = next(line for line in lines if line.status in MEASURED and line.sd)
    columns, rows = (
        [f"{word} {i}" for i in range(n)] for word, n in (("Some long name of a metric", 40), ("5% | Row", 90))
    )
    cell = next(cell for cell in table.cells if (cell.row, cell.column) == (ours.row, ours.column))
    wide = replace(table, cells=tuple(replace(cell, row=row, column=column) for row in rows for column in columns))
    filled = [ours._replace(row=row, column=column, p_holm="0.001", effect="-1") for row in rows for column in columns]
    text = to_latex(wide, filled, setting)
    assert too_wide(log_of({"wide": text}, tmp_path)) == []
    unboxed = re.sub(r"\\(begin|end)\{adjustbox\}.*", "", text)
    assert too_wide(log_of({"wide": unboxed}, tmp_path)) == ["wide", "wide"], "in both forms"


@needs_latex
def test_at_paper_scale_latex_knows_every_sign(table, setting, tmp_path):
    setting = replace(setting, scale="paper")
    log_of({"tiny": to_latex(table, fill_table(table, setting), setting)}, tmp_path)
