"""Kill a run again and again, start it again, and compare what comes out with a run that nobody disturbed.

    python tests/faults/kill_driver.py --kills 30 --seed 1

makes the miniature of ``tests/workflow`` once in peace, and then with ``kill -9`` at so many random moments; when a run reaches
its end before all moments came, another one begins. Three things are killed in turn: Snakemake with all its jobs, Snakemake alone
(its jobs live on, and the next run waits for them), and one job. Half of the moments are seconds after a start, half a step
of a training that is then in the middle. It ends with an error, and says why, when

* a table, run, metric or model differs in one byte (what a run cost aside), or something half-written is left;
* a training begins further back than the last checkpoint that was there when it was killed;
* something that Snakemake had recorded as done is made again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "workflow"), str(HERE.parent.parent / "src")]

import miniature  # noqa: E402
from miniature import Workflow, clone, copy_project, environment  # noqa: E402
from same_results import assert_same_results  # noqa: E402
from tiny_science import change_config, write_config, write_raw_files  # noqa: E402

KINDS = ("everything", "snakemake", "job")
#: Seconds until a run that hangs is given up, also on a busy machine.
TIMEOUT = 3600
COMMAND = ("workflow/run.sh", "--cores", "2", "--config", "checkpoint_seconds=0")


@dataclass(frozen=True)
class Kill:
    """One ``kill -9``: what was killed, how many seconds after the start, and the jobs that were recorded as done by then."""

    kind: str
    after: float
    done: int


@dataclass
class Outcome:
    """What a driver did: its kills, runs that were made to their end, trainings that went on from a checkpoint, and jobs that
    waited for the same job of a killed run."""

    kills: list[Kill] = field(default_factory=list)
    runs: int = 0
    resumed: int = 0
    waited: int = 0


class Watched:
    """A run of Snakemake (of everything, unless targets are named) that can be killed in part. It prints to a file: a pipe
    would kill the jobs that are to live on."""

    def __init__(self, workflow: Workflow, printed: Path, *targets: str) -> None:
        self.folder, self.printed = workflow.folder, printed
        self.stream = open(printed, "w")  # noqa: SIM115 (closed in end())
        self.begun, self.first = time.monotonic(), steps_of(workflow.folder)
        self.process = subprocess.Popen(
            [*COMMAND, "--", *targets],
            cwd=workflow.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self.stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def jobs(self) -> list[int]:
        """Processes of this session that run one of the project's programs."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                session = (place / "stat").read_text().rpartition(")")[2].split()[3]
            except OSError:
                continue
            if int(session) == self.process.pid and any(word.startswith(b"workflow_scripts/") for word in words[:8]):
                found.append(int(place.name))
        return sorted(found)

    def kill(self, kind: str) -> None:
        """``kill -9``; of a job it is the youngest, and Snakemake then ends by itself."""
        if kind == "everything":
            os.killpg(self.process.pid, signal.SIGKILL)
        elif kind == "snakemake":
            os.kill(self.process.pid, signal.SIGKILL)
        elif jobs := self.jobs():
            os.kill(jobs[-1], signal.SIGKILL)
        else:
            os.kill(self.process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        try:
            code = self.process.wait(TIMEOUT)
        except BaseException:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        self.stream.close()
        return code

    def sweep(self) -> None:
        """End what is left of the session."""
        for process in self.jobs():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.stream.close()


def steps_of(folder: Path) -> dict[str, int]:
    """Folder of checkpoints → the newest step in it."""
    found: dict[str, int] = {}
    # os.walk passes over folders that go while it looks; Path.glob does not.
    for place, _, names in os.walk(folder / "results/demo/checkpoints"):
        steps = [int(name[5:-12]) for name in names if re.fullmatch(r"step-\d+\.safetensors", name)]
        if steps:
            found[str(Path(place).relative_to(folder))] = max(steps)
    return found


def marker_name(file: str, room: int = 254) -> str:
    """The file with which Snakemake 9 marks an output as incomplete, from the start of its job until it has recorded the end: the
    output's name in base64, in folders where it is longer than ``room``."""
    code = urlsafe_b64encode(file.encode()).decode()
    *heads, last = [code[start : start + room] for start in range(0, len(code), room)]
    return "/".join([*(f"@{head}" for head in heads), last])


def recorded(folder: Path) -> dict[str, int]:
    """What Snakemake has recorded as done among what is trained, embedded and searched → time of its file.

    Snakemake writes the records of all outputs of a job, and then takes their marks away one by one. If it is killed in
    between, it makes all of them again; so a job counts when none of its outputs is marked.
    """
    mark, records, found = folder / ".snakemake/incomplete", folder / ".snakemake/metadata", {}
    job_of = lambda marker: json.loads((records / marker).read_text())["job_hash"]
    marked = [path.relative_to(mark) for path in mark.rglob("*") if path.is_file()]
    unfinished = {job_of(marker) for marker in marked if (records / marker).exists()}
    for stage in ("encoders", "retrievers", "runs") if mark.is_dir() else ():
        for place, _, names in os.walk(folder / "results/demo" / stage):
            for file in (Path(place, name) for name in names if name.endswith(("model.safetensors", ".trec.gz"))):
                marker = marker_name(name := str(file.relative_to(folder)))
                with suppress(FileNotFoundError):  # a job that lives on may remove it
                    if not (mark / marker).exists() and job_of(marker) not in unfinished:
                        found[name] = file.stat().st_mtime_ns
    return found


def moments(rng: random.Random, longest: float) -> Iterator[Callable[[Watched], bool]]:
    """What says of a run that its moment has come: so many seconds, so many steps of a training, seconds, …"""
    while True:
        seconds = rng.uniform(0.3, longest)
        yield lambda run, seconds=seconds: time.monotonic() - run.begun >= seconds
        further = rng.randint(2, 60)
        yield lambda run, further=further: any(
            step >= run.first.get(place, 0) + further for place, step in steps_of(run.folder).items()
        )


def kill_often(
    fresh: Callable[[int], Workflow], reference: Workflow, kills: int, seed: int, longest: float, say: Callable = print
) -> Outcome:
    """Kill runs ``kills`` times and compare every run that comes to its end with ``reference``.

    fresh: number → a miniature that was not run yet; longest: seconds after a start until a kill, at most.
    """
    rng, outcome, started = random.Random(seed), Outcome(), list[Watched]()
    moment = moments(rng, longest)
    try:
        while True:
            workflow = fresh(outcome.runs)
            steps, done = {}, {}
            while True:
                started.append(last := Watched(workflow, workflow.folder / "printed.txt"))
                killing = len(outcome.kills) < kills
                come = next(moment) if killing else lambda run: False
                while not last.over and not come(last):
                    assert time.monotonic() - last.begun < TIMEOUT, "the run hangs"
                    time.sleep(0.02)
                if last.over:
                    code = last.wait()
                else:
                    kind = KINDS[len(outcome.kills) % len(KINDS)]
                    last.kill(kind)
                    code = -signal.SIGKILL
                    outcome.kills.append(Kill(kind, time.monotonic() - last.begun, len(recorded(workflow.folder))))
                    say(f"{len(outcome.kills)}: {outcome.kills[-1]}")
                _check_progress(workflow.folder, steps, done, last.printed.read_text(errors="replace"))
                text = last.printed.read_text(errors="replace")
                outcome.resumed += len(set(re.findall(r"^(.*): going on from step", text, flags=re.MULTILINE)))
                outcome.waited += text.count("another process is at this job; waiting until it ends")
                steps, done = steps_of(workflow.folder), recorded(workflow.folder)
                if code == 0:
                    break
                assert code == -signal.SIGKILL, f"the run ended by itself with {code}:\n{text}"
            assert_same_results(reference, workflow)
            left = [path for path in workflow.folder.glob("results/**/*") if path.name.endswith((".part", ".member"))]
            assert left == [] and steps == {}, f"left behind: {left} {steps}"
            outcome.runs += 1
            say(f"run {outcome.runs} reached its end; the same bytes")
            if len(outcome.kills) >= kills:
                return outcome
    finally:
        for run in started:
            run.sweep()


def _check_progress(folder: Path, steps: dict[str, int], done: dict[str, int], text: str) -> None:
    """Nothing went back: ``steps`` and ``done`` are those of before the run."""
    now = steps_of(folder)
    back = {place: (before, now[place]) for place, before in steps.items() if place in now and now[place] < before}
    assert not back, f"trained once more, further back than the last checkpoint: {back}\n{text}"
    now_done = recorded(folder)
    again = [name for name, date in done.items() if now_done.get(name) != date]
    assert not again, f"recorded as done, and made again: {again}\n{text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    miniature.TIMEOUT = TIMEOUT
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        first = copy_project(folder / "first")
        write_raw_files(first.folder)
        write_config(first.folder)
        change_config(first.folder, "tables", to=["pretraining_tasks/table3"])
        reference = clone(first, folder / "reference")
        begun = time.monotonic()
        ended = reference.run("--cores", "2")
        assert ended.code == 0, ended.text
        took = time.monotonic() - begun
        print(f"undisturbed: {took:.0f} s")
        fresh = lambda number: clone(first, folder / f"run{number}")
        # A restart costs some seconds before its first job; the moments are spread over about a third of a run behind that.
        outcome = kill_often(fresh, reference, arguments.kills, arguments.seed, 5 + took / 3)
        kinds = ", ".join(f"{sum(kill.kind == kind for kill in outcome.kills)} × {kind}" for kind in KINDS)
        print(
            f"{len(outcome.kills)} kills ({kinds}) in {outcome.runs} runs; {outcome.resumed} trainings went on from a "
            f"checkpoint, and {outcome.waited} jobs waited for the same job of a killed run. Tables, runs, metrics and models "
            "are the same, byte for byte."
        )


if __name__ == "__main__":
    main()
