"""A run that is killed goes on, ends with the same bytes, and no lock stands in the way.

Mutations seen to fail: `workflow/run.sh` not unlocking (lock error); a shared lock where it takes an exclusive one (the lock of a
living run is removed); `Checkpoints.latest` finding nothing (no resume); the optimiser's moments left out
of `unpack_state` (other bytes).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from miniature import TIMEOUT, Workflow, clone
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from same_results import assert_same_results
from tiny_science import ENCODERS, MLM_STEPS

KILLED = ENCODERS[0]


def checkpoints(workflow: Workflow) -> list[Path]:
    return sorted((workflow.folder / f"results/demo/checkpoints/encoders/{KILLED}/seed1").glob("step-*.safetensors"))


def kill_when(reached: Callable[[], bool], workflow: Workflow, *words: str) -> None:
    """kill -9 of Snakemake and all its jobs, once something is ``reached``."""
    process = workflow.start(*words)
    try:
        patience = time.monotonic() + TIMEOUT
        while not reached():
            assert process.poll() is None and time.monotonic() < patience, process.communicate()
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kill_in_the_middle(workflow: Workflow) -> None:
    """Once some steps of the pre-training are saved."""
    saved = lambda: any(int(path.stem.removeprefix("step-")) >= 5 for path in checkpoints(workflow))
    kill_when(saved, workflow, "--cores", "1", "--config", "checkpoint_seconds=0")


def mark(path: Path) -> int:
    """Put a loss that no run has into the curve of a checkpoint, to know it again; returns the checkpoint's step."""
    with safe_open(path, framework="pt") as file:
        meta = file.metadata()
    state = json.loads(meta["state"])
    state["info"]["curve"][0]["loss"] = 12345.0
    save_file(load_file(path), path, metadata=meta | {"state": json.dumps(state)})
    return state["step"]


@pytest.fixture(scope="module")
def half_done(finished, folders):
    """A miniature killed while it pre-trains one encoder; corpus, task and the other encoder are done."""
    workflow = clone(finished, folders / "half_done")
    results = workflow.folder / "results/demo"
    for stage in ("encoders", "retrievers", "embeddings", "runs", "metrics"):
        for folder in (results / stage).glob(f"{KILLED}*"):
            shutil.rmtree(folder)
    shutil.rmtree(results / "tables")
    kill_in_the_middle(workflow)
    return workflow


def test_killed_run_goes_on_to_the_same_bytes(half_done, finished):
    outputs = half_done.folder / f"results/demo/encoders/{KILLED}/seed1"
    assert not (outputs / "model.safetensors").exists(), "it was to be killed before the end"
    assert list((half_done.folder / ".snakemake/locks").glob("*.lock")), "a killed run leaves its lock"
    saved = [mark(path) for path in checkpoints(half_done)]
    assert saved and 5 <= max(saved) < MLM_STEPS
    before = half_done.files("encoders/bow*/seed1/*")

    ended = half_done.run("--cores", "1", program="workflow/run.sh")

    assert ended.code == 0, ended.text
    assert "A run was killed here; its finished jobs are kept" in ended.stderr
    assert "12345" in (outputs / "curve.csv").read_text().splitlines()[1], "it went on from the checkpoint"
    assert not checkpoints(half_done), "checkpoints go when the encoder is there"
    assert half_done.files("encoders/bow*/seed1/*") == before, "what was finished is kept"
    assert_same_results(finished, half_done)
    assert "Nothing to be done" in half_done.plan().text


def test_the_lock_of_a_living_run_stands(cold):
    """A second run beside a first one is refused, and the first one is not disturbed."""
    words = ("--cores", "1", "results/demo/corpora/encyclopedia-demo/tokenizer.json")
    first = cold.start(*words, program="workflow/run.sh")
    try:
        locks = cold.folder / ".snakemake/locks"
        patience = time.monotonic() + TIMEOUT
        while not any(path.stat().st_size for path in locks.glob("*.output.lock")):  # written last
            assert first.poll() is None and time.monotonic() < patience, first.communicate()
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGSTOP)  # it lives, however long the second one takes
        second = cold.run(*words, program="workflow/run.sh")
        assert second.code != 0
        assert "cannot be locked" in second.text and "A run was killed" not in second.text
    finally:
        os.killpg(first.pid, signal.SIGCONT)
        stdout, stderr = first.communicate(timeout=TIMEOUT)
    assert first.returncode == 0, stdout + stderr
