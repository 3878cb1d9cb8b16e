"""One miniature run of the whole workflow, and copies of it that a test may change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from miniature import Workflow, clone, copy_project
from tiny_science import CHAINS, write_config, write_raw_files


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where all copies are; removed at the end, for a miniature run has a hundred files."""
    folder = tmp_path_factory.mktemp("workflow")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def project(folders: Path) -> Workflow:
    """A copy of the project as it is, for dry runs of the real configuration. Tests change nothing in it."""
    return copy_project(folders / "project")


@pytest.fixture(scope="session")
def unstarted(folders: Path) -> Workflow:
    """The miniature before its first run. Tests change nothing in it."""
    workflow = copy_project(folders / "unstarted")
    write_raw_files(workflow.folder)
    write_config(workflow.folder)
    return workflow


@pytest.fixture(scope="session")
def finished(folders: Path, unstarted: Workflow) -> Workflow:
    """The miniature after one whole run. Tests change nothing in it, but copy it."""
    workflow = clone(unstarted, folders / "finished")
    ended = workflow.run("--cores", "2")
    assert ended.code == 0, ended.text
    return workflow


@pytest.fixture(scope="session")
def chained(finished: Workflow, folders: Path) -> Workflow:
    """The finished miniature with the scores of CHAINS and an export. Tests change nothing in it."""
    workflow = clone(finished, folders / "chained")
    metrics = [f"results/demo/metrics/{name}/seed1.json" for name in CHAINS]
    exported = f"results/demo/exports/{CHAINS[0]}/seed1/modules.json"
    ended = workflow.run("--cores", "2", *metrics, exported)
    assert ended.code == 0, ended.text
    return workflow


@pytest.fixture
def cold(unstarted: Workflow, tmp_path: Path) -> Iterator[Workflow]:
    """A miniature of the test's own, not run yet."""
    yield clone(unstarted, tmp_path / "cold")
    shutil.rmtree(tmp_path / "cold")


@pytest.fixture
def warm(finished: Workflow, tmp_path: Path) -> Iterator[Workflow]:
    """A finished miniature of the test's own."""
    yield clone(finished, tmp_path / "warm")
    shutil.rmtree(tmp_path / "warm")
