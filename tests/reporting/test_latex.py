"""The LaTeX fragment: every row and cell in its place, nothing in it that LaTeX would read as something else.

A full TeX is not asked for: the fragment is taken apart by LaTeX's own rules (`&` between cells, two backslashes behind a row,
groups in braces). Where `pdflatex` is installed, the last test sets it.

Seen to fail when: `%` of a text is not escaped; the wall column has no head; a head that covers rows is printed in each; the mark
is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.references.tables import load_table
from pretrieve.reporting.tables.filling import fill_table
from pretrieve.reporting.tables.latex import escaped, to_latex
from pretrieve.reporting.tables.layout import make_page
from pretrieve.reporting.tables.results import Setting

REFERENCES = Path(__file__).parents[2] / "references"
TABLES = sorted(f"{path.parent.name}/{path.stem}" for path in REFERENCES.glob("*/*.csv"))
PDFLATEX = shutil.which("pdflatex")


def cells_of(line: str) -> list[str]:
    """The cells of a row: parted at every & that is not escaped."""
    assert line.endswith(r" \\")
    return [cell.strip() for cell in re.split(r"(?<!\\)&", line[:-3])]


def taken_apart(text: str) -> tuple[str, list[list[str]]]:
    """The preamble's column letters, and the rows with their heads; comments and rules left out."""
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    begin = re.fullmatch(r"\\begin\{tabular\}\{(.+)\}", lines[0])
    assert lines[-1] == r"\end{tabular}" and begin
    letters = re.sub(r"p\{[^}]*\}", "p", begin[1])
    rows = [line for line in lines[1:-1] if not re.fullmatch(r"\\(top|mid|bottom)rule|\\cmidrule\{\d+-\d+\}", line)]
    return letters, [cells_of(line) for line in rows]


def balanced(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    return depth == 0


def test_every_value_in_its_place(table, setting):
    lines = fill_table(table, setting)
    text = to_latex(table, lines, setting)
    letters, (heads, *rows) = taken_apart(text)
    assert letters == "llrrr" and heads == ["ratio", "encoder", "R@1", "R@5", "Wall s"]
    assert [row[0] for row in rows] == [r"\multirow{4}{*}{1\%}", "", "", "", r"\multirow{4}{*}{5\%}", "", "", ""]
    assert [row[1] for row in rows] == [name.split(" | ")[1] for name in table.rows]
    assert rows[1][2:] == [
        r"\textbf{100.00}\textsuperscript{$\ddagger$} $\pm$ 0.00 (99.00)",
        r"\textbf{45.00} $\pm$ 7.07 (41.50)",
        "120",
    ]
    assert rows[2][2] == "quoted (1,234)" and rows[3][2] == "not-run (1.00)" and rows[2][3] == ""
    assert text.count(r"\midrule") == 2, "below the heads, and between the two blocks"
    assert (
        "% Measured at the demo scale" in text
        and "% Make it again: snakemake results/demo/tables/tiny/table9.csv" in text
    )


@pytest.mark.parametrize(
    "raw", ["50 % of R&D", "a_b {c} #1 $5 ~ ^", "back\\slash", "<x>", "± † ‡ – …", "✓ ≈ ▲ ▼", "naïve Ω"]
)
def test_nothing_is_left_that_latex_reads(raw):
    text = escaped(raw)
    assert not re.search(r"(?<!\\)[&%#_]", text) and balanced(text)
    assert not set(text) & set("±†‡–…✓≈▲▼~^<>")
    assert ("naïve Ω" in text) == ("naïve" in raw)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_taken_apart(name):
    table = load_table(REFERENCES / name.split("/")[0] / "paper.yaml", REFERENCES / f"{name}.csv")
    setting = Setting("results/empty", "demo", (1,), {}, frozenset(), frozenset())
    lines = fill_table(table, setting)
    text = to_latex(table, lines, setting)
    letters, rows = taken_apart(text)
    width = len(table.row_columns) + len(table.columns)
    wide = [row for row in rows if not any(cell.startswith(r"\multicolumn") for cell in row)]
    assert len(letters) == width and {len(row) for row in wide} == {width}
    assert len(rows) - len(wide) == bool(make_page(table, lines, setting).column_group)
    assert len(wide) == 1 + len(table.rows) and balanced("".join(line for line in text.splitlines() if line[0] != "%"))
    if name == "seed_encoder/table5":
        assert letters == "llpp"


@pytest.mark.skipif(PDFLATEX is None, reason="no pdflatex to set the fragment with")
def test_latex_sets_it(table, setting, tmp_path):
    setting = replace(setting, scale="paper")
    fragment = to_latex(table, fill_table(table, setting), setting)
    packages = r"\usepackage[utf8]{inputenc}\usepackage{booktabs,multirow,amssymb}"
    whole = rf"\documentclass{{article}}{packages}\begin{{document}}{chr(10)}{fragment}\end{{document}}"
    (tmp_path / "whole.tex").write_text(whole)
    program = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "whole.tex"]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, encoding="utf-8", errors="replace")
    if lacking := re.search(r"File `(\w+\.sty)' not found", ended.stdout):
        pytest.skip(f"this LaTeX has no {lacking[1]}")
    assert ended.returncode == 0, ended.stdout[-2000:]
