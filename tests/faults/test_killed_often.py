"""A run that is killed three times, in three ways, ends with the same bytes as one in another folder that nobody disturbed.

The long version, with twenty kills: ``python tests/faults/kill_driver.py --kills 20``. Seen to fail when: see the end of
docs/faults.md.
"""

from __future__ import annotations

from pathlib import Path

from kill_driver import KINDS, Watched, kill_often, steps_of
from miniature import Workflow, clone
from tiny_science import change_config


def test_a_run_that_is_killed_again_and_again_ends_as_if_nothing_was(untouched, undisturbed, fault_folders):
    outcome = kill_often(lambda number: clone(untouched, fault_folders / f"killed{number}"), undisturbed, 3, 7, 12.0)
    assert [kill.kind for kill in outcome.kills] == list(KINDS)
    assert outcome.runs >= 1


def test_a_job_that_outlives_snakemake_is_ended_and_its_work_is_not_lost(undisturbed: Workflow, fault_folders: Path):
    """Snakemake alone is killed while a training goes on; the next run finds that at work."""
    workflow = clone(undisturbed, fault_folders / "outlived")
    # So many steps that the training is still at work when the second run has started, however slow that is; none sees the end.
    change_config(workflow.folder, "scales", "demo", "pretraining", "budgets", "mlm", "steps", to=100_000)
    first = Watched(workflow, workflow.folder / "first.txt")
    try:
        while not any(step >= 5 for step in steps_of(workflow.folder).values()):
            assert not first.over, first.printed.read_text()
        first.kill("snakemake")
        before = max(steps_of(workflow.folder).values())
        assert first.jobs(), "the training lives on"
        second = Watched(workflow, workflow.folder / "second.txt")
        try:
            while "going on from step" not in (text := second.printed.read_text()):
                assert not second.over, text
            assert "of a run that was killed is ended; this one goes on" in text
            assert not first.jobs()
            step = int(text.partition("going on from step ")[2].split()[0].replace(",", ""))
            assert step >= before
        finally:
            second.kill("everything")
    finally:
        first.sweep()
