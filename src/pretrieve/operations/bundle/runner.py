"""Run a bundle for some minutes: ``python -m pretrieve.operations.bundle.runner --bundle DIR --minutes 9``.

Call it again until nothing is left: each call continues the last one, a training run from its checkpoint. It needs torch,
transformers, tokenizers, numpy, pyarrow, scikit-learn and safetensors; no network. Everything is in the bundle's directory: the
workflow's paths (``results/…``), ``logs/``, ``done/`` (one file for each job: when, how long, where), and ``out/``, which is what
goes home (:mod:`pretrieve.operations.bundle.results`).
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, PretrieveError
from pretrieve.base.files import write_json
from pretrieve.base.inside import plain_name
from pretrieve.base.program import Tee, die_with_parent, hold_job, run_program
from pretrieve.evaluation.ranx_metrics import metric_of_ranx
from pretrieve.operations.bundle.archive import check_sum
from pretrieve.operations.bundle.jobs import Call, Job, dependents, makers
from pretrieve.operations.bundle.results import packed_jobs, write_slice
from pretrieve.raw.json_file import read_json

JOBS = "jobs.json"
#: What a result may depend on: written into the manifest.
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "scikit-learn", "safetensors", "ranx", "numba")
#: Seconds of a slice that are kept for packing its results.
RESERVE = 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path(), help="the unpacked bundle")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="after so many minutes, save the running job and start no other"
    )
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--threads", type=int, help="on a CPU; default: as in the workflow")
    parser.add_argument(
        "--weights", choices=("bf16", "fp32", "none"), default="bf16", help="format of the returned weights"
    )
    runs = (
        "runs that come back; needed: those that more than their scores is made from, the others are scored here, with ranx; "
        "and no negatives that have been used"
    )
    parser.add_argument("--runs", choices=("all", "needed"), default="all", help=runs)
    parser.add_argument("--processes", type=int, default=1, help="jobs at a time, all on one device")
    parser.add_argument("--out", type=Path, help="folder for returned results; default: DIR/out")
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    if arguments.processes < 1:
        raise ConfigError(f"--processes {arguments.processes}: expected 1 or more.")
    begun = time.monotonic()
    out = arguments.out.resolve() if arguments.out else Path("out")
    if not (file := arguments.bundle / JOBS).is_file():
        raise DataError(f"{file}: no such file; give --bundle the directory that the bundle was unpacked to.")
    os.chdir(arguments.bundle)
    Path("logs").mkdir(exist_ok=True)
    hold_job(Path("logs/runner.log"))  # two calls at once would write the same checkpoints and slices
    if arguments.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks for devices
    seconds = max(0.0, arguments.minutes * 60)
    until = begun + max(seconds - RESERVE, seconds / 2)
    if failed := run_slice(until, out, arguments):
        raise DataError(
            f"{len(failed)} jobs failed, the first is {failed[0]}; see logs/. All jobs that do not need them are done."
        )


def run_slice(until: float, out: Path, arguments: argparse.Namespace) -> list[str]:
    """Run the jobs of the bundle in the current directory until a moment of ``time.monotonic``; returns those that failed."""
    from pretrieve.training.device import choose_device

    manifest = read_json(Path("manifest.json"), "the manifest of a bundle")
    for name, expected in manifest.pop("members").items():
        plain_name(name, "manifest.json: member")
        check_sum(Path(name), expected)
    jobs = [Job.from_json(value) for value in json.loads(Path(JOBS).read_text(encoding="utf-8"))]
    if arguments.threads:
        more = {"threads": [str(arguments.threads)]}
        jobs = [replace(job, call=Call(job.call.program, dict(job.call.options) | more)) for job in jobs]
    threads = int(jobs[0].call.one("threads", "1"))
    device = choose_device(arguments.precision, threads)
    if arguments.device == "cuda" and device.device.type != "cuda":
        raise ConfigError("--device cuda: torch finds no CUDA device here; take --device cpu, or a machine with one.")
    needed = {place for job in jobs for place in job.call.options.get("runs", ())}
    if arguments.runs == "needed":
        needed = set(manifest.get("runs", ()))
        try:
            metric_of_ranx()
        except (ConfigError, ImportError) as error:
            raise ConfigError(f"--runs needed: the other runs are scored here: {error} Or take --runs all.") from None
    machine = describe(device) | {"processes": str(arguments.processes)}
    print(
        f"{len(jobs)} jobs, {len(_done())} done; {machine['device']}, {machine['precision']}, torch {machine['torch']}"
    )
    how = How(arguments.precision, threads, until, arguments.checkpoint_seconds, machine)
    stopped, failed = _run_all(jobs, how, arguments.processes, needed)
    records, sent = _done(), packed_jobs(out)
    finished = [job for job in jobs if job.id in records and job.id not in sent]
    about = {"bundle": manifest, "machine": machine}
    stay = _files_that_stay(jobs, needed, records) if arguments.runs == "needed" else set()
    folder = write_slice(finished, records, out, about, arguments.weights, stay)
    left = [job for job in jobs if job.id not in records]
    where = f"; {len(finished)} of them are in {folder}" if folder else ""
    print(f"{len(records)} of {len(jobs)} jobs are done{where}")
    if left:
        word = "the time is over" if stopped else "the rest needs what failed"
        print(f"{len(left)} jobs left ({word}), next: {left[0].name}. Call the same command again.")
    return failed


def _files_that_stay(jobs: Sequence[Job], needed: set[str], done: Collection[str]) -> set[str]:
    """The runs that are scored and not needed, and the negatives of which all readers in the bundle are ``done`` (ids)."""
    read: dict[str, bool] = {}
    for job in jobs:
        read |= {place: job.id in done and read.get(place, True) for place in job.call.needs}
    found = set()
    for options in (job.call.options for job in jobs if job.call.program == "retrieve"):
        if all(Path(scores).is_file() for scores in options["outputs"]):
            found |= {*options["runs"]} - needed
        found |= {place for place in options.get("negatives", ()) if read.get(place)}
    return found


@dataclass(frozen=True)
class How:
    """precision, threads: as for :func:`~pretrieve.training.device.choose_device`; until: a moment of ``time.monotonic``, which
    all processes of a system share; machine: what is said of it."""

    precision: str
    threads: int
    until: float
    checkpoint_seconds: float
    machine: Mapping[str, str]


def _begin_worker() -> None:
    """What a process of its own needs: it ends with the runner, and its lines appear at once."""
    die_with_parent()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")


class _Here(Executor):
    """One job at a time, in this process."""

    def submit(self, function: Callable, /, *arguments: Any) -> Future:
        future: Future = Future()
        future.set_result(function(*arguments))
        return future


def _run_all(jobs: Sequence[Job], how: How, processes: int, needed: set[str]) -> tuple[bool, list[str]]:
    """Run what is not done, in order, each when what it needs is there, ``processes`` at a time; whether the time ended it, and
    the names of the jobs that failed. Searches whose runs are not ``needed`` are scored.

    Small models leave most of a GPU idle, whose work waits for the Python that starts it. Processes share it."""
    made_by = makers(jobs)
    number = {job.id: place for place, job in enumerate(jobs, 1)}
    done = set(_done())
    waiting = [job for job in jobs if job.id not in done]
    running: dict[Future, Job] = {}
    stopped, failed = False, []
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, spawn, initializer=_begin_worker) if processes > 1 else _Here()
    with pool:
        while True:
            missing = {place for place, maker in made_by.items() if maker.id not in done}
            ready = (job for job in waiting if missing.isdisjoint(job.call.needs))
            while len(running) < processes and not stopped and (job := next(ready, None)):
                if time.monotonic() >= how.until:
                    stopped = True
                    break
                print(f"[{number[job.id]}/{len(jobs)}] {job.name}", flush=True)
                scored = job.call.program == "retrieve" and needed.isdisjoint(job.call.options["runs"])
                waiting = [one for one in waiting if one is not job]
                try:
                    running[pool.submit(_run, job, how, scored)] = job
                except BrokenProcessPool:
                    stopped = True
            if not running:
                return stopped, failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    end = future.result()
                except BrokenProcessPool:  # one process was killed, and all end
                    end, stopped = "failed", True
                    print(f"  killed beside or at {job.name}: fewer --processes need less memory", flush=True)
                if end == "done":
                    done.add(job.id)
                elif end == "stopped":
                    stopped = True
                else:
                    failed.append(job.name)
                    lost = dependents(job.call.makes, jobs)
                    waiting = [one for one in waiting if one not in lost]
                    said = f"{len(lost)} jobs need it and are skipped; see logs/{job.id}.log"
                    print(f"  {job.name} failed; {said}", flush=True)


def _run(job: Job, how: How, scored: bool) -> str:
    """Run one job; 'done', 'stopped' or 'failed'. Its time counts over all slices. scored: a search scores its run, too."""
    import torch

    from pretrieve.operations.bundle.programs import run_call
    from pretrieve.training.device import choose_device
    from pretrieve.training.loop import Stopped
    from pretrieve.training.memory import OutOfMemory

    device = choose_device(how.precision, how.threads)
    partial = Path(f"done/{job.id}.partial.json")
    before = {"slices": 0, "seconds": 0.0, "started": _now()}
    if partial.is_file():
        before = json.loads(partial.read_text(encoding="utf-8"))
    begun = time.monotonic()
    log = Path(f"logs/{job.id}.log")
    log.parent.mkdir(exist_ok=True)

    def record() -> dict[str, Any]:
        taken = {"slices": before["slices"] + 1, "seconds": round(before["seconds"] + time.monotonic() - begun, 3)}
        return {**taken, "started": before["started"], "ended": _now(), **how.machine}

    with open(log, "a", encoding="utf-8", buffering=1) as stream:
        try:
            with redirect_stdout(Tee(sys.stdout, stream)), redirect_stderr(Tee(sys.stderr, stream)):
                scores = run_call(job.call, device, how.until, how.checkpoint_seconds, scored)
        except Stopped:
            write_json(partial, made := record())
            if made["slices"] > 1 and job.call.program not in ("pretrain", "finetune"):
                said = f"has now been stopped {made['slices']} times; it keeps only finished shards of vectors"
                print(f"  {job.name} {said}. If it never ends, give more --minutes.", flush=True)
            return "stopped"
        except PretrieveError as error:
            shared = isinstance(error, OutOfMemory) and how.machine["processes"] != "1"
            text = f"{type(error).__name__}: {error}{' Or take fewer --processes.' if shared else ''}"
            print(text, file=stream)
            print(f"  {text}", file=sys.stderr)
            return "failed"
        except Exception:
            traceback.print_exc(file=stream)
            traceback.print_exc()
            return "failed"
        finally:
            torch.cuda.empty_cache()  # for the jobs beside this one
    if before["seconds"]:
        _add_cost(job.call, before["seconds"], device.device.type == "cuda")
    if scores:
        print("  " + ", ".join(f"{metric} {value:.3f}" for metric, value in scores.items()), flush=True)
    write_json(f"done/{job.id}.json", record() | ({"scores": scores} if scores else {}))
    partial.unlink(missing_ok=True)
    return "done"


def _add_cost(call: Call, seconds: float, gpu: bool) -> None:
    """Add what earlier slices took to the job's ``cost.json``, which only knows the last one."""
    path = Path(call.makes[0]) / "cost.json"
    if path.is_file():
        cost = json.loads(path.read_text(encoding="utf-8"))
        cost["wall_s"] = round(cost["wall_s"] + seconds, 3)
        cost["gpu_h"] = round(cost["gpu_h"] + (seconds / 3600 if gpu else 0.0), 6)
        write_json(path, cost)


def _done() -> dict[str, dict[str, Any]]:
    """Job → its record, of the finished ones."""
    files = [path for path in sorted(Path("done").glob("*.json")) if not path.name.endswith(".partial.json")]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def describe(device: Any) -> dict[str, str]:
    """The machine and its software, as the manifest has it."""
    import torch

    found = dict.fromkeys(PACKAGES, "missing")
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    kind = device.device.type
    name = torch.cuda.get_device_name(device.device) if kind == "cuda" else f"CPU {platform.machine()}"
    precision = "bf16" if device.bf16 else "fp32"
    return {"device": name, "precision": precision, "python": platform.python_version(), **found}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    run_program(main)
