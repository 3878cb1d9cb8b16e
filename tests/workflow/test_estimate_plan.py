"""The estimate's jobs are Snakemake's, shared ones count once, and more work is never cheaper.

Seen to fail when: a retriever's start, teacher and negatives are forgotten; a data set's texts are tokenised with the scale's
vocabulary instead of their own; a total adds up what tables share; steps are not multiplied; a table's name is not checked.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from miniature import PROJECT, READERS_OF_TABLES, Ended, environment

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.operations.estimate.machines import Machines, Rates, assumed_gpu, needs_of
from pretrieve.operations.estimate.report import Estimate, assumptions, compare, comparison, cost_files, table_of
from pretrieve.operations.estimate.sizes import Sizes, read_counts
from pretrieve.operations.estimate.work import Workload
from pretrieve.raw.sources import read_sources
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

CPU = Rates("a core", "cpu", "measured", 1e11, 5e10, 6e10, 8e10, 0.01, 1e-9, 1e-9, 0.5, 3.0, 1.0)
#: Names of rules are a stage, and behind it a data set or a source.
STAGES = (
    "fetch",
    "fetch_checkpoint",
    "corpus",
    "vocabulary",
    "token_store",
    "pair_statistics",
    "overlap",
    "collection",
    "published_negatives",
    "task",
    "pretrain",
    "finetune",
    "mean",
    "mine",
    "retrieve",
    "bm25",
    "predict",
    "analyse",
    "table",
    "figure",
)
TABLES = ["condenser/table5", "dupmae/table3", "pretraining_tasks/table3"]


def configuration(**changes) -> dict:
    return read_config(PROJECT / "config.yaml") | changes


def plan_of(monkeypatch: pytest.MonkeyPatch, config: dict) -> Plan:
    monkeypatch.chdir(PROJECT)
    return Plan.load(copy.deepcopy(config))


def estimate_of(plan: Plan, gpus: int = 0, root: str = "nowhere") -> Estimate:
    """With fixed rates, and no look at what finished jobs have counted."""
    graph = Graph(plan)
    sizes = Sizes(
        plan, read_sources(PROJECT / "resources/sources.tsv"), read_counts(PROJECT / "resources/counts.tsv"), root
    )
    gpu = assumed_gpu("a100", CPU) if gpus else None
    return Estimate(Workload(graph, sizes, 65_536, 65_536), Machines(CPU, gpu, gpus, 16, needs_of(plan.config)))


def stages(estimate: Estimate, targets: list[Job]) -> Counter[str]:
    """Stage → jobs."""
    return Counter(job.stage for job in estimate.graph.behind(targets))


def stage_of(rule: str) -> str:
    name = rule.removeprefix("example_")
    return max((stage for stage in STAGES if name == stage or name.startswith(f"{stage}_")), key=len, default=rule)


def planned(ended: Ended) -> Counter[str]:
    """Stage → jobs of a dry run; the readers of tables are left out by ``Ended.jobs``."""
    counts: Counter[str] = Counter()
    for rule, number in ended.jobs.items():
        counts[stage_of(rule)] += number
    return counts


def test_the_jobs_are_those_that_snakemake_plans(dry_run, monkeypatch) -> None:
    estimate = estimate_of(plan_of(monkeypatch, configuration()))
    ours = stages(estimate, estimate.graph.everything())
    assert [ours.pop(stage) for stage in READERS_OF_TABLES] == [1, 1, 1]
    assert ours == planned(dry_run())
    assert ours["pretrain"] > 30 and 80 < ours["finetune"] < 120, "the families of a job count once"


@pytest.mark.parametrize(
    ("name", "stage", "number"), [("dual_encoders/table3", "corpus", 1), ("dupmae/table2", "mean", 5)]
)
def test_the_jobs_of_a_paper_scale_table_too(dry_run, monkeypatch, name: str, stage: str, number: int) -> None:
    """One whose encoders and texts have a vocabulary of their own, so that nothing of the scale's corpus is needed, and one with
    a mean of data sets."""
    plan = plan_of(monkeypatch, configuration(scale="paper"))
    estimate = estimate_of(plan)
    ours = stages(estimate, [estimate.graph.table(name)])
    theirs = planned(dry_run(f"{plan.root}/tables/{name}.csv", "--config", "scale=paper"))
    assert ours[stage] == number and ours == theirs


def test_shared_stages_count_once_in_the_total(monkeypatch) -> None:
    estimate = estimate_of(plan_of(monkeypatch, configuration(scale="paper")), gpus=8)
    targets = [estimate.graph.table(name) for name in TABLES]
    lines = [estimate.line(target.place, [target]) for target in targets]
    total = estimate.line("total", targets)
    behind = [set(estimate.graph.behind([target])) for target in targets]
    assert total.jobs == len(set.union(*behind)) < sum(line.jobs for line in lines)
    for key in ("gpu_h", "cpu_h", "disk_gb", "download_gb", "wall_h"):
        parts = [getattr(line, key) for line in lines]
        assert max(parts) <= getattr(total, key) <= sum(parts), key
    assert total.disk_gb < sum(line.disk_gb for line in lines)
    seconds = sum(
        estimate.seconds(job)
        for job in set.union(*behind)
        if estimate.machines.timing(job.stage, estimate.workload.of(job)).gpus
    )
    assert total.gpu_h == pytest.approx(seconds / 3600)
    text = table_of(lines, total)
    assert text.splitlines()[-1].startswith("total") and len(text.splitlines()) == len(TABLES) + 4
    assert any("ASSUMED, not measured" in line for line in assumptions(estimate.machines, estimate.workload.sizes))


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_every_table_of_every_scale_has_an_estimate(scale: str, monkeypatch) -> None:
    """Every number above 0 where something is measured, and no data set of the demo is guessed."""
    estimate = estimate_of(plan_of(monkeypatch, configuration(scale=scale)), gpus=1)
    for name in estimate.graph.plan.config["tables"]:
        line = estimate.line(name, [estimate.graph.table(name)])
        measured = any(estimate.graph.plan.measured(cell) for cell in estimate.graph.plan.cells[name])
        assert line.jobs >= 1 and line.wall_h > 0 and (line.disk_gb > 0.0005) == measured, name
    if scale == "demo":
        assert not estimate.workload.sizes.guessed


def test_more_steps_and_more_seeds_cost_more(monkeypatch) -> None:
    config, name = configuration(), "condenser/table5"
    lines, steps, flops = {}, {}, {}
    for factor in (1, 2):
        changed = copy.deepcopy(config)
        for budget in changed["scales"]["demo"]["pretraining"]["budgets"].values():
            budget["steps"] *= factor
        estimate = estimate_of(plan_of(monkeypatch, changed))
        target = estimate.graph.table(name)
        lines[factor] = estimate.line(name, [target])
        trained = [estimate.workload.of(job) for job in estimate.graph.behind([target]) if job.stage == "pretrain"]
        steps[factor], flops[factor] = (sum(getattr(work, key) for work in trained) for key in ("steps", "train"))
    assert steps[2] == 2 * steps[1] and flops[2] == pytest.approx(2 * flops[1])
    assert lines[2].cpu_h > lines[1].cpu_h and lines[2].jobs == lines[1].jobs
    seeds = estimate_of(plan_of(monkeypatch, configuration(seeds=[1, 2])))
    twice = seeds.line(name, [seeds.graph.table(name)])
    assert lines[1].jobs < twice.jobs < 2 * lines[1].jobs and twice.cpu_h > 1.5 * lines[1].cpu_h


def test_gpus_never_make_it_slower(monkeypatch) -> None:
    plan = plan_of(monkeypatch, configuration(scale="paper"))
    walls = []
    for gpus in (1, 2, 3, 8, 16):
        estimate = estimate_of(plan, gpus)
        walls.append(estimate.line("", [estimate.graph.table("condenser/table5")]).wall_h)
    assert walls == sorted(walls, reverse=True) and walls[0] > 1.5 * walls[-1]


def test_an_unknown_table_scale_or_mirror_ends_with_one_line(monkeypatch) -> None:
    graph = Graph(plan_of(monkeypatch, configuration()))
    with pytest.raises(ConfigError, match="table 'condenser/tabel5': no such table; .*did you mean 'condenser/table5'"):
        graph.table("condenser/tabel5")
    for arguments, said in (
        (["--tables", "condenser/tabel5"], "tabel5"),
        (["--scale", "papr"], "did you mean 'paper'"),
        (["--config", "mirror=no/such"], "no/such is no folder"),
    ):
        command = [sys.executable, "-m", "pretrieve", "estimate", *arguments]
        env = environment() | {"PYTHONPATH": str(PROJECT / "src")}
        ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, env=env)
        assert ended.returncode == 1 and ended.stdout == ""
        assert re.fullmatch(r"ConfigError: .*\n", ended.stderr) and said in ended.stderr


def test_a_finished_run_is_compared_job_by_job(monkeypatch, tmp_path: Path) -> None:
    estimate = estimate_of(plan_of(monkeypatch, configuration()))
    with pytest.raises(DataError, match=r"no cost\.json"):
        compare(estimate, str(tmp_path))
    jobs = [
        job for job in estimate.graph.behind([estimate.graph.table(TABLES[0])]) if job.stage in ("pretrain", "finetune")
    ]
    for job in jobs:
        parts = estimate.graph.parts(job)
        for file in [one for part in parts for one in cost_files(estimate.graph.plan, part, str(tmp_path))]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"cpu_s": 2.0, "wall_s": 3.0, "tokens": 10}))
    lost = cost_files(estimate.graph.plan, jobs[-1], str(tmp_path))[-1]
    lost.unlink()
    stages = {stage.name: stage for stage in compare(estimate, str(tmp_path))}
    expected = Counter(job.stage for job in jobs[:-1])
    assert {name: stage.jobs for name, stage in stages.items()} == expected
    parts = [part for job in jobs[:-1] if job.stage == "finetune" for part in estimate.graph.parts(job)]
    files = sum(len(cost_files(estimate.graph.plan, part, str(tmp_path))) for part in parts)
    assert stages["finetune"].cpu_s == 2.0 * files and stages["finetune"].wall_s == 3.0 * files
    assert stages["pretrain"].expected_s > 0 and "total" in comparison(list(stages.values()))


def test_a_teacher_scores_the_groups_of_every_number_of_epochs_that_is_tried(monkeypatch) -> None:
    def encoded(**options) -> float:
        config = configuration(
            recipes={**configuration()["recipes"], "dupmae-3stage": {"options": {"steps": 100_000} | options}}
        )
        estimate = estimate_of(plan_of(monkeypatch, config))
        return estimate.workload.of(Job("finetune", "dupmae.dupmae-3stage", "questions", 1, ("80pct",))).encode

    one, other = encoded(epochs=3, few_epochs=[]), encoded(epochs=9, few_epochs=[])
    assert encoded(few_epochs=[9]) == other > one and encoded(few_epochs=[3, 9]) > 1.1 * other
