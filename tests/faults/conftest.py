"""A miniature in a folder with an odd name, made without a home directory, that all faults are compared with; a small disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from fault_places import DISK, ODD, give_environment, homeless
from miniature import TIMEOUT, Workflow, clone, copy_project
from tiny_science import change_config, write_config, write_raw_files


@pytest.fixture(scope="session")
def fault_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the copies of this process are."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def untouched(fault_folders: Path) -> Workflow:
    """The miniature with one table, before its first run. Tests change nothing in it."""
    workflow = copy_project(fault_folders / "untouched")
    write_raw_files(workflow.folder)
    write_config(workflow.folder)
    change_config(workflow.folder, "tables", to=["pretraining_tasks/table3"])
    give_environment(workflow.folder)
    return workflow


@pytest.fixture(scope="session")
def undisturbed(made_once, untouched: Workflow) -> Workflow:
    """``make tables`` to its end, in a folder with an odd name, without a home. Tests change nothing in it."""

    def make(folder: Path) -> None:
        clone(untouched, folder)
        ended = subprocess.run(
            ["make", "tables"], cwd=folder, env=homeless(), capture_output=True, text=True, timeout=2 * TIMEOUT
        )
        (folder / "printed.txt").write_text(ended.stdout + ended.stderr)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    return Workflow(made_once(ODD, make))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 4 MiB; the real one is never filled. Skipped where none can be mounted."""
    if os.geteuid():
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", place], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
