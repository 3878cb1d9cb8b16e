"""Filling a table: every number of the tiny table of conftest.py worked out by hand, and every status word.

Seen to fail when: the program drops a field of its setting;
a fraction is multiplied by 100 or has two decimals; a text is read from a metrics file; a baseline that the
table lacks is tested against; Plan and Setting differ on which cells are measured; what stands behind a cost is left out, or
BM25's first pass; a recipe is taken for a data set of another kind.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from worked_table import files_of_table, metrics_json

from pretrieve.base.errors import DataError
from pretrieve.base.files import write_json
from pretrieve.base.paths import parse_system
from pretrieve.references.cases import scored_by
from pretrieve.references.tables import load_table
from pretrieve.reporting.tables import manifest as manifests
from pretrieve.reporting.tables.filling import (
    MEASURED,
    UNMEASURED,
    Line,
    count_statuses,
    fill_table,
    judge,
    read_lines,
    write_lines,
)
from pretrieve.reporting.tables.latex import to_latex
from pretrieve.reporting.tables.layout import make_page
from pretrieve.reporting.tables.manifest import cost_of, hardware, made_with, make_manifest, row_commands
from pretrieve.reporting.tables.render import to_html, to_markdown
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import EXAMPLE_READERS
from pretrieve.workflow.plan import Plan

CHECKOUT = Path(__file__).parents[2]


def at(lines: list[Line], row: str, column: str = "R@1") -> Line:
    return next(line for line in lines if (line.row, line.column) == (row, column))


def edit(path: str, change) -> None:
    value = json.loads(Path(path).read_text())
    change(value)
    Path(path).write_text(json.dumps(value))


def test_columns_are_the_documented_ones():
    documented = (
        "paper,table,row,column,system,dataset,metric,published,measured,sd,n_seeds,delta,tolerance,status,p_value,"
        "queries,wall_s,gpu_h,peak_gb,note"
    )
    assert ",".join(Line._fields).startswith(documented)


def test_a_score_worked_by_hand(table, setting):
    line = at(fill_table(table, setting), "1% | Ours", "R@5")
    # 4 and 5 hits of 10: mean 45 %, sample sd sqrt(2 * 5 ** 2) = 7.07; published 41.50.
    assert (line.measured, line.sd, line.n_seeds, line.published) == ("45.00", "7.07", "2", "41.50")
    assert line.seed_values == "40.00 50.00"
    assert (line.delta, line.tolerance, line.status) == ("3.50", "1", "scale-differs")
    assert (line.dataset, line.role, line.queries, line.candidates) == ("questions", "qa", "10", "2000")
    assert line.note == "a note"


@pytest.mark.parametrize(
    ("level", "chance", "beyond"),
    [
        # 45 % of ten queries, hits of two seeds: an error of 16 points, so 20 % is not beyond reach of guessing, and 10 % is.
        (0.10, "10.00", "yes"),
        (0.20, "20.00", "no"),
    ],
)
def test_a_value_that_guessing_reaches_is_marked(table, setting, level, chance, beyond):
    for path in Path("results/demo/metrics").rglob("*.json"):
        edit(str(path), lambda value: value.update(chance={"recall@5": level}))
    line = at(lines := fill_table(table, setting), "1% | Ours", "R@5")
    assert (line.chance, line.beyond_chance) == (chance, beyond)
    markdown, latex = to_markdown(table, lines, setting), to_latex(table, lines, setting)
    assert ("≈ chance" in markdown) == (r"\textcolor{gray}{45.00" in latex) == (beyond == "no")
    assert ('class="value guessed">45.00 ≈ chance' in to_html(table, lines, setting)) == (beyond == "no")
    assert ("**45.00**" in markdown) == (beyond == "yes"), "the highest value, unless guessing would have it"


def test_marks_have_a_direction(table, setting):
    """Each row against the baseline; the worse one has an arrow, and a value at chance no mark."""
    lines = fill_table(table, setting)
    ours = at(lines, "1% | Ours", "R@1")
    assert ours.baseline == "bm25.reqa-1pct" and float(ours.effect) == pytest.approx(
        float(ours.measured) - float(at(lines, "1% | BM-25", "R@1").measured), abs=0.011
    )
    for change, mark in (({}, "‡"), ({"effect": "-3.00"}, "‡↓"), ({"beyond_chance": "no"}, "")):
        page = make_page(table, [line._replace(**change) if line == ours else line for line in lines], setting)
        row = next(row for row in page.rows if row.heads[-1] == "Ours" and row.heads[0] == "1%")
        assert row.cells[table.columns.index("R@1")].mark == mark


def test_heads_name_what_was_measured(table, setting):
    lines = fill_table(table, setting)
    words = {"questions": "questions of a test"}
    other = replace(setting, stand_ins=frozenset(["qa"]), descriptions=words)
    page = make_page(table, lines, other)
    assert page.columns[0] == "here questions; published: R@1"
    assert page.caption == "Measured on questions of a test, in place of QA. The paper: “Recall <at> k.”"
    own = make_page(replace(table, paper="pretrieve"), lines, other)
    assert own.caption == "Recall <at> k. Measured on questions of a test, in place of QA."
    assert page.measured_on.startswith("Measured here: questions of a test (data set questions), test queries 10")
    assert "in place of QA" in page.measured_on
    for written, head in ((to_markdown, "published: R@1"), (to_latex, "{here questions}")):
        text = written(table, lines, other)
        assert "Measured on questions of a test, in place of QA" in text and head in text
    html = to_html(table, lines, other)
    assert "Measured on questions of a test, in place of QA" in html and "<small>here questions</small>" in html
    assert ">R@1<" in html and "The name above it is that of the published value." in html
    page = make_page(table, lines, setting)
    assert page.columns == table.columns and not page.measured_on and page.caption == table.caption


def test_heads_say_how_many_examples_a_size_has(table, setting):
    """``1%`` is a share, and of small data a handful; a table of one size needs no number."""
    lines = [
        line._replace(system=line.system.replace("1pct", line.row[0] + "pct"), train_examples="11")
        if line.row == "1% | Ours"
        else line._replace(system="ours.reqa-5pct", train_examples="57")
        if line.row == "5% | Ours"
        else line
        for line in fill_table(table, setting)
    ]
    heads = [row.heads[0] for row in make_page(table, lines, setting).rows]
    assert heads[0] == "1% (11 train)" and heads[-1] == "5% (57 train)"
    one = [line._replace(train_examples="") if line.row.startswith("5%") else line for line in lines]
    assert make_page(table, one, setting).rows[0].heads[0] == "1%"


def test_a_row_of_another_body_has_no_mark_and_bm25_a_comparison_of_its_own(table, setting):
    marked = replace(table, baseline="ours.reqa-{size}")
    lines = fill_table(marked, setting)
    bm25 = at(lines, "1% | BM-25", "R@1")
    assert bm25.p_value and bm25.baseline == "ours.reqa-1pct" and not bm25.bm25_p, (
        "no bodies are known: all are compared"
    )
    lines = fill_table(marked, replace(setting, bodies={"ours": "transformer, deep"}))
    ours, bm25 = at(lines, "1% | Ours", "R@1"), at(lines, "1% | BM-25", "R@1")
    assert not (bm25.p_value or bm25.baseline or ours.baseline)
    # Ten of ten queries are hits, and none of BM25's; Holm over two tests.
    assert (ours.bm25_effect, ours.bm25_p, ours.bm25_p_holm) == ("100.00", "0.0020", "0.0040")


def test_significance_worked_by_hand(table, setting):
    lines = fill_table(table, setting)
    # All ten queries differ by 1: only the two uniform ones of 2 ** 10 sign patterns are as extreme.
    assert at(lines, "1% | Ours", "R@1").p_value == f"{2 / 1024:.4f}" == "0.0020"
    # One query differs (one hit more in one of two seeds): any sign is as extreme.
    five = at(lines, "1% | Ours", "R@5")
    # Half a hit, and 2 of the 9 others in its random half: with fewer it is in 1 of 100, with no more in 4.5 of 100.
    assert (five.p_value, five.effect, five.effect_low, five.effect_high) == ("1.0000", "5.00", "0.00", "16.67")
    # Holm over these two tests: the smaller one counts twice.
    assert at(lines, "1% | Ours", "R@1").p_holm == "0.0040"
    untested = [line for line in lines if not line.p_value]
    assert {line.row for line in untested} == {line.row for line in lines} - {"1% | Ours"}


def test_cost_worked_by_hand(table, setting):
    lines = fill_table(table, setting)
    ours, bm25 = at(lines, "1% | Ours"), at(lines, "1% | BM-25")
    # Encoder 100 + retriever (fine-tuned on `training`) 10 or 20 + embedding 5 s + search 2 s; peak is the largest stage.
    assert (ours.wall_s, ours.gpu_h, ours.peak_gb) == ("122.0", "0.7500", "3.00")
    assert (bm25.wall_s, bm25.gpu_h, bm25.peak_gb) == ("1.0", "0.0000", "0.50")
    # Where BM25's hits are ranked again, its search is part of the cost; its own counts once.
    lines = fill_table(table, replace(setting, reranked=frozenset(["questions"])))
    assert (at(lines, "1% | Ours").wall_s, at(lines, "1% | BM-25").wall_s) == ("123.0", "1.0")


def test_a_run_knows_where_hits_are_ranked_again():
    assert Setting.of(Plan.load(read_config()).setting("seed_encoder")).reranked == {"questions-rerank"}


def test_what_a_retriever_was_made_of_is_part_of_its_cost_once(tmp_path):
    """Third stage → second stage and teacher → negatives of the first: 1 + 2 + 4 + 8 seconds, the negatives once."""
    behind = {"third": ["second", "teacher"], "second": ["negatives"], "teacher": ["negatives"], "negatives": []}
    for number, (name, others) in enumerate(behind.items()):
        cost = {
            "wall_s": 2**number,
            "gpu_h": 0,
            "peak_gb": number,
            "behind": [str(tmp_path / f"{o}.json") for o in others],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(cost))
    assert ResultFiles().cost([str(tmp_path / "third.json")]) == (15.0, 0, 3)
    both = cost_of({str(tmp_path / "third.json"), str(tmp_path / "absent.json")})
    assert both == {"wall_s": 15.0, "gpu_h": 0, "peak_gb": 3, "stages": 4, "stages_without_cost": 1}
    (tmp_path / "negatives.json").unlink()
    with pytest.raises(DataError, match="negatives.json: no such file"):
        ResultFiles().cost([str(tmp_path / "third.json")])


def test_a_partial_cost_is_not_shown(table, setting):
    missing = "results/demo/encoders/ours/seed2/cost.json"
    os.remove(missing)
    line = at(fill_table(table, setting), "1% | Ours")
    assert (line.wall_s, line.gpu_h, line.peak_gb) == ("", "", "")
    assert missing in line.note and line.measured


def test_a_statistic_has_neither_seeds_nor_tests_nor_cost(table, setting):
    line = at(fill_table(table, setting), "5% | Data")
    assert (line.measured, line.delta, line.status) == ("12.25", "-0.25", "scale-differs")
    assert (line.n_seeds, line.sd, line.p_value, line.queries, line.wall_s) == ("", "", "", "", "")


def test_a_statistic_of_a_part_that_is_not_there_is_not_run(table, setting):
    """And no measured 0, which would be judged to be lower than the paper's."""
    file = Path("results/demo/tasks/questions/stats.json")
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"lengths": {}}), encoding="utf-8")
    line = at(fill_table(table, setting), "5% | Data")
    assert (line.status, line.measured, line.delta) == ("not-run", "", "")
    assert line.note == "the data set has no lengths"


def test_cells_without_a_value_say_why(table, setting):
    lines = fill_table(table, setting)
    assert at(lines, "1% | Theirs").status == "quoted"
    reasons = {
        "1% | Other": "encoder other is not configured at the demo scale",
        "5% | Ours": "recipe half is not configured at the demo scale",
        "5% | Open": "the demo scale has no data set for the role open",
    }
    for row, reason in reasons.items():
        line = at(lines, row)
        assert (line.status, line.note, line.measured, line.delta) == ("not-run", reason, "", "")


def test_a_missing_file_is_failed_and_named(table, setting):
    missing = "results/demo/metrics/bm25.reqa-1pct/questions/seed0.json"
    os.remove(missing)
    lines = fill_table(table, setting)
    line = at(lines, "1% | BM-25")
    assert (line.status, line.measured) == ("failed", "") and missing in line.note
    # Without its baseline the other system keeps its value, and says that it was not tested.
    ours = at(lines, "1% | Ours")
    assert ours.measured == "100.00" and ours.p_value == "" and "bm25.reqa-1pct has no result" in ours.note


@pytest.mark.parametrize("scale", ["demo", "small"])
@pytest.mark.parametrize("delta", [0.0, 0.5, -3.0, None])
def test_nothing_below_paper_scale_is_judged(scale, delta):
    assert judge(delta, 1.0, scale) == "scale-differs"


@pytest.mark.parametrize(
    ("delta", "word"),
    [(0, "match"), (-1, "match"), (1.01, "close"), (-2, "close"), (2.01, "higher"), (-2.01, "lower")],
)
def test_judged_at_paper_scale(delta, word):
    assert judge(delta, 1.0, "paper") == word


def test_status_follows_from_the_numbers_of_the_line(table, setting):
    for line in fill_table(table, replace(setting, scale="paper")):
        if line.measured:
            assert float(line.delta) == pytest.approx(float(line.measured) - float(line.published))
            assert line.status == judge(float(line.delta), float(line.tolerance), "paper")


def test_one_seed_has_no_deviation(table, setting):
    line = at(fill_table(table, replace(setting, seeds=(2,))), "1% | Ours", "R@5")
    assert (line.measured, line.sd, line.n_seeds, line.wall_s) == ("50.00", "", "1", "127.0")


METRICS = "results/demo/metrics/ours.reqa-1pct/questions/seed2.json"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda m: m["metrics"].pop("recall@5"),
            "key metrics.recall@5 is missing; under metrics there is keys recall@1",
        ),
        (lambda m: m["metrics"].update({"recall@5": "0.4"}), "key metrics.recall@5 is '0.4'; expected a number"),
        (lambda m: m["metrics"].update({"recall@5": float("nan")}), "key metrics.recall@5 is nan; expected a number"),
        (lambda m: m.update(n_queries=11), "n_queries is [10, 11]; expected one number for all seeds"),
        (lambda m: m["per_query"]["recall@1"].pop("q3"), "its queries are not those of"),
    ],
)
def test_a_damaged_metrics_file_is_an_error(table, setting, change, message):
    edit(METRICS, change)
    with pytest.raises(DataError) as error:
        fill_table(table, setting)
    assert message in str(error.value) and METRICS in str(error.value)


def test_systems_with_other_queries_are_not_compared(table, setting):
    for seed in (1, 2):
        path = f"results/demo/metrics/ours.reqa-1pct/questions/seed{seed}.json"
        edit(path, lambda m: m["per_query"]["recall@1"].update(extra=1.0))
    with pytest.raises(DataError, match=r"10 queries that are not the same \(such as 'extra'\)"):
        fill_table(table, setting)


def test_a_share_that_other_queries_test_is_not_compared_with_the_only_row_of_bm25(table, setting):
    ours = next(cell for cell in table.cells if (cell.row, cell.column) == ("1% | Ours", "R@5"))
    more = replace(ours, row="5% | Ours", system="ours.reqa-5pct")
    for seed in (1, 2):
        record = metrics_json({"recall@5": 5})
        record["per_query"]["recall@5"].pop("q9")
        record["metrics"]["recall@5"] = 5 / 9
        write_json(Path(f"results/demo/metrics/ours.reqa-5pct/questions/seed{seed}.json"), record)
    cells = tuple(cell for cell in table.cells if cell.row != more.row)
    line = at(fill_table(replace(table, cells=(*cells, more)), setting), "5% | Ours", "R@5")
    assert (line.measured, line.bm25_effect, line.bm25_p) == ("55.56", "", "")


@pytest.mark.parametrize(
    "key, value, said",
    [
        (
            "metrics",
            {"recall@1": 0.9, "recall@5": 0.4},
            "key metrics.recall@1 is 0.9, and the mean of its values per query 1",
        ),
        ("per_query", {"recall@1": {"q0": 7.5}}, "metrics.recall@1 is 1, and the mean of its values per query 7.5"),
        ("per_query", {"recall@1": {"q0": None}}, "the mean of its values per query nan"),
        ("per_query", {"recall@1": []}, "the mean of its values per query nan"),
        ("per_query", None, "key per_query is None; expected an object"),
        ("chance", "0.5", "key chance is '0.5'; expected an object"),
        ("chance", {"recall@1": None}, "key chance.recall@1 is None; expected a number"),
    ],
)
def test_scores_that_do_not_belong_together_are_refused(table, setting, key, value, said):
    path = Path(METRICS).with_name("seed1.json")
    write_json(path, json.loads(path.read_text()) | {key: value})
    with pytest.raises(DataError, match=f"{path}: .*{said}"):
        fill_table(table, setting)


def test_a_file_that_is_not_json_is_an_error(table, setting):
    Path(METRICS).write_text('{"metrics": ')
    with pytest.raises(DataError, match=f"{METRICS}: not readable as JSON"):
        fill_table(table, setting)


def test_csv_round_trip_and_equal_bytes(table, setting, tmp_path):
    lines = fill_table(table, setting)
    write_lines(tmp_path / "a.csv", lines)
    write_lines(tmp_path / "b.csv", fill_table(table, setting))
    assert read_lines(tmp_path / "a.csv") == lines
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    (tmp_path / "a.csv").write_text((tmp_path / "a.csv").read_text() + "one,two\n")
    for change in ({"status": "mesured"}, {"measured": "nan"}, {"measured": ""}):
        write_lines(tmp_path / "b.csv", [lines[0]._replace(**change), *lines[1:]])
        with pytest.raises(DataError, match=r"b\.csv: row .* expected one of quoted, not-run, failed, or a number"):
            read_lines(tmp_path / "b.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        read_lines(tmp_path / "b.csv")
    with pytest.raises(DataError, match="line 12: 2 fields"):
        read_lines(tmp_path / "a.csv")


def test_statuses_are_counted_without_loss(table, setting):
    lines = fill_table(table, setting)
    assert {line.status for line in lines} <= {*MEASURED, *UNMEASURED}
    assert count_statuses(lines) == {"measured": 5, "quoted": 1, "not-run": 4, "failed": 0}


def test_bm25_runs_once_with_seed_0(table, setting):
    bm25, ours = (next(cell for cell in table.cells if cell.row == row) for row in ("1% | BM-25", "1% | Ours"))
    assert (setting.seeds_of(bm25), setting.seeds_of(ours)) == ((0,), (1, 2))
    line = at(fill_table(table, setting), "1% | BM-25", "R@5")
    assert (line.measured, line.sd, line.n_seeds) == ("40.00", "", "1")


def test_a_size_that_the_data_set_lacks_is_not_run(table, setting):
    lines = fill_table(table, replace(setting, sizes={"questions": ["5pct"]}))
    assert at(lines, "1% | Ours").note == "size 1pct is not configured for the data set questions"
    assert fill_table(table, replace(setting, sizes={"questions": ["1pct"]})) == fill_table(table, setting)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kinds": {"reqa": "regression"}}, "recipe reqa trains for regression, the data set questions is for ranking"),
        ({"kinds": {"questions": "clicks"}}, "recipe reqa trains for ranking, the data set questions is for clicks"),
        ({"metrics": {"questions": ["mrr@10"]}}, "recall@1 is not measured on the data set questions"),
    ],
)
def test_a_cell_that_does_not_fit_says_why(table, setting, changes: dict, reason: str):
    line = at(fill_table(table, replace(setting, **changes)), "1% | Ours", "R@1")
    assert line.status == "not-run" and reason in line.note


@pytest.mark.parametrize(
    ("name", "bm25", "others"), [("table3", 3, 15), ("table4", 3, 15), ("table5", 0, 36), ("table6", 3, 6)]
)
def test_expected_files_are_one_for_each_system_and_seed(name, bm25, others):
    folder = CHECKOUT / "references" / "pretraining_tasks"
    table = load_table(folder / "paper.yaml", folder / f"{name}.csv")
    every = {cell.system.partition(".") for cell in table.cells}
    setting = Setting(
        root="results/x",
        scale="x",
        seeds=(1, 2, 3),
        roles={cell.dataset: "data" for cell in table.cells},
        encoders=frozenset(encoder for encoder, _, _ in every) - {"bm25"},  # which has nothing to configure
        recipes=frozenset(protocol.rpartition("-")[0] for _, _, protocol in every),
    )
    assert len(files_of_table(table, setting)) == bm25 + 3 * others
    assert files_of_table(table, replace(setting, roles={})) == []


def test_manifest_counts_a_shared_stage_once_and_names_the_commands(table, setting, tmp_path):
    (tmp_path / "lock").write_text("torch==2\n")
    manifest = make_manifest(table, fill_table(table, setting), setting, "abc", Path("lock"), [Path("lock")])
    # 1 + 2 × (100 + 5) + 10 + 20 s, although four cells rest on them.
    assert manifest["cost"] == {"wall_s": 245.0, "gpu_h": 1.5, "peak_gb": 3.0, "stages": 9, "stages_without_cost": 0}
    assert manifest["lock_sha256"] == manifest["sources_sha256"]["lock"] and len(manifest["lock_sha256"]) == 64
    assert manifest["versions"]["torch"] and manifest["hardware"]["cores"] >= 1
    commands = row_commands(table, setting)
    assert commands["1% | Ours"] == f"snakemake {METRICS.replace('seed2', 'seed1')} {METRICS}"
    assert set(commands) == {"1% | BM-25", "1% | Ours", "5% | Data"}
    assert manifest["config_hash"] == "abc" and json.dumps(manifest)
    with pytest.raises(DataError, match="nowhere: no such file"):
        make_manifest(table, [], setting, "abc", Path("nowhere"))


def test_a_manifest_has_one_checksum_for_a_folder(tmp_path):
    """Of a corpus that is a folder: the same files give the same, wherever it is; another text, place or file does not."""
    folders = []
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        folders.append(tmp_path / name)
        for file in (f"{name}/one.txt", f"{name}/more/two.txt", f"{name}/.git/index"):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(name if ".git" in file else text)
    first, same, other = made_with("abc", None, folders)["sources_sha256"].values()
    lines = [f"{place}\0{hashlib.sha256(b'x').hexdigest()}" for place in ("more/two.txt", "one.txt")]
    assert first == same == hashlib.sha256("\n".join(lines).encode()).hexdigest() != other
    (folders[1] / "one.txt").rename(folders[1] / "three.txt")
    assert made_with("abc", None, folders)["sources_sha256"][str(folders[1])] not in (first, other)


def test_the_program_writes_all_its_files_or_one_line(tiny, setting):
    _, csv = tiny
    given = {key: sorted(value) if isinstance(value, frozenset) else value for key, value in asdict(setting).items()}
    assert Setting.of(json.loads(json.dumps(given))) == setting, "what the program is given is what it works with"
    program = [sys.executable, str(CHECKOUT / "workflow_scripts" / "table.py"), "--reference", str(csv)]
    program += ["--setting", json.dumps(given)]
    outputs = [f"results/demo/tables/tiny/table9.{end}" for end in ("csv", "md", "html", "tex", "manifest.json")]
    for option, path in zip(("--csv", "--md", "--html", "--tex", "--manifest"), outputs, strict=True):
        program += [option, path]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    subprocess.run(program, check=True, env=environment)
    assert [Path(path).is_file() for path in outputs] == [True] * 5
    assert at(read_lines(outputs[0]), "1% | Ours", "R@5").measured == "45.00"

    Path(METRICS).write_text("[]")
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and METRICS in done.stderr


@pytest.fixture(scope="module")
def plan() -> Plan:
    config = read_config(CHECKOUT / "config.yaml") | {"seeds": [1, 2]}
    sources = CHECKOUT / "resources" / "sources.tsv"
    return Plan.load(config, CHECKOUT / "references", sources)


def setting_of(plan: Plan, name: str) -> Setting:
    """As the rules hand it to the program of a table: through JSON."""
    return Setting.of(json.loads(json.dumps(plan.setting(name.split("/")[0]))))


def expected_by(setting: Setting, name: str) -> list[str]:
    csv = CHECKOUT / "references" / f"{name}.csv"
    return files_of_table(load_table(csv.with_name("paper.yaml"), csv), setting)


def test_the_workflow_makes_exactly_the_files_that_tables_expect(plan):
    """The rule's inputs come from Plan, the cells from Setting: where they differ, a cell would be failed for ever."""
    for name in plan.all_tables:
        expected = expected_by(setting_of(plan, name), name)
        assert expected == plan.table_inputs(*name.split("/"))
        assert bool(expected) == any(plan.measured(cell) is not None for cell in plan.cells[name])
    assert sum(bool(plan.table_inputs(*name.split("/"))) for name in plan.config["tables"]) > 20


def test_the_workflow_would_make_them_for_every_table_where_all_is_configured(plan):
    """As above with a data set for every role, and every encoder, size and metric, so that no table is empty."""
    cells = [cell for rows in plan.cells.values() for cell in rows]
    systems = [parse_system(cell["system"]) for cell in cells if cell["system"] not in ("", "statistics")]
    roles = {cell["dataset"]: f"d-{cell['dataset']}" for cell in cells} | {"pretraining-pairs": "encyclopedia-demo"}
    config = dict(plan.config)
    config["scales"] = {config["scale"]: {**plan.scale, "roles": roles}}
    readers = {kind: reader for reader, kind in EXAMPLE_READERS.items()}
    kinds = {
        f"d-{cell['dataset']}": plan.kinds.get(parse_system(cell["system"]).recipe, "ranking")
        for cell in cells
        if cell["system"] not in ("", "statistics")
    }
    common = {"sizes": {system.size: 1 for system in systems}, "metrics": [scored_by(cell["metric"]) for cell in cells]}
    config["datasets"] = {name: common | {"reader": readers.get(kinds.get(name), "squad")} for name in roles.values()}
    config["encoders"] = {system.encoder: {} for system in systems if system.encoder != "bm25"}
    assert {system.recipe for system in systems} <= set(config["recipes"])
    full = replace(plan, config=config)
    for name in full.all_tables:
        expected = expected_by(setting_of(full, name), name)
        assert expected and expected == full.table_inputs(*name.split("/"))


def test_a_text_is_not_read_from_a_metrics_file(tiny, setting):
    paper, csv = tiny
    csv.write_text(csv.read_text().replace("recall@5,41.50,%", "motto,A title,text"))
    line = at(fill_table(load_table(paper, csv), setting), "1% | Ours", "R@5")
    assert (line.status, line.measured, line.published, line.unit) == ("not-run", "", "A title", "text")
    assert line.note == "a note; a text, not a number: metrics files have none"


def test_a_fraction_has_four_decimals_and_is_not_multiplied(tiny, setting):
    paper, csv = tiny
    csv.write_text(csv.read_text().replace("recall@5,41.50,%", "recall@5,0.4102,fraction"))
    line = at(fill_table(load_table(paper, csv), replace(setting, scale="paper")), "1% | Ours", "R@5")
    # 4 and 5 hits of 10, as above; sd sqrt(2 * 0.05 ** 2).
    assert (line.measured, line.sd, line.delta, line.published) == ("0.4500", "0.0707", "0.0398", "0.4102")
    assert line.status == judge(0.0398, 1.0, "paper")
    assert line.p_value == "1.0000", "tested like a percentage"


def test_an_average_has_two_decimals(tiny, setting):
    paper, csv = tiny
    csv.write_text(csv.read_text().replace("lengths.mean,12.5,tokens", "lengths.mean,12.51,average"))
    line = at(fill_table(load_table(paper, csv), setting), "5% | Data")
    assert (line.measured, line.delta, line.unit) == ("12.25", "-0.26", "average")


def test_a_baseline_of_the_same_recipe_is_tested_or_left_out(tiny, setting):
    paper, csv = tiny
    fixed = load_table(paper, csv)
    paper.write_text(paper.read_text().replace("bm25.reqa-{size}", '"bm25.{recipe}-{size}"'))
    follows = load_table(paper, csv)
    lines = fill_table(follows, setting)
    assert {line.row for line in lines if line.p_value} == {"1% | Ours"} and lines == fill_table(fixed, setting)
    half = next(cell for cell in follows.cells if cell.system == "ours.half-1pct")
    assert (fixed.baseline_of(half), follows.baseline_of(half)) == ("bm25.reqa-1pct", "")


def test_one_data_set_in_two_roles_is_tested_once(table, setting):
    """Holm's correction counts a test once, however often the table prints it."""
    roles = {**setting.roles, "twin": setting.roles["qa"]}
    twins = [replace(cell, row=f"{cell.row} again", dataset="twin") for cell in table.cells if cell.dataset == "qa"]
    once = [line for line in fill_table(table, setting) if line.p_holm]
    twice = fill_table(replace(table, cells=[*table.cells, *twins]), replace(setting, roles=roles))
    assert len([line for line in twice if line.p_holm]) == 2 * len(once) > 2
    for line in once:
        same = [
            other
            for other in twice
            if (other.system, other.dataset, other.metric) == (line.system, line.dataset, line.metric)
        ]
        assert len(same) == 2 and {other.p_holm for other in same} == {line.p_holm}


def test_interval_names_of_rows_and_numbers(table, setting):
    line = at(fill_table(table, setting), "1% | Ours", "R@5")
    # Ten queries; the mean of both seeds is 45 %. By hand: t(0.975, 9) = 2.262.
    files = [f"results/demo/metrics/ours.reqa-1pct/questions/seed{seed}.json" for seed in (1, 2)]
    files = [path for path in Path("results/demo/metrics").rglob("seed[12].json") if line.system in str(path)] or files
    seeds = [json.loads(Path(path).read_text())["per_query"]["recall@5"] for path in files]
    means = [sum(seed[query] for seed in seeds) / len(seeds) for query in seeds[0]]
    deviation = (sum((one - 0.45) ** 2 for one in means) / 9) ** 0.5
    assert float(line.high) == pytest.approx(45 + 100 * 2.262 * deviation / 10**0.5, abs=0.02)
    assert float(line.low) == pytest.approx(45 - 100 * 2.262 * deviation / 10**0.5, abs=0.02)
    assert (line.published_value, line.published_unit) == ("41.5", "%")


def test_the_csv_has_a_column_for_each_part_of_a_row(table, setting, tmp_path):
    lines = fill_table(table, setting)
    write_lines(tmp_path / "table.csv", lines, table.row_columns)
    with open(tmp_path / "table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert (rows[0]["row: ratio"], rows[0]["row: encoder"], rows[0]["row"]) == ("1%", "BM-25", "1% | BM-25")
    assert read_lines(tmp_path / "table.csv") == lines, "and is read without them"


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("#!/bin/sh\necho NVIDIA H200; echo NVIDIA H200", ["NVIDIA H200", "NVIDIA H200"]),
        ("#!/bin/sh\necho NVIDIA-SMI has failed; exit 9", []),
        ("#!/bin/sh\nexec sleep 600", []),
        ("#!/no/such/interpreter", []),
    ],
)
def test_a_tool_of_a_broken_driver_is_not_waited_for(script, gpus, tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text(f"{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(manifests, "PATIENCE", 5 if gpus else 0.5)
    begun = time.monotonic()
    assert hardware()["gpus"] == gpus and time.monotonic() - begun < 60
