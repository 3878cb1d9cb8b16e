"""Tables of seed_encoder, dual_encoders, dupmae and condenser: every cell, as printed, measured by what its row says.

The CSV files are read without the loader, and compared with the papers' texts where these are beside the checkout. (The tables
of pretraining_tasks: test_references.py.)

Seen to fail when: a digit of a value, a marker or a "printed as" is changed; two values, rows or columns are swapped; a row or
a cell is dropped; a system is given to the wrong row or misspelt; a depth is changed; an average of BEIR is changed.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from pretrieve.base.paths import parse_system
from pretrieve.references.tables import COLUMNS, load_paper, load_table, parse_number
from pretrieve.workflow.config_files import read_config

CHECKOUT = Path(__file__).parents[2]
REFERENCES = CHECKOUT / "references"
#: Paper → the file with its text in ../shared/papers, which is beside some checkouts only.
TEXTS = {"seed_encoder": "000", "dual_encoders": "001", "dupmae": "002", "pretraining_tasks": "003", "condenser": "004"}
#: Table → rows, columns, printed cells, printed numbers (or texts), cells with a system or statistic, by hand; and what stands
#: right before the first row.
TABLES = {
    "seed_encoder/table1": ((14, 3, 42, 34, 20), "\nModel MRR@10 MRR@10 Recall@1k\n"),
    "seed_encoder/table2": ((11, 3, 33, 20, 14), "\nModel Rerank Retrieval Retrieval\n"),
    "seed_encoder/table3": ((6, 4, 24, 24, 8), "\nModel AUC MRR NDCG@5 NDCG@10\n"),
    "seed_encoder/table4": ((7, 2, 14, 14, 8), "\nModel Top-20 Top-100\n"),
    "seed_encoder/table5": ((9, 2, 18, 14, 18), "\nCase 1 Case 2\n"),
    # the row Doc set has two cells, in columns of their own
    "seed_encoder/table6": ((3, 8, 14, 12, 14), "\nDocument Passage\nModel Train Dev Eval Train Dev Eval\n"),
    "seed_encoder/table7": ((7, 2, 14, 14, 14), "\nTrain Dev\n"),
    "seed_encoder/table8": ((3, 4, 12, 12, 12), "\nmodel MNLI QQP SST-2 QNLI\n"),
    "dual_encoders/table2": ((14, 6, 84, 80, 60), "\nMetric Model MSMARCO NQ SQuAD TriviaQA HotpotQA SearchQA "),
    "dual_encoders/table3": ((3, 7, 21, 21, 15), "\nModel SDE ADE A-STE A-FTE A-SPL D-G7 D-G127 "),
    "dual_encoders/table4": (
        (5, 9, 45, 45, 45),
        "\nMetric Top-5 Top-20 Top-100 Model Size" + " small base large" * 3 + " ",
    ),
    "dual_encoders/table5": ((5, 6, 30, 30, 30), "\nMetric P@1 MRR Model Size" + " small base large" * 2 + " "),
    "dupmae/table1": (
        (16, 5, 80, 57, 15),
        "\n| MS MARCO Dev | DL’19 | DL’20 | ||||\n| Methods | FT | MRR@10 | R@50 | R@1000 | NDCG@10 | NDCG@10 |\n| ",
    ),
    "dupmae/table2": (
        (19, 9, 171, 171, 114),
        "\n| Datasets | BM25 | BERT | SEED | Condenser | Contriever | GTR-base | GTR-XXL | RetroMAE | DupMAE |\n| ",
    ),
    "dupmae/table3": ((8, 5, 40, 40, 40), "\n| Methods | MRR@10 | MRR@100 | R@10 | R@100 | R@1000 | |\n| 1. | "),
    # tables 1, 2, 3, 5: rows without training have columns of their own
    "condenser/table1": ((6, 4, 12, 12, 6), "\nModel Spearman\n"),
    "condenser/table2": ((4, 4, 10, 8, 6), "\nModel Accuracy\n"),
    "condenser/table3": ((4, 16, 40, 40, 40), "\nNatural Question Trivia QA\nModel Top-20 Top-100 Top-20 Top-100\n"),
    "condenser/table4": ((7, 4, 28, 26, 16), "\nNQ TQA\nModel Top-20/100 Top-20/100\n"),
    "condenser/table5": ((4, 12, 30, 30, 30), "\nMS-MARCO Dev DL2019\nModel MRR@10 Recall@1000 NDCG@10\n"),
    "condenser/table6": ((10, 3, 30, 27, 12), "\nMS-MARCO Dev DL2019\nModel MRR@10 R@1K NDCG@10\n"),
    "condenser/table7": ((6, 2, 12, 12, 2), "\nbatch size MRR@10\n"),
    "condenser/table8": ((7, 2, 14, 13, 8), "\nMS-MARCO Dev DL2019\nModel MRR@100 NDCG@10\n"),
}
#: What stands right behind the last row.
ENDS = {"dupmae/table1": "4 Experiment", "dupmae/table2": "4.1 Main Results", "dupmae/table3": "4.2 Ablation"}
#: Measures without ``@k``, those with it, and what only a table's own text or setting is.
MEASURES = {"mrr", "auc", "accuracy", "spearman"}
MEASURES_AT = {"mrr", "recall", "ndcg", "hits", "precision", "rr"}
TEXT_MEASURES = {"query", "first-url", "first-title", "first-snippet"}
RECIPES = re.compile(
    r"dpr-(bm25|hard)|ance|seed-pairwise|sts|sections|glue|news|dual-t5-(sde|ade(-ste|-fte|-spl)?)|"
    r"dupmae-[23]stage(-cls|-ot|-equal-storage)?|reqa(-half|-quarter)?"
)
SIZES = re.compile(r"full|[1-9][0-9]*(k|pct)?")
#: Encoder → what stands in the row's or column's name.
NAMES = {
    "bm25": "BM25",
    "base": "BERT Devlin",
    "bert": "BERT|DPR",
    "seed-mlm": r"BERT \([Oo]urs\)|RoBERTa \|",
    "seed-3-2": r"SEED|\(both\)",
    "optimus": "Optimus",
    "transformer-ict": "ICT",
    "condenser": "Condenser",
    "retromae": "RetroMAE",
    "dupmae": "DupMAE|CLS and OT|CLS:768|OT:768|CLS:384",
    "dupmae-cls": "CLS decoding only",
    "dupmae-ot": "OT decoding only",
}


@cache
def cells_of(name: str) -> list[dict[str, str]]:
    """The lines of a CSV, read without the loader."""
    with open(REFERENCES / f"{name}.csv", newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def text_of(paper: str) -> str:
    """The paper's text with plain blanks, and with each number that formulas repeat printed once."""
    files = sorted((CHECKOUT.parent / "shared" / "papers").glob(f"{TEXTS[paper]}_*.txt"))
    if not files:
        pytest.skip(f"the paper's text is not beside this checkout (../shared/papers/{TEXTS[paper]}_*.txt)")
    text = files[0].read_text(encoding="utf-8").replace("\xa0", " ")
    if paper == "seed_encoder":  # 0.329superscript0.329\textbf{0.329}^{\dagger}
        text = re.sub(r"(\d+\.\d+)superscript\1\\textbf\{\1\}\^\{\\dagger\}", r"\1†", text)
    if paper == "dual_encoders":  # 15.9215.92\mathbf{15.92} and 48.8748.8748.87; nothing else fits between two blanks
        text = re.sub(r"(?<= )(\d+(?:\.\d+)?)\1(?:\\mathbf\{\1\}|\1)(?=\s)", r"\1", text)
    return text


def printed(name: str, cells: list[dict[str, str]]) -> str:
    """A row as the paper's text has it: the last part of its name, then values, with what is printed where there is none."""
    *_, head = cells[0]["row"].split(" | ")
    values = [re.sub(r'printed as "(.+?)".*', r"\1", cell["published"] or cell["note"]) for cell in cells]
    if name == "seed_encoder/table5" and head == "MRR@100":
        return f"MRR@100 {values[0]} MRR@100 {values[1]}"
    if name.startswith("dupmae/"):
        parts = [part for part in cells[0]["row"].split(" | ") if part not in ("1.", "2.")]
        return " | ".join([*parts, *values])
    if {cell["marker"] for cell in cells} == {"*"}:
        return " ".join([f"{head}*", *values])
    return " ".join([head, *(value + cell["marker"] for value, cell in zip(values, cells, strict=True))])


def rows_of(cells: list[dict[str, str]]) -> list[list[dict[str, str]]]:
    rows = defaultdict(list)
    for cell in cells:
        rows[cell["row"]].append(cell)
    return list(rows.values())


def value_of(cell: dict[str, str]) -> float:
    return float(cell["published"].replace(",", ""))


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_cell_is_there(name):
    cells = cells_of(name)
    counts = (
        len({cell["row"] for cell in cells}),
        len({cell["column"] for cell in cells}),
        len(cells),
        sum(bool(cell["published"]) for cell in cells),
        sum(bool(cell["system"]) for cell in cells),
    )
    assert counts == TABLES[name][0]
    assert len({(cell["row"], cell["column"]) for cell in cells}) == len(cells)
    # Whatever has no value says what the paper prints there, or why it is not repeated.
    assert all(re.match(r'printed as "|the paper prints', cell["note"]) for cell in cells if not cell["published"])
    assert all(cell["unit"] == "text" or parse_number(cell["published"]) for cell in cells if cell["published"])


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_are_printed_like_this(name):
    """All rows of a table, in order, from its head to its end, with no number in between."""
    paper, table = name.split("/")
    text, head = text_of(paper), TABLES[name][1]
    cases = name == "seed_encoder/table5"  # run together, with line breaks in words: read without blanks
    if cases:
        text, head = (re.sub(r"\s", "", part) for part in (text, head))
    assert text.count(head) == 1
    position = text.index(head) + len(head)
    for cells in rows_of(cells_of(name)):
        if not any(cell["published"] for cell in cells):
            continue  # excerpts of pages
        row = printed(name, cells)
        row = re.sub(r"\s", "", row) if cases else row
        start = text.find(row, position)
        assert start >= 0, f"not in the text behind the rows before it: {row}"
        assert cases or not re.search(r"\d\.\d|\d,\d|n\.a\.", text[position:start]), text[position:start]
        position = start + len(row)
    end = ENDS.get(name, f"Table {table.removeprefix('table')}:")
    rest = text[position:].lstrip(" |\n")
    if cases:
        assert end.replace(" ", "") in rest[:700]  # behind the last excerpt
    else:
        assert rest.startswith(end), rest[:80]


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_are_those_of_the_printed_head(name):
    """By their last words; what stands above these in the paper comes first in a column's name."""
    columns = list(dict.fromkeys(cell["column"] for cell in cells_of(name)))
    words = [word for column in columns for word in (column.split() if "Case" in column else column.split()[-1:])]
    head = TABLES[name][1].replace("|", " ").replace("Top-20/100", "Top-20 Top-100").split()
    head = head[:-1] if head[-1] == "1." else head
    if name == "seed_encoder/table6":
        assert words[6:] == ["Document", "Passage"]
        words = words[:6]
    if name in ("condenser/table1", "condenser/table2", "condenser/table3", "condenser/table5"):
        n = len(words) // 4
        sizes = ["500", "1K", "FULL"] if name.endswith("1") else ["1K", "10K", "FULL"]
        assert words[n:] == n * sizes
        groups = [column.rsplit(maxsplit=1)[0] for column in columns[n::3]]
        assert n == 1 or groups == columns[:n]
        words = words[:n]
    assert head[-len(words) :] == words


@pytest.mark.parametrize("name", TABLES)
def test_a_cell_measures_what_its_row_and_column_say(name):
    for cell in cells_of(name):
        label = f"{cell['row']} | {cell['column']}"
        at = re.search(r"(?:@|Top-)([0-9]+)(k?)\b", label, flags=re.IGNORECASE)
        if at and cell["metric"]:
            assert int(cell["metric"].partition("@")[2]) == int(at[1]) * (1000 if at[2] else 1), cell
        if not cell["system"] or cell["system"] == "statistics":
            continue
        system = parse_system(cell["system"])
        if system.encoder.startswith("t5-"):
            variant = re.search(r"SDE|ADE(-\w+)?|A-\w+", label)[0].lower().replace("a-", "ade-")
            size = re.search(r"small|base|large|$", label)[0] or "base"
            assert cell["system"] == f"t5-{size}.dual-t5-{variant}-full"
        else:
            assert re.search(NAMES[system.encoder], label), cell
        if system.size != "full":
            assert cell["column"].split()[-1].lower() == system.size


@pytest.mark.parametrize("name", TABLES)
def test_every_table_loads(name):
    paper, table = name.split("/")
    loaded = load_table(REFERENCES / paper / "paper.yaml", REFERENCES / f"{name}.csv")
    assert (loaded.name, len(loaded.cells)) == (table, TABLES[name][0][2])


@pytest.mark.parametrize("name", TABLES)
def test_what_a_cell_measures_is_named_in_one_way(name):
    entry = load_paper(REFERENCES / name.split("/")[0] / "paper.yaml")["tables"][name.split("/")[1]]
    encoders = {*read_config(CHECKOUT / "config.yaml")["encoders"]}
    encoders |= {"bm25", "seed-mlm", "t5-small", "t5-base", "t5-large"}
    roles = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
    for cell in cells_of(name):
        assert len(cell["row"].split(" | ")) == len(entry["row_columns"]) and tuple(cell) == COLUMNS
        assert cell["unit"] in {"%", "count", "tokens", "fraction", "average", "text"}
        if cell["column"] == "batch size":
            assert not cell["system"] and not cell["metric"]
            continue
        assert roles.fullmatch(cell["dataset"]), cell
        if cell["system"] == "statistics":
            assert entry["statistics"] == "tasks" and re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", cell["metric"])
            continue
        measure, at, depth = cell["metric"].partition("@")
        assert depth.isdigit() and measure in MEASURES_AT if at else measure in MEASURES | TEXT_MEASURES, cell
        assert (cell["unit"] == "text") == (measure in TEXT_MEASURES)
        if cell["system"]:
            system = parse_system(cell["system"])
            assert system.encoder in encoders, cell
            assert RECIPES.fullmatch(system.recipe) and SIZES.fullmatch(system.size), cell
        if cell["unit"] == "fraction" and cell["published"]:
            assert 0 <= value_of(cell) <= 1
        if cell["unit"] == "%" and cell["published"]:
            assert 1 < value_of(cell) <= 100


@pytest.mark.parametrize("paper", TEXTS)
def test_one_system_has_one_value_in_all_tables_of_a_paper(paper):
    """Also a check on the systems: two rows that are one system print the same, up to digits that one of them leaves out."""
    cells = [cell for path in sorted((REFERENCES / paper).glob("*.csv")) for cell in cells_of(f"{paper}/{path.stem}")]
    same = defaultdict(list)
    for cell in cells:
        if cell["system"] and cell["published"] and cell["unit"] != "text" and cell["metric"] != "rr@100":
            same[cell["system"], cell["dataset"], cell["metric"]].append(cell)
    repeated = {key: group for key, group in same.items() if len(group) > 1}
    least = {"seed_encoder": 0, "dual_encoders": 25, "dupmae": 5, "pretraining_tasks": 3, "condenser": 10}
    assert len(repeated) >= least[paper]
    for key, group in repeated.items():
        for a, b in combinations(group, 2):
            digits = min(len(cell["published"].partition(".")[2]) for cell in (a, b))
            differ = abs(value_of(a) - value_of(b)) > 0.5 * 10**-digits + 1e-9 and a["published"] != b["published"]
            # The paper prints two values for BM25; both cells say so.
            assert differ == (key == ("bm25.dpr-bm25-full", "msmarco-passage-dev", "mrr@10")), (a, b)
            assert not differ or ("0.189" in a["note"] and "0.184" in b["note"])


def test_the_averages_over_beir_are_those_of_the_printed_values():
    """Two are not, in the paper; their notes give the mean. The text's counts of sets won are those of the printed values."""
    at = {(cell["row"], cell["column"]): value_of(cell) for cell in cells_of("dupmae/table2")}
    notes = {cell["column"]: cell["note"] for cell in cells_of("dupmae/table2") if cell["row"] == "AVERAGE"}
    rows = [row for row, column in at if column == "BM25" and row != "AVERAGE"]
    assert len(rows) == 18
    for column in {column for _, column in at}:
        mean = sum(at[row, column] for row in rows) / 18
        noted = column in ("Contriever", "DupMAE")
        assert (abs(at["AVERAGE", column] - mean) > 0.0005) == noted, (column, mean)
        assert notes[column] == (f"the mean of the printed values is {mean:.3f}" if noted else "")
    for a, b, wins in (("DupMAE", "RetroMAE", 13), ("DupMAE", "BM25", 15), ("BM25", "GTR-XXL", 8)):  # §4.1
        assert sum(at[row, a] > at[row, b] for row in rows) == wins
