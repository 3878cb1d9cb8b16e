"""What jobs ask for, and the place where they run.

Seen to fail when: a rule states no resources; memory of the second attempt is that of the first; a limit of the site is not
kept; a job of several nodes asks by --gpus; ``gpu`` stands beside ``gres``; the account is compared with capital letters; a
partition of a list is not looked at alone; a key of profiles/slurm/profile.yaml has no comment.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from pretrieve.base.errors import ConfigError
from pretrieve.workflow.cluster import Site
from pretrieve.workflow.job_resources import COLUMNS, LEAST_MB, SHARED_BY_GPUS, STAGES, Needs, column_of

ROOT = Path(__file__).resolve().parents[1]
PAPER = {"scale": "paper", "scales": {}}
DEMO = {"scale": "demo", "scales": {}}


def asked(needs: Needs, stage: str, attempt: int = 1) -> dict[str, int | str]:
    """The resources of a stage's job, as numbers and words."""
    values = needs[stage].resources.items()
    return {name: value(None, attempt) if callable(value) else value for name, value in values}


def test_every_rule_states_threads_and_resources_of_its_stage() -> None:
    """Rules that run a program; what only gathers files asks for nothing."""
    seen = set()
    for file in sorted((ROOT / "rules").glob("*.smk")):
        text = re.sub(r"NEEDS\.of_seeds\((.+), .+\)", r"NEEDS[\1]", file.read_text())
        text = text.replace("NEEDS[STAGE]", 'NEEDS["retrieve"]')  # or predict: one rule for both
        for block in re.split(r"(?m)^ *rule\b", text)[1:]:
            if "shell:" not in block:
                continue
            threads = re.findall(r'^ +threads: NEEDS\["(\w+)"\]\.threads$', block, flags=re.MULTILINE)
            resources = re.findall(r'^ +resources:\n +\*\*NEEDS\["(\w+)"\]\.resources,$', block, flags=re.MULTILINE)
            assert len(threads) == 1 and threads == resources, f"{file.name}: {block.strip().splitlines()[:4]}"
            assert ("{LAUNCH}" in block) == ("gpu" in asked(Needs(DEMO), threads[0])), threads[0]
            seen.update(threads)
    assert seen | {"predict"} == STAGES.keys(), "a stage of the table is no rule's"


def test_parameters_know_nothing_of_resources() -> None:
    """A parameter that follows from them would run everything again on another machine."""
    blocks = [
        block for file in (ROOT / "rules").glob("*.smk") for block in re.split(r"(?m)^ *rule\b", file.read_text())[1:]
    ]
    parameters = [found[1] for block in blocks if (found := re.search(r"(?ms)^ +params:\n(.*?)^ +message:", block))]
    assert len(parameters) > 20
    for text in parameters:
        assert not re.search(r"NEEDS|resources|threads|SITE", text), text


def test_small_rules_stay_where_snakemake_runs() -> None:
    """And no other does: what is not here is sent to the cluster."""
    snakefile = (ROOT / "Snakefile").read_text()
    listed = re.search(r"(?ms)^localrules:\n(.*?)\n\n", snakefile)[1]
    assert re.findall(r"\w+", listed) == ["all", "encoders", "retrievers", "table", "claims", "league", "report"]
    marked = Counter(
        file.name for file in (ROOT / "rules").glob("*.smk") for _ in re.findall("localrule: True", file.read_text())
    )
    assert marked == {"sources.smk": 2, "my_corpus.smk": 4, "analyse.smk": 1, "retrieve.smk": 1}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("scoring", ["retrieve", "predict"])
def test_a_fine_tuning_has_what_its_scores_need(column: str, scoring: str) -> None:
    """One job trains and scores, so it has more minutes than the scores alone, and no less of anything else."""
    both, alone = (STAGES[stage][COLUMNS.index(column)] for stage in ("finetune", scoring))
    assert both.minutes > alone.minutes
    assert all(own >= least for own, least in zip(both, alone, strict=True))


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_asks_for_more_with_scale_and_attempt(stage: str) -> None:
    before = None
    for column in COLUMNS:
        needs = Needs({"scale": column, "scales": {}})
        first, second, third = (asked(needs, stage, attempt) for attempt in (1, 2, 3))
        assert all(type(value) is int for value in first.values())
        assert LEAST_MB <= first["mem_mb"] < second["mem_mb"] < third["mem_mb"]
        assert first["runtime"] < second["runtime"] < third["runtime"]
        for name in first.keys() - {"mem_mb", "runtime"}:
            assert first[name] == third[name], f"{name} must not change what is computed"
        if before:
            assert all(before[name] <= first[name] for name in first)
        before = first
    assert Needs(DEMO)[stage].threads == 1, "the demo runs as many jobs as there are cores"


def test_a_scale_of_another_name_is_as_large_as_its_models() -> None:
    def width(hidden: int) -> dict:
        return {"scale": "mine", "scales": {"mine": {"body": {"hidden": hidden}}}}

    assert [column_of(width(hidden)) for hidden in (64, 128, 256, 768, 1024)] == [
        "demo",
        "demo",
        "small",
        "paper",
        "paper",
    ]
    assert column_of(PAPER) == "paper" and column_of(PAPER | {"rehearsal": 1}) == "demo"


def test_limits_of_a_site_are_kept() -> None:
    needs = Needs(PAPER, Site.read({"scheduler": "slurm", "max_minutes": 600, "max_mem_mb": 100_000}))
    free = Needs(PAPER)
    assert asked(free, "pretrain")["runtime"] > 600 and asked(free, "pretrain")["mem_mb"] > 100_000
    for attempt in (1, 3):
        assert asked(needs, "pretrain", attempt)["runtime"] == 600
        assert asked(needs, "pretrain", attempt)["mem_mb"] == 100_000
    assert asked(needs, "report")["runtime"] == asked(free, "report")["runtime"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"gpu": 8, "nodes": 1}),
        ({"gpus": {"pretrain": 1}}, {"gpu": 1, "nodes": 1}),
        (
            {"gpu_model": "a100", "partition": "gpu"},
            {"gpu": 8, "nodes": 1, "gpu_model": "a100", "slurm_partition": "gpu"},
        ),
        ({"gpus_by": "gres", "gpu_model": "a100"}, {"gpu": 0, "nodes": 1, "gres": "gpu:a100:8"}),
        ({"gpus": {"pretrain": 4}, "nodes": {"pretrain": 2}}, {"gpu": 0, "nodes": 2, "gres": "gpu:4"}),
        ({"gpus_by": "none", "constraint": "a100"}, {"gpu": 0, "nodes": 1}),
        (
            {"account": "ir", "qos": "long", "constraint": "a100|h100", "gpus": {"pretrain": 1}},
            {"gpu": 1, "nodes": 1, "slurm_account": "ir", "qos": "long", "constraint": "a100|h100"},
        ),
    ],
)
def test_gpus_in_the_words_of_the_cluster(values: dict, expected: dict) -> None:
    found = asked(Needs(PAPER, Site.read({"scheduler": "slurm", **values})), "pretrain")
    assert {name: value for name, value in found.items() if name not in ("mem_mb", "runtime")} == expected


def test_jobs_without_a_gpu_have_a_partition_of_their_own() -> None:
    both = Site.read(
        {"scheduler": "slurm", "partition": "gpu", "cpu_partition": "cpu", "constraint": "a100", "account": "ir"}
    )
    found = asked(Needs(PAPER, both), "bm25")
    assert found["slurm_partition"] == "cpu" and found["slurm_account"] == "ir" and "constraint" not in found
    assert "gpu" not in found
    one = Site.read({"scheduler": "slurm", "partition": "all"})
    assert asked(Needs(PAPER, one), "bm25")["slurm_partition"] == "all"


def test_processors_go_with_gpus() -> None:
    threads = {n: Needs(PAPER, Site.read({"gpus": {"pretrain": n}}))["pretrain"].threads for n in (1, 2, 8)}
    assert threads == {1: 4, 2: 8, 8: 32}
    assert Needs(PAPER, Site.read({"cpus_per_gpu": 6, "gpus": {"pretrain": 2}}))["pretrain"].threads == 12


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"site: \[\] is not allowed; expected keys and values"),
        ({"acount": "x"}, "site: acount: unknown key; allowed: .*; did you mean 'account'"),
        ({"account": "a b"}, "site: account: 'a b' is not allowed; expected a name as Slurm has it"),
        ({"account": "$(touch x)"}, "site: account: .* is not allowed"),
        ({"partition": "--wrap=x"}, "site: partition: '--wrap=x' is not allowed"),
        ({"max_minutes": "2h"}, "site: max_minutes: '2h' is not allowed; expected a whole number, 0 or more"),
        ({"max_mem_mb": 100}, "site: max_mem_mb: 100 is less than the 500 MB"),
        ({"share": 0}, "site: share: 0 is not allowed; expected a whole number, 1 or more"),
        ({"scheduler": "slrm"}, "site: scheduler: 'slrm' is not allowed; allowed: none, slurm; did you mean 'slurm'"),
        ({"gpus_by": "gpu"}, "site: gpus_by: 'gpu' is not allowed; allowed: gpus, gres, none"),
        ({"gpus_by": "none", "gpu_model": "a100"}, "site: gpu_model: 'a100' with gpus_by: none"),
        ({"gpus": 4}, r"site: gpus: 4 is not allowed; expected stages and numbers, such as \{pretrain: 4\}"),
        ({"gpus": {"pretrain": 0}}, "site: gpus.pretrain: 0 is not allowed; expected a whole number, 1 or more"),
        ({"gpus": {"pretrain": 16}}, "site: gpus.pretrain: 16 is more than 8 GPUs of one node; set nodes.pretrain"),
        ({"gpus": {"bm25": 1}}, "site: gpus.bm25: not a stage that uses a GPU; allowed: pretrain, finetune, retrieve"),
        (
            {"nodes": {"predict": 2}},
            "site: nodes.predict: 2, but predict runs on one GPU; only pretrain, finetune, retrieve",
        ),
    ],
)
def test_mistakes_in_a_site_are_named(values, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Needs(PAPER, Site.read(values))


def test_what_needs_no_sharing_has_one_gpu_everywhere() -> None:
    for column in range(len(COLUMNS)):
        for stage, needs in STAGES.items():
            assert needs[column].gpus <= (8 if stage in SHARED_BY_GPUS else 1)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``slurm(sinfo=..., sacctmgr=...)``: shell scripts of these names, alone on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", str(folder))

    return make


def test_names_are_looked_up_in_the_clusters_own_lists(slurm) -> None:
    slurm(sinfo="echo gpu; echo cpu; echo gpu", sacctmgr='case "$*" in *user=*) echo physics; echo ir;; esac')
    Site.read({"scheduler": "slurm", "partition": "gpu,cpu", "account": "IR"}).check_cluster()
    with pytest.raises(
        ConfigError, match="site: partition: 'gpus' is not a partition of this cluster; it has cpu, gpu; did you"
    ):
        Site.read({"scheduler": "slurm", "partition": "cpu,gpus"}).check_cluster()
    with pytest.raises(
        ConfigError, match="site: account: 'physic' is not an account of user .*; allowed: ir, physics; did you mean"
    ):
        Site.read({"scheduler": "slurm", "account": "physic"}).check_cluster()
    Site.read({"partition": "nowhere"}).check_cluster()  # no cluster


def test_the_accounting_database_is_asked_for_an_account_alone(slurm, tmp_path: Path) -> None:
    """Where it is away, sacctmgr takes its time to say so, at each start of a run."""
    slurm(sinfo="echo gpu", sacctmgr=f"echo asked >> {tmp_path}/asked")
    Site.read({"scheduler": "slurm", "partition": "gpu"}).check_cluster()
    assert not (tmp_path / "asked").exists()
    Site.read({"scheduler": "slurm", "account": "physics"}).check_cluster()
    assert (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    "scripts",
    [{}, {"sinfo": "exit 1", "sacctmgr": "echo no accounting >&2; exit 1"}, {"sinfo": "", "sacctmgr": ""}],
)
def test_without_a_list_slurm_itself_decides(slurm, scripts: dict[str, str]) -> None:
    slurm(**scripts)
    Site.read({"scheduler": "slurm", "partition": "nowhere", "account": "nobody"}).check_cluster()


@pytest.mark.parametrize("name", ["slurm", "gpu"])
def test_profiles_explain_every_key(name: str) -> None:
    folder = ROOT / "profiles" / name
    for file in (folder / "profile.yaml", folder / "site.yaml"):
        explained = False
        for line in file.read_text().splitlines():
            if line.strip().startswith("#"):
                explained = True
            elif not line.strip():
                explained = False
            elif re.match(r"\S", line) and line != "site:":
                # Lines below one comment are about the same thing.
                assert explained, f"{file.name}: no comment above {line!r}"
    site = Site.read(yaml.safe_load((folder / "site.yaml").read_text())["site"])
    assert site.scheduler == {"slurm": "slurm", "gpu": "none"}[name]
    profile = yaml.safe_load((folder / "profile.yaml").read_text())
    default = yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text())
    assert profile["configfile"] == "site.yaml" and profile["retries"] >= 1
    assert profile["rerun-triggers"] == default["rerun-triggers"], "another place must not run other jobs again"
    assert ("gpu" in str(profile.get("resources"))) == (name == "gpu"), (
        "a cap on gpu would cut what jobs of a cluster ask for"
    )


def test_the_sites_file_has_every_key() -> None:
    keys = yaml.safe_load((ROOT / "profiles/slurm/site.yaml").read_text())["site"].keys()
    assert keys == {entry.name for entry in fields(Site)} - {"share"}


def test_a_job_of_ten_seeds_has_ten_times_the_minutes_and_no_more_memory() -> None:
    one, ten = (Needs({"scale": "demo"}).of_seeds("finetune", seeds).resources for seeds in (1, 10))
    assert ten["runtime"](None, 2) == 10 * one["runtime"](None, 2)
    assert ten["mem_mb"](None, 2) == one["mem_mb"](None, 2)
