"""Copies of the project, and Snakemake run in them; what it prints, read.

No test runs Snakemake in the project itself, so a real run there is never disturbed.
"""

from __future__ import annotations

import atexit
import compileall
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
#: What a clone has and the workflow uses; results, data and environments stay behind.
PARTS = [
    "Snakefile",
    "workflow",
    "config.yaml",
    "config",
    "Makefile",
    "pyproject.toml",
    "rules",
    "workflow_scripts",
    "src",
]
PARTS += ["references", "resources", "profiles", "envs", "docs"]
#: Seconds after which a run counts as one that hangs; on a busy machine it may take ten times as long as on a free one.
TIMEOUT = 1200


#: Rules behind the tables: one job each, wherever everything is made.
READERS_OF_TABLES = ("claims", "league", "report")


@dataclass(frozen=True)
class Ended:
    """What a run of Snakemake left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    @property
    def jobs(self) -> dict[str, int]:
        """Rule → number of planned jobs, from the last 'Job stats' table; without ``all`` and ``total``, and without what reads
        the finished tables and is made again with any of them (:data:`READERS_OF_TABLES`). Rules that differ in
        their training-set sizes, in what follows in the same job, or in the families of a job count as one:
        ``finetune_questions`` is ``finetune_questions_1pct_5pct`` and all others."""
        table = self.text.rpartition("Job stats:")[2]
        jobs: dict[str, int] = {}
        for name, count in re.findall(r"^(\w+) +(\d+)$", table.partition("\n\n")[0], flags=re.MULTILINE):
            if name not in ("all", "total", *READERS_OF_TABLES):
                stage = re.sub(r"(_(\d+pct|\d+k?|label\d+|full|scored|mined))+(_together_\w+)?$", "", name)
                jobs[stage] = jobs.get(stage, 0) + int(count)
        return jobs

    def count(self, stage: str) -> int:
        """Planned jobs of a stage over all its rules: ``evaluate`` counts ``evaluate_questions`` and the others."""
        return sum(number for name, number in self.jobs.items() if name == stage or name.startswith(f"{stage}_"))


def environment() -> dict[str, str]:
    """The environment of a user who has made the virtual environment and nothing else; not that of ``make test``, whose
    variables would make an inner make print where it is, nor of a job of Slurm."""
    other = ("PYTHON", "PRETRIEVE", "SNAKEMAKE", "MAKE", "MFLAGS", "SLURM", "SBATCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(other)}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


@cache
def forks() -> subprocess.Popen[bytes]:
    """The process that all runs are forked from; it ends with this one."""
    words = [sys.executable, "-P", Path(__file__).with_name("snakemake_forks.py")]
    process = subprocess.Popen(words, bufsize=0, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.communicate)
    return process


@dataclass(frozen=True)
class Workflow:
    """A copy of the project."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its runs: the copy's own code, also in the rules."""
        return environment() | {"PYTHONPATH": str(self.folder / "src")}

    def start(self, *arguments: str, program: str = "snakemake") -> subprocess.Popen[str]:
        """Start Snakemake as the leader of a process group of its own."""
        return subprocess.Popen(
            [program, *arguments],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, program: str = "snakemake") -> Ended:
        """Run Snakemake to its end; a run that hangs is killed with all its jobs."""
        if program == "snakemake":
            return self.run_fork(*arguments)
        process = self.start(*arguments, program=program)
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        return Ended(process.returncode, stdout, stderr)

    def run_fork(self, *arguments: str, **variables: str) -> Ended:
        """The same of :func:`forks`, with more variables of its environment."""
        with tempfile.TemporaryDirectory() as place:
            printed = [Path(place, name) for name in ("stdout", "stderr")]
            order = [str(self.folder), arguments, self.variables | variables, *map(str, printed)]
            forks().stdin.write(json.dumps(order).encode() + b"\n")
            process = int(forks().stdout.readline())
            try:
                if not select.select([forks().stdout], [], [], TIMEOUT)[0]:
                    raise TimeoutError(f"no end after {TIMEOUT} s: {printed[1].read_text()}")
            except BaseException:
                os.killpg(process, signal.SIGKILL)
                raise
            finally:
                code = int(forks().stdout.readline())
            return Ended(code, *(file.read_text() for file in printed))

    def plan(self, *arguments: str) -> Ended:
        """A dry run, which must succeed."""
        ended = self.run("-n", *arguments, "--quiet", "rules")
        assert ended.code == 0, ended.text
        return ended

    def files(self, pattern: str) -> Mapping[str, bytes]:
        """Relative name → content of the files under ``results/demo`` that match."""
        root = self.folder / "results/demo"
        return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.glob(pattern)) if file.is_file()}


def copy_project(folder: Path) -> Workflow:
    """What a fresh clone is, without its history."""
    folder.mkdir(parents=True)
    for part in PARTS:
        source = PROJECT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / part)
    compileall.compile_dir(folder / "src", quiet=1)  # once for all of its clones
    return Workflow(folder)


def clone(workflow: Workflow, folder: Path) -> Workflow:
    """A copy with all times kept, so that Snakemake takes it for the same run."""
    shutil.copytree(workflow.folder, folder, symlinks=True)
    return Workflow(folder)
