"""Many seeds: ten in one job, of the same files and bytes as ten jobs.

Seen to fail when: the words of one seed are run for all; a seed of an incomplete ten is left out; a killed job begins anew; a
family is a wildcard, so that Snakemake compares each file with the paths of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from miniature import PROJECT, Workflow, clone
from test_kill import kill_when, mark
from tiny_science import ENCODERS, change_config

from pretrieve.operations.estimate.jobs import SeedJobs
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.joined_jobs import MOST_JOBS, Seeds, in_tens, rules_of
from pretrieve.workflow.plan import Plan

FAMILY = f"{ENCODERS[0]}.reqa"
#: Files without times in them.
SAME = re.compile(r"(model|heads)\.safetensors|config\.json|seed\d+\.(trec\.gz|json)")


def settings(seeds: Iterable[int], together: bool) -> list[str]:
    wanted = [f"results/demo/metrics/{FAMILY}-80pct/questions/seed{seed}.json" for seed in seeds]
    return [
        "--config",
        f"seeds=[{','.join(map(str, seeds))}]",
        f"seeds_per_job={10 if together else 1}",
        "checkpoint_seconds=0",
        "--",
        *wanted,
    ]


def plan_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> Plan:
    monkeypatch.chdir(PROJECT)
    return Plan.load(
        read_config(PROJECT / "config.yaml", words=[*words, "tables=[pretraining_tasks/table3]", "figures=[]"])
    )


def test_a_thousand_seeds_are_a_bounded_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(monkeypatch, f"seeds=[{','.join(map(str, range(1, 1001)))}]")
    jobs = SeedJobs(plan)
    rules = list(jobs.of(["finetune"], rules_of(plan.tasks, plan.trainings, plan.is_examples)))
    ours = [rule for rule in rules if "transformer-mlm.reqa" in rule.families and rule.places == ("questions",)]
    assert [(len(rule.seeds.values), rule.seeds.ten) for rule in ours] == [(99, True), (10, False)]
    assert 10 * sum(len(seeds.values) for seeds in jobs.groups) < MOST_JOBS, "five encoders, two jobs each"
    assert "{family}" not in "".join(file for rule in rules for file in rule.files(["{family}"])), "all are compared"
    made = [
        file.replace("{seed}", value)
        for rule in ours
        for file in rule.seeds.files(["{seed}"])
        for value in rule.seeds.values
    ]
    assert sorted(made, key=int) == [str(seed) for seed in range(1, 1001)], "each seed once"
    every = plan_of(monkeypatch, f"seeds=[{','.join(map(str, range(1, 1001)))}]", "seeds_per_job=1")
    assert [seeds.ten for seeds in SeedJobs(every).groups] == [False]


def test_few_seeds_are_jobs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SeedJobs(plan_of(monkeypatch, "seeds=[10,11,12,13,14,15,16,17,18,19]")).groups == [
        Seeds(tuple(map(str, range(10, 20))))
    ]
    assert in_tens([0, *range(2, 10), 31]) == [Seeds(tuple(map(str, [0, *range(2, 10), 31])))]


def test_ten_in_one_job_give_what_ten_jobs_give_also_after_a_kill(begun: Workflow, tmp_path: Path) -> None:
    single, joined = (clone(begun, tmp_path / name) for name in ("single", "joined"))
    for workflow in (single, joined):
        change_config(workflow.folder, "scales", "demo", "pretraining", "budgets", "base", "steps", to=40)
    some = (10, 12, 19)
    ended = single.run("--cores", "2", *settings(some, together=False))
    assert ended.code == 0 and (ended.count("pretrain"), ended.count("finetune")) == (3, 3), ended.text

    first, third = (joined.folder / f"results/demo/checkpoints/encoders/{ENCODERS[0]}/seed{seed}" for seed in (10, 12))
    words = ("--cores", "2", *settings(range(10, 20), together=True))
    kill_when(lambda: any(third.glob("step-*.safetensors")), joined, *words)
    assert [mark(path) for path in first.glob("step-*.safetensors")]
    joined.run("--unlock", *words)
    ended = joined.run(*words)
    assert ended.code == 0 and (ended.count("pretrain"), ended.count("finetune")) == (1, 1), ended.text
    curve = joined.folder / f"results/demo/encoders/{ENCODERS[0]}/seed10/curve.csv"
    assert "12345" in curve.read_text().splitlines()[1], "a finished seed was not trained again"
    made = []
    for workflow in (single, joined):
        files = {
            name: data
            for kind in ("encoders", "retrievers", "runs", "metrics")
            for name, data in workflow.files(f"{kind}/**/*").items()
        }
        made.append({name: data for name, data in files.items() if SAME.search(name)})
    assert len(made[1]) / 10 == len(made[0]) / 3 and made[0].items() <= made[1].items()
    assert "Nothing to be done" in joined.run("-n", *settings(range(10, 20), together=True)).text
