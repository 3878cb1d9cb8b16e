"""In which order the jobs of a bundle run, what follows when one fails or its process is killed, and which files stay there.

Seen to fail when: a job begins before what it needs is done; jobs are submitted to a pool that has broken; negatives stay though
a fine-tuning that reads them is not done; nothing keeps two calls apart.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import subprocess
import sys
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from pretrieve.base.code_folder import PACKAGE
from pretrieve.base.errors import DataError
from pretrieve.operations.bundle import programs, runner
from pretrieve.operations.bundle.jobs import Call, Job
from pretrieve.training.loop import Stopped

HOW = runner.How("fp32", 1, float("inf"), 60.0, {"processes": "2"})


def job(name: str, program: str, **options: str) -> Job:
    call = Call(program, {key: words.split() for key, words in options.items()})
    return Job(name, "", call)


JOBS = [
    job("base", "pretrain", store="tokens", out="r/s/encoders/base"),
    job("mined", "retrieve", task="t", retrievers="x", stores="v", runs="run", outputs="scores", negatives="hard"),
    job("tuned", "finetune", encoder="r/s/encoders/base", task="hard", out="r/s/retrievers/tuned"),
    job("other", "pretrain", store="tokens", out="r/s/encoders/other"),
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("lost", ["", "base"])
def test_a_job_waits_for_what_it_needs(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, bool]] = []

    def run(job: Job, how: runner.How, scored: bool) -> str:
        ran.append((job.id, scored))
        return "failed" if job.id == lost else "done"

    monkeypatch.setattr(runner, "_run", run)
    backwards = JOBS[::-1]
    stopped, failed = runner._run_all(backwards, HOW, 1, needed=set())
    assert not stopped and len(failed) == bool(lost)
    expected = [("other", False), ("mined", True), ("base", False), ("tuned", False)]
    assert ran == [one for one in expected if not (lost and one[0] == "tuned")]
    ran.clear()
    runner._run_all(JOBS[1:2], HOW, 1, needed={"run"})
    assert ran == [("mined", False)], "a run that comes back is scored at home"


def test_a_killed_process_ends_the_call_and_names_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool refuses a second job, as it does when one of its processes was killed."""

    class Broken(Executor):
        def __init__(self, *words: object, **options: object) -> None:
            self.given: list[Job] = []

        def submit(self, function: object, job: Job, *words: object) -> Future:
            if self.given:
                raise BrokenProcessPool
            self.given.append(job)
            future: Future = Future()
            future.set_exception(BrokenProcessPool())
            return future

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Broken)
    assert runner._run_all(JOBS, HOW, 2, needed=set()) == (True, [JOBS[0].name])


def test_a_search_that_is_longer_than_a_call_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It would begin again in each call, for ever; a training continues."""

    def stop(*words: object) -> None:
        raise Stopped

    monkeypatch.setattr(programs, "run_call", stop)
    for expected in (
        "",
        f"  {JOBS[1].name} has now been stopped 2 times; it keeps only finished shards of vectors. "
        "If it never ends, give more --minutes.\n",
    ):
        assert {runner._run(one, HOW, False) for one in JOBS[:2]} == {"stopped"}
        assert capsys.readouterr().out == expected


def test_what_stays_there() -> None:
    stays = runner._files_that_stay(JOBS, set(), {"base", "mined", "tuned"})
    assert stays == {"hard"}, "a run without scores comes back"
    Path("scores").touch()
    assert runner._files_that_stay(JOBS, set(), {"base", "mined", "tuned"}) == {"hard", "run"}
    assert runner._files_that_stay(JOBS, {"run"}, {"base", "mined"}) == set(), "negatives that are still to be read"
    assert runner._files_that_stay(JOBS[:2], {"run"}, {"base", "mined"}) == set(), "negatives that nobody here reads"


@pytest.mark.parametrize("content", [None, ""])
def test_a_bundle_that_is_not_whole_is_named(content: str | None) -> None:
    """As where the disk was full when it was unpacked."""
    if content is not None:
        Path("manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"^manifest.json: .*the manifest of a bundle"):
        runner.run_slice(0.0, Path("out"), argparse.Namespace())


def test_a_second_call_waits_for_the_first() -> None:
    Path("jobs.json").write_text("[]")
    Path("logs").mkdir()
    with open("logs/.runner.log.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "pretrieve.operations.bundle.runner"]
        variables = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
        with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as second:
            assert "another process is at this job; waiting" in second.stderr.readline()
            second.kill()
