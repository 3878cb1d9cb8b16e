"""One run of a table through Slurm that meets every fault, and ends with the numbers of a run that met none.

Two encoders are pre-trained side by side. What happens to them, in this order::

    encoder A   kill -9 of the training process │ node lost, then back │ kill -9 of Snakemake │ to its end
    encoder B   hangs until its time limit      │ node lost, then back │ kill -9 of Snakemake, which never hears of its end

The node is lost by ``kill -9`` of slurmd. After that of Snakemake, the same command is given again. A process that hangs is
one that was sent SIGSTOP: so the test decides how far a training run gets before its fault. Checkpoints are written at every
step, so a run may repeat the one step that it was in.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cluster import Cluster, Job
from miniature import Workflow, clone
from same_results import assert_same_results
from slurm_runs import PROFILE, TARGET, Run, Training, find_training, finished, planned, user_environment
from tiny_science import ENCODERS, MLM_STEPS

A, B = ENCODERS
COMMAND = (TARGET, "--config", "checkpoint_seconds=0")
#: Steps of A's that each of its faults leaves at least.
AT_LEAST = 5


@dataclass
class Story:
    """What was seen on the way."""

    checkout: Workflow
    first: str = ""
    second: str = ""
    stranger: subprocess.CompletedProcess[str] | None = None
    a: list[Training] = field(default_factory=list)
    b: list[Training] = field(default_factory=list)
    #: Of A: the newest checkpoint at each fault, and the step that each attempt went on from
    saved: list[int] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)


def newest_checkpoint(checkout: Workflow) -> int:
    """The step of A's newest checkpoint; 0 without one."""
    folder = checkout.folder / f"results/demo/checkpoints/encoders/{A}/seed1"
    return max((int(path.stem.removeprefix("step-")) for path in folder.glob("step-*.safetensors")), default=0)


def step_gone_on_from(checkout: Workflow) -> int:
    """The step that A's log says it was resumed from; 0 while it says nothing."""
    log = checkout.folder / f"results/demo/logs/pretrain/{A}/seed1.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    found = re.search(r"going on from step ([\d,]+) of", text)
    return int(found[1].replace(",", "")) if found else 0


def new_training(run: Run, encoder: str, before: list[Training]) -> Training | None:
    """A process that trains an encoder and is not one of those before; None while there is none."""
    found = find_training(run.folder, "pretrain.py", f"encoders/{encoder}/")
    return found if found and found.pid not in {training.pid for training in before} else None


def next_attempts(run: Run, story: Story) -> None:
    """Wait for the next attempts at both encoders: B hangs as soon as it is there, A some steps later."""
    attempt = len(story.saved) + 1
    wanted = max(story.saved, default=0) + AT_LEAST

    def both_hang() -> bool:
        if len(story.b) < attempt and (found := new_training(run, B, story.b)):
            found.stop()
            story.b.append(found)
        if len(story.a) < attempt and (found := new_training(run, A, story.a)):
            story.a.append(found)
        if len(story.a) == attempt > len(story.saved) and newest_checkpoint(story.checkout) >= wanted:
            story.a[-1].stop()
            story.saved.append(newest_checkpoint(story.checkout))
            story.resumed.append(step_gone_on_from(story.checkout))
        return len(story.b) == len(story.saved) == attempt

    run.until(f"attempt {attempt} at both encoders", both_hang)
    assert story.saved[-1] < MLM_STEPS, "A was to hang before its end"


def ask_as_another_user(checkout: Workflow, cluster: Cluster, home: Path) -> subprocess.CompletedProcess[str] | None:
    """The same command by a user who may read everything and write where all may, while a run is alive; None without setpriv."""
    if not shutil.which("setpriv"):
        return None
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    reader = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reader, "--"]
    return subprocess.run(
        [*become, "snakemake", *PROFILE, *COMMAND],
        cwd=checkout.folder,
        env=user_environment(cluster) | {"HOME": str(home), "USER": "nobody", "LOGNAME": "nobody"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def only_training_is_left(run: Run) -> bool:
    """True when Snakemake has seen the end of all jobs that do not wait for an encoder."""
    waiting = ("pretrain", "finetune", "retrieve", "table", "total")
    wanted = {rule: count for rule, count in planned(run.text).items() if not rule.startswith(waiting)}
    return wanted.items() <= finished(run.text).items()


@pytest.fixture(scope="module")
def story(small: Workflow, cluster: Cluster, slurm_folders: Path) -> Iterator[Story]:
    story = Story(clone(small, slurm_folders / "faults"))
    checkout = story.checkout
    with Run(checkout, cluster, *COMMAND, umask=0) as run:
        next_attempts(run, story)
        story.stranger = ask_as_another_user(checkout, cluster, slurm_folders / "home")
        # A's process is killed, and B's time is up.
        story.a[0].kill()
        cluster.end_time_of(story.b[0].job)
        next_attempts(run, story)
        # The node is lost, and comes back.
        cluster.lose_node()
        cluster.start_node()
        run.until("the end of the lost processes", lambda: not (story.a[1].alive or story.b[1].alive))
        next_attempts(run, story)
        # Snakemake is killed while both are trained; its jobs live on.
        run.until("the end of all that needs no encoder", lambda: only_training_is_left(run))
        run.kill()
        story.first = run.text
    assert story.a[-1].alive and story.b[-1].alive, "Slurm's jobs outlive Snakemake"
    story.b[-1].go_on()
    cluster.until("the end of B's job", lambda: state_of(story.b[-1], cluster, checkout) == "COMPLETED")
    with Run(checkout, cluster, *COMMAND, umask=0) as run:
        story.a.append(run.until("the last attempt at A", lambda: new_training(run, A, story.a)))
        assert run.ends() == 0, run.text
        story.second = run.text
        story.resumed.append(step_gone_on_from(checkout))
    story.jobs = cluster.jobs(checkout.folder)
    yield story
    shutil.rmtree(checkout.folder)


def state_of(training: Training, cluster: Cluster, checkout: Workflow) -> str:
    return next(job.state for job in cluster.jobs(checkout.folder) if job.id == training.job)


def job_of(story: Story, training: Training) -> Job:
    return next(job for job in story.jobs if job.id == training.job)


def test_the_table_is_that_of_a_run_without_slurm(story, local):
    assert_same_results(local, story.checkout)


def test_two_gpu_jobs_side_by_side_have_different_devices(story):
    assert {story.a[0].gpus, story.b[0].gpus} == {"0", "1"}


def test_each_fault_was_what_it_should_be(story):
    """A killed process, a time limit, a lost node and a cancelled job are four different ends."""
    assert [job_of(story, training).state for training in story.a] == ["FAILED", "NODE_FAIL", "CANCELLED", "COMPLETED"]
    assert [job_of(story, training).state for training in story.b] == ["TIMEOUT", "NODE_FAIL", "COMPLETED"]


def test_each_attempt_has_more_memory_than_the_one_before(story):
    for attempts in (story.a[:3], story.b):
        first, second, third = (job_of(story, training).memory_mb for training in attempts)
        assert first < second < third
    assert job_of(story, story.a[3]).memory_mb < job_of(story, story.a[1]).memory_mb, "a new call begins again"


def test_no_step_is_trained_twice_beyond_the_last_checkpoint(story):
    assert len(story.saved) == 3 and story.saved[0] >= AT_LEAST and story.resumed[0] == 0
    # A went on from its newest checkpoint each time, or from one that became whole after the test had looked.
    assert all(0 <= now - before <= 1 for before, now in zip(story.saved, story.resumed[1:], strict=True)), story


def test_no_other_stage_runs_twice(story):
    """Beside the encoders each job of the plan was submitted once, over both calls. B's end counts, though nobody heard of it."""
    plan = {rule: count for rule, count in planned(story.first).items() if rule not in ("all", "total", "pretrain")}
    ran = Counter(job.rule for job in story.jobs)
    assert ran.pop("pretrain") == len(story.a) + len(story.b)
    assert ran and dict(ran) == {rule: plan[rule] for rule in ran}
    assert finished(story.first) + finished(story.second) == Counter(plan) + Counter({"pretrain": 1})


def test_heavy_rules_are_submitted_and_small_ones_are_not(story):
    ran = {job.rule.split("_")[0] for job in story.jobs}
    assert {"corpus", "vocabulary", "token", "task", "bm25", "pretrain", "finetune"} <= ran
    # What this table fine-tunes is scored in the same job.
    assert all(job.rule.endswith("_scored") for job in story.jobs if job.rule.startswith("finetune"))
    assert not ran & {"fetch", "table", "claims", "league", "report", "all"}


def test_the_log_of_a_failed_job_is_shown(story):
    """What the killed process had said, and what Slurm says of the other ends."""
    assert f"logs/pretrain/{A}/seed1.log" in story.first
    assert "started in" in story.first, "the first line of a program's log"
    for state in ("FAILED", "TIMEOUT", "NODE_FAIL"):
        assert f"'{state}'" in story.first


def test_jobs_of_a_killed_run_are_cancelled_by_the_next(story):
    assert "A run was killed here; its finished jobs are kept" in story.second
    assert f"left 1 Slurm jobs ({job_of(story, story.a[2]).id.partition('_')[0]}" in story.second
    assert not story.a[2].alive


def test_another_user_is_told_that_the_checkout_is_locked(story):
    if story.stranger is None:
        pytest.skip("setpriv not found")
    assert story.stranger.returncode != 0
    assert "cannot be locked" in story.stranger.stderr
    assert "Traceback" not in story.stranger.stderr
