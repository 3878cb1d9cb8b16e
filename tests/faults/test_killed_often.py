"""A run that is killed three times, in three ways, ends with the same bytes as one in another folder that nobody disturbed.

The long version, with thirty kills: ``python tests/faults/kill_driver.py --kills 30``. Seen to fail when:
programs lock their logs and not a file beside them (Snakemake removes a log before its job), or lock nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

from kill_driver import KINDS, Watched, kill_often, marker_name, recorded, steps_of
from miniature import Workflow, clone
from tiny_science import ENCODERS, change_config

STEPS = 150
ENCODER = f"results/demo/encoders/{ENCODERS[0]}/seed1/config.json"


def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_was(untouched, undisturbed, fault_folders):
    outcome = kill_often(lambda number: clone(untouched, fault_folders / f"killed{number}"), undisturbed, 3, 7, 12.0)
    assert [kill.kind for kill in outcome.kills] == list(KINDS)
    assert outcome.runs >= 1


def test_a_job_counts_as_done_when_all_its_outputs_are_recorded(undisturbed: Workflow, tmp_path: Path):
    """Snakemake takes the marks of a job's outputs away one by one, and may be killed in between."""
    folder = clone(undisturbed, tmp_path / "folder").folder
    job = {
        name: json.loads((folder / ".snakemake/metadata" / marker_name(name)).read_text())["job_hash"]
        for name in recorded(folder)
    }
    marked = next(name for name, number in job.items() if list(job.values()).count(number) > 1)
    (folder / ".snakemake/incomplete" / marker_name(marked)).write_text("{}")
    siblings = {name for name in job if job[name] == job[marked]}
    assert recorded(folder).keys() == job.keys() - siblings


def test_a_job_that_outlives_snakemake_is_waited_for_and_its_work_is_not_lost(
    undisturbed: Workflow, fault_folders: Path
):
    """Snakemake alone is killed while a training goes on; the next run waits for its end, and trains nothing once more."""
    workflow = clone(undisturbed, fault_folders / "outlived")
    # So long that the training is still at work when the second run has come to it, however slow that is.
    change_config(workflow.folder, "scales", "demo", "pretraining", "budgets", "base", "steps", to=STEPS)
    first = Watched(workflow, workflow.folder / "first.txt", ENCODER)
    try:
        while not any(step >= 5 for step in steps_of(workflow.folder).values()):
            assert not first.over, first.printed.read_text()
            time.sleep(0.02)
        (training,) = first.jobs()[-1:]
        os.kill(training, signal.SIGSTOP)
        first.kill("snakemake")
        second = Watched(workflow, workflow.folder / "second.txt", ENCODER)
        try:
            while "another process is at this job; waiting" not in (text := second.printed.read_text()):
                assert not second.over, text
                time.sleep(0.02)
            os.kill(training, signal.SIGCONT)
            assert second.wait() == 0, second.printed.read_text()
            (step,) = re.findall(r"going on from step ([\d,]+) of", second.printed.read_text())
            assert int(step.replace(",", "")) >= STEPS - 2, "what the first one has trained is not trained again"
        finally:
            if not second.over:
                second.kill("everything")
    finally:
        first.sweep()
