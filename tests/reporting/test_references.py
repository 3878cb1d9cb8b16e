"""The published cells: all of them, as printed, and a loader that refuses anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrieve.errors import ConfigError, DataError
from pretrieve.paths import parse_system
from pretrieve.reporting.references import load_paper, load_table, parse_number

CHECKOUT = Path(__file__).parents[2]
REFERENCES = CHECKOUT / "references"
#: Rows × columns of the printed tables, counted by hand.
SHAPES = {"table1": (3, 4), "table2": (2, 5), "table3": (18, 5), "table4": (18, 5), "table5": (9, 4), "table6": (9, 5)}


def published(name: str):
    folder = REFERENCES / "pretraining_tasks"
    return load_table(folder / "paper.yaml", folder / f"{name}.csv")


@pytest.fixture(scope="module")
def paper_text() -> str:
    files = sorted((CHECKOUT.parent / "shared" / "papers").glob("003_*.txt"))
    if not files:
        pytest.skip("the paper's text is not beside this checkout (../shared/papers/003_*.txt)")
    return files[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHAPES)
def test_every_cell_of_the_printed_table_is_there(name):
    table = published(name)
    rows, columns = SHAPES[name]
    assert (len(table.rows), len(table.columns), len(table.cells)) == (rows, columns, rows * columns)
    assert all(cell.published and cell.system for cell in table.cells)
    measured = {(cell.system, cell.dataset, cell.metric) for cell in table.cells}
    assert len(measured) == len(table.cells), "two cells of one table would show the same number"


@pytest.mark.parametrize("name", SHAPES)
def test_every_row_is_printed_like_this_in_the_paper(name, paper_text):
    """Whole rows, so that two swapped values are seen as well."""
    table = published(name)
    for row in table.rows:
        cells = [cell for cell in table.cells if cell.row == row]
        # The ratio opens a block of rows only, and is written as a formula; the rest of the name stands in every row.
        name_parts = cells[0].row_parts[1:] if "ratio" in table.row_columns[0] else cells[0].row_parts
        assert " ".join([*name_parts, *(cell.published for cell in cells)]) in paper_text


@pytest.mark.parametrize("name", ["table3", "table4", "table6"])
def test_published_recall_grows_with_depth(name):
    table = published(name)
    for row in table.rows:
        cells = sorted((c for c in table.cells if c.row == row), key=lambda c: int(c.metric.partition("@")[2]))
        values = [cell.published_value for cell in cells]
        assert values == sorted(values) and values[0] >= 0 and values[-1] <= 100
        assert [cell.column for cell in cells] == [cell.metric.replace("recall", "R") for cell in cells]


def test_cells_that_the_paper_prints_twice_agree():
    """Index 9 of table 5 is the proposed method of table 4."""
    table4 = {(cell.system, cell.metric): cell.published for cell in published("table4").cells}
    twice = [cell for cell in published("table5").cells if (cell.system, cell.metric) in table4]
    assert [parse_system(cell.system).size for cell in twice] == ["1pct", "5pct", "80pct"]
    for cell in twice:
        assert table4[cell.system, cell.metric] == cell.published


@pytest.mark.parametrize("name", ["table3", "table4", "table5", "table6"])
def test_system_names_say_what_the_row_says(name):
    for cell in published(name).cells:
        system = parse_system(cell.system)
        ratio = cell.column if name == "table5" else cell.row_parts[0].partition("/")[0]
        assert system.size == ratio.replace("%", "pct")
        row = cell.row.lower()
        assert ("bm-25" in row) == (system.encoder == "bm25")
        assert ("ict+bfs+wlp" in row) == ("ict-bfs-wlp" in system.encoder)
        assert ("mlm" in row) == ("-mlm" in system.encoder.replace("bow-mlp", ""))
        if name == "table5":
            layers, dim = cell.row_parts[1], cell.row_parts[3]
            assert system.encoder.startswith("shallow") == (layers == "4")
            assert {"128": "reqa-quarter", "256": "reqa-half", "512": "reqa"}[dim] == system.recipe


def test_the_supplement_has_no_published_values():
    table = load_table(REFERENCES / "pretrieve/paper.yaml", REFERENCES / "pretrieve/transfer.csv")
    assert len(table.cells) == 24 and not any(cell.published for cell in table.cells)
    assert {parse_system(cell.system).size for cell in table.cells} == {"80pct"}


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in REFERENCES.glob("*/paper.yaml")), ids=lambda p: p.name
)
def test_paper_yaml_and_csv_files_belong_together(folder):
    paper = load_paper(folder / "paper.yaml")
    assert paper["paper"] == folder.name
    assert {path.stem for path in folder.glob("*.csv")} == set(paper["tables"])


@pytest.mark.parametrize(
    ("text", "value"),
    [("11.2B", 11_200_000_000), ("50.2M", 50_200_000), ("97,888", 97_888), ("0.02", 0.02), ("7", 7), ("-1.5K", -1500)],
)
def test_parse_number(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "1,23", "1234,567", "12%", "n/a", "1.2.3", "41.86 ", "nan"])
def test_parse_number_refuses_what_no_table_prints(text):
    with pytest.raises(ValueError, match="not a number"):
        parse_number(text)


def test_baseline_and_tolerance_of_a_cell(table):
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    assert table.baseline_of(cells["1% | BM-25", "R@1"]) == ""
    assert table.baseline_of(cells["1% | Ours", "R@1"]) == "bm25.reqa-1pct"
    assert table.baseline_of(cells["5% | Data", "R@1"]) == "" and table.baseline_of(cells["1% | Theirs", "R@1"]) == ""
    table1 = published("table1")
    assert table1.tolerance_of(table1.cells[0]) == 224_000_000  # 2 % of 11.2 B


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("row,column,", "row,col,", "line 1: columns are row,col,"),
        ("recall@1,20.00,%", "recall@1,20.00,percent", "line 2: unit 'percent' is not known; expected one of %"),
        ("1% | BM-25,R@5", "1% | BM-25,R@1", "line 3: row '1% | BM-25', column 'R@1' is on line 2 already"),
        ("ours.reqa-1pct,qa,recall@1,99", "ours-1pct,qa,recall@1,99", "line 4: 'ours-1pct' is not a system name"),
        ("recall@5,41.50", "recall@5,41.5%", "line 5: '41.5%' is not a number"),
        ("recall@5,41.50", "Recall at 5,41.50", "line 5: metric 'Recall at 5'; expected a name"),
        ('"1,234"', "1,234", "line 6: 10 fields; expected 9"),
        ('"1,234"', "", "line 6: neither a system nor a published value"),
        ("5% | Ours", "5%", "line 8: row '5%', column 'R@1'; expected"),
        ("reqa-1pct,open,", "reqa-1pct,,", "line 9: system 'ours.reqa-1pct' without a role"),
        ("lengths.mean", "lengths mean", "line 11: metric 'lengths mean'; expected a dotted key"),
    ],
)
def test_a_wrong_csv_is_refused_with_its_line(tiny, old, new, message):
    paper, csv = tiny
    text = csv.read_text()
    assert old in text
    csv.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError) as error:
        load_table(paper, csv)
    assert message in str(error.value) and str(csv) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("year: 2020", "year: twenty", "key year: 'twenty' is not of type 'integer'"),
        ("venue: V\n", "", "'venue' is a required property"),
        ("absolute: 1.0", "absolute: -1", "key tables.table9.tolerance.absolute: -1"),
        ("statistics: tasks", "statistics: moods", "key tables.table9.statistics: 'moods'"),
        ("    statistics: tasks\n", "", "has cells of system 'statistics' but no"),
        ("baseline: bm25.reqa-{size}", "baseline: bm25.half-{size}", "gives bm25.half-1pct on qa"),
        ("baseline: bm25.reqa-{size}", "baseline: bm25.reqa", "key tables.table9.baseline"),
        ("table9:", "table8:", "no table 'table9' under the key 'tables'; it has table8"),
        ("authors: [A. Author]", "authors: [", "not readable as YAML"),
    ],
)
def test_a_wrong_paper_yaml_is_refused_with_its_key(tiny, old, new, message):
    paper, csv = tiny
    text = paper.read_text()
    assert old in text
    paper.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        load_table(paper, csv)
    assert message in str(error.value) and str(paper) in str(error.value)
