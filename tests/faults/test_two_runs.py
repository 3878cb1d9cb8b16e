"""Two runs in one checkout: the second is refused in a sentence that names the first; and two processes at one job.

Seen to fail when: Snakemake does not hold the system's lock, or shares it where it must have it alone; half-written files of
living processes are removed; checkpoints are removed by the job itself, or by a run that makes a part; a checkpoint lacks its
code.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from miniature import PROJECT, TIMEOUT, Workflow, clone, environment
from small_body import small_options

from pretrieve.base import finished_work
from pretrieve.base.files import unfinished
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.loop import RunSettings

SOURCE = Path(finished_work.__file__).parents[3]
#: Holds a job as a program does, says so, and stays; Snakemake removes the log of a job before it starts the job.
HOLDER = """
import sys, time
from pathlib import Path
from pretrieve.base.program import hold_job
path = Path(sys.argv[1])
path.unlink(missing_ok=True)
hold_job(path)
path.touch()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""
#: Instead of Snakemake: notes how it was called, makes a lock as Snakemake does and leaves it there, and stays as long as told.
STAND_IN = """#!/bin/bash
echo "$*" >> calls
case " $* " in *" --unlock "*) rm .snakemake/locks/*; exit;; esac
mkdir -p .snakemake/locks; touch .snakemake/locks/0.output.lock
exec sleep "$1"
"""


def make(workflow: Workflow) -> subprocess.Popen:
    return subprocess.Popen(
        ["make", "tables"],
        cwd=workflow.folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_a_second_make_is_refused_and_goes_after_the_first_is_dead(undisturbed, fault_folders):
    workflow = clone(undisturbed, fault_folders / "two")
    missing = [
        workflow.folder / "results/demo" / name for name in ("report.html", "tables/pretraining_tasks/table3.csv")
    ]
    for file in missing:
        file.unlink()
    first = make(workflow)
    try:
        locks, patience = workflow.folder / ".snakemake/locks", time.monotonic() + TIMEOUT
        while not any(path.stat().st_size for path in locks.glob("*.output.lock")):
            assert first.poll() is None and time.monotonic() < patience, first.communicate()[0]
            time.sleep(0.02)
        os.killpg(first.pid, signal.SIGSTOP)  # it lives, however long the second one takes
        second = make(workflow)
        said = second.communicate(timeout=TIMEOUT)[0]
        assert second.returncode != 0
        (line,) = [line for line in said.splitlines() if line.startswith("Another run is at work here (process ")]
        number = int(line.partition("(process ")[2].split()[0])
        assert os.getpgid(number) == first.pid, "it names the Snakemake that is alive"
        assert "wait until that one has ended, and give the same command again" in line
        assert "cannot be locked" in said and "A run was killed here" not in said and "Traceback" not in said
        assert first.poll() is None
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    by_hand = workflow.run("--cores", "1")
    assert by_hand.code != 0 and "can be removed with the --unlock argument" in by_hand.text, "Snakemake's own sentence"
    after = make(workflow)
    said = after.communicate(timeout=2 * TIMEOUT)[0]
    assert after.returncode == 0 and all(file.is_file() for file in missing), said
    assert "A run was killed here; its finished jobs are kept" in said and not list(locks.glob("*.lock"))


@pytest.fixture
def start_run(tmp_path: Path):
    """``start_run(seconds)``: workflow/run.sh with the stand-in, in a folder of its own; all are killed at the end."""
    if not shutil.which("flock"):
        pytest.skip("flock(1) not found")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/snakemake").write_text(STAND_IN)
    (tmp_path / "bin/snakemake").chmod(0o755)
    started: list[subprocess.Popen] = []

    def start(*words: str) -> subprocess.Popen:
        started.append(
            subprocess.Popen(
                [PROJECT / "workflow/run.sh", *words],
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition) -> None:
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.02)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def test_only_a_run_that_is_alone_unlocks(start_run, tmp_path):
    """A lock stays as long as the run that made it lives, though others end beside it; then the next run has it removed."""
    first = start_run("300", "a target")
    wait_for(lambda: calls(tmp_path) == ["300 a target"])
    assert start_run("0").wait(30) == 0
    second = start_run("301")
    wait_for(lambda: calls(tmp_path)[-1] == "301")
    first.kill()
    first.wait()
    third = start_run("0")
    assert third.wait(30) == 0 and "Another run is at work here" in third.stderr.read(), "the second is alive"
    assert not any("--unlock" in call for call in calls(tmp_path))
    second.kill()
    second.wait()
    assert start_run("0", "last").wait(30) == 0
    assert calls(tmp_path)[-2:] == ["--unlock 0 last", "0 last"]


def test_it_needs_no_program_that_small_images_lack(start_run, tmp_path, monkeypatch):
    """Without hostname(1), which is of no package that is always there, each run took the last one for another machine's."""
    for name in ["bash", "cat", "cut", "date", "env", "find", "flock", "mkdir", "rm", "sleep", "touch", "uname"]:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", "")
    killed = start_run("300")
    wait_for((tmp_path / ".snakemake/locks/0.output.lock").exists)
    killed.kill()
    killed.wait()
    run = start_run("0", "last")
    assert run.wait(30) == 0 and calls(tmp_path)[-2:] == ["--unlock 0 last", "0 last"]
    assert run.stderr.read().splitlines() == ["A run was killed here; its finished jobs are kept."]


def test_a_lock_of_another_machine_is_named_and_left(start_run, tmp_path):
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    (tmp_path / ".snakemake/locks/0.output.lock").touch()
    (tmp_path / ".snakemake/alive").write_text("another-login-node\t4711\t2026-01-01 00:00\n")
    run = start_run("0")
    assert run.wait(30) == 0
    said = run.stderr.read()
    assert "belongs to a run on another-login-node" in said and "snakemake --unlock" in said
    assert calls(tmp_path) == ["0"]


def test_what_a_killed_run_has_in_slurms_queue_is_cancelled(start_run, tmp_path, monkeypatch):
    """Jobs of this project that were submitted from this folder; not the one that this run is in, and of a path no beginning."""
    waiting, cancelled = tmp_path / "queue", tmp_path / "cancelled"
    lines = [
        f"7|pretrieve_0b8f6f0e|{tmp_path}",
        f"8|pretrieve_0b8f6f0e|{tmp_path}",
        f"8|pretrieve_0b8f6f0e|{tmp_path}",  # a second task of the same array
        f"9|pretrieve_0b8f6f0e|{tmp_path}",  # the job that this run is in
        f"10|pretrieve_0b8f6f0e|{tmp_path}|elsewhere",
        f"11|my-notebook|{tmp_path}",
    ]
    waiting.write_text("".join(f"{line}\n" for line in lines))
    scripts = {
        "squeue": f'cat "{waiting}"; if [ -e "{cancelled}" ]; then : > "{waiting}"; fi',
        "scancel": f'echo "$@" >> "{cancelled}"',
    }
    for name, script in scripts.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    first = start_run("300")
    wait_for(lambda: calls(tmp_path) == ["300"])
    assert cancelled.read_text() == "7 8\n"
    assert waiting.read_text() == "", "it looked again until they were gone"
    waiting.write_text(lines[0] + "\n")
    assert start_run("0").wait(30) == 0
    assert cancelled.read_text() == "7 8\n", "beside a run that is alive none is cancelled"
    first.kill()
    assert "left 2 Slurm jobs (7 8)" in first.communicate()[1]
    (tmp_path / "bin/squeue").write_text("#!/bin/sh\necho slurm_load_jobs error: no controller >&2; exit 1\n")
    silent = start_run("0")
    assert silent.wait(30) == 0 and "slurm_load_jobs error: no controller" in silent.stderr.read()


@pytest.fixture
def holders():
    started: list[subprocess.Popen] = []

    def start(log: Path, seconds: float) -> subprocess.Popen:
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", HOLDER, str(log), str(seconds)],
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_process_at_a_job_waits_for_the_first(tmp_path, holders):
    log = tmp_path / "job.log"
    first = holders(log, 300)
    assert first.stdout.readline() == "held\n"
    second = holders(log, 0)
    assert "another process is at this job; waiting" in second.stderr.readline()
    assert first.poll() is None and second.poll() is None
    first.kill()
    assert second.stdout.readline() == "held\n"
    assert second.wait(30) == 0


def test_what_dead_processes_left_half_written_goes_and_a_living_one_keeps_its_own(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, path = ended.pid, tmp_path / "runs.txt"
    ours, living = tmp_path / f".runs.txt.{dead}.part", tmp_path / f".runs.txt.{os.getppid()}.part"
    other, folder = tmp_path / f".other.txt.{dead}.part", tmp_path / f".runs.txt.{dead}.member"
    for file in (ours, living, other):
        file.touch()
    folder.mkdir()
    assert unfinished(path) == tmp_path / f".runs.txt.{os.getpid()}.part"
    assert sorted(tmp_path.iterdir()) == sorted([living, other])


# ------------------------------------------------------------------------------------------- checkpoints of ended jobs


def test_checkpoints_of_what_is_done_go_and_others_stay(tmp_path):
    root = str(tmp_path)
    encoder = tmp_path / "checkpoints/encoders/bert/seed1"
    family = tmp_path / "checkpoints/retrievers/bert.reqa/questions/seed1"
    for folder in (encoder, family / "1pct/state", family / "full/state"):
        folder.mkdir(parents=True)
        (folder / "step-00000007.safetensors").touch()
    done = ["encoders/bert/seed1", *(f"retrievers/bert.reqa-{size}/questions/seed1" for size in ("1pct", "full"))]
    assert finished_work.forget_finished(root) == [], "nothing is made"
    for name in done[:2]:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "cost.json").touch()
    assert finished_work.forget_finished(root) == [encoder], "of the other job one of two sizes is there"
    assert not encoder.parent.exists() and (family / "full/state/step-00000007.safetensors").exists()
    (tmp_path / done[2]).mkdir(parents=True)
    (tmp_path / done[2] / "cost.json").touch()
    assert finished_work.forget_finished(root) == [family]
    assert not (tmp_path / "checkpoints").exists()


def test_they_go_when_the_whole_run_has_ended_and_not_with_a_part_of_it(undisturbed, fault_folders):
    """A part may be made while what another run has trained is not yet noted as done."""
    workflow = clone(undisturbed, fault_folders / "parts")
    encoder = next((workflow.folder / "results/demo/encoders").iterdir()).name
    kept = workflow.folder / f"results/demo/checkpoints/encoders/{encoder}/seed1"
    kept.mkdir(parents=True)
    report = workflow.folder / "results/demo/report.html"
    for targets in (["results/demo/report.html"], []):
        assert kept.exists()
        report.unlink()
        assert workflow.run("--cores", "1", *targets).code == 0 and report.is_file()
    assert not kept.exists()


def test_an_encoder_that_snakemake_took_no_note_of_is_not_trained_again(
    store, tmp_path, cpu, body, monkeypatch, capsys
):
    """Snakemake is killed after a model was written and before that is recorded; it deletes the model and starts the job anew."""
    objective = {"name": "mlm", "length": 24} | resolve("mlm", None, {}, "test")
    options = small_options(objective, 4, 12, 1e-3, body={"kind": "transformer", **body.to_dict()})
    monkeypatch.setenv(finished_work.KEEP, "1")
    out, checkpoints = tmp_path / "bert/seed1", tmp_path / "checkpoints"
    pretrain(EncoderOptions.from_dict(options), store.directory, out, RunSettings(cpu, 1, 0.0), checkpoints)
    made = {file.name: file.read_bytes() for file in out.iterdir()}
    assert list(checkpoints.glob("step-*"))
    for file in out.iterdir():
        file.unlink()
    capsys.readouterr()
    pretrain(EncoderOptions.from_dict(options), store.directory, out, RunSettings(cpu, 1, 0.0), checkpoints)
    assert "going on from step 11 of 12" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in out.iterdir() if file.name != "curve.csv"} == {
        name: content for name, content in made.items() if name != "curve.csv"
    }
    monkeypatch.setenv("PRETRIEVE_CODE", "edited")
    pretrain(EncoderOptions.from_dict(options), store.directory, out, RunSettings(cpu, 1, 0.0), checkpoints)
    said = capsys.readouterr().err
    assert "other code; not resumed" in said and "going on" not in said, (
        "what edited code makes is made by it from the start"
    )
    monkeypatch.delenv(finished_work.KEEP)
    pretrain(EncoderOptions.from_dict(options), store.directory, out, RunSettings(cpu, 1, 0.0), checkpoints)
    assert not checkpoints.exists()
