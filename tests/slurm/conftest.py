"""One Slurm for all tests of this folder, and one run of the miniature's table 3 on this machine to compare with."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Read by Python in the tests' own calls of Snakemake, not by pytest.
collect_ignore = ["often"]
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))


@pytest.fixture(scope="session")
def slurm_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the checkouts are that submit; removed after the cluster, and with it all jobs, has ended."""
    folder = tmp_path_factory.mktemp("slurm")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cluster(slurm_folders: Path) -> Iterator:
    """A running cluster; where it cannot be started (no root, packages, executor, or a machine whose container forbids what
    Slurm's daemons do), every test that asks for it is skipped, with the reason. So it is without PRETRIEVE_SLURM_TESTS=1:
    together they take five minutes, a quarter of all other tests' time.
    """
    if os.environ.get("PRETRIEVE_SLURM_TESTS") != "1":
        pytest.skip("tests on a real Slurm: make test-slurm")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="snakemake-executor-plugin-slurm is not installed")
    from cluster import started

    with started() as made:
        yield made


@pytest.fixture(scope="session")
def small(cluster, slurm_folders: Path):
    """A checkout before its first run. Tests change nothing in it."""
    from miniature import copy_project
    from slurm_runs import make_small

    workflow = copy_project(slurm_folders / "small")
    make_small(workflow)
    return workflow


@pytest.fixture(scope="session")
def local(small, slurm_folders: Path):
    """The same after a run without Slurm. Tests change nothing in it."""
    from miniature import clone
    from slurm_runs import PATIENCE, TARGET

    workflow = clone(small, slurm_folders / "local")
    process = workflow.start("--cores", "2", TARGET)
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, stdout + stderr
    return workflow


@pytest.fixture
def checkout(local, slurm_folders: Path, request: pytest.FixtureRequest) -> Iterator:
    """A finished checkout of the test's own, in a folder of its own, by which its jobs are known."""
    from miniature import clone

    workflow = clone(local, slurm_folders / request.function.__name__)
    yield workflow
    shutil.rmtree(workflow.folder)
