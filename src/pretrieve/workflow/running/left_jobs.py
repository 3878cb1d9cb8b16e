"""Slurm jobs that a killed run of Snakemake has left behind. Standard library only.

``kill -9`` of Snakemake, or a login node that goes down, ends nothing that Slurm runs: jobs go on, and waiting ones begin
later. The next run knows nothing of them. It would submit the same stages again, and two jobs would write the same
checkpoints and outputs. So a run cancels them before it submits anything; what they trained is not lost, because training
goes on from its last checkpoint.

Which jobs they are: those of this user, submitted from this folder, and with a name as Snakemake's executor gives it, the
random id of the run. Only a run that is alone in its folder cancels; one that cannot know names the jobs instead.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

#: The executor names its jobs by a random UUID, behind a prefix if it has one.
RUN_ID = re.compile(r"(^|_)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
#: Where the executor keeps what Slurm prints: there is none before the first job was submitted from a folder.
SUBMITTED = Path(".snakemake/slurm_logs")
#: For an answer of one of Slurm's commands. A controller that does not answer must not keep a local run from starting.
ANSWER_SECONDS = 20
#: For the end of cancelled jobs: Slurm's KillWait is 30 seconds, and file systems lag.
END_SECONDS = 120


def left_jobs(folder: Path) -> list[str]:
    """Slurm ids of the jobs that runs of Snakemake in ``folder`` have waiting or running, in squeue's order.

    Raises
    ------
    OSError, subprocess.SubprocessError
        when squeue does not answer.
    """
    command = ["squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%A|%j|%Z"]
    ended = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", timeout=ANSWER_SECONDS, check=True
    )
    own = os.environ.get("SLURM_JOB_ID")  # Snakemake itself may run in a job
    found = {}
    for line in ended.stdout.splitlines():
        number, name, place = line.split("|", 2)
        if number != own and RUN_ID.search(name) and Path(place).resolve() == folder.resolve():
            found[number] = None
    return list(found)


def cancel_left_jobs(alone: bool, folder: Path = Path()) -> list[str]:
    """Cancel the jobs that a killed run has left, and wait until they have ended; returns their Slurm ids.

    Where there is no Slurm, or nothing was ever submitted from the folder, nothing happens. Where Slurm does not answer, or
    jobs do not end, one line on standard error says so and the run goes on.

    Parameters
    ----------
    alone:
        whether no other run is alive in the folder; if there may be one, the jobs are named and left.
    """
    if not ((folder / SUBMITTED).is_dir() and shutil.which("squeue") and shutil.which("scancel")):
        return []
    try:
        jobs = left_jobs(folder)
        if not jobs:
            return []
        if not alone:
            _say(
                f"Slurm jobs {', '.join(jobs)} were submitted from this folder by another run. If no other run is alive here, "
                f"stop this one, and end them: scancel {' '.join(jobs)}"
            )
            return []
        subprocess.run(
            ["scancel", *jobs],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=True,
        )
        _say(
            f"A run was killed here and left {len(jobs)} Slurm jobs ({', '.join(jobs)}); they are cancelled, and training "
            "goes on from its last checkpoint."
        )
        end = time.monotonic() + END_SECONDS
        while remaining := [job for job in left_jobs(folder) if job in jobs]:
            if time.monotonic() > end:
                _say(f"Slurm jobs {', '.join(remaining)} have not ended within {END_SECONDS} s; look at `squeue --me`.")
                break
            time.sleep(1)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[0]
        _say(f"Slurm was not asked for jobs of a killed run ({reason}).")
        return []
    return jobs


def _say(line: str) -> None:
    print(line, file=sys.stderr)
