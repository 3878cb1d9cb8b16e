"""Calls as the workflow prints them, cut by size, put in order, and what depends on what.

Seen to fail when: `by_size` keeps the whole `made-of`; `key` counts the log; `behind` does not go through to the
encoder; seeds are sorted behind the worth of encoders; `dependents` looks one step far only.
"""

from __future__ import annotations

import json

import pytest

from pretrieve.base.errors import DataError
from pretrieve.operations.bundle.jobs import Call, Job, behind, calls_in, dependents, in_order, makers

ROOT = "results/demo"
MADE_OF = {
    size: {
        "negatives": {"bm25": f"{ROOT}/negatives/bm25/questions/seed0.jsonl.gz"},
        "start": f"{ROOT}/before-{size}",
        "teacher": None,
    }
    for size in ("1pct", "full")
}


def pretrain(encoder: str, seed: int = 1, start: str = "") -> str:
    begin = f" --start {ROOT}/encoders/{start}/seed{seed}" if start else ""
    return (
        f"python workflow_scripts/pretrain.py --store {ROOT}/corpora/c/tokens --options '{{\"dim\":16}}' {begin} --seed {seed} "
        f"--threads 1 --checkpoints {ROOT}/checkpoints/{encoder} --out {ROOT}/encoders/{encoder}/seed{seed} "
        f"--log {ROOT}/logs/{encoder}.log"
    )


def finetune(encoder: str, seed: int = 1) -> str:
    out = " ".join(f"{ROOT}/retrievers/{encoder}.r-{size}/questions/seed{seed}" for size in MADE_OF)
    return (
        f"python workflow_scripts/finetune.py --encoder {ROOT}/encoders/{encoder}/seed{seed} --task {ROOT}/tasks/questions "
        f"--options '{{}}' --made-of '{json.dumps(MADE_OF)}' --sizes 1pct full --out {out} --seed {seed} --log x.log"
    )


def retrieve(encoder: str, seed: int = 1, mined: bool = False) -> str:
    places = [f"{ROOT}/{{}}/{encoder}.r-{size}/questions/seed{seed}" for size in MADE_OF]
    folders = {name: " ".join(place.format(name) for place in places) for name in ("retrievers", "embeddings")}
    runs = " ".join(f"{place.format('runs')}.trec.gz" for place in places)
    negatives = " ".join(f"{place.format('negatives')}.jsonl.gz" for place in places) if mined else ""
    return (
        f"python workflow_scripts/retrieve.py --task {ROOT}/tasks/questions --sizes 1pct full --metrics mrr@10 --conventions  "
        f"--retrievers {folders['retrievers']} --stores {folders['embeddings']} --options '{{}}' --candidates  --runs {runs} "
        f"--outputs {' '.join(metrics(encoder, seed))} --negatives {negatives} --vectors-code abc --log x.log"
    )


def metrics(encoder: str, seed: int = 1) -> list[str]:
    return [f"{ROOT}/metrics/{encoder}.r-{size}/questions/seed{seed}.json" for size in MADE_OF]


def jobs_of(*commands: str) -> list[Job]:
    printed = "\n".join(f"Job 7: something\nShell command: {command}\n" for command in commands)
    return [Job(one.key, group, one) for call, group in calls_in(printed) for one in call.by_size()]


def test_only_the_calls_that_a_bundle_runs_are_read() -> None:
    command = f"Shell command: {pretrain('a')}"
    text = f"{command}\nShell command: python workflow_scripts/table.py --out x\nrule bm25:\n{command}\n"
    ((call, _),) = calls_in(text)
    assert call.program == "pretrain" and call.json("options") == {"dim": 16} and call.one("seed") == "1"
    assert call.makes == [f"{ROOT}/encoders/a/seed1"] and call.needs == [f"{ROOT}/corpora/c/tokens"]
    assert Call.parse("pretrain", call.words()) == call


def test_a_call_is_cut_by_size() -> None:
    ((call, _),) = calls_in(finetune("a"))
    small, full = call.by_size()
    assert small.options["sizes"] == ["1pct"] and small.makes == [f"{ROOT}/retrievers/a.r-1pct/questions/seed1"]
    assert list(small.json("made-of")) == ["1pct"] and f"{ROOT}/before-full" not in small.needs
    assert f"{ROOT}/before-full" in full.needs and f"{ROOT}/negatives/bm25/questions/seed0.jsonl.gz" in full.needs
    ((found, _),), ((mining, _),) = calls_in(retrieve("a")), calls_in(retrieve("a", mined=True))
    made = [f"{ROOT}/runs/a.r-full/questions/seed1.trec.gz", metrics("a")[1]]
    store, negatives = (
        f"{ROOT}/embeddings/a.r-full/questions/seed1",
        f"{ROOT}/negatives/a.r-full/questions/seed1.jsonl.gz",
    )
    assert found.by_size()[1].makes == [*made, store]
    assert mining.by_size()[1].makes == [*made, negatives, store]
    assert found.by_size()[0].options["conventions"] == []
    assert (
        found.key == calls_in(retrieve("a").replace("--vectors-code abc", "--vectors-code def"))[0][0].key != mining.key
    )


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"finetune.py: --sizes has 1, --out has 2; expected one value each"):
        calls_in(finetune("a").replace("--sizes 1pct full", "--sizes 1pct"))[0][0].by_size()


def test_the_key_is_of_what_the_result_depends_on() -> None:
    ((call, _),), ((other, _),) = calls_in(pretrain("a")), calls_in(pretrain("a", seed=2))
    assert (
        call.key == calls_in(pretrain("a").replace("logs/a", "logs/b").replace("--threads 1", "--threads 4"))[0][0].key
    )
    assert call.key != other.key
    assert call.key != calls_in(pretrain("a").replace("16", "32"))[0][0].key


def test_the_last_of_an_option_counts() -> None:
    ((call, _),) = calls_in(pretrain("a").replace("--threads 1", "--threads 1 --threads 4"))
    assert call.words().count("--threads") == 1 and call.one("threads") == "4"


def test_order_seeds_first_then_what_most_cells_need() -> None:
    encoders = ("base", "a", "b")
    commands = [pretrain("base", seed) for seed in (1, 2, 3)]
    commands += [pretrain(name, seed, "base") for name in encoders[1:] for seed in (2, 1, 3)]
    commands += [make(name, seed) for name in encoders[1:] for seed in (1, 2, 3) for make in (finetune, retrieve)]
    jobs = jobs_of(*commands)
    worth = {"a": 1, "b": 3}
    cells = {file: worth[name] for name in worth for seed in (1, 2, 3) for file in metrics(name, seed)}
    ordered = in_order(jobs, cells)
    assert {job.id for job in ordered} == {job.id for job in jobs}
    names = [job.name for job in ordered]
    assert names[0] == "pretrain base/seed1" and names[1] == "pretrain b/seed1"
    assert names.index("pretrain a/seed1") < names.index("pretrain b/seed2")
    assert {job.name: job.cells for job in ordered}["pretrain base/seed1"] == 8
    made = set()
    known = makers(ordered)
    for job in ordered:
        assert all(place in made for place in job.call.needs if place in known), (
            f"{job.name} stands before what it needs"
        )
        made.update(job.call.makes)
    seeds = [name[-1] for name in names]
    assert seeds == sorted(seeds)
    ends = [name for name in names if name.startswith("retrieve b")]
    assert [name.split("/")[0] for name in ends[:2]] == ["retrieve b.r-1pct", "retrieve b.r-full"]


def test_what_no_asked_cell_needs_is_left() -> None:
    jobs = jobs_of(pretrain("a"), finetune("a"), retrieve("a"))
    ordered = in_order(jobs, {metrics("a")[0]: 1})
    assert [job.call.program for job in ordered] == ["pretrain", "finetune", "retrieve"]


def test_everything_behind_and_before() -> None:
    jobs = jobs_of(pretrain("base"), pretrain("a", 1, "base"), finetune("a"), retrieve("a"))
    last = jobs[-1]
    chain = behind(last, makers(jobs))
    assert [job.call.program for job in chain] == ["pretrain", "pretrain", "finetune", "retrieve"]
    assert len(dependents([f"{ROOT}/encoders/base/seed1"], jobs)) == len(jobs) - 1
    assert len(dependents([f"{ROOT}/tasks/questions"], jobs)) == 4
    assert Job.from_json(json.loads(json.dumps(last.as_json()))) == last
