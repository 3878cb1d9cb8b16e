"""What waits in the queue, what one interrupt does to it, and a job that fails whatever it is given."""

from __future__ import annotations

import shutil

import pytest
from slurm_runs import Run, find_training, finished
from tiny_science import ENCODERS


@pytest.fixture
def without_encoders(checkout):
    """A finished checkout that has lost its encoders."""
    shutil.rmtree(checkout.folder / "results/demo/encoders")
    return checkout


def test_a_job_for_two_gpus_waits_and_one_interrupt_cancels_everything(without_encoders, cluster):
    """Each of two jobs wants both GPUs of the node: there are cores and memory for both, but one of them waits."""
    folder = without_encoders.folder
    targets = [f"results/demo/encoders/{encoder}/seed1/model.safetensors" for encoder in ENCODERS]

    def states() -> list[tuple[str, str]]:
        return [(job.state, job.reason) for job in cluster.jobs(folder)]

    with Run(without_encoders, cluster, *targets, "--set-resources", "pretrain:gpu=2") as run:
        training = run.until("a training process", lambda: find_training(folder, "pretrain.py", "/encoders/"))
        training.stop()
        assert training.gpus == "0,1"
        run.until("the other job to wait for GPUs", lambda: ("PENDING", "Resources") in states())
        assert [state for state, _ in states()].count("RUNNING") == 1
        run.interrupt()
        assert run.ends(60) != 0
        # Slurm takes a job's processes away a moment after it has called it cancelled.
        cluster.until("the end of both jobs", lambda: {state for state, _ in states()} == {"CANCELLED"})
        cluster.until("the end of the process", lambda: not training.alive)
    assert finished(run.text)["pretrain"] == 0


def test_a_job_that_fails_is_tried_with_more_memory_and_says_why(checkout, cluster):
    shutil.rmtree(checkout.folder / "results/demo/tasks")
    (checkout.folder / "resources/questions/dev.json").write_text('{"data": [')
    with Run(checkout, cluster, "results/demo/tasks/questions/corpus.parquet", "--retries", "1") as run:
        assert run.ends() != 0
    first, second = cluster.jobs(checkout.folder)
    # Snakemake's own words, and the program's: its log is shown, and the way on.
    assert (first.rule, first.state) == (second.rule, second.state) == ("task_with_answers", "FAILED")
    assert second.memory_mb > first.memory_mb
    assert "DataError: resources/questions/dev.json" in run.text and "Traceback" not in run.text
    assert "A job failed." in run.text and "run the same command again" in run.text
