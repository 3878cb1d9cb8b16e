"""The workflow runs from anywhere: code in one folder, which nothing is written to, data and results in another.

Seen to fail when: a rule's input, a program's default or the list of sources is looked for in the working directory; the code's
folder has a blank in its name and is no single word of a command; a program beside Snakemake reads the list of sources in the
working directory, or runs Snakemake without its Snakefile; a rule's command names a variable of the rules, which a
Snakefile that has them as a module does not know; an include is the default target of workflow/Snakefile; jobs take
the first `python` of PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from miniature import Workflow, clone, environment
from tiny_science import COUNTS, TASK

MODULE = """
configfile: "config.yaml"

module pretrieve:
    snakefile: {snakefile!r}
    config: config

use rule * from pretrieve

onstart:
    pretrieve.onstart()

onsuccess:
    pretrieve.onsuccess()
"""


@pytest.fixture(scope="module")
def code(unstarted: Workflow, folders: Path) -> Iterator[Path]:
    """A checkout that nobody, not even root, can write to, where it can be mounted so."""
    folder = clone(unstarted, folders / "the code").folder
    shutil.rmtree(folder / "mirror")
    mounted = (
        not os.geteuid() and not subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode
    )
    if mounted:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    before = listed(folder)
    yield folder
    if mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)
    assert listed(folder) == before


def listed(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts}


@pytest.fixture
def elsewhere(unstarted: Workflow, tmp_path: Path) -> Workflow:
    """A folder with raw files and what its user wants other than the code's config.yaml has it."""
    folder = tmp_path / "my data"
    folder.mkdir()
    shutil.copytree(unstarted.folder / "mirror", folder / "raw")
    (folder / "config.yaml").write_text("mirror: raw\n")
    return Workflow(folder)


def assert_same(workflow: Workflow, inside: Workflow) -> None:
    """As the same targets made in a checkout."""
    assert {path.name for path in workflow.folder.iterdir()} <= {
        "raw",
        "data",
        "results",
        ".snakemake",
        "config.yaml",
        "Snakefile",
    }
    for pattern in ("tables/**/*.csv", "tables/**/*.html", "pairs/**/*.json", "tasks/**/*.parquet", "corpora/**/*.bin"):
        made = workflow.files(pattern)
        assert made and made == inside.files(pattern), pattern


def test_with_its_snakefile_and_another_directory(code: Path, elsewhere: Workflow, begun: Workflow, tmp_path: Path):
    """Called from a third folder, by the path of Snakemake alone: `python` is another one in PATH."""
    (tmp_path / "third").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/bin/false")
    words = ("-s", str(code / "Snakefile"), "--directory", str(elsewhere.folder))
    other = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    ended = Workflow(tmp_path / "third").run_fork(*words, "--cores", "1", COUNTS, TASK, PATH=other)
    assert ended.code == 0, ended.text
    assert_same(elsewhere, begun)
    assert not list((tmp_path / "third").iterdir())
    assert "Nothing to be done" in elsewhere.plan(*words, COUNTS, TASK).text


@pytest.mark.parametrize("snakefile", ["Snakefile", "workflow/Snakefile"])
def test_as_a_module(code: Path, elsewhere: Workflow, begun: Workflow, snakefile: str):
    (elsewhere.folder / "Snakefile").write_text(MODULE.format(snakefile=str(code / snakefile)))
    ended = elsewhere.run("--cores", "1", COUNTS, TASK)
    assert ended.code == 0, ended.text
    assert "elapsed" in ended.text, "its own onsuccess reports the time"
    assert_same(elsewhere, begun)


def test_programs_beside_snakemake(code: Path, elsewhere: Workflow, unstarted: Workflow):
    """The same jobs are packed, and the same code."""
    calls = (
        "from pretrieve.operations.bundle.contents import *; asked = Asked('demo', ('pretraining_tasks/table3',)); "
        "print(sorted(job.id for job in remaining(asked, asked.cells(asked.plan()))), list(code_files()))"
    )

    def said(source: Path, workflow: Workflow, *words: str) -> str:
        variables = environment() | {"PYTHONPATH": str(source / "src")}
        told = subprocess.run(
            [sys.executable, *words], cwd=workflow.folder, env=variables, capture_output=True, text=True
        )
        assert told.returncode == 0, told.stderr
        return told.stdout

    assert said(code, elsewhere, "-c", calls) == said(unstarted.folder, unstarted, "-c", calls) != "[] []\n"
    table = ("--table", "pretraining_tasks/table3", "--dry-run")
    assert "2 files" in said(code, elsewhere, "-m", "pretrieve", "fetch-table", *table)
    said(code, elsewhere, "-m", "pretrieve", "estimate", "--counts")


def test_the_catalogues_snakefile_makes_everything(begun: Workflow, tmp_path: Path):
    """A bare include would lose the default target, and make the first raw file only."""
    workflow = clone(begun, tmp_path / "begun")
    whole, other = workflow.plan(), workflow.plan("-s", "workflow/Snakefile")
    assert other.jobs.pop("default") == 1
    jobs = {name: count for name, count in other.jobs.items() if name != "default"}
    assert jobs == whole.jobs and jobs["table"] == 1, "one of two is there"


def test_a_mistake_is_said_in_one_line_from_anywhere(code: Path, elsewhere: Workflow):
    (elsewhere.folder / "config.yaml").write_text("tabels: []\n")
    ended = elsewhere.run("-s", str(code / "Snakefile"), "-n", "--cores", "1")
    assert ended.code != 0 and "Traceback" not in ended.text
    assert "did you mean 'tables'" in ended.stderr
