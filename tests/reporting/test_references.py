"""The published cells: all of them, as printed, and a loader that refuses anything else.

Seen to fail when: a number without a suffix is rounded; a text is parsed, has a value or a baseline; a blank quoted cell with a
note is refused, or one without is taken; a baseline that the table lacks is kept, or looked up on any role; a misspelt baseline
with a placeholder, or a named one that some cells lack, is taken; the schema takes a cell as its own baseline; a plan takes what
the rule of a table refuses, after all training.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.paths import parse_system
from pretrieve.references.tables import load_paper, load_table, parse_number
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

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


@pytest.mark.parametrize("text", ["0.4102", "0.9874", "-0.00005", "0.123456789", "1,234.56789"])
def test_parse_number_keeps_every_digit(text):
    assert parse_number(text) == float(text.replace(",", ""))


def test_published_values_are_those_of_the_csv():
    folder = REFERENCES / "dupmae"
    cells = load_table(folder / "paper.yaml", folder / "table3.csv").cells
    assert len(cells) == 40 and all(len(cell.published) == 6 for cell in cells)  # four decimals
    assert [f"{cell.published_value:.4f}" for cell in cells] == [cell.published for cell in cells]


@pytest.mark.parametrize(
    ("unit", "published", "value"),
    [
        ("fraction", "0.4102", 0.4102),
        ("average", "14.41", 14.41),
        ("text", "12 of 13% (x)", None),
        ("text", "12", None),
    ],
)
def test_units(tiny, unit, published, value):
    paper, csv = tiny
    csv.write_text(csv.read_text().replace("recall@1,99.00,%", f"recall@1,{published},{unit}"))
    table = load_table(paper, csv)
    cell = table.cells[2]
    assert (cell.unit, cell.published, cell.published_value) == (unit, published, value)
    assert table.tolerance_of(cell) == (None if value is None else 1.0)
    assert table.baseline_of(cell) == ("" if unit == "text" else "bm25.reqa-1pct")
    # The tiny table's other cells are as before: the unit is the cell's, not the table's.
    assert table.baseline_of(table.cells[3]) == "bm25.reqa-1pct" and table.cells[3].published_value == 41.5


def test_a_csv_as_spreadsheets_write_it_is_read(tiny):
    """With a byte order mark, carriage returns and blank lines at its end."""
    cells = load_table(*tiny).cells
    tiny[1].write_bytes(b"\xef\xbb\xbf" + tiny[1].read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert load_table(*tiny).cells == cells


def test_a_number_is_a_number_in_every_unit_but_text(tiny):
    paper, csv = tiny
    text = csv.read_text()
    for unit in ("fraction", "average", "%", "tokens", "count"):
        csv.write_text(text.replace("recall@1,99.00,%", f"recall@1,n.a.,{unit}"))
        with pytest.raises(DataError, match="line 4: 'n.a.' is not a number"):
            load_table(paper, csv)


def test_a_blank_quoted_cell_says_what_is_printed_there(tiny):
    paper, csv = tiny
    csv.write_text(csv.read_text().replace('"1,234",count,,', ',count,,"printed as ""-"""'))
    cell = load_table(paper, csv).cells[4]
    assert (cell.system, cell.published, cell.published_value, cell.note) == ("", "", None, 'printed as "-"')


BASELINES = """\
row,column,system,dataset,metric,published,unit,marker,note
1% | a,R@1,bert.dpr-1k,qa,recall@1,,%,,
1% | b,R@1,bert.ance-1k,qa,recall@1,,%,,
1% | c,R@1,seed.dpr-1k,qa,recall@1,,%,,
1% | d,R@1,seed.ance-1k,qa,recall@1,,%,,
1% | e,R@1,seed.glue-1k,qa,recall@1,,%,,
1% | f,R@1,seed.dpr-1k,open,recall@1,,%,,
1% | g,R@1,statistics,qa,lengths.mean,,tokens,,
1% | h,R@1,,qa,recall@1,1,%,,
"""


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("bert.{recipe}-{size}", {"c": "bert.dpr-1k", "d": "bert.ance-1k"}),
        ("{encoder}.dpr-{size}", {"b": "bert.dpr-1k", "d": "seed.dpr-1k", "e": "seed.dpr-1k"}),
    ],
)
def test_a_baseline_follows_the_cell_where_the_table_has_it(tiny, baseline, expected):
    paper, csv = tiny
    csv.write_text(BASELINES)
    paper.write_text(paper.read_text().replace("bm25.reqa-{size}", f'"{baseline}"'))
    table = load_table(paper, csv)
    found = {cell.row_parts[1]: table.baseline_of(cell) for cell in table.cells}
    assert found == {name: expected.get(name, "") for name in "abcdefgh"}


def test_a_named_baseline_is_there_for_every_cell(tiny):
    """One with a placeholder may be absent for some; a name that is right for some cells is wrong for the others."""
    paper, csv = tiny
    csv.write_text(BASELINES)
    paper.write_text(paper.read_text().replace("bm25.reqa-{size}", "bert.dpr-{size}"))
    with pytest.raises(ConfigError, match=r"gives bert\.dpr-1k on open for seed\.dpr-1k, which is no system"):
        load_table(paper, csv)


def test_baselines_of_the_printed_tables():
    """Systems are compared within the paper's own block: same fine-tuning, same size of encoder."""
    blocks = {"seed_encoder/table1": 4, "seed_encoder/table2": 2, "seed_encoder/table4": 2}
    for name, n_tested in blocks.items():
        table = load_table(REFERENCES / name.split("/")[0] / "paper.yaml", REFERENCES / f"{name}.csv")
        tested = {cell.system: table.baseline_of(cell) for cell in table.cells if table.baseline_of(cell)}
        assert len(tested) == n_tested, tested
        for system, baseline in tested.items():
            assert baseline.startswith("seed-mlm.") and parse_system(system)[1:] == parse_system(baseline)[1:]
    for stem, n_tested in (("table4", 36), ("table5", 24)):  # 4 of 5 models, 3 sizes of encoder, 3 or 2 measures
        table = load_table(REFERENCES / "dual_encoders/paper.yaml", REFERENCES / f"dual_encoders/{stem}.csv")
        tested = [cell for cell in table.cells if table.baseline_of(cell)]
        assert len(tested) == n_tested
        for cell in tested:
            assert table.baseline_of(cell) == f"{parse_system(cell.system).encoder}.dual-t5-ade-full" != cell.system


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
    spoil(csv, old, new)
    with pytest.raises(DataError) as error:
        load_table(paper, csv)
    assert message in str(error.value) and str(csv) in str(error.value)


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("year: 2020", "year: twenty", "key year: 'twenty' is not of type 'integer'"),
        ("venue: V\n", "", "'venue' is a required property"),
        ("absolute: 1.0", "absolute: -1", "key tables.table9.tolerance.absolute: -1"),
        ("absolute: 1.0", "absolute: .nan", "key tables.table9.tolerance.absolute: nan"),
        ("statistics: tasks", "statistics: moods", "key tables.table9.statistics is 'moods'; allowed: pairs, tasks"),
        ("    statistics: tasks\n", "", "has cells of system 'statistics' but no"),
        ("baseline: bm25.reqa-{size}", "baseline: bm25.half-{size}", "gives bm25.half-1pct on qa"),
        ("baseline: bm25.reqa-{size}", "baseline: bm25.reqa", "key tables.table9.baseline"),
        ("bm25.reqa-{size}", '"{encoder}.{recipe}-{size}"', "key tables.table9.baseline"),
        ("bm25.reqa-{size}", '"bm25.{encoder}-{size}"', "key tables.table9.baseline"),
        ("bm25.reqa-{size}", '"bm26.{recipe}-{size}"', "gives bm26.reqa-1pct on qa for bm25.reqa-1pct"),
        ("table9:", "table8:", "no table 'table9' under the key 'tables'; it has table8"),
        ("authors: [A. Author]", "authors: [", "not readable as YAML"),
    ],
)
def test_a_wrong_paper_yaml_is_refused_with_its_key(tiny, old, new, message):
    paper, csv = tiny
    spoil(paper, old, new)
    with pytest.raises(ConfigError) as error:
        load_table(paper, csv)
    assert message in str(error.value) and str(paper) in str(error.value)


@pytest.fixture
def references(tmp_path):
    return Path(shutil.copytree(REFERENCES, tmp_path / "all"))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("controls.csv", "mrr@10,,%", "mrr@10,nan,%", "controls.csv, line 2: 'nan' is not a number"),
        (
            "controls.csv",
            ",R@10,bm25",
            ",MRR@10,bm25",
            "controls.csv, line 3: row 'BM25 | –', column 'MRR@10' is on line 2",
        ),
        ("paper.yaml", "  controls:", "  contrails:", "paper.yaml: no table 'controls' under the key 'tables'"),
        ("paper.yaml", "    caption", "\tcaption", "paper.yaml: not readable as YAML"),
        ("paper.yaml", "baseline: transformer-mlm", "baseline: transformr-mlm", "gives transformr-mlm.reqa-80pct on"),
        ("transfer.csv", ",dataset,", ",data_set,", "transfer.csv, line 1: columns are row,column,system,data_set,"),
    ],
)
def test_a_wrong_table_of_the_run_is_refused_before_any_job(references, file, old, new, message):
    path = references / "pretrieve" / file
    spoil(path, old, new)
    with pytest.raises((ConfigError, DataError)) as error:
        Plan.load(read_config(CHECKOUT / "config.yaml"), references)
    assert message in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_only_the_tables_of_the_run_are_refused(references):
    """Those that it makes, and those whose published values its figures have."""
    path = references / "dual_encoders/table2.csv"
    path.write_text(path.read_text(encoding="utf-8") + "a | a,b,,,,nan,%,,\n", encoding="utf-8")
    config = read_config(CHECKOUT / "config.yaml") | {"tables": ["condenser/table1"]}
    assert Plan.load(config | {"figures": []}, references).config["tables"] == ["condenser/table1"]
    with pytest.raises(DataError, match=r"dual_encoders/table2.csv, line \d+: 'nan' is not a number"):
        Plan.load(config | {"figures": ["dual_encoders/figure3"]}, references)
