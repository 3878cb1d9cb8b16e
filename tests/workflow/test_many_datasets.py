"""Many data sets in one configuration: they share their rules, and their jobs are those of a few.

Seen to fail when: data sets of different files or families share a rule; a shared rule takes another data set's words; two rules
have one name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from miniature import PROJECT, Workflow

from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.joined_jobs import MANY, alike, rules_of
from pretrieve.workflow.plan import Plan, alternation

WANTED = [
    "results/demo/metrics/bert.dpr-hard-full/more7/seed1.json",
    "results/demo/metrics/bm25.reqa-full/more7/seed0.json",
    "results/demo/negatives/bert.reqa-full/more7/seed1.jsonl.gz",
]


def more(number: int) -> dict:
    """The configuration of as many more data sets, for the files of the first."""
    entry = read_config(PROJECT / "config.yaml")["datasets"]["questions"]
    files = {part: str(PROJECT / file) for part, file in entry["files"].items()}
    return {"datasets": {f"more{place}": {**entry, "files": files} for place in range(number)}}


def with_more(number: int) -> Plan:
    config = read_config(PROJECT / "config.yaml")
    return Plan.load({**config, "datasets": {**config["datasets"], **more(number)["datasets"]}})


def test_rules_do_not_grow_with_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    counts = []
    for number in (MANY, 4 * MANY):
        plan = with_more(number)
        asked = [(plan.tasks, plan.trainings), (plan.config["datasets"], plan.searches), (plan.ranked, plan.minings)]
        rules = [rules_of(names, families_on, plan.is_examples) for names, families_on in asked]
        counts.append([*map(len, rules), len(alike(plan.ranked, plan.bm25_systems))])
        for (names, families_on), made in zip(asked, rules, strict=True):
            jobs = [(place, one.sizes, family) for one in made for place in one.places for family in one.families]
            alone = [
                (name, one.sizes, family) for name in names for one in families_on(name) for family in one.families
            ]
            assert sorted(jobs) == sorted(alone)
    assert counts[0] == counts[1]


def test_a_long_pattern_matches_its_names_and_no_others() -> None:
    names = [*(f"set-{number}" for number in range(200)), "a", "ab", "x.y", "set"]
    pattern = re.compile(alternation(names))
    assert "set(?:" in pattern.pattern, "what all begin with stands together, and no group is for each of its letters"
    assert all(pattern.fullmatch(name) for name in names)
    assert not any(pattern.fullmatch(name) for name in ("set-", "set-200", "b", "xay", "", "abc"))


def test_jobs_of_many_are_those_of_a_few(project: Workflow, tmp_path: Path) -> None:
    few, many = (planned(project, tmp_path / str(number), number) for number in (MANY // 2, MANY + 5))
    assert few == many and sum("bm25.reqa-full" in job for job in few) >= 1


def test_names_of_data_sets_and_sizes_that_make_the_same_words(project: Workflow, tmp_path: Path) -> None:
    """Snakemake refused the second rule of a name, whatever was asked for."""
    files = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "train": "train.tsv", "test": "test.tsv"}
    sizes = {"my-set": ["5pct", "full"], "my_set": ["5pct", "full"], "my-set-5pct": ["full"]}
    made = {name: {"reader": "beir", "files": files, "sizes": dict.fromkeys(own, "all")} for name, own in sizes.items()}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"datasets": made}), encoding="utf-8")
    ended = project.run("--list-rules", "--configfile", str(tmp_path / "more.yaml"))
    assert ended.code == 0, ended.text
    names = re.findall(r"^retrieve_my_set_5pct_full\w*$", ended.stdout, re.M)
    assert sorted(names) == [f"retrieve_my_set_5pct_full{end}" for end in ("", "_2", "_3")], ended.text


def planned(project: Workflow, folder: Path, number: int) -> list[str]:
    """What a dry run says of each job for the wanted files."""
    folder.mkdir()
    (folder / "more.yaml").write_text(yaml.safe_dump(more(number)), encoding="utf-8")
    words = ["-n", "-p", "--quiet", "host", "reason", "--snakefile", str(project.folder / "Snakefile")]
    words += ["--directory", str(folder), "--configfile", str(folder / "more.yaml")]
    ended = project.run(*words, "--", *WANTED)
    assert ended.code == 0, ended.text
    blocks = re.split(r"\n(?=\[\w{3} \w{3})", ended.stdout.split("\nJob stats:")[1])[1:]
    unlike = r"^Job \d+: |^\[.*\]$|^ +(jobid|wildcards): .*$|^rule .*$|^(local)?rule .*$"
    return sorted(re.sub(unlike, "", block, flags=re.MULTILINE).strip() for block in blocks)
