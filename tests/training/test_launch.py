"""The launcher: its command lines, and what it does when GPU memory is not enough.

GPUs, srun and a program that runs out of memory are made up. Two real processes: test_processes.py.

Seen to fail when: torchrun reads the program's words as its own; every process gets all threads of the job; the number of nodes
is not passed on; a run is repeated without a note; the second run has all tokens; the exit status is lost.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_processes import PYTHON, launcher

from pretrieve.base.errors import ConfigError
from pretrieve.training.launch import Place, command_line, slurm_place, start

TORCHRUN = [PYTHON, "-m", "torch.distributed.run"]
PROGRAM = ["python", "workflow_scripts/x.py", "--name", "a b;$(c)", "--threads", "8", "--log", "x.log"]


def test_one_process_is_the_program_itself() -> None:
    assert command_line(PROGRAM, Place()) == [PYTHON, *PROGRAM[1:]]


def test_several_processes_share_the_threads() -> None:
    assert command_line(PROGRAM, Place(4)) == [
        *[*TORCHRUN, "--standalone", "--nproc-per-node", "4", "--"],
        *["workflow_scripts/x.py", "--name", "a b;$(c)", "--threads", "2", "--log", "x.log"],
    ]
    assert command_line(PROGRAM, Place(16))[-3] == "1", "and each has one at least"
    assert command_line(["python", "x.py"], Place(2)) == [
        *TORCHRUN,
        "--standalone",
        "--nproc-per-node",
        "2",
        "--",
        "x.py",
    ]


def test_several_nodes_meet_at_the_first(tmp_path: Path) -> None:
    job = {"SLURM_JOB_ID": "40017", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    place = slurm_place({**job, "SLURM_JOB_NODELIST": "gpu[07-08]"}, 2)
    assert place == Place(4, 2, "gpu07")
    # A step of the job has no list; Slurm is asked for it.
    (tmp_path / "squeue").write_text('#!/bin/sh\n[ "$2" = --jobs=40017 ] && echo "gpu[07-08]"\n')
    (tmp_path / "squeue").chmod(0o755)
    assert slurm_place({**job, "PATH": str(tmp_path)}, 2) == place
    assert command_line(PROGRAM, place) == [
        *["srun", "--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"],
        *["--cpus-per-task=8", "--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"],
        *[*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "4"],
        *["--rdzv-backend", "c10d", "--"],
        *["workflow_scripts/x.py", "--name", "a b;$(c)", "--threads", "2", "--log", "x.log"],
    ]


@pytest.mark.parametrize(
    ("environment", "processes"),
    [
        ({}, 1),
        ({"CUDA_VISIBLE_DEVICES": "3"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8a,GPU-9b", "SLURM_GPUS_ON_NODE": "8"}, 2),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_NUM_NODES": "4"}, 2),
    ],
)
def test_processes_are_as_many_as_the_jobs_gpus(environment: dict[str, str], processes: int) -> None:
    assert slurm_place(environment) == Place(processes)


def test_nodes_without_a_list_are_refused() -> None:
    with pytest.raises(ConfigError, match="job 1 has 2 nodes, and `squeue .*--jobs=1 .*` does not say which"):
        slurm_place({"SLURM_JOB_ID": "1", "PATH": "/nonexistent"}, 2)


SHOW = """
import os, sys
print(os.getpid(), sys.argv[1:], os.environ.get("CUDA_VISIBLE_DEVICES"), "RANK" in os.environ)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("gpus", "environment", "devices"),
    [
        (0, {"CUDA_VISIBLE_DEVICES": "0,1"}, "0,1"),  # the default profile: what is visible stays
        (1, {}, ""),  # a GPU is asked for, and the machine has none
        (1, {"CUDA_VISIBLE_DEVICES": "5"}, "5"),
        (1, {"PRETRIEVE_SCHEDULER": "slurm", "SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "2"}, "2"),
        (0, {"PRETRIEVE_SCHEDULER": "slurm", "SLURM_JOB_ID": "1"}, ""),
    ],
)
def test_words_devices_and_status_come_through(tmp_path: Path, gpus: int, environment, devices: str) -> None:
    script = tmp_path / "show it.py"
    script.write_text(SHOW)
    words = ["--a", "b 'c' \"d\" ; $(e) {f}", "--log", str(tmp_path / "x.log")]
    process = launcher("--gpus", gpus, "--", "python", script, *words, **environment, TMPDIR=str(tmp_path))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3 and err == "", err
    pid, rest = out.split(maxsplit=1)
    assert rest == f"{words} {devices} False\n"
    assert (int(pid) == process.pid) == (gpus == 0 or devices == ""), (
        "without a GPU the program takes the launcher's place"
    )


@pytest.mark.parametrize("words", [[], ["--"], ["--", "python"], ["--", "bash", "x"]])
def test_anything_but_a_program_is_refused(words: list[str]) -> None:
    process = launcher(*words)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1 and err.startswith("ConfigError: launch: ") and err.count("\n") == 1


#: Fails as often as the first argument says; with a note beside its log if the second one says so.
HUNGRY = """
import json, os, pathlib, sys
tries = pathlib.Path(sys.argv[3]).with_name("tries")
seen = tries.read_text().split() if tries.exists() else []
tries.write_text(" ".join([*seen, os.environ.get("PRETRIEVE_TOKEN_SHARE", "1")]))
if len(seen) < int(sys.argv[1]):
    if sys.argv[2] == "note":
        pathlib.Path(os.environ["PRETRIEVE_MEMORY_NOTE"]).write_text(json.dumps({"tokens": 65536, "fit": 40000}))
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("failures", "note", "status", "shares"),
    [(0, "note", 0, "1"), (1, "note", 0, "1 0.5"), (9, "note", 7, "1 0.5"), (1, "nothing", 7, "1")],
)
def test_out_of_memory_is_tried_once_at_half(tmp_path, monkeypatch, capfd, failures, note, status, shares) -> None:
    """And any other failure is none of the launcher's business."""
    monkeypatch.delenv("PRETRIEVE_TOKEN_SHARE", raising=False)
    script = tmp_path / "hungry.py"
    script.write_text(HUNGRY)
    log = tmp_path / "logs.log"
    stale = Path(f"{log}.memory.json")
    stale.write_text('{"tokens": 1}')  # of a run that was killed: no reason to repeat this one
    program = ["python", str(script), str(failures), note, str(tmp_path / "x"), "--log", str(log)]
    assert start(program, Place(), os.environ) == status
    assert (tmp_path / "tries").read_text() == shares
    assert ("not enough for 65,536 tokens at a time; once more with half" in capfd.readouterr().err) == (
        "0.5" in shares
    )
    assert not stale.exists()
