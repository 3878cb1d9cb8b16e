"""Python reads this first where the tests put its folder on the path: Snakemake then looks at its Slurm jobs every two seconds.

The executor looks after the seconds of the profile, and then ten seconds later each time, up to three minutes. That is right
for a cluster and its jobs of hours; the tests' jobs take seconds. Nothing else is changed.
"""

import sys

LOOK_SECONDS = 2

if any(word.endswith("/snakemake") for word in sys.orig_argv[:2]):
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    RemoteExecutor.next_seconds_between_status_checks = property(lambda self: LOOK_SECONDS, lambda self, seconds: None)
