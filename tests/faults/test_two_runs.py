"""Two runs in one checkout: the second is refused in a sentence that names the first; and two processes at one job.

Seen to fail when: see the end of docs/faults.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from miniature import TIMEOUT, Workflow, clone, environment

from pretrieve.base.files import unfinished
from pretrieve.base.job_lock import process_name
from pretrieve.pretraining.encoder_options import EncoderOptions
from pretrieve.pretraining.presets import resolve
from pretrieve.pretraining.pretrain import pretrain
from pretrieve.training.run_settings import RunSettings
from pretrieve.workflow.running import finished_work
from pretrieve.workflow.running.dead_lock import release_dead_lock

SOURCE = Path(finished_work.__file__).parents[1]
#: Holds a job as a program does, says so, and stays; Snakemake removes the log of a job before it starts the job.
HOLDER = """
import sys, time
from pathlib import Path
from pretrieve.base.job_lock import hold_job
path = Path(sys.argv[1])
path.unlink(missing_ok=True)
hold_job(path)
path.touch()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
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


def test_a_second_make_is_refused_and_goes_after_the_first_is_dead(untouched, fault_folders):
    workflow = clone(untouched, fault_folders / "two")
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
        (line,) = [
            line for line in said.splitlines() if line.startswith("Another run is at work in this checkout (process ")
        ]
        number = int(line.partition("(process ")[2].split()[0])
        assert os.getpgid(number) == first.pid, "it names the Snakemake that is alive"
        assert "wait until it has ended, and run the same command again" in line
        assert "cannot be locked" in said and "its lock is removed" not in said and "Traceback" not in said
        assert first.poll() is None
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    after = workflow.plan()
    assert "A run was killed here; its lock is removed" in after.stderr and not list(locks.glob("*.lock"))


def test_two_that_begin_together_after_a_kill_take_one_lock_away(tmp_path, capsys):
    """The lock goes once; a lock that the first of the two has made by then is left alone by the other."""
    directory = tmp_path / ".snakemake"
    lock = directory / "locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    first = release_dead_lock(directory)
    assert not lock.exists()
    lock.parent.mkdir()
    lock.write_text("of the first\n")
    second = release_dead_lock(directory)
    assert lock.exists() and f"(process {os.getpid()} on " in capsys.readouterr().err
    first.close(), second.close()
    assert release_dead_lock(directory) is not None and not lock.exists()


def holder(log: Path, seconds: float, run: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(log), str(seconds)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PRETRIEVE_RUN": run},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def holders():
    started: list[subprocess.Popen] = []

    def start(*arguments) -> subprocess.Popen:
        started.append(holder(*arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def gone() -> str:
    """The name of a run that has ended."""
    ended = subprocess.Popen(["sleep", "60"])
    name = process_name(ended.pid)
    ended.kill()
    ended.wait()
    return name


def test_a_process_of_a_dead_run_is_ended_by_the_next(tmp_path, holders):
    log = tmp_path / "job.log"
    first = holders(log, 300, gone())
    assert first.stdout.readline() == "held\n"
    second = holders(log, 0, process_name(os.getpid()))
    assert second.stdout.readline() == "held\n"
    assert first.wait(30) == -signal.SIGTERM
    assert f"process {first.pid} of a run that was killed is ended" in second.communicate()[1]


@pytest.mark.parametrize("started_by", ["a living run", "hand"])
def test_any_other_process_is_waited_for(tmp_path, holders, started_by):
    log = tmp_path / "job.log"
    first = holders(log, 300, process_name(os.getpid()) if started_by == "a living run" else "")
    assert first.stdout.readline() == "held\n"
    second = holders(log, 0, gone())
    assert "another process is at this job; waiting" in second.stderr.readline()
    assert first.poll() is None and second.poll() is None
    first.kill()
    assert second.stdout.readline() == "held\n"
    assert second.wait(30) == 0


def test_a_name_tells_a_process_from_a_later_one_with_its_number():
    assert process_name(os.getpid()).startswith(f"{os.getpid()}-")
    assert process_name(int(gone().partition("-")[0])) == ""


def test_what_dead_processes_left_half_written_goes_and_a_living_one_keeps_its_own(tmp_path):
    dead, path = gone().partition("-")[0], tmp_path / "runs.txt"
    ours, living = tmp_path / f".runs.txt.{dead}.part", tmp_path / f".runs.txt.{os.getppid()}.part"
    other, folder = tmp_path / f".other.txt.{dead}.part", tmp_path / f".runs.txt.{dead}.member"
    for file in (ours, living, other):
        file.touch()
    folder.mkdir()
    assert unfinished(path) == tmp_path / f".runs.txt.{os.getpid()}.part"
    assert sorted(tmp_path.iterdir()) == sorted([living, other])


# ------------------------------------------------------------------------------------------- checkpoints of ended jobs


def test_markers_are_where_snakemake_puts_them(tmp_path):
    file = pytest.importorskip("snakemake.persistence.file")
    store = file.FilePersistence.__new__(file.FilePersistence)
    store._max_len = None
    for name in ("results/demo/encoders/bert/seed1/cost.json", f"results/demo/{'long/' * 80}cost.json"):
        expected = Path(store._record_path(str(tmp_path), name))
        room = os.pathconf(tmp_path, "PC_NAME_MAX") - 1
        assert tmp_path / finished_work.marker_name(name, room) == expected


def test_checkpoints_stay_until_snakemake_knows_that_their_job_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = "results/demo"
    encoder = Path(f"{root}/checkpoints/encoders/bert/seed1")
    family = Path(f"{root}/checkpoints/retrievers/bert.reqa/questions/seed1")
    for folder in (encoder, family / "1pct/state", family / "full/state"):
        folder.mkdir(parents=True)
        (folder / "step-00000007.safetensors").touch()
    done = [f"{root}/encoders/bert/seed1/cost.json"]
    done += [f"{root}/retrievers/bert.reqa-{size}/questions/seed1/cost.json" for size in ("1pct", "full")]
    assert finished_work.forget_finished(root) == [], "there is no record yet"
    marks = Path(".snakemake/incomplete")
    marks.mkdir(parents=True)
    assert finished_work.forget_finished(root) == [], "no output is there"
    for name in done:
        Path(name).parent.mkdir(parents=True)
        Path(name).touch()
    for name in done[:1] + done[2:]:
        (marks / finished_work.marker_name(name)).touch()
    assert finished_work.forget_finished(root) == [], "the encoder, and one of the job's two sizes, are not recorded"
    (marks / finished_work.marker_name(done[0])).unlink()
    assert finished_work.forget_finished(root) == [encoder]
    assert not encoder.parent.exists() and (family / "full/state/step-00000007.safetensors").exists()
    (marks / finished_work.marker_name(done[2])).unlink()
    assert finished_work.forget_finished(root) == [family]
    assert not Path(root, "checkpoints").exists()


def test_an_encoder_that_snakemake_took_no_note_of_is_not_trained_again(
    store, tmp_path, cpu, body, monkeypatch, capsys
):
    """Snakemake is killed after a model was written and before that is recorded; it deletes the model and starts the job anew."""
    options = {
        "body": {"kind": "transformer", **body.to_dict()},
        "pooling": "cls",
        "dim": 8,
        "similarity": "dot",
        "head": "linear",
        "objective": {"name": "mlm", "length": 24} | resolve("mlm", None, {}, "test"),
        "budget": {"batch": 4, "steps": 12, "learning_rate": 1e-3},
    }
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
    monkeypatch.delenv(finished_work.KEEP)
    pretrain(EncoderOptions.from_dict(options), store.directory, out, RunSettings(cpu, 1, 0.0), checkpoints)
    assert not checkpoints.exists()
