"""references/*/figure*.yaml: nine figures of papers and one of our own; what the configuration makes, and mistakes by name.

Seen to fail when: a series of figure 6 has another name; a published number is changed; a system is misspelt; two methods of
a figure have one marker and dash; `_text_keys` is left out; a series is not checked by its kind; `asked_sizes` leaves out
figures, or analyses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from tiny_figure import FIGURE, write_figure

from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import parse_system
from pretrieve.finetuning.fine_tuning import options_of_size
from pretrieve.references.figures import OWN, load_figure, load_figures
from pretrieve.references.palette import METHODS
from pretrieve.references.tables import load_table
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.figure_inputs import figure_inputs
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "references"
FIGURES = load_figures(sorted(REFERENCES.glob("*/figure*.yaml")))
PAPERS = Path(os.environ.get("PRETRIEVE_TEST_PAPERS", ROOT.parent / "shared/papers"))
TEXTS = {"seed_encoder": "000", "dual_encoders": "001", "condenser": "004"}
#: Figure → its panels.
PANELS = {
    "seed_encoder/figure1": "a b",
    "seed_encoder/figure3": "a b",
    "seed_encoder/figure4": "a b",
    "seed_encoder/figure5": "a",
    "seed_encoder/figure6": "a b c d",
    "dual_encoders/figure2": "SDE ADE ADE-STE ADE-FTE ADE-SPL all",
    "dual_encoders/figure3": "a",
    "dual_encoders/figure4": "left right",
    "condenser/figure2": "a b c",
    "pretrieve/figure1": "a b",
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    config = read_config(ROOT / "config.yaml")
    sources = ROOT / "resources/sources.tsv"
    return Plan.load(config, REFERENCES, sources)


def test_the_nine_figures_of_the_papers_and_ours_and_their_panels():
    assert {name: " ".join(panel.name for panel in figure.panels) for name, figure in FIGURES.items()} == PANELS


def test_every_claim_about_a_figure_names_a_point_that_it_has():
    claims = yaml.safe_load((REFERENCES / "claims.yaml").read_text(encoding="utf-8"))["claims"]
    named = 0
    for claim in claims:
        for cell in (cell for cell in claim["check"]["cells"] if "figure" in cell):
            figure = FIGURES[f"{claim['paper']}/{cell['figure']}"]
            lists = [
                value if isinstance(value, list) else [value] for value in (cell[k] for k in ("panel", "series", "x"))
            ]
            longest = max(map(len, lists))
            for panel_name, series_name, x in zip(*(v * longest if len(v) == 1 else v for v in lists), strict=True):
                panel = next(panel for panel in figure.panels if panel.name == panel_name)
                series = next(series for series in panel.series if series.name == series_name)
                assert x in ("first", "last", "mean", "each") or x in series.points, (claim["id"], x)
                named += 1
    assert named > 30


def test_every_system_and_analysis_is_made_by_the_configuration(plan):
    """What the demo has no data for is the three question answering sets of dual_encoders, figure 3, and nothing else."""
    absent = set()
    for name, figure in FIGURES.items():
        for measure in figure.measures():
            cell = {"paper": figure.paper, "system": measure.system, "dataset": measure.role, "metric": measure.metric}
            if plan.measured(cell) is None:
                absent.add((name, measure.role))
        for _, series in figure.all_series():
            if series.analysis:
                assert series.encoder in plan.config["analyses"]["demo"][series.analysis]["encoders"], (name, series)
    assert {name for name, _ in absent} == {"dual_encoders/figure3"}
    assert {role for _, role in absent} == {f"multireqa-{name}" for name in ("triviaqa", "hotpotqa", "searchqa")}


def test_what_a_figure_needs_is_trained_and_nothing_more(plan):
    assert plan.trained_sizes["seed-3-2.seed-pairwise", "questions"] == ("label10", "label25", "label50", "full")
    assert plan.trained_sizes["seed-5-all.seed-pairwise", "questions"] == ("full",)
    assert plan.trained_sizes["bert.reqa", "questions"] == ("80pct",), "the analysis of attention asks for this one"
    files = figure_inputs(plan, "seed_encoder/figure6")
    assert "results/demo/metrics/seed-mlm.ance-label25/questions/seed1.json" in files
    assert "results/demo/retrievers/seed-3-2.ance-full/questions/seed1/pretrieve.json" in files
    for name in FIGURES:
        assert len(set(figure_inputs(plan, name))) == len(figure_inputs(plan, name)) > 0
    assert not [file for file in figure_inputs(plan, "dual_encoders/figure3") if "triviaqa" in file]


def test_only_what_a_figure_shows_is_looked_at_on_the_way(plan) -> None:
    """Each look embeds the corpus: figure 6 shows steps of two encoders and two recipes, of the whole training set."""
    watched = {(family, task): sizes for (family, task), sizes in plan.watched_sizes.items()}
    families = {f"seed-3-2.{recipe}" for recipe in ("seed-pairwise", "ance")}
    families |= {f"seed-mlm.{recipe}-long" for recipe in ("seed-pairwise", "ance")}
    assert watched == {(family, "questions"): {"full"} for family in families}
    assert len(plan.trained_sizes["seed-3-2.seed-pairwise", "questions"]) > 1
    options = {"curve": 3, "batch": 8}
    assert options_of_size(options, "full", ["full"]) == options
    assert options_of_size(options, "label10", ["full"]) == {"curve": 0, "batch": 8} and options["curve"] == 3


def test_published_points_of_tables_are_the_tables_cells():
    """Every point of a series that takes them from a table has one there, of its own system."""
    found = 0
    for figure in FIGURES.values():
        folder = REFERENCES / figure.paper
        for _, series in figure.all_series():
            if series.published_in:
                table = load_table(folder / "paper.yaml", folder / f"{series.published_in}.csv")
                cells = {(cell.system, cell.dataset, cell.metric): cell.published for cell in table.cells}
                for measure in series.measures():
                    assert cells[tuple(measure)]
                    found += 1
    assert found == 6 + 2 * 24 + 30


def test_published_numbers_stand_in_the_text_and_no_others():
    stated = {
        (name, panel.name, series.name): dict(series.published)
        for name, figure in FIGURES.items()
        for panel, series in figure.all_series()
        if series.published
    }
    assert stated == {
        ("seed_encoder/figure1", "b", "optimus"): {"256": "0.8", "512": "0.8"},
        ("seed_encoder/figure5", "a", "optimus"): {"256": "0.8", "512": "0.8"},
        ("seed_encoder/figure5", "a", "seed-3-2"): {"512": "0.48"},
        ("seed_encoder/figure6", "c", "seed-mlm"): {"100%": "0.32"},
        ("seed_encoder/figure6", "c", "seed-3-2"): {"10%": "0.318"},
    }


@pytest.mark.skipif(not PAPERS.exists(), reason="the papers' texts are not beside this checkout")
def test_the_text_says_so():
    text = " ".join(next(PAPERS.glob("000_*.txt")).read_text(encoding="utf-8").split())
    for sentence in (
        "(256 or 512 tokens) from Optimus are quite similar",
        "the cosine similarities of random long sequence pairs are around 0.8",
        "The average CLS cosine similarity is only 0.480.480.48 even when the sentence length is 512512512",
        "SEED-Encoder (MRR 0.318 in Figure 6(c)) is still competitive with BERT using all training labels (MRR 0.320.320.32)",
        "only requires 30k fine-tuning iterations with SEED-Encoder to reach BERT’s best performance at 140k iterations",
    ):
        assert sentence in text
    for name, figure in FIGURES.items():
        paper, number = name.split("/figure")
        if paper == OWN:
            continue
        text = next(PAPERS.glob(f"{TEXTS[paper]}_*.txt")).read_text(encoding="utf-8")
        assert f"\nFigure {number}: " in text, name
        assert figure.source.removeprefix("§") in re.findall(r"^(\d(?:\.\d)*)\.? [A-Z]", text, flags=re.MULTILINE)


def test_a_method_has_one_look_and_no_other_method_of_its_figure_has_it():
    for name, figure in FIGURES.items():
        for panel in figure.panels:
            looks = [
                (METHODS[series.method].marker, METHODS[series.method].dash, series.variant)
                for series in panel.series
                if series.kind != "gain"  # in axes of its own, with the look of its series
            ]
            assert len(set(looks)) == len(looks), (name, panel.name)  # told apart without colour
            if panel.draw == "bar":
                assert len({METHODS[series.method].hatch for series in panel.series}) == len(panel.series)
    assert len({look.colour for look in METHODS.values()}) >= len(METHODS) - 1  # three layers, span 2 is SEED-Encoder
    of = {(name, series.label): series.method for name, figure in FIGURES.items() for _, series in figure.all_series()}
    for label, method in (
        ("SEED-Encoder", "seed"),
        ("Optimus", "optimus"),
        ("BERT (ours)", "bert-ours"),
        ("SDE", "sde"),
    ):
        assert {found for (_, other), found in of.items() if other == label} == {method}


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("method", METHODS)
def test_colours_can_be_seen_on_white(method):
    assert 1.05 / (luminance(METHODS[method].colour) + 0.05) > 1.8


def test_decoders_grow_darker_with_their_layers():
    one, three, five = (luminance(METHODS[f"decoder-{layers}"].colour) for layers in (1, 3, 5))
    assert one > 2 * three > 4 * five


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("unit: fraction", "unit: fractoin", ["panels.a.y.unit", "'fractoin'", "allowed: fraction, %", "'fraction'?"]),
        ("draw: bar", "drow: bar", ["panels.b.drow", "unknown", "allowed: draw, series", "mean 'draw'"]),
        (
            "from: change",
            "from: chance",
            ["panels.c.series.0.from", "'chance'", "scores, analysis, change", "'change'?"],
        ),
        ("analysis: att", "analisys: att", ["panels.c.series.1", "analisys", "unknown", "'analysis'?"]),
        ("stage: finetuned", "stage: trained", ["panels.c.series.2.stage", "'trained'", "pretrained, finetuned"]),
        (
            "label: Ours\n        method: seed",
            "label: Ours\n        method: sead",
            ["series.0.method", "'sead'", "'seed'?"],
        ),
        ("of: [before, after]", "of: [before, later]", ["'change'", "'later'", "change, before, after"]),
        ("name: other", "name: ours", ["panels.a.series", "two series are called 'ours'"]),
        ("ours.reqa-small,", "ours-reqa-small,", ["panels.a.series.0.points.10%", "ours-reqa-small"]),
        ('"10%": "0.30"', '"10%": "0,30"', ["panels.a.series.0.published.10%", "0,30"]),
        ("        tolerance: 0.05\n", "", ["panels.a.series.0", "tolerance"]),
        (
            '        role: qa\n        metric: mrr@10\n        points: {"10%": other',
            '        metric: mrr@10\n        points: {"10%": other',
            ["points.10%", "no role"],
        ),
        ("figure: figure1", "figure: figure2", ["figure2", "figure1", "path"]),
        ("source: §4.1", "source: 4.1", ["key source", "4.1"]),
        ("claim: The", "klaim: The", ["klaim", "unknown"]),
        ("panels:\n", "panels: [\n", ["not readable as YAML"]),
    ],
)
def test_a_mistake_is_named(tmp_path, old, new, words):
    assert FIGURE.count(old) >= 1
    file = write_figure(tmp_path, FIGURE.replace(old, new, 1))
    with pytest.raises(ConfigError) as refused:
        load_figure(file)
    message = str(refused.value)
    assert message.startswith(str(file)) and "\n" not in message
    assert not [word for word in words if word not in message], message


def test_a_missing_file_and_an_unknown_figure_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"figure7.yaml: no such file"):
        load_figure(tmp_path / "figure7.yaml")
    config = read_config(ROOT / "config.yaml") | {"figures": ["seed_encoder/figure2"]}
    with pytest.raises(ConfigError, match=r"config: figures: 'seed_encoder/figure2' is not allowed; .*figure1"):
        Plan.load(config, REFERENCES, ROOT / "resources/sources.tsv")


def test_an_x_that_yaml_reads_as_a_number_is_text(tmp_path):
    file = write_figure(tmp_path, FIGURE.replace('"10%": ours.reqa-small', "512: ours.reqa-small"))
    assert list(load_figure(file).panels[0].series[0].points) == ["512", "100%"]


def test_a_target_that_is_no_figure_is_refused(plan):
    assert {"results/demo/figures/seed_encoder/figure6.svg", "results/demo/figures/condenser/figure2.csv"} <= {
        *plan.page_files
    }
    with pytest.raises(
        ConfigError, match=r"figure2.png: no such figure; .*did you mean 'results/demo/figures/condenser/figure2"
    ):
        plan.refuse_page("results/demo/figures/condenser/figure2.png")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("demo/metrics/condensr.dpr-hard-full/questions", "no encoder 'condensr'; .*did you mean 'condenser'"),
        ("demo/metrics/bert.dpr-hrd-full/questions", "no recipe 'dpr-hrd'; .*did you mean 'dpr-hard'"),
        ("demo/metrics/bert.dpr-hard-full/question", "no data set 'question'; .*did you mean 'questions'"),
        (
            "demo/metrics/bert.dpr-hard-ful/questions",
            "the data set questions has no size 'ful'; .*did you mean 'full'",
        ),
        (
            "demo/metrics/bert.dpr-hard-full/questions",
            r"no seed7.json; this run has the seeds 1: .*--config 'seeds=\[1, …",
        ),
        ("demo/metrics/bm25.dpr-hard-full/questions", "no seed7.json; BM25 has seed0.json alone"),
        ("small/metrics/bert.dpr-hard-full/questions", "this run makes results/demo/…; .*--config scale=small"),
        ("small/tables/condenser/table5", "this run makes results/demo/…; .*--config scale=small"),
        (
            "paper-rehearsal/tables/condenser/table5",
            "this run makes results/demo/…; .*--config scale=paper rehearsal=1",
        ),
        ("dmeo/tables/condenser/table5", "this run makes results/demo/…; no scale 'dmeo'; .*did you mean 'demo'"),
    ],
)
def test_a_target_with_an_unknown_name_is_refused(plan, target: str, said: str):
    with pytest.raises(ConfigError, match=f"^target results/{target}.*: {said}"):
        plan.refuse_page(f"results/{target}/seed7.json")


def test_systems_are_names_that_take_apart():
    for figure in FIGURES.values():
        for measure in figure.measures():
            assert parse_system(measure.system).name == measure.system
