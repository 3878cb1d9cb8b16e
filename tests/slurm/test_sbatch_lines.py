"""The exact sbatch line of each kind of rule, from Snakemake itself and the project's profile, without a Slurm.

Small programs of Slurm's names stand first on the PATH. ``sbatch`` writes down its words and gives a number; ``squeue`` says that
the job failed, so that a second attempt is submitted. Everything before the jobs under test is an empty file.

Seen to fail when: memory does not grow with the attempt; the nodes of a job of several GPUs are not fixed; the profile has no
arrays; the site is not looked up before the first submission.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from miniature import PROJECT, Ended, Workflow, copy_project, environment
from tiny_science import change_config, write_config, write_raw_files

pytest.importorskip("snakemake_executor_plugin_slurm", reason="snakemake-executor-plugin-slurm is not installed")

ENCODERS = {
    name: f"results/demo/encoders/{name}/seed1/config.json" for name in ("transformer-mlm", "bow-mlp-ict-bfs-wlp")
}
PRETRAIN = ENCODERS["transformer-mlm"]
BM25 = "results/demo/negatives/bm25/questions/seed0.jsonl.gz"
TABLE = "results/demo/tables/pretraining_tasks/table3.csv"
#: Name → what it does. The profile must do without sacct, which needs a database that many clusters lack.
SLURM = {
    "sbatch": """
import json, os, pathlib, sys
record = pathlib.Path(os.environ["SHIM"]) / "sbatch"
record.mkdir(exist_ok=True)
own = record / f"{os.getpid()}.part"
own.write_text(json.dumps(sys.argv[1:]))
number = 1
while True:  # two may be called at once: the number is whose name it is first
    try:
        os.link(own, record / f"{number:03d}.json")
        break
    except FileExistsError:
        number += 1
own.unlink()
print(number)
""",
    "squeue": """
import os, pathlib, sys
if "--states=all" in sys.argv:
    for file in (pathlib.Path(os.environ["SHIM"]) / "sbatch").glob("*.json"):
        print(f"{int(file.stem)}|FAILED")
""",
    "sinfo": """
import sys
print("cpu\\ngpu\\nlong" if "--format=%R" in sys.argv else "PARTITION\\ncpu*\\ngpu\\nlong")
""",
    "scontrol": 'print("MinJobAge = 300 sec\\nMaxArraySize = 1001")',
    "sacctmgr": 'print("physics\\nir")',
    "sacct": 'import sys; sys.exit("Slurm accounting storage is disabled")',
}


@dataclass(frozen=True)
class Shim:
    """A copy of the project whose outputs are empty files, and made-up programs of Slurm."""

    workflow: Workflow
    folder: Path

    def submit(
        self, *targets: str, retries: int = 0, site: dict[str, Any] | None = None, more: tuple = ()
    ) -> list[list[str]]:
        """What sbatch is called with while exactly these targets are made, in order."""
        for file in (self.folder / "sbatch").glob("*"):
            file.unlink()
        self.run("--retries", str(retries), *more, "-f", *targets, site=site)
        return [json.loads(file.read_text()) for file in sorted((self.folder / "sbatch").glob("*.json"))]

    def run(self, *arguments: str, site: dict[str, Any] | None = None) -> Ended:
        path = self.workflow.folder / "profiles/slurm/site.yaml"
        values = yaml.safe_load((PROJECT / "profiles/slurm/site.yaml").read_text())["site"] | (site or {})
        path.write_text(yaml.safe_dump({"site": values}))
        words = ["--workflow-profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "1"]
        path = f"{self.folder}/bin:{environment()['PATH']}"
        return self.workflow.run_fork(*words, *arguments, PATH=path, SHIM=str(self.folder))


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    folder = tmp_path_factory.mktemp("shim")
    workflow = copy_project(folder / "project")
    write_raw_files(workflow.folder)
    write_config(workflow.folder)
    change_config(workflow.folder, "tables", to=["pretraining_tasks/table3"])
    (folder / "bin").mkdir()
    for name, text in SLURM.items():
        (folder / f"{name}.py").write_text(text)
        # A first line that names Python itself does not hold a path with a space.
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/{name}.py" "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    listed = workflow.run("--summary", TABLE)
    assert listed.code == 0, listed.text
    made = [line.split("\t")[0] for line in listed.stdout.splitlines() if line.startswith(("results/", "data/"))]
    assert PRETRAIN in made and BM25 in made
    for name in made:
        (workflow.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (workflow.folder / name).touch()
        os.utime(workflow.folder / name, (2e9, 2e9))  # all of one age, and newer than what they are made from
    yield Shim(workflow, folder)


def words_of(call: list[str], workflow: Workflow) -> list[str]:
    """A call without what differs from run to run: the run's name, and the Snakemake inside the job."""
    here, words = str(workflow.folder), []
    for word in call:
        if word.startswith("--wrap="):
            assert f"{here}/Snakefile" in word and "--executor slurm-jobstep" in word
            words.append("--wrap=...")
        elif re.fullmatch(r"pretrieve_[0-9a-f-]{36}", word):
            words.append("RUN")
        else:
            words.append(word.replace(here, "HERE"))
    return words


def line(
    rule: str,
    *middle: str,
    wildcards: str = "",
    end: tuple[str, ...] = (),
) -> list[str]:
    """The expected words: what every call has around the ones that a test is about."""
    comment = f"rule_{rule}" + (f"_wildcards_{wildcards}" if wildcards else "")
    output = "/".join(filter(None, ["HERE/.snakemake/slurm_logs", f"rule_{rule}", wildcards, "%j.log"]))
    head = ["--parsable", "--job-name", "RUN", "--output", output, "--export=ALL", "--comment", comment]
    return [*head, *middle, "-D", "HERE", *end, "--wrap=..."]


def test_a_job_on_processors_and_one_on_a_gpu_and_their_second_attempts(shim: Shim) -> None:
    """In the site as it comes: the cluster's own default partition."""
    calls = shim.submit(BM25, PRETRAIN, retries=1)
    bm25 = [
        line("bm25_questions", "-p", "cpu", "-t", minutes, "--mem", memory, "--ntasks=1", "--cpus-per-task=1")
        for minutes, memory in (("20", "2000"), ("40", "3000"))
    ]
    pretrain = [
        line(
            *("pretrain", "-p", "cpu", "-t", minutes, "--mem", memory, "--nodes=1", "--cpus-per-task=1"),
            wildcards="transformer-mlm_1",
            end=("--gpus=1",),
        )
        for minutes, memory in (("30", "2000"), ("60", "3000"))
    ]
    assert len(calls) == 4
    for attempt in (0, 1):
        found = [words_of(call, shim.workflow) for call in calls if ("--attempt 2" in call[-1]) == bool(attempt)]
        assert sorted(found) == sorted([bm25[attempt], pretrain[attempt]])


def test_several_gpus_of_one_node_with_all_words_of_a_site(shim: Shim) -> None:
    site = {"partition": "gpu", "cpu_partition": "cpu", "account": "ir", "qos": "long", "constraint": "a100|h100"}
    site |= {"gpu_model": "a100", "gpus": {"pretrain": 4}, "cpus_per_gpu": 6, "max_minutes": 25, "max_mem_mb": 1800}
    found = [words_of(call, shim.workflow) for call in shim.submit(BM25, PRETRAIN, site=site)]
    both = ("--qos=long", "--mem", "1800")
    assert sorted(found) == sorted(
        [
            line("bm25_questions", "-A", "ir", "-p", "cpu", "-t", "20", *both, "--ntasks=1", "--cpus-per-task=1"),
            line(
                *("pretrain", "-A", "ir", "-p", "gpu", "-t", "25", "-C", "a100|h100"),
                *(*both, "--nodes=1", "--cpus-per-task=24"),
                wildcards="transformer-mlm_1",
                end=("--gpus=a100:4",),
            ),
        ]
    )


def test_several_nodes(shim: Shim) -> None:
    """By --gres, which counts on each node; also on clusters that know no other word."""
    site = {"gpus": {"pretrain": 4}, "nodes": {"pretrain": 2}, "gpu_model": "h100"}
    found = [words_of(call, shim.workflow) for call in shim.submit(PRETRAIN, site=site)]
    assert found == [
        line(
            *("pretrain", "-p", "cpu", "-t", "30", "--mem", "2000", "--nodes=2", "--cpus-per-task=4"),
            wildcards="transformer-mlm_1",
            end=("--gres=gpu:h100:4",),
        )
    ]


def test_equal_jobs_that_are_ready_are_one_array(shim: Shim) -> None:
    calls = shim.submit(*ENCODERS.values())
    assert len(calls) == 1
    assert "--array=1-2" in calls[0] and "--gpus=1" in calls[0] and "--attempt 1" in calls[0][-1]


def test_a_wrong_site_ends_before_the_first_submission(shim: Shim) -> None:
    for file in (shim.folder / "sbatch").glob("*"):
        file.unlink()
    ended = shim.run("-f", PRETRAIN, site={"account": "physic"})
    assert ended.code == 1 and "Traceback" not in ended.text, ended.text
    assert "ConfigError: site: account: 'physic' is not an account of user" in ended.stderr
    assert "The key is in site.yaml of the profile" in ended.stderr
    assert not list((shim.folder / "sbatch").glob("*"))
