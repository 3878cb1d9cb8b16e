"""Snakemake's timers, cancelled.

Seen to fail when: the newest is cancelled in place of the oldest; timers of others are cancelled too; the watching thread is none
that a program may end without; nothing is cancelled when the main thread has ended; Snakemake's class is another.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from pretrieve.workflow.running.idle_timers import cancel_timers

HOUR = 3600.0


@pytest.fixture
def timers():
    """Three timers that Snakemake's own scheduler sets, and one of somebody else."""
    from snakemake.scheduling.job_scheduler import JobScheduler

    before = set(threading.enumerate())
    for _ in range(3):
        JobScheduler._schedule_reevalutation(SimpleNamespace(_open_jobs=threading.Semaphore(0)), HOUR)
    threading.Timer(HOUR, print).start()
    made = [thread for thread in threading.enumerate() if thread not in before]
    yield made
    for timer in made:
        timer.cancel()


def test_all_but_the_newest_of_the_schedulers_are_cancelled(timers):
    assert cancel_timers(keep=1) == 2
    assert [timer.finished.is_set() for timer in timers] == [True, True, False, False]
    assert cancel_timers(keep=1) == 0 and cancel_timers(keep=0) == 1
    assert [timer.finished.is_set() for timer in timers] == [True, True, True, False]


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "1 / 0"])
def test_a_program_does_not_wait_for_them(end):
    program = f"""
import threading
from pretrieve.workflow.running import idle_timers
def look(): pass
look.__module__ = idle_timers.MODULE
threading.Timer({HOUR}, look).start()
idle_timers.watch_timers()
{end}
"""
    start = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert ended.returncode == {"pass": 0, "raise SystemExit(3)": 3, "1 / 0": 1}[end]
    assert time.monotonic() - start < 30
