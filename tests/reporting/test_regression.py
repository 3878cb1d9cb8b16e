"""A fresh run beside the published one: the same numbers pass, another one fails, what was not made or was changed is told.

The runs are table 3 and table 1 of pretraining_tasks with made-up scores under the project's own configuration: 500 queries,
one seed, then published as they are.

Seen to fail when: a difference in the last digit is let through; BM25 or a count is given the tolerance of a training; the
deviation over seeds is not asked, or alone decides; one seed is compared with the mean of several; it is not asked which
processor made a joined seed, or whether a GPU did; the noise of one of the two runs is forgotten; a run without a hit has no
noise; options that changed are compared; other options of the same system are not seen (its start, its training set, the
corpus); nothing compared is a success; the older of two published runs is taken.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from scipy.stats import chi2_contingency

from pretrieve.__main__ import main
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import sha256_of, write_json
from pretrieve.operations.bundle.archive import write_archive
from pretrieve.operations.publish.comparison import (
    ABSENT,
    CHANGED,
    EQUAL,
    OFF,
    WITHIN,
    Compared,
    check_comparison,
    compare_run,
    format_comparison,
    ingredients,
    newest_published,
    off_the_paper,
    open_published,
    order_as_published,
)
from pretrieve.references.tables import load_table
from pretrieve.reporting.tables.filling import fill_table, read_lines, write_lines
from pretrieve.reporting.tables.manifest import cpu_model, hardware, make_manifest
from pretrieve.reporting.tables.results import Setting
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import at_scale

ROOT = Path(__file__).parents[2]
NAMES = ("pretraining_tasks/table1", "pretraining_tasks/table3")
FOLDER = Path("results/published/2026-01-02-demo-abc1234")
MLM = "results/demo/metrics/transformer-mlm.reqa-80pct/questions/seed1.json"
BM25 = "results/demo/metrics/bm25.reqa-80pct/questions/seed0.json"
QUERIES = 500


def table_of(name: str):
    return load_table(ROOT / f"references/{name.partition('/')[0]}/paper.yaml", ROOT / f"references/{name}.csv")


@pytest.fixture(scope="module")
def config() -> dict:
    return read_config(ROOT / "config.yaml") | {
        "scale": "demo",
        "seeds": [1],
    }


def plan_of(config: dict) -> Plan:
    return Plan.load(config, ROOT / "references", ROOT / "resources/sources.tsv")


@pytest.fixture(scope="module")
def plan(config) -> Plan:
    return plan_of(config)


@pytest.fixture(scope="module")
def setting(plan) -> Setting:
    return Setting.of(plan.setting("pretraining_tasks"))


@pytest.fixture(scope="module")
def finished(config, setting, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in NAMES:
            table = table_of(name)
            for cell in table.cells:
                for path in setting.files_of(table, cell):
                    there = json.loads(Path(path).read_text()) if Path(path).is_file() else {}
                    if cell.is_statistic:
                        inner = there
                        *above, last = cell.metric.split(".")
                        for key in above:
                            inner = inner.setdefault(key, {})
                        inner[last] = 1234
                    else:
                        hits = (len(path) * 7 + len(cell.metric)) % 20 * QUERIES // 20
                        there |= {"n_queries": QUERIES, "n_candidates": 99}
                        there.setdefault("metrics", {})[cell.metric] = hits / QUERIES
                        values = {f"q{i}": float(i < hits) for i in range(QUERIES)}
                        there.setdefault("per_query", {})[cell.metric] = values
                    write_json(path, there)
            publish(name, setting)
        (FOLDER / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def publish(name: str, setting: Setting) -> None:
    table = table_of(name)
    lines = fill_table(table, setting)
    (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
    write_lines(FOLDER / f"{name}.csv", lines)
    write_json(FOLDER / f"{name}.manifest.json", make_manifest(table, lines, setting, "abc"))


@pytest.fixture
def run(finished, tmp_path, monkeypatch) -> Path:
    """A copy of the finished folder, which becomes the working one."""
    shutil.copytree(finished, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    return tmp_path / "run"


def compare(plan: Plan) -> dict[str, list[Compared]]:
    return compare_run(open_published(FOLDER, "demo"), plan, ROOT / "references")


def outcomes(compared) -> Counter[str]:
    return Counter(one.outcome for cells in compared.values() for one in cells)


def edit(path: str | Path, change) -> None:
    value = json.loads(Path(path).read_text())
    change(value)
    write_json(path, value)


def on_another_machine() -> None:
    for name in NAMES:
        edit(FOLDER / f"{name}.manifest.json", lambda manifest: manifest["hardware"].update(cpu="another"))


def score(path: str, value: float, metric: str = "recall@10") -> None:
    edit(path, lambda record: record["metrics"].update({metric: value}))


def test_the_same_run_passes(run, plan):
    compared = compare(plan)
    assert outcomes(compared) == {EQUAL: 12 + 90}
    check_comparison(compared, open_published(FOLDER, "demo"), at_least=102)
    text = format_comparison(compared, open_published(FOLDER, "demo"))
    assert text.splitlines()[0] == f"against {FOLDER}" and "off:" not in text
    assert text.splitlines()[3].split()[:6] == ["pretraining_tasks/table3", "90", "0", "0", "0", "0"]
    with pytest.raises(DataError, match="102 cells compared, expected at least 103"):
        check_comparison(compared, open_published(FOLDER, "demo"), at_least=103)


@pytest.mark.parametrize("path", [MLM, BM25])
def test_the_last_digit_of_a_number_is_enough(run, plan, path):
    score(path, json.loads(Path(path).read_text())["metrics"]["recall@10"] + 1e-4)
    compared = compare(plan)
    assert outcomes(compared) == {EQUAL: 101, OFF: 1}
    with pytest.raises(
        DataError, match=r"1 of 102 cells .*row '80%/20% \| .*column 'R@10': .* expected the same number"
    ):
        check_comparison(compared, open_published(FOLDER, "demo"))
    assert "off: pretraining_tasks/table3, row '80%/20%" in format_comparison(compared, open_published(FOLDER, "demo"))


def test_a_published_number_that_was_changed_fails_the_program(run, monkeypatch, capsys):
    path = FOLDER / "pretraining_tasks/table1.csv"
    lines = read_lines(path)
    write_lines(path, [lines[0]._replace(measured=str(int(lines[0].measured) + 1)), *lines[1:]])
    for name in ("references", "resources"):
        Path(name).symlink_to(ROOT / name)
    words = ["compare-runs", "--config", str(ROOT / "config.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([sys.executable, "-m", "pretrieve", *words], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1 and "1 of 102 cells" in ended.stderr and "pretraining_tasks/table1" in ended.stderr
    write_lines(path, lines)
    monkeypatch.setattr(sys, "argv", ["pretrieve", *words])
    with pytest.raises(SystemExit) as whole:
        main()
    assert (whole.value.code, capsys.readouterr().err) == (0, "")


def errors_of(hits: int, others: int) -> float:
    """Standard errors between two runs by the textbook's test of two proportions, as scipy's chi-square without correction, with
    twice the variance: another seed varies as much again as other queries."""
    return (
        chi2_contingency([[hits, QUERIES - hits], [others, QUERIES - others]], correction=False).statistic / 2
    ) ** 0.5


def test_another_processor_may_differ_by_noise_where_a_model_was_trained(run, plan):
    on_another_machine()
    at = round(json.loads(Path(MLM).read_text())["metrics"]["recall@10"] * QUERIES)
    furthest = max(hits for hits in range(at, QUERIES) if errors_of(at, hits) <= 2)
    assert 0.04 * QUERIES < furthest - at < 0.14 * QUERIES
    for hits, outcome in ((furthest, WITHIN), (furthest + 1, OFF)):
        score(MLM, hits / QUERIES)
        compared = compare(plan)
        assert outcomes(compared) == {EQUAL: 101, outcome: 1}
        (other,) = [one for one in compared[NAMES[1]] if one.outcome == outcome]
        assert other.errors == pytest.approx(errors_of(at, hits), rel=1e-3)
        text = format_comparison(compared, open_published(FOLDER, "demo")).splitlines()
        assert text[3].split()[6] == f"{other.errors:.1f}" and text[2].split()[6:] == []
    score(MLM, at / QUERIES)
    score(BM25, json.loads(Path(BM25).read_text())["metrics"]["recall@10"] + 1e-4)
    assert outcomes(compare(plan)) == {EQUAL: 101, OFF: 1}, "BM25 trains nothing"
    edit("results/demo/pairs/encyclopedia-demo/stats.json", lambda stats: stats["ict"].update(pairs=1235))
    assert outcomes(compare(plan))[OFF] == 2, "neither does a count"


@pytest.mark.parametrize("made_by", ["published GPU", "fresh GPU", "another processor's seed", "a seed taken from one"])
def test_what_a_gpu_or_another_processor_has_made_may_differ_by_noise(run, plan, setting, made_by):
    """Though the table was made on this processor: a bundle brings models from a GPU, and seeds of other machines are joined."""
    at = json.loads(Path(MLM).read_text())["metrics"]["recall@10"]
    score(MLM, at + 0.002)
    assert outcomes(compare(plan)) == {EQUAL: 101, OFF: 1}
    kept = {"arguments": "a" * 24, "code": "b" * 24, "sha256": sha256_of(Path(MLM)), "commit": None, "cpu": "another"}
    if made_by == "published GPU":
        edit(FOLDER / f"{NAMES[1]}.manifest.json", lambda manifest: manifest["cost"].update(gpu_h=0.1))
    elif made_by == "fresh GPU":
        cost = {
            "stage": "finetune",
            "behind": [],
            "wall_s": 1.0,
            "cpu_s": 1.0,
            "peak_gb": 1.0,
            "gpu_h": 0.1,
            "tokens": 1,
        }
        (cell, *_) = [one for one in table_of(NAMES[1]).cells if one.system == "transformer-mlm.reqa-80pct"]
        for file in setting.cost_files_of(cell, 1):
            write_json(file, cost)
    elif made_by == "another processor's seed":
        scores = {"scale": "demo", "scores": {MLM: kept}, "data": {}}
        write_archive(FOLDER / "scores.tar.xz", {"scores.json": json.dumps(scores).encode()})
    else:
        write_json("results/demo/taken/0.json", {MLM: kept})
    assert outcomes(compare(plan)) == {EQUAL: 101, WITHIN: 1}


def test_a_run_of_another_scale_is_refused(run):
    with pytest.raises(
        ConfigError, match="2026-01-02-demo-abc1234: is of the scale demo; expected small: .*SCALE=demo"
    ):
        open_published(FOLDER, "small")


def test_on_another_processor_one_cell_in_a_hundred_may_be_off_by_chance(run, plan):
    """None of 75 trained cells, and three of 300, none of them beyond 3.8 errors."""
    on_another_machine()
    published = open_published(FOLDER, "demo")
    cells = compare(plan)
    trained = [i for i, one in enumerate(cells[NAMES[1]]) if one.error]

    def shifted(number: int, errors: float, more: int) -> dict:
        moved = list(cells[NAMES[1]])
        for i in trained[:number]:
            fresh = float(moved[i].line.measured) + errors * moved[i].error
            moved[i] = moved[i]._replace(outcome=OFF, fresh=fresh)
        return {**cells, NAMES[1]: moved} | {f"as much {n}": cells[NAMES[1]] for n in range(more)}

    check_comparison(shifted(3, 2.5, 3), published)
    check_comparison(shifted(1, 3.6, 3), published)
    for number, errors, more in ((4, 2.5, 3), (1, -3.9, 3), (1, 2.1, 0)):
        with pytest.raises(DataError, match=f"{number} of .* cells are not the published ones"):
            check_comparison(shifted(number, errors, more), published)


def test_two_processors_of_one_name_are_two(tmp_path):
    def named(**other: str) -> str:
        fields = {"cpu family": "25", "model": "1", "model name": "AMD EPYC", "flags": "fpu avx2 fma sha_ni", **other}
        core = "".join(f"{key}\t: {value}\n" for key, value in fields.items())
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{core}\nprocessor\t: 1\n{core}")
        return cpu_model(tmp_path / "cpuinfo")

    assert named() == "AMD EPYC (family 25, model 1) +avx2 +fma"
    assert (
        len({named(), named(model="17"), named(flags="avx2 fma avx512f"), named(**{"model name": "AMD EPYC 2"})}) == 4
    )
    (tmp_path / "cpuinfo").write_text("model name\t: A\n")
    assert cpu_model(tmp_path / "cpuinfo") == "A"


def test_the_noise_is_that_of_both_runs(run, plan):
    """One hit and none are the same, whichever run has the hit: from the run without any, there would be no noise."""
    path = FOLDER / f"{NAMES[1]}.csv"
    one_hit = f"{100 / QUERIES:.2f}"
    for published, fresh in ((one_hit, 0.0), ("0.00", 1 / QUERIES)):
        is_mlm = [line.system == "transformer-mlm.reqa-80pct" and line.column == "R@10" for line in read_lines(path)]
        lines = [
            line._replace(measured=published) if mlm else line
            for mlm, line in zip(is_mlm, read_lines(path), strict=True)
        ]
        write_lines(path, lines)
        score(MLM, fresh)
        assert outcomes(compare(plan))[OFF] == 1, "on the same machine"
        on_another_machine()
        assert outcomes(compare(plan)) == {EQUAL: 101, WITHIN: 1}
        for name in NAMES:
            edit(FOLDER / f"{name}.manifest.json", lambda manifest: manifest["hardware"].update(hardware()))


def test_with_several_seeds_the_noise_is_theirs_and_that_of_queries(run, plan, setting):
    """Seeds that lie close together by chance, such as those of ``bow``, make it no smaller than other queries do."""
    several = replace(setting, seeds=(1, 2))
    for path in Path("results/demo/metrics").glob("[!b]*/*/seed1.json"):
        record = json.loads(path.read_text())
        record["metrics"] = {name: value + 0.02 for name, value in record["metrics"].items()}
        for values in record["per_query"].values():
            values |= {query: value + 0.02 for query, value in values.items()}
        write_json(path.with_name("seed2.json"), record)
    for path in Path("results/demo/metrics").glob("bow*/*/seed1.json"):
        shutil.copy(path, path.with_name("seed2.json"))
    publish(NAMES[1], several)
    on_another_machine()
    for path, deviation in ((MLM, 0.02 / 2**0.5), (MLM.replace("transformer-mlm", "bow-mlp-none"), 0.0)):
        at = json.loads(Path(path).read_text())["metrics"]["recall@10"]
        middle = at + deviation / 2**0.5
        # Of the difference of two means of two runs each; their mean moves by half of what one of them does.
        error = (2 * (middle * (1 - middle) / QUERIES + deviation**2) / 2) ** 0.5
        for change, outcome in ((1.9, WITHIN), (2.1, OFF)):
            score(path, at + 2 * change * error)
            assert outcomes(compare(plan))[outcome] == 1, "the seeds are those of the published run"
        score(path, at)

    # A run of one of the seeds is compared with that seed's values; where the table does not have them, with nothing.
    for second in Path("results/demo/metrics").glob("*/*/seed2.json"):
        second.unlink()
    assert outcomes(compare(plan)) == {EQUAL: 12 + 90}
    score(path, at + 0.002)
    assert outcomes(compare(plan))[WITHIN] == 1
    lines = read_lines(FOLDER / f"{NAMES[1]}.csv")
    write_lines(FOLDER / f"{NAMES[1]}.csv", [line._replace(seed_values="") for line in lines])
    assert outcomes(compare(plan)) == {EQUAL: 12 + 15, ABSENT: 75}, "BM25 and counts have no seeds"


def test_what_was_changed_on_purpose_is_not_compared(run, config, plan):
    now = copy.deepcopy(config)
    now["scales"]["demo"]["pretraining"]["budgets"]["pairs"]["steps"] += 1
    compared = compare(plan_of(now))
    assert outcomes(compared) == {EQUAL: 12 + 15 + 2 * 15, CHANGED: 3 * 15}, "BM25, and what is not pre-trained, stay"
    now["scales"]["demo"]["vocabulary_size"] += 1
    compared = compare(plan_of(now))
    with pytest.raises(DataError, match="0 cells compared, expected at least 1; 102 have other options"):
        check_comparison(compared, open_published(FOLDER, "demo"))
    # A configuration of another layout cannot be asked.
    old = {key: value for key, value in config.items() if key != "recipes"}
    (FOLDER / "config.yaml").write_text(yaml.safe_dump(old))
    assert outcomes(compare(plan))[CHANGED] == 75


def test_what_was_not_made_is_told(run, plan):
    Path(MLM).unlink()
    compared = compare(plan)
    assert outcomes(compared) == {EQUAL: 97, "absent": 5}
    check_comparison(compared, open_published(FOLDER, "demo"), at_least=97)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda c: c["encoders"]["base"].update(budget="pairs"), "bert.dpr-hard-full"),  # its start
        (
            lambda c: c["recipes"]["dpr-bm25"].update(options={"epochs": 3}),
            "bert.dpr-hard-full",
        ),  # its negatives' retriever
        (lambda c: c["datasets"]["questions"].update(files={"file": "x"}), "bert.dpr-hard-full"),
        (lambda c: c["datasets"]["questions"]["sizes"].update(full=7), "bert.dpr-hard-full"),
        (lambda c: c["corpora"]["encyclopedia-demo"].update(dump="another"), "bert.dpr-hard-full"),
        (lambda c: c["bm25"].update(k1=2.0), "bm25.reqa-full"),
        (lambda c: c["datasets"]["questions"]["sizes"].update({"1k": 7}), None),
        (lambda c: c["datasets"]["questions"]["metrics"].append("map"), None),
        (lambda c: c["encoders"].update(another=c["encoders"]["condenser"]), None),
        (lambda c: c["corpora"]["encyclopedia-demo"].update(expect={}), None),
        (lambda c: c["scales"]["small"].update(vocabulary_size=7), None),
    ],
)
def test_ingredients_are_what_a_system_is_made_of_and_no_more(config, change, differs):
    now = copy.deepcopy(config)
    change(now)
    for system in ("bert.dpr-hard-full", "bm25.reqa-full"):
        same = ingredients(at_scale(config), system, "questions") == ingredients(at_scale(now), system, "questions")
        assert same or differs is not None
        if system == differs:
            assert not same


def test_the_newest_published_run_is_meant(run):
    older, other = FOLDER.with_name("2025-12-31-demo-fffffff"), FOLDER.with_name("2026-02-01-small-abc1234")
    for folder in (older, other):
        shutil.copytree(FOLDER, folder)
    assert newest_published(FOLDER.parent, "demo").folder == FOLDER
    assert newest_published(FOLDER.parent, "small").folder == other
    for name in ("2026-01-02.2-demo-fffffff", "2026-01-02.10-demo-0000000"):
        shutil.copytree(FOLDER, FOLDER.with_name(name))
    assert newest_published(FOLDER.parent, "demo").folder.name == "2026-01-02.10-demo-0000000"
    with pytest.raises(DataError, match="no published run of the paper scale"):
        newest_published(FOLDER.parent, "paper")


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"seeds": [1], "versions": 3}'])
def test_a_damaged_manifest_is_named(run, plan, text):
    (FOLDER / f"{NAMES[0]}.manifest.json").write_text(text)
    with pytest.raises(DataError, match="table1.manifest.json: not readable: .* Publish the run again"):
        compare(plan)


def test_the_paper_is_compared_loosely(run):
    lines = [line for line in read_lines(FOLDER / "pretraining_tasks/table3.csv") if line.column == "R@1"][:6]
    printed = [float(line.published) for line in lines]
    assert (
        order_as_published([Compared(line, EQUAL, 2 * value) for line, value in zip(lines, printed, strict=True)]) == 1
    )
    reverse = [Compared(line, EQUAL, -value) for line, value in zip(lines, printed, strict=True)]
    assert order_as_published(reverse) == -1 and order_as_published(reverse[:2]) is None
    assert len(off_the_paper(reverse, "demo")) == 0
    # The tolerance of this table is one point; five are let through at paper scale.
    near = [
        Compared(line, EQUAL, value + d)
        for line, value, d in zip(lines, printed, (0, 4.9, -4.9, 5.1, -6, 0), strict=True)
    ]
    assert [one.line.row for one in off_the_paper(near, "paper")] == [lines[3].row, lines[4].row]
    with pytest.raises(DataError, match="2 of 6 cells are far from the paper's"):
        check_comparison({"pretraining_tasks/table3": near}, replace(open_published(FOLDER, "demo"), scale="paper"))
