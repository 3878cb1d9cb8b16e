"""Two processes train what one does, joined by gloo; a killed job, which the launcher and torchrun start, goes on.

Tolerances, between one process and two and between all token budgets: losses 1e-5 and gradient norms 1e-4 of
their size, weights 2e-6 (the learning rate is 1e-2 and Adam's eps 1e-3; with eps 1e-8 rounding alone moves weights without a
gradient). Gradients 1e-5. The two processes have the same bits, and so has a killed run that goes on.

Seen to fail when: gradients are averaged over the processes; the denominator is the process's own count; each process has the
negatives of its own pairs alone; the number of a micro-batch is counted in each process; a loss that is not finite is looked at
before it is added over the processes; the optimiser's moments are not restored; every process begins from its own checkpoint;
a killed launcher leaves its processes behind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small import BUDGETS, CONFIG, CPU, kept_graphs, largest_difference, make
from two_processes import CACHED, OBJECTIVES, OPTIONS, SHARED, SMALL, TOKEN_BUDGET

from pretrieve.base.errors import ConfigError
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.loop import RunSettings, train
from pretrieve.training.processes import Processes

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
#: A job of two GPUs, as Slurm describes it.
JOB = {"PRETRIEVE_SCHEDULER": "slurm", "SLURM_JOB_ID": "17", "CUDA_VISIBLE_DEVICES": "0,1"}


def launcher(*words: object, **environment: str) -> subprocess.Popen[str]:
    """The launcher as a job starts it, in an environment without a cluster or GPUs but for what is given."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM", "PRETRIEVE", "CUDA"))}
    kept |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [PYTHON, "-m", "pretrieve.training.launch", *map(str, words)],
        cwd=ROOT,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def pair(store, program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that both processes wrote into."""
    out = tmp_path_factory.mktemp("two")
    done = program(
        "tests/training/two_processes.py", store.directory, out, PYTHONPATH=f"{ROOT / 'src'}:{ROOT / 'tests'}"
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_same_curve_and_weights(store, pair: Path, name: str) -> None:
    """One process or two, a batch at once or in any number of micro-batches."""
    reference = make(name, store, BUDGETS[0])
    start = {n: t.clone() for n, t in reference.module.state_dict().items()}
    wanted = train(reference, CONFIG, RunSettings(CPU, 3)).curve
    weights = reference.module.state_dict()
    assert largest_difference(weights, start) > 1e-2 and wanted[0]["loss"] != wanted[-1]["loss"]
    columns = [*reference.terms, "loss"]
    for budget in BUDGETS:
        alone = make(name, store, budget)
        curves = [train(alone, CONFIG, RunSettings(CPU, 3)).curve]
        assert largest_difference(alone.module.state_dict(), weights) <= 2e-6
        if budget in SHARED:
            both = [load_file(pair / f"{name}-{budget}.{rank}.safetensors") for rank in (0, 1)]
            assert largest_difference(both[0], both[1]) == 0
            assert largest_difference(both[0], weights) <= 2e-6
            curves += [json.loads((pair / f"{name}-{budget}.{rank}.json").read_text()) for rank in (0, 1)]
        for curve in curves:
            assert [row["tokens"] for row in curve] == [row["tokens"] for row in wanted]
            for row, expected in zip(curve, wanted, strict=True):
                assert {c: row[c] for c in columns} == pytest.approx({c: expected[c] for c in columns}, rel=1e-5)
                assert row["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=1e-4)


@pytest.mark.parametrize("name", CACHED)
def test_cached_gradients_over_processes(store, pair: Path, name: str) -> None:
    """With dropout: the cut is the same, so the dropout is; negatives come from the whole batch, with their gradients."""
    wanted = kept_graphs(make(name, store, BUDGETS[1], dropout=0.1), 2, 3)
    assert max(float(gradient.abs().max()) for gradient in wanted.values()) > 1e-2
    for rank in (0, 1):
        assert largest_difference(load_file(pair / f"gradient-{name}.{rank}.safetensors"), wanted) <= 1e-5


@pytest.fixture(scope="module")
def errors(pair: Path) -> list[dict[str, str]]:
    return [json.loads((pair / f"errors.{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_a_number_ends_both(store, pair: Path, errors, what: str) -> None:
    """Though one process alone has it; and no weight has been touched in either."""
    last = CONFIG.steps - 1
    named = {"loss": "the loss is nan", "gradient": "the gradient norm is nan"}[what]
    for error in errors:
        assert error[what].startswith("TrainingError: ") and f"{named} at step {last} (seed 3, learning" in error[what]
    if what == "loss":
        guilty = make("mlm", store, BUDGETS[1]).micro_batches(last, 2)
        ids = [int(i) for i in guilty[-1].ids]
        owner = (len(guilty) - 1) % 2
        assert f"examples {ids[:8]}" in errors[owner][what]
        assert "of another process" in errors[1 - owner][what]
    seen: dict[str, torch.Tensor] = {}
    reference = make("mlm", store, BUDGETS[1])
    plain = reference.micro_batches

    def watched(step: int, parts: int = 1):
        if step == last:
            seen.update({n: t.clone() for n, t in reference.module.state_dict().items()})
        return plain(step, parts)

    reference.micro_batches = watched
    train(reference, CONFIG, RunSettings(CPU, 3))
    for rank in (0, 1):
        assert largest_difference(load_file(pair / f"after-{what}.{rank}.safetensors"), seen) <= 2e-6


def test_other_refusals_are_of_both(errors) -> None:
    for error in errors:
        assert "ConfigError: 1 micro-batches for 2 processes" in error["few"]
        assert "continue from steps [3, 0]" in error["folders"] and "one folder" in error["folders"]
        assert "mlm begins at" in error["first"] and "about 99" in error["first"]


def test_only_the_first_process_writes(pair: Path) -> None:
    assert (pair / "straight/seed1/curve.csv").is_file() and not (pair / "checkpoints").exists()


def test_pre_training_ends_with_the_weights_of_one(store, pair: Path, tmp_path: Path) -> None:
    run, out = RunSettings(CPU, 1, token_budget=TOKEN_BUDGET), tmp_path / "small/seed1"
    pretrain(EncoderOptions.from_dict(SMALL), store.directory, out, run, tmp_path / "checkpoints")
    for name in ("model.safetensors", "heads.safetensors"):
        one, two = load_file(out / name), load_file(pair / "small/seed1" / name)
        assert (
            largest_difference(one, two) <= 2e-6 and largest_difference(one, {n: 0 * t for n, t in one.items()}) > 1e-2
        )
    about = [json.loads((directory / "pretrieve.json").read_text()) for directory in (out, pair / "small/seed1")]
    assert about[0] == about[1]


def descendants(pid: int) -> list[int]:
    """Process ids of all children of a process, and of theirs."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    found = [pid]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_job_ends_with_the_same_bits(store, pair: Path, tmp_path: Path) -> None:
    """SIGKILL to the launcher alone after a random number of steps: torchrun and both processes end, or the next attempt would
    meet them. Then the same command again."""
    checkpoints, out, log = tmp_path / "checkpoints", tmp_path / "straight/seed1", tmp_path / "pretrain.log"
    command = ["--gpus", 1, "--", "python", "workflow_scripts/pretrain.py", "--store", store.directory, "--out", out]
    command += ["--options", json.dumps(OPTIONS), "--seed", 1, "--precision", "fp32", "--token-budget", TOKEN_BUDGET]
    command += ["--threads", 2, "--checkpoints", checkpoints, "--checkpoint-seconds", 0, "--log", log]
    wanted = random.Random(11).randrange(2, 20)
    process = launcher(*command, **JOB)
    patience = time.monotonic() + 300
    try:
        while not any(
            int(path.stem.removeprefix("step-")) >= wanted for path in checkpoints.glob("step-*.safetensors")
        ):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < patience
            time.sleep(0.005)
        left = descendants(process.pid)
        assert len(left) == 3
    finally:
        process.kill()
        process.wait()  # not communicate(): what outlives it keeps its output open
    patience = time.monotonic() + 120
    while outlived := [pid for pid in left if running(pid)]:
        if time.monotonic() > patience:
            for pid in outlived:
                os.kill(pid, signal.SIGKILL)
            pytest.fail(f"{len(outlived)} processes outlived the launcher")
        time.sleep(0.05)
    assert process.returncode == -signal.SIGKILL and not out.exists()
    again = launcher(*command, **JOB)
    _, stderr = again.communicate(timeout=300)
    assert again.returncode == 0, stderr
    assert log.is_file() and log.with_suffix(".1.log").is_file()
    begun = int(stderr.partition("going on from step ")[2].split()[0])
    assert wanted <= begun < OPTIONS["budget"]["steps"]
    for name in ("model.safetensors", "heads.safetensors"):
        one, other = load_file(pair / "straight/seed1" / name), load_file(out / name)
        assert largest_difference(one, other) == 0
    about = json.loads((out / "pretrieve.json").read_text())
    assert about == json.loads((pair / "straight/seed1/pretrieve.json").read_text()) and about["tokens"] > 0


def test_alone_is_no_group(monkeypatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    alone = Processes.join()
    assert alone == Processes(0, 1) and alone.first and alone.every(7) == [7]
    assert alone.share(["a", "b"]) == [(0, "a"), (1, "b")]
    assert Processes(1, 3).share(list("abcde")) == [(1, "b"), (4, "e")]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError, match="WORLD_SIZE is 2, but LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set"):
        Processes.join()
