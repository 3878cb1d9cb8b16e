"""Case studies on runs written by hand: which queries the rule takes, what stands in the cells, and what is refused.

Two systems with two seeds each rank five documents for six queries. Reciprocal ranks (ours with both seeds | the other's):

    q1  1   1    | 1    0.5    case 5 (the other's mean 0.75)
    q2  1   1    | 0.5  0.25   case 4 (0.375)
    q3  0.5 0.5  | 0.5  0.5    no case: ours is not ahead
    q4  1   1    | 0    0      case 1
    q5  1   1    | 0.2  0.3    case 2 (0.25)
    q6  1   1    | 0.25 0.25   case 3 (0.25; behind q5 by its id)

Seen to fail when: a query where ours is not ahead is a case; ours at a low rank comes before ours at the first; ties go by the
order of the file; the worst query of the other is last; the first document is the last seed's, or the other system's; the passage
is shown where a sentence was ranked; a snippet is cut in a word; a run of other metrics is taken; cells of one system are
measured without the other's; a case is compared with the paper.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from worked_table import files_of_table

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of, write_json
from pretrieve.references.cases import choose_cases
from pretrieve.references.tables import load_table
from pretrieve.reporting.tables.case_studies import snippet
from pretrieve.reporting.tables.filling import fill_table
from pretrieve.reporting.tables.layout import make_page
from pretrieve.reporting.tables.manifest import row_commands, total_cost
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.results import Setting
from pretrieve.retrieval.trec_run import Run, write_trec

OURS, OTHER = "ours.ance-full", "other.ance-full"
PAPER = """\
paper: tiny
title: A paper
authors: [A. Author]
venue: V
year: 2020
tables:
  table5:
    caption: Cases.
    row_columns: [Model, Shown]
    baseline: null
    tolerance: {absolute: 0.05}
"""
HEAD = "row,column,system,dataset,metric,published,unit,marker,note\n"
RANKS = {
    "q1": ((1, 1), (1, 0.5)),
    "q2": ((1, 1), (0.5, 0.25)),
    "q3": ((0.5, 0.5), (0.5, 0.5)),
    "q4": ((1, 1), (0, 0)),
    "q5": ((1, 1), (0.2, 0.3)),
    "q6": ((1, 1), (0.25, 0.25)),
}
#: Documents: title, sentence and passage. d3 is a candidate that is a sentence, d4 has no title.
DOCUMENTS = {
    "d1": ("One", "", "The first passage."),
    "d2": ("Two | and\n a half", "", "word " * 100),
    "d3": ("Three", "Its sentence.", "Another one. Its sentence."),
    "d4": ("", "", "*No* title."),
    "d5": ("Five", "", "Never first."),
}
#: What a system ranks first, by query, with seed 1; with seed 2 it is d5.
FIRST = {
    OURS: {"q1": "d1", "q2": "d1", "q3": "d1", "q4": "d2", "q5": "d3", "q6": "d1"},
    OTHER: {"q1": "d1", "q2": "d4", "q3": "d1", "q4": "d3", "q5": "d1", "q6": "d4"},
}


def cells(columns: int) -> str:
    lines = [f"(both) | Query,Case {n},{OURS},doc,query,asked {n},text,," for n in range(1, columns + 1)]
    for name, system in (("Ours", OURS), ("Other", OTHER)):
        for shown, metric, value, unit in (
            ("MRR@100", "rr@100", "1.0", "fraction"),
            ("Url", "first-url", "https://example.org/a", "text"),
            ("Title", "first-title", "A title", "text"),
            ("Snippet", "first-snippet", "", "text"),
        ):
            for n in range(1, columns + 1):
                note = "not repeated" if shown == "Snippet" else ""
                lines.append(f"{name} | {shown},Case {n},{system},doc,{metric},{value},{unit},,{note}")
    return HEAD + "\n".join(lines) + "\n"


def reference(folder: Path, columns: int = 3):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paper.yaml").write_text(PAPER)
    (folder / "table5.csv").write_text(cells(columns))
    return load_table(folder / "paper.yaml", folder / "table5.csv")


@pytest.fixture
def setting(tmp_path, monkeypatch) -> Setting:
    """The run above, in a folder that becomes the working one."""
    monkeypatch.chdir(tmp_path)
    root = Path("results/demo")
    for place, system in enumerate((OURS, OTHER)):
        for seed in (1, 2):
            documents = {query: first if seed == 1 else "d5" for query, first in FIRST[system].items()}
            run = Run(list(documents), [[first] for first in documents.values()], [[1.0]] * len(documents))
            path = root / f"runs/{system}/questions/seed{seed}.trec.gz"
            write_trec(path, run, "dense")
            ranks = {query: float(values[place][seed - 1]) for query, values in RANKS.items()}
            record = {"run_sha256": sha256_of(path), "n_queries": 6, "n_candidates": 5}
            record |= {"metrics": {"mrr@100": fmean(ranks.values())}, "per_query": {"mrr@100": ranks}}
            write_json(root / f"metrics/{system}/questions/seed{seed}.json", record)
    columns = dict(zip(("title", "sentence", "passage"), map(list, zip(*DOCUMENTS.values(), strict=True)), strict=True))
    task = root / "tasks/questions"
    task.mkdir(parents=True)
    pq.write_table(pa.table({"doc_id": list(DOCUMENTS), **columns}), task / "corpus.parquet", row_group_size=2)
    asked = {"query_id": list(RANKS), "text": [f"what is\n{query}?" for query in RANKS]}
    pq.write_table(pa.table(asked), task / "queries.parquet")
    return Setting(
        root=str(root),
        scale="demo",
        seeds=(1, 2),
        roles={"doc": "questions"},
        encoders=frozenset({"ours", "other"}),
        recipes=frozenset({"ance"}),
        metrics={"questions": ["mrr@100"]},
    )


def grid(lines) -> dict[tuple[str, str], str]:
    """(row without its block, case) → measured."""
    return {(line.row, line.column): line.measured for line in lines}


def test_the_rule():
    assert choose_cases(*({q: v[i] for q, v in RANKS.items()} for i in (0, 1))) == ["q4", "q5", "q6", "q2", "q1"]
    assert choose_cases({}, {}) == [] and choose_cases({"a": [1.0]}, {"a": [1.0]}) == []
    # The order of the files plays no part.
    ours, other = ({q: RANKS[q][i] for q in reversed(RANKS)} for i in (0, 1))
    assert choose_cases(ours, other) == ["q4", "q5", "q6", "q2", "q1"]
    # Means over seeds; a relevant document in the first place goes before everything else.
    weak = {"a": [0.5, 0.0], "b": [0.2, 0.2], "c": [1.0, 1.0], "d": [0.1, 0.1]}
    assert choose_cases(weak, {"a": [0.0, 0.0], "b": [0.0, 0.0], "c": [0.9, 0.9], "d": [0.2, 0.1]}) == ["c", "a", "b"]


def test_every_cell_by_hand(tmp_path, setting):
    lines = fill_table(reference(tmp_path / "references/tiny"), setting)
    shown = grid(lines)
    assert [shown["(both) | Query", f"Case {n}"] for n in (1, 2, 3)] == ["what is q4?", "what is q5?", "what is q6?"]
    assert [shown["Ours | MRR@100", f"Case {n}"] for n in (1, 2, 3)] == ["1.0000"] * 3
    assert [shown["Other | MRR@100", f"Case {n}"] for n in (1, 2, 3)] == ["0.0000", "0.2500", "0.2500"]
    assert [shown["Ours | Url", f"Case {n}"] for n in (1, 2, 3)] == ["d2", "d3", "d1"]
    assert [shown["Other | Url", f"Case {n}"] for n in (1, 2, 3)] == ["d3", "d1", "d4"]
    assert [shown["Ours | Title", f"Case {n}"] for n in (1, 2, 3)] == ["Two | and a half", "Three", "One"]
    assert shown["Ours | Snippet", "Case 2"] == "Its sentence." == shown["Other | Snippet", "Case 1"]
    assert shown["Ours | Snippet", "Case 1"] == ("word " * 40).strip() + " …"
    by_seed = next(line for line in lines if (line.row, line.column) == ("Other | MRR@100", "Case 2"))
    assert (by_seed.sd, by_seed.n_seeds, by_seed.queries, by_seed.candidates) == ("0.0707", "2", "6", "5")
    # Other queries than the paper's: nothing is compared with what it prints, at any scale.
    measured = [line for line in lines if line.measured]
    assert {line.status for line in measured} == {"scale-differs"} and not any(
        line.delta or line.p_value for line in lines
    )
    assert by_seed.published == "1.0" and "query q5" in by_seed.note
    of_paper = fill_table(reference(tmp_path / "references/tiny"), replace(setting, scale="paper"))
    assert {line.status for line in of_paper if line.measured} == {"unpublished"}


def test_what_there_is_none_of_says_so(tmp_path, setting):
    lines = fill_table(reference(tmp_path / "references/tiny", columns=6), setting)
    no_title = next(line for line in lines if (line.row, line.column) == ("Other | Title", "Case 3"))
    assert (no_title.status, no_title.measured) == ("not-run", "") and no_title.note.endswith("ranks first has none")
    sixth = [line for line in lines if line.column == "Case 6"]
    reason = f"no such case: {OURS} is ahead of {OTHER} for 5 of 6 queries"
    assert len(sixth) == 9 and all(line.status == "not-run" and line.note.endswith(reason) for line in sixth)
    assert all(line.measured for line in lines if line.column == "Case 4" and line.row != "Other | Title")


def test_shown_as_texts_that_nothing_is_compared_with(tmp_path, setting):
    table = reference(tmp_path / "references/tiny")
    lines = fill_table(table, setting)
    markdown, html = to_markdown(table, lines, setting), to_html(table, lines, setting)
    assert "Two \\| and a half (A title)" in markdown and "what is q4? (asked 1)" in markdown
    assert "standard deviation over 2 seeds." in markdown and "BM25" not in markdown
    assert "Bold" not in markdown and "<strong" not in html and 'class="text"' in html
    page = make_page(table, lines, setting)
    assert not any(cell.best or cell.interval or cell.shade for row in page.rows for cell in row.cells)
    assert "no relevant document in first place" not in markdown
    weak = [line._replace(measured="0.1250") if line.measured == "1.0000" else line for line in lines]
    assert "no relevant document in first place" in to_markdown(table, weak, setting)
    fourth = reference(tmp_path / "references/more", columns=4)
    assert "\\*No\\* title." in to_markdown(fourth, fill_table(fourth, setting), setting)


def test_the_files_of_a_case_are_those_of_both_systems(tmp_path, setting):
    table = reference(tmp_path / "references/tiny")
    files = files_of_table(table, setting)
    assert len(files) == 4 + 2 + 2 and all(Path(file).is_file() for file in files)
    assert [file for file in files if "seed2" in file and "runs" in file] == []
    assert set(row_commands(table, setting)) == set(table.rows)
    # Without one of the systems there is no case of the other either.
    alone = replace(setting, encoders=frozenset({"ours"}))
    assert files_of_table(table, alone) == [] and total_cost(table, alone)["stages_without_cost"] == 0
    lines = fill_table(table, alone)
    assert {(line.status, line.note.rpartition("; ")[2]) for line in lines} == {
        ("not-run", "encoder other is not configured at the demo scale")
    }
    unranked = fill_table(table, replace(setting, metrics={"questions": ["recall@1"]}))
    assert all(line.note.endswith("mrr@100 is not measured on the data set questions") for line in unranked)
    Path(files[-1]).unlink()
    assert {line.status for line in fill_table(table, setting)} == {"failed"}


def other_run(root: Path) -> None:
    write_trec(root / f"runs/{OTHER}/questions/seed1.trec.gz", Run(["q4"], [["d1"]], [[1.0]]), "dense")


def other_queries(root: Path) -> None:
    path = root / f"metrics/{OTHER}/questions/seed2.json"
    record = json.loads(path.read_text())
    del record["per_query"]["mrr@100"]["q1"]
    record["metrics"]["mrr@100"] = fmean(record["per_query"]["mrr@100"].values())
    write_json(path, record)


def no_queries(root: Path) -> None:
    path = root / f"metrics/{OURS}/questions/seed1.json"
    write_json(path, json.loads(path.read_text()) | {"per_query": {}})


def other_texts(root: Path) -> None:
    pq.write_table(pa.table({"query_id": ["q1"], "text": ["?"]}), root / "tasks/questions/queries.parquet")


def no_parquet(root: Path) -> None:
    (root / "tasks/questions/corpus.parquet").write_bytes(b"no table")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (other_run, f"runs/{OTHER}/questions/seed1.trec.gz: not the run that "),
        (other_queries, "seed2.json: its queries are not those of"),
        (no_queries, "seed1.json: no values per query for mrr@100"),
        (other_texts, "queries.parquet: no query_id 'q2', which is in a run"),
        (no_parquet, "corpus.parquet: not readable"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path, setting, damage, message):
    damage(Path(setting.root))
    with pytest.raises(DataError) as error:
        fill_table(reference(tmp_path / "references/tiny"), setting)
    assert message in str(error.value)


def test_cases_want_two_systems_on_one_data_set(tmp_path):
    folder = tmp_path / "references/tiny"
    reference(folder)
    text = (folder / "table5.csv").read_text()
    alone = HEAD + "".join(line for line in text.splitlines(keepends=True) if OURS in line)
    for wrong in (alone, text.replace("doc,first-url", "page,first-url")):
        (folder / "table5.csv").write_text(wrong)
        with pytest.raises(ConfigError, match="expected two systems on one data set"):
            load_table(folder / "paper.yaml", folder / "table5.csv")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a  b\n", "a b"),
        ("abc de fgh", "abc de …"),
        ("abcdefghijkl", "abcdefgh …"),
        ("abc def", "abc def"),
        ("abcd efg h", "abcd efg …"),
    ],
)
def test_a_snippet_ends_behind_a_word(text, shown):
    assert snippet(text, 8) == shown
