"""Means of data sets in the workflow: CQADupStack's twelve at the scale paper, planned, packed, estimated and rehearsed.

Seen to fail when: BM25's rows of a mean are not asked of its parts; a part's raw files are not a table's; a mean is looked for in
a bundle; a part's options are no ingredient; a mean's part is left out of the configuration.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from pretrieve.base.paths import metrics_file
from pretrieve.benchmarks.official.beir import SETS
from pretrieve.operations.bundle.contents import Asked
from pretrieve.operations.publish.comparison import ingredients
from pretrieve.operations.raw_files import table_files
from pretrieve.operations.rehearsal.made import FORMS
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
MEAN, TABLE = "beir-cqadupstack", "dupmae/table2"
FORUMS = [name.removeprefix("cqadupstack/") for name in SETS if name.startswith("cqadupstack/")]
PARTS = tuple(f"{MEAN}-{forum}" for forum in FORUMS)
#: The table's systems whose encoder reads BERT's words, and BM25; the last one's encoder has others (docs/paper-scale.md).
SYSTEMS = {"bm25.dpr-bm25-full", "dupmae.dupmae-2stage-full"} | {
    f"{encoder}.dupmae-2stage-cls-full" for encoder in ("bert", "condenser", "retromae")
}


def configuration(**changes: Any) -> dict[str, Any]:
    return read_config(ROOT / "config.yaml") | {"scale": "paper"} | changes


def load(config: dict[str, Any]) -> Plan:
    sources = ROOT / "resources/sources.tsv"
    return Plan.load(config, ROOT / "references", sources)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return load(configuration())


def test_the_mean_is_beirs(plan: Plan) -> None:
    """Twelve forums, as its papers count them, each read with the counts of BEIR."""
    assert plan.dataset_of(MEAN, "dupmae") == MEAN and plan.parts(MEAN) == PARTS and len(PARTS) == 12
    names = [plan.config["datasets"][part]["reader_options"]["name"] for part in PARTS]
    assert names == [f"cqadupstack/{forum}" for forum in FORUMS]
    assert sum(SETS[name].queries["test"] for name in names) == 13_145  # Thakur et al. 2021, table 1


def test_what_a_mean_shares_with_its_parts(plan: Plan) -> None:
    assert plan.trained_on(MEAN) == plan.trained_on(PARTS[3]) == "msmarco-titled"
    assert plan.metrics_of(MEAN) == ["ndcg@10", "recall@100"]
    cell = {"paper": "dupmae", "system": "retromae.dupmae-2stage-cls-full", "dataset": MEAN, "metric": "ndcg@10"}
    assert plan.measured(cell) == MEAN
    assert plan.measured(cell | {"metric": "ndcg@5"}) is plan.measured(cell | {"metric": "query"}) is None
    assert plan.measured(cell | {"metric": ""}) is None and plan.measured(cell | {"system": "statistics"}) is None
    assert all(plan.bm25_systems(part) == ["bm25.dpr-bm25-full"] for part in PARTS)
    assert plan.corpora_behind(cell["system"], MEAN) == plan.corpora_behind(cell["system"], PARTS[0])
    setting = plan.setting("dupmae")
    assert setting["parts"] == {MEAN: list(PARTS)} and setting["sizes"][MEAN] == ["full"]


def test_the_raw_files_of_a_table(plan: Plan) -> None:
    names, own = table_files(plan, TABLE)
    wanted = {f"{part}-{kind}" for part in PARTS for kind in ("corpus", "queries", "qrels-test")}
    assert wanted <= set(names) and own == []
    assert wanted <= FORMS.keys()
    assert all("dupmae/table2" in plan.sources[name]["needed_by"].split() for name in wanted)


def test_a_scale_that_measures_overlaps_measures_those_of_the_parts() -> None:
    config = configuration()
    config["scales"]["paper"]["overlap"] = True
    plan = load(config)
    assert set(PARTS) <= plan.overlaps().keys() and MEAN not in plan.overlaps()
    assert sum(MEAN in file for file in plan.table_overlaps(*TABLE.split("/"))) == 12


def test_a_bundle_searches_the_parts(plan: Plan) -> None:
    system = "dupmae.dupmae-2stage-full"
    expected = {metrics_file(plan.root, system, part, 1) for part in PARTS}
    counts = Asked("paper", (TABLE,)).cells(plan)
    assert expected <= counts.keys() and not any(f"/{MEAN}/" in file for file in counts)
    assert set(Asked("paper", files=(metrics_file(plan.root, system, MEAN, 1),)).cells(plan)) == expected


def test_every_part_is_an_ingredient(plan: Plan) -> None:
    made = ingredients(plan.config, "bm25.dpr-bm25-full", MEAN)
    config = copy.deepcopy(plan.config)
    assert ingredients(config, "bm25.dpr-bm25-full", MEAN) == made
    config["datasets"][PARTS[7]]["title"] = "none"
    assert ingredients(config, "bm25.dpr-bm25-full", MEAN) != made


@pytest.mark.parametrize("rehearsal", [False, True])
def test_one_job_for_each_system_and_its_twelve_parts(dry_run, rehearsal: bool) -> None:
    root = "results/paper-rehearsal" if rehearsal else "results/paper"
    more = ["rehearsal=1"] if rehearsal else []
    ended = dry_run(f"{root}/tables/{TABLE}.csv", "--config", "scale=paper", *more)
    made = re.findall(rf"The mean {MEAN} of (\S+), seed [01]\n", ended.text)
    assert len(made) == len(SYSTEMS) and set(made) == SYSTEMS
    jobs = ended.jobs
    for part in (part.replace("-", "_") for part in PARTS):
        assert jobs[f"bm25_{part}"] == 1, part
        assert jobs[f"retrieve_{part}"] == len(SYSTEMS) - 1, part
    of_parts = re.findall(r"Checking beir-cqadupstack-\S+\n", ended.text)
    assert len(of_parts) == 36, "three files of each; a member brings its archive along"
    assert jobs["mean"] == len(SYSTEMS)


def test_a_mean_of_data_sets_and_means(project) -> None:
    """As one would add AVERAGE with the sets that are there."""
    means = "scales={paper: {means: {all: [beir-fiqa, beir-cqadupstack]}, roles: {beir-mean: all}}}"
    system = "retromae.dupmae-2stage-cls-full"
    ended = project.plan(f"results/paper/metrics/{system}/all/seed1.json", "--config", "scale=paper", means)
    # The 12 forums and FiQA; the training set is searched for negatives by the job that trains on it.
    assert ended.jobs["mean"] == 2 and ended.count("retrieve") == 13
