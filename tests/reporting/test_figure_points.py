"""From result files to points: means, deviations, ratios and differences worked out by hand, and a reason for each gap.

Seen to fail when: a value is the first seed's; common queries are those of any point; `abs` is left out of a change; a
missing file counts as not-run; the factor of % is left out; a point that only the paper has is given to the measured series;
the scale is not asked for the status; steps are sorted as text; runs on the way are scored on all queries of the task; a
published ratio is not computed; the stage of an analysis is not asked for.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny_figure import FIGURE, write_figure, write_run

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.references.figures import load_figure, load_figures
from pretrieve.references.tables import load_table
from pretrieve.reporting.figures.manifest import make_manifest
from pretrieve.reporting.figures.measure import FigureSetting, measure_figure
from pretrieve.reporting.figures.points import Point, read_points
from pretrieve.reporting.tables.filling import count_statuses
from pretrieve.reporting.tables.results import Setting
from pretrieve.reporting.tables.rows import write_rows

ROOT = Path(__file__).parents[2]


def points_of(tmp_path: Path, text: str = FIGURE, **setting: object) -> dict[tuple[str, str, str], Point]:
    figure = load_figure(write_figure(tmp_path, text))
    points = measure_figure(figure, write_run(tmp_path, **setting), {})
    found = {(point.panel, point.series, point.x): point for point in points}
    assert len(found) == len(points)
    return found


def test_a_score_is_the_mean_over_seeds(tmp_path):
    point = points_of(tmp_path)["a", "ours", "10%"]
    # seeds: 1.75 / 4 = 0.4375 and 2.25 / 4 = 0.5625
    assert (point.y, point.sd, point.n_seeds) == ("0.5000", "0.0884", "2")
    assert (point.system, point.encoder, point.dataset, point.role) == ("ours.reqa-small", "ours", "questions", "qa")
    assert (point.metric, point.unit, point.published, point.status) == ("mrr@10", "fraction", "0.30", "scale-differs")


def test_one_seed_has_no_deviation(tmp_path):
    point = points_of(tmp_path, seeds=(1,))["a", "ours", "10%"]
    assert (point.y, point.sd, point.n_seeds) == ("0.4375", "", "1")


def test_common_queries_are_those_of_every_point_of_the_panel(tmp_path):
    text = FIGURE.replace(
        "metric: mrr@10\n        points", "metric: mrr@10\n        common_queries: true\n        points"
    )
    points = points_of(tmp_path, text)
    # q3 is no test query of the full size: seeds 0.75 / 3 and 1.25 / 3; the full size has seeds 1.5 / 3 and 2 / 3
    assert points["a", "ours", "10%"].y == "0.3333" and points["a", "ours", "100%"].y == "0.5833"
    assert points["a", "other", "10%"].y == "0.0000"


def test_a_score_that_guessing_has_is_marked_and_so_is_a_ratio_of_it(tmp_path):
    setting = write_run(tmp_path)
    for level, word in ((0.9, "no"), (0.0, "yes")):
        for path in (tmp_path / "results/demo/metrics").rglob("*.json"):
            record = json.loads(path.read_text())
            path.write_text(json.dumps(record | {"n_queries": 8, "chance": dict.fromkeys(record["metrics"], level)}))
        found = {(p.panel, p.series, p.x): p for p in measure_figure(load_figure(write_figure(tmp_path)), setting, {})}
        assert found["a", "ours", "10%"].beyond_chance == word
        assert found["a", "ours", "10%"].chance == f"{level:.4f}" and found["b", "gain", "qa"].chance == ""
        assert found["c", "before", "1"].beyond_chance == "", "entropy of attention is no score"
    assert found["b", "gain", "qa"].beyond_chance == "yes"


def test_a_ratio_is_that_of_the_means_over_seeds(tmp_path):
    point = points_of(tmp_path)["b", "gain", "qa"]
    # Means of (0.5, 0.6667) and (0.4375, 0.5625): (0.5833 − 0.5) / 0.5 = 16.6667 %. The mean of each seed's ratio would be 16.40.
    # On the tangent the seeds have 14.5833 and 18.75 %.
    assert (point.y, point.sd, point.unit) == ("16.67", "2.95", "%")


def test_intervals_are_over_queries_and_seeds(tmp_path):
    one = points_of(tmp_path, seeds=(1,))
    # queries 0.5, 0.25, 0 and 1: mean 0.4375, error √(0.13672 / 3) = 0.21; t(3) is 3.18, so ± 0.68, cut to where scores are
    assert (one["a", "ours", "10%"].low, one["a", "ours", "10%"].high) == ("0.0000", "1.0000")
    # entropy 1.0 with a deviation of 0.1 over 1000 texts: error 0.0032, t(999) is 1.9623
    assert (one["c", "before", "1"].low, one["c", "before", "1"].high) == ("0.9938", "1.0062")
    two = points_of(tmp_path)
    # the seeds have 1 and 2, so 1.5 ± 12.706 · 0.5, and the texts add nearly nothing
    assert (two["c", "before", "1"].low, two["c", "before", "1"].high) == ("-4.8531", "7.8531")
    assert two["c", "change", "1"].low == "" and two["c", "change", "1"].sd


def test_the_interval_of_a_change_pairs_queries(tmp_path):
    """Twice the score of every query is a change of 100 % without error; the same scores on other queries have a wide one."""
    place = tmp_path / "results/demo/metrics"
    setting = write_run(tmp_path, seeds=(1,))
    for scores, width in (((0.8, 0.4, 0.2, 0.6), 0.0), ((0.2, 0.6, 0.8, 0.4), 200.0)):
        for system, factor, row in (("ours.reqa-small", 0.5, (0.8, 0.4, 0.2, 0.6)), ("ours.reqa-full", 1.0, scores)):
            values = {f"q{i}": factor * value for i, value in enumerate(row * 2)}
            record = {"metrics": {"mrr@10": sum(values.values()) / 8}, "per_query": {"mrr@10": values}}
            (place / system / "questions/seed1.json").write_text(json.dumps(record))
        points = {
            p.series: p for p in measure_figure(load_figure(write_figure(tmp_path)), setting, {}) if p.panel == "b"
        }
        gain = points["gain"]
        assert gain.y == "100.00" and float(gain.high) - float(gain.low) >= width
        assert width or gain.low == gain.high == "100.00"
        assert float(gain.low) + float(gain.high) == pytest.approx(200)


def test_nothing_has_a_ratio_to_nothing(tmp_path):
    text = FIGURE.replace("relative_to: ours.reqa-small", "relative_to: other.reqa-small")
    point = points_of(tmp_path, text)["b", "gain", "qa"]
    assert (point.y, point.status) == ("", "not-run") and "other.reqa-small scores 0" in point.note


def test_an_analysis_before_and_after_fine_tuning_and_the_change(tmp_path):
    points = points_of(tmp_path)
    assert [points["c", "before", x].y for x in "12"] == ["1.5000", "3.0000"]
    assert [points["c", "after", x].y for x in "12"] == ["1.7500", "3.1250"]
    # seed by seed: layer 1 |1 − 2| and |2 − 1.5|, whose means alone would differ by 0.25
    assert [points["c", "change", x].y for x in "12"] == ["0.7500", "0.1250"]
    assert points["c", "change", "1"].sd == "0.3536"
    before = points["c", "before", "1"]
    assert (before.system, before.encoder, before.dataset, before.metric) == ("", "ours", "corpus", "entropy")
    assert points["c", "change", "1"].encoder == "ours", "so that claims know that it was trained with a seed"


def test_what_the_scale_does_not_make_is_not_run_and_says_why(tmp_path):
    points = points_of(tmp_path)
    trivia, nobody = points["a", "other", "100%"], points["c", "nobody", ""]
    assert (trivia.status, trivia.y, trivia.note) == (
        "not-run",
        "",
        "the demo scale has no data set for the role trivia",
    )
    assert nobody.status == "not-run" and "attention_entropy of the demo scale excludes nobody" in nobody.note
    points = points_of(tmp_path, encoders=frozenset({"other"}))
    assert points["a", "ours", "10%"].note == "encoder ours is not configured at the demo scale"
    assert points["a", "ours", "10%"].published == "0.30"


def test_no_analysis_at_all(tmp_path):
    figure = load_figure(write_figure(tmp_path))
    points = measure_figure(figure, replace(write_run(tmp_path), analyses={}), {})
    of_c = [point for point in points if point.panel == "c"]
    assert {point.status for point in of_c} == {"not-run"} and len(of_c) == 4
    assert {point.note for point in of_c} == {"the demo scale has no analysis attention_entropy"}


def test_a_missing_file_is_a_failure_that_names_it(tmp_path):
    figure, setting = load_figure(write_figure(tmp_path)), write_run(tmp_path)
    missing = tmp_path / "results/demo/metrics/ours.reqa-small/questions/seed2.json"
    missing.unlink()
    (tmp_path / "results/demo/analyses/attention_entropy.csv").unlink()
    points = {(point.panel, point.series, point.x): point for point in measure_figure(figure, setting, {})}
    assert points["a", "ours", "10%"].status == "failed" and points["a", "ours", "10%"].note == f"missing: {missing}"
    assert points["a", "ours", "100%"].status == "scale-differs"
    assert points["c", "before", ""].status == points["c", "change", ""].status == "failed"


def test_a_point_that_only_the_paper_has_is_a_series_of_its_own(tmp_path):
    point = points_of(tmp_path)["a", "ours (published)", "50%"]
    assert (point.y, point.published, point.status, point.system) == ("", "0.35", "quoted", "")


def test_at_paper_scale_a_point_is_judged(tmp_path):
    points = points_of(tmp_path, scale="paper")
    assert points["a", "ours", "10%"].status == "higher"  # 0.50 against 0.30, tolerance 0.05
    assert points["a", "ours", "100%"].status == "unpublished"
    near = points_of(tmp_path, FIGURE.replace('"0.30"', '"0.52"'), scale="paper")
    assert near["a", "ours", "10%"].status == "match"


def test_published_values_come_from_a_table_and_ratios_are_computed():
    folder = ROOT / "references/dual_encoders"
    figures = load_figures(sorted(folder.glob("figure[34].yaml")))
    tables = {
        name: load_table(folder / "paper.yaml", folder / f"{name}.csv") for name in ("table2", "table4", "table5")
    }
    nothing = FigureSetting(Setting("results/demo", "demo", (1,), {}, frozenset(), frozenset()))
    points = [point for figure in figures.values() for point in measure_figure(figure, nothing, tables)]
    found = {(point.figure, point.panel, point.series, point.x): point.published for point in points}
    # by hand: (28.49 − 26.31) / 26.31, and (57.48 − 55.02) / 55.02
    assert found["figure3", "a", "SDE", "MSMARCO"] == "8.29" and found["figure3", "a", "ADE-SPL", "SearchQA"] == "4.47"
    assert found["figure4", "left", "SDE", "large"] == "29.63" and found["figure4", "right", "ADE", "small"] == "62.58"
    assert all(found.values()) and {point.status for point in points} == {"not-run"}
    with pytest.raises(ConfigError, match=r"takes its published points from table2, which has no cell of t5-small"):
        measure_figure(figures["dual_encoders/figure4"], nothing, dict.fromkeys(tables, tables["table2"]))


STEPS = """\
      - {name: way, method: bert, from: steps, system: ours.reqa-small, role: qa, metric: mrr@10}
"""


WITH_STEPS = FIGURE.replace("    series:\n      - name: ours", f"    series:\n{STEPS}      - name: ours", 1)


def write_steps(tmp_path: Path, runs: dict[int, dict[int, str]]) -> None:
    """Seed → step → lines of a run; two test questions with one relevant document each."""
    root = tmp_path / "results/demo"
    task = root / "tasks/questions"
    task.mkdir(parents=True)
    queries = {"size": ["small", "small", "small"], "query_id": ["q0", "q1", "q2"], "split": ["test", "test", "train"]}
    pq.write_table(pa.table(queries), task / "splits.parquet")
    judged = {
        "query_id": ["q0", "q1", "q2"],
        "doc_id": ["d0", "d1", "d2"],
        "relevance": pa.array([1, 1, 1], pa.int32()),
    }
    pq.write_table(pa.table(judged), task / "qrels.parquet")
    for seed, steps in runs.items():
        folder = root / f"retrievers/ours.reqa-small/questions/seed{seed}"
        (folder / "steps").mkdir(parents=True)
        (folder / "pretrieve.json").write_text(json.dumps({}))
        for step, text in steps.items():
            (folder / f"steps/{step}.trec.gz").write_bytes(gzip.compress(text.encode()))


def test_runs_on_the_way_are_scored_in_the_order_of_their_steps(tmp_path):
    late = "q0 Q0 d0 1 2.0 dense\nq1 Q0 d1 1 2.0 dense\n"
    early = "q0 Q0 d9 1 2.0 dense\nq0 Q0 d0 2 1.0 dense\n"
    write_steps(tmp_path, {1: {0: early, 5: early, 10: late}, 2: {0: early, 5: late, 10: late}})
    points = points_of(tmp_path, WITH_STEPS)
    way = [point for point in points.values() if point.series == "way"]
    # q0 has its document second, q1 none: (1/2 + 0) / 2; q2 is trained on and counts nowhere
    assert [(point.x, point.y) for point in way] == [("0", "0.2500"), ("5", "0.6250"), ("10", "1.0000")]


def test_a_recipe_without_runs_on_the_way(tmp_path):
    write_steps(tmp_path, {1: {}, 2: {}})
    point = points_of(tmp_path, WITH_STEPS)["a", "way", ""]
    assert point.status == "not-run" and "its option curve is 0" in point.note


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("encoder,seed", "model,seed", "no column encoder"),
        ("ours,2,pretrained,2,3.0", "ours,3,pretrained,2,3.0", "ours at layer 2 has no seed 2"),
        ("ours,", "theirs,", "no row of ours, pretrained"),
    ],
)
def test_a_damaged_analysis_is_named(tmp_path, old, new, words):
    figure, setting = load_figure(write_figure(tmp_path)), write_run(tmp_path)
    file = tmp_path / "results/demo/analyses/attention_entropy.csv"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DataError, match=words) as error:
        measure_figure(figure, setting, {})
    assert str(file) in str(error.value)


def test_the_csv_reads_back_and_equal_points_give_equal_bytes(tmp_path):
    points = list(points_of(tmp_path).values())
    write_rows(tmp_path / "one.csv", points, Point)
    write_rows(tmp_path / "two.csv", read_points(tmp_path / "one.csv"), Point)
    assert read_points(tmp_path / "one.csv") == points
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    head = (tmp_path / "one.csv").read_text().splitlines()[0]
    assert head.startswith("figure,panel,series,x,y,sd,n_seeds,published,system,dataset,metric,status,note")
    assert count_statuses(points) == {"measured": 10, "quoted": 1, "not-run": 2, "failed": 0}
    (tmp_path / "two.csv").write_text(f"{head}\nfigure1,a\n")
    with pytest.raises(DataError, match=r"two.csv, line 2: 2 fields; expected 21"):
        read_points(tmp_path / "two.csv")


def test_the_manifest_counts_points_and_has_a_command_for_each_series(tmp_path):
    figure, setting = load_figure(write_figure(tmp_path)), write_run(tmp_path)
    cost = {"wall_s": 2.0, "gpu_h": 0.0, "peak_gb": 1.0}
    for name in ("encoders/ours/seed1", "encoders/ours/seed2"):
        (tmp_path / "results/demo" / name).mkdir(parents=True)
        (tmp_path / "results/demo" / name / "cost.json").write_text(json.dumps(cost))
    manifest = make_manifest(figure, measure_figure(figure, setting, {}), setting, "hash")
    root = setting.tables.root
    assert manifest["points"] == {"measured": 10, "quoted": 1, "not-run": 2, "failed": 0}
    assert manifest["roles"] == {"qa": "questions"} and manifest["seeds"] == [1, 2]
    assert manifest["commands"]["figure"] == f"snakemake {root}/figures/tiny/figure1.svg"
    series = manifest["commands"]["series"]
    files = [f"{root}/metrics/other.reqa-small/questions/seed{seed}.json" for seed in (1, 2)]
    assert series["a: other"] == f"snakemake {' '.join(files)}"
    assert series["c: change"] == f"snakemake {root}/analyses/attention_entropy.csv" and "c: nobody" not in series
    # each encoder once, though six series rest on them; nothing else has a cost here
    assert manifest["cost"]["wall_s"] == 4.0 and manifest["cost"]["stages"] == 2
