"""What has to be done because Snakemake has a fault: its timers pile up (8.19.1 to 9.27.1, the newest one examined).

Snakemake limits the rate at which jobs start (``max-jobs-per-timespan``). After every look at the ready jobs it sets a timer
for the next. The end of each job is such a look too, so as long as any job is ready there are as many chains of timers as jobs
have ended. A look asks for the size of every input file of every ready job: with some hundred jobs on two cores Snakemake ends
up doing nothing else. And at the end it waits for the last timer.

So all timers but the newest are cancelled every few seconds, and all of them when the main thread is over. The report to
Snakemake's authors is in docs/snakemake-faults.md; tests/test_snakemake_faults.py fails when they have mended it, and then this
file goes. Standard library only.
"""

import threading

#: Where the function of such a timer is defined: timers of others are left alone.
MODULE = "snakemake.scheduling.job_scheduler"
SECONDS = 10.0


def cancel_timers(keep: int) -> int:
    """Cancel the scheduler's timers but for the ``keep`` newest; returns how many were cancelled."""
    timers = [
        thread
        for thread in threading.enumerate()  # the oldest first
        if isinstance(thread, threading.Timer)
        and getattr(thread.function, "__module__", "") == MODULE
        and not thread.finished.is_set()
    ]
    old = timers[: max(0, len(timers) - keep)]
    for timer in old:
        timer.cancel()
    return len(old)


def watch_timers(seconds: float = SECONDS) -> None:
    """From now on let no more than one timer live for longer than ``seconds``, and none when the main thread has ended,
    however it ends."""
    threading.Thread(target=_watch, args=(seconds,), daemon=True, name="idle timers").start()


def _watch(seconds: float) -> None:
    main = threading.main_thread()
    while main.is_alive():
        main.join(seconds)
        cancel_timers(keep=int(main.is_alive()))
