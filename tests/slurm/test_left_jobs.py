"""Jobs that a killed run left in the queue: which ones are ours, and what happens where Slurm says nothing.

Seen to fail when: the folder is not compared (another checkout's job is cancelled); the name is not (a job of another program
goes); cancelled jobs are not waited for; a run that is not alone cancels; a lock made on another machine is removed, or counts as
nobody's; a run keeps no shared lock.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pretrieve.workflow.running import left_jobs
from pretrieve.workflow.running.dead_lock import is_alone, release_dead_lock
from pretrieve.workflow.running.left_jobs import cancel_left_jobs

RUN = "0b8f6f0e-3c1d-4c55-9d5a-0123456789ab"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``queue(lines)``: a Slurm with these jobs; a cancelled one stays for one more look. Returns what scancel was given."""
    programs = tmp_path / "bin"
    programs.mkdir()
    waiting, cancelled = tmp_path / "queue", tmp_path / "cancelled"
    scripts = {
        "squeue": f'cat "{waiting}"; if [ -e "{cancelled}" ]; then : > "{waiting}"; fi',
        "scancel": f'echo "$@" >> "{cancelled}"',
    }

    def make(lines: list[str], **other: str) -> Path:
        waiting.write_text("".join(f"{line}\n" for line in lines))
        for name, script in (scripts | other).items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        monkeypatch.setattr(left_jobs.time, "sleep", lambda seconds: None)
        return cancelled

    return make


def test_only_jobs_of_snakemake_in_this_folder_are_cancelled(queue, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    here = tmp_path / "a check|out"
    (here / left_jobs.SUBMITTED).mkdir(parents=True)
    cancelled = queue(
        [
            f"7|{RUN}|{here}",
            f"8|pretrieve_{RUN}|{here}",
            f"8|pretrieve_{RUN}|{here}",  # a second task of the same array
            f"9|{RUN}|{here}",  # the job that this run is in
            f"10|{RUN}|{tmp_path}",
            f"11|my-notebook|{here}",
        ]
    )
    assert cancel_left_jobs(True, here) == ["7", "8"]
    assert cancelled.read_text() == "7 8\n"
    assert "left 2 Slurm jobs (7, 8)" in capsys.readouterr().err
    assert (tmp_path / "queue").read_text() == "", "it looked again until they were gone"


def test_an_empty_queue_is_left_alone(queue, tmp_path, capsys):
    (tmp_path / left_jobs.SUBMITTED).mkdir(parents=True)
    cancelled = queue([])
    assert cancel_left_jobs(True, tmp_path) == []
    assert not cancelled.exists() and capsys.readouterr().err == ""


def test_where_nothing_was_submitted_slurm_is_not_asked(queue, tmp_path, capsys):
    queue([f"7|{RUN}|{tmp_path}"], squeue="exit 1")
    assert cancel_left_jobs(True, tmp_path) == []
    assert capsys.readouterr().err == ""


def test_a_slurm_that_does_not_answer_is_said_and_passed_over(queue, tmp_path, capsys):
    (tmp_path / left_jobs.SUBMITTED).mkdir(parents=True)
    queue([], squeue="echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1")
    assert cancel_left_jobs(True, tmp_path) == []
    assert "Unable to contact slurm controller" in capsys.readouterr().err


def test_without_slurm_nothing_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cancel_left_jobs(True, tmp_path) == []
    assert capsys.readouterr().err == ""


def test_beside_a_living_run_jobs_are_named_and_left(queue, tmp_path, capsys):
    (tmp_path / left_jobs.SUBMITTED).mkdir(parents=True)
    cancelled = queue([f"7|{RUN}|{tmp_path}"])
    assert cancel_left_jobs(False, tmp_path) == []
    assert not cancelled.exists()
    assert "scancel 7" in capsys.readouterr().err


def test_a_run_knows_whether_it_is_alone(tmp_path):
    directory = tmp_path / ".snakemake"
    first = release_dead_lock(directory)
    assert is_alone(first)
    second = release_dead_lock(directory)
    assert not is_alone(first) and not is_alone(second)
    second.close()
    assert is_alone(first)
    assert not is_alone(None)


def test_a_lock_made_on_another_machine_stands(tmp_path, capsys):
    directory = tmp_path / ".snakemake"
    release_dead_lock(directory).close()
    lock = directory / "locks/0.output.lock"
    lock.parent.mkdir()
    lock.touch()
    (directory / "alive").write_text("login-2")
    stream = release_dead_lock(directory)
    assert lock.exists() and not is_alone(stream)
    message = capsys.readouterr().err
    assert "started on login-2" in message and "snakemake --unlock" in message
    stream.close()
    (directory / "alive").write_text(socket.gethostname())
    assert is_alone(release_dead_lock(directory))
    assert not lock.exists() and "its lock is removed" in capsys.readouterr().err
