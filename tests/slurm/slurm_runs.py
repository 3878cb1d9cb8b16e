"""Snakemake on the test cluster while it goes on: what it prints, its training processes, and what happens to them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cluster import Cluster
from miniature import Workflow, environment
from tiny_science import change_config, write_config, write_raw_files

TABLE = "pretraining_tasks/table3"
TARGET = f"results/demo/tables/{TABLE}.csv"
#: The project's own profile, as it is.
PROFILE = ("--workflow-profile", "profiles/slurm")
#: The module that starts a training program on the GPUs of its job, or turns into it.
LAUNCHER = "pretrieve.training.launch"
#: Only a failure lasts so long; a machine that is busy with other things may be ten times slower than it is alone.
PATIENCE = 900
Found = TypeVar("Found")


def make_small(workflow: Workflow) -> None:
    """The miniature with one table only."""
    write_raw_files(workflow.folder)
    write_config(workflow.folder)
    change_config(workflow.folder, "tables", to=[TABLE])


@dataclass(frozen=True)
class Training:
    """A process that trains: the Python program itself, not what started it."""

    pid: int
    gpus: str
    job: str

    def stop(self) -> None:
        """Let it hang, as a process does whose file system does not answer."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    @property
    def alive(self) -> bool:
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state != "Z"


def find_training(folder: Path, program: str, part: str) -> Training | None:
    """The process of a checkout that runs ``program`` with ``part`` in one of its arguments; the newest, if there are more."""
    found = None
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
            script = next((word for word in words if word.endswith(".py")), "")
            if Path(script).name != program or not any(part in word for word in words):
                continue
            if LAUNCHER in words:
                continue
            if (place / "cwd").readlink() != folder:
                continue
            pairs = (line.split("=", 1) for line in (place / "environ").read_text().split("\0") if "=" in line)
            values = dict(pairs)
        except (OSError, UnicodeDecodeError):
            continue  # it has ended meanwhile, or is none of ours
        job = values.get("SLURM_JOB_ID", "")
        if "SLURM_ARRAY_TASK_ID" in values:
            job = f"{values['SLURM_ARRAY_JOB_ID']}_{values['SLURM_ARRAY_TASK_ID']}"
        training = Training(int(place.name), values.get("CUDA_VISIBLE_DEVICES", ""), job)
        if training.alive and (found is None or training.pid > found.pid):
            found = training
    return found


class Run:
    """One call of Snakemake that submits to the cluster; :meth:`close` ends it, whatever happened."""

    def __init__(self, workflow: Workflow, cluster: Cluster, *arguments: str, umask: int = -1) -> None:
        self.folder, self.cluster = workflow.folder, cluster
        self.output = self.folder.parent / f"{self.folder.name}.{time.monotonic_ns()}.out"
        with open(self.output, "wb") as stream:
            self.process = subprocess.Popen(
                # As in a terminal: whoever starts the tests in the background lets them ignore interrupts, and what they start.
                ["env", "--default-signal=INT", "workflow/run.sh", *PROFILE, *arguments],
                cwd=self.folder,
                env=user_environment(cluster),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                umask=umask,
            )

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def until(self, what: str, holds: Callable[[], Found], seconds: float = PATIENCE) -> Found:
        """Wait for something that is true; a run that ends before, or takes too long, fails with all it printed."""
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert self.process.poll() is None, f"the run ended before {what}:\n{self.text}"
            assert time.monotonic() < end, f"waited {seconds:.0f} s for {what} in vain:\n{self.text}"
            time.sleep(0.05)
        return found

    def ends(self, seconds: float = PATIENCE) -> int:
        """Wait for its end; the exit status."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {seconds:.0f} s:\n{self.text}") from None

    def interrupt(self) -> None:
        """What Ctrl-C in its terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """``kill -9`` of Snakemake alone; its jobs are Slurm's children."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close()
        if error:
            self.cluster.cancel_all()  # the next test needs the node


def user_environment(cluster: Cluster) -> dict[str, str]:
    """The environment of a user at the login node: the project's, the cluster's, and no other Slurm's. Looks come often."""
    return environment() | cluster.environment | {"PYTHONPATH": str(Path(__file__).resolve().parent / "often")}


def finished(text: str) -> Counter[str]:
    """Rule → number of jobs that a run has seen the end of."""
    return Counter(re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)", text, flags=re.MULTILINE))


def planned(text: str) -> dict[str, int]:
    """Rule → number of jobs, from the table that a run prints first."""
    table = text.partition("Job stats:")[2].partition("\n\n")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE)}
