"""One miniature run of the whole workflow, and copies of it that a test may change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest
from miniature import Ended, Workflow, clone, copy_project
from tiny_science import CHAINS, COUNTS, TASK, write_config, write_raw_files


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the copies of this process are."""
    return tmp_path_factory.mktemp("workflow")


@pytest.fixture(scope="session")
def project(folders: Path) -> Workflow:
    """A copy of the project as it is, for dry runs of the real configuration. Tests change nothing in it."""
    return copy_project(folders / "project")


@pytest.fixture(scope="session")
def dry_run(made_once, project: Workflow) -> Callable[..., Ended]:
    """``dry_run(*words)``: of the project as it is, with all that Snakemake says of each job; the same words are run once."""

    def of(*words: str) -> Ended:
        def make(folder: Path) -> None:
            ended = project.run("-n", *words)
            assert ended.code == 0, ended.text
            folder.mkdir()
            (folder / "ended.json").write_text(json.dumps(asdict(ended)))

        folder = made_once(f"dry-run-{sha256(json.dumps(words).encode()).hexdigest()}", make)
        return Ended(**json.loads((folder / "ended.json").read_text()))

    return of


@pytest.fixture(scope="session")
def unstarted(folders: Path) -> Workflow:
    """The miniature before its first run. Tests change nothing in it."""
    workflow = copy_project(folders / "unstarted")
    write_raw_files(workflow.folder)
    write_config(workflow.folder)
    return workflow


def run_to_the_end(begun: Workflow, folder: Path, *targets: str) -> None:
    ended = clone(begun, folder).run("--cores", "2", *targets)
    assert ended.code == 0, ended.text


@pytest.fixture(scope="session")
def begun(made_once, unstarted: Workflow) -> Workflow:
    """The miniature with a corpus, a task and a table of counts, and no model. Tests change nothing in it, but copy it."""
    return Workflow(made_once("begun", lambda folder: run_to_the_end(unstarted, folder, COUNTS, TASK)))


@pytest.fixture(scope="session")
def finished(made_once, begun: Workflow) -> Workflow:
    """The miniature with everything, made in two runs. Tests change nothing in it, but copy it."""
    return Workflow(made_once("finished", lambda folder: run_to_the_end(begun, folder)))


@pytest.fixture(scope="session")
def chained(made_once, finished: Workflow) -> Workflow:
    """The finished miniature with the scores of CHAINS and an export. Tests change nothing in it."""
    metrics = [f"results/demo/metrics/{name}/seed1.json" for name in CHAINS]
    exported = f"results/demo/exports/{CHAINS[0]}/seed1/modules.json"
    return Workflow(made_once("chained", lambda folder: run_to_the_end(finished, folder, *metrics, exported)))


@pytest.fixture
def cold(unstarted: Workflow, tmp_path: Path) -> Workflow:
    """A miniature of the test's own, not run yet."""
    return clone(unstarted, tmp_path / "cold")


@pytest.fixture
def warm(finished: Workflow, tmp_path: Path) -> Workflow:
    """A finished miniature of the test's own."""
    return clone(finished, tmp_path / "warm")
