"""Start a program on the GPUs of its job: ``python -m pretrieve.training.launch --gpus N --nodes K -- python SCRIPT ...``.

=============================  =====================================================================================
the job has                    what is started
=============================  =====================================================================================
no GPU                         the program itself, in place of this one
one GPU                        the program, with ``CUDA_VISIBLE_DEVICES`` set
several on one node            ``torchrun --standalone --nproc-per-node N``: one process for each
several nodes (Slurm)          ``srun`` starts one ``torchrun`` on each node; they meet on the first one
=============================  =====================================================================================

How many processes there are follows from what the job really has, never from its parameters; the global batch stays the same
(:mod:`pretrieve.training.processes`). In a job of ``profiles/slurm`` that is what Slurm gave it. Elsewhere ``--gpus N`` devices
are taken, each with a lock of its own (:mod:`pretrieve.training.gpu_lock`), so that no two jobs share one unless
``PRETRIEVE_GPU_SHARE`` says so; ``--gpus 0`` takes none and leaves alone what is visible.

**Out of memory.** A program that ends for want of GPU memory leaves a note beside its log (:mod:`pretrieve.training.memory`). It
is started once more, on the same GPUs, with half the tokens at a time and the same global batch. That changes how sums are
rounded, so it is done for nothing else: not for a job that was killed, whose next attempt must end with the same bits.

Loaded before the program, in each job: standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pretrieve.base.errors import ConfigError, PretrieveError
from pretrieve.base.program import die_with_parent
from pretrieve.training import gpu_lock

#: The environment between this program and those it starts.
SCHEDULER, SHARE = "PRETRIEVE_SCHEDULER", "PRETRIEVE_GPU_SHARE"
NOTE, TOKEN_SHARE = "PRETRIEVE_MEMORY_NOTE", "PRETRIEVE_TOKEN_SHARE"
#: Ports for the processes of several nodes to meet at: below those that systems give away by themselves.
PORTS = range(15_000, 30_000)


@dataclass(frozen=True)
class Place:
    """Where a program runs: ``processes`` on each of ``nodes``, which meet on ``host``, the first."""

    processes: int = 1
    nodes: int = 1
    host: str = ""


def meeting(place: Place) -> dict[str, str]:
    """Where the nodes meet, for all of them: torchrun's ``--rdzv-endpoint`` and ``--rdzv-id``, drawn at random for each start.

    In the environment, where torchrun looks for them too [torch/distributed/argparse_util.py, ``env``]: other users of a machine
    see command lines, and who knows port and id could join a job.
    """
    if place.nodes == 1:
        return {}
    return {"PET_RDZV_ENDPOINT": f"{place.host}:{secrets.choice(PORTS)}", "PET_RDZV_ID": secrets.token_hex(16)}


def first_host(nodelist: str) -> str:
    """The first host of Slurm's compressed list.

    >>> [first_host(text) for text in ("gpu7", "gpu[003-010,12]", "a-[1,3]-ib,b2", "n1,n2")]
    ['gpu7', 'gpu003', 'a-1-ib', 'n1']
    """
    match = re.match(r"([^\[,]*)(?:\[(\w+)[^\]]*\]([^\[,]*))?", nodelist)
    return "".join(part or "" for part in match.groups()) if match else nodelist


def slurm_place(environment: Mapping[str, str], nodes: int = 1) -> Place:
    """What a job of Slurm has, from the variables that Slurm sets in it; ``nodes`` is what it has asked for.

    The list of nodes is asked of Slurm where it is not among them: Snakemake's step of the job keeps little of them.

    Raises ConfigError when there are several nodes and no list of them.
    """
    devices = [device for device in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    count = len(devices) or int(environment.get("SLURM_GPUS_ON_NODE") or 0)
    if nodes == 1:
        return Place(max(1, count))
    job = environment["SLURM_JOB_ID"]
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%N"]
    listed = environment.get("SLURM_JOB_NODELIST") or _output(command, environment)
    if not listed:
        raise ConfigError(
            f"job {job} has {nodes} nodes, and `{' '.join(command)}` does not say which; is it still running?"
        )
    return Place(max(1, count), nodes, first_host(listed))


def _output(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", env=dict(environment), timeout=60
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def command_line(program: Sequence[str], place: Place) -> list[str]:
    """The words that start ``program`` (``python SCRIPT ...``) at a place.

    ``--threads`` is what the whole job has on a node; each process gets its part.
    """
    python, script = [sys.executable], list(program[1:])
    if place.processes == place.nodes == 1:
        return [*python, *script]
    if "--threads" in script:
        at = script.index("--threads") + 1
        threads, script[at] = int(script[at]), str(max(1, int(script[at]) // place.processes))
    else:
        threads = place.processes
    # Before the script "--": torchrun takes a program's --log for an abbreviation of its own --log-dir.
    torchrun = [*python, "-m", "torch.distributed.run"]
    if place.nodes == 1:
        return [*torchrun, "--standalone", "--nproc-per-node", str(place.processes), "--", *script]
    # --overlap: Snakemake's own step of the job holds the first node, and this one is to use the same processors and GPUs.
    srun = ["srun", "--overlap", f"--nodes={place.nodes}", f"--ntasks={place.nodes}", "--ntasks-per-node=1"]
    srun += [f"--cpus-per-task={threads}", "--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"]
    torchrun += ["--nnodes", str(place.nodes), "--nproc-per-node", str(place.processes), "--rdzv-backend", "c10d"]
    return [*srun, *torchrun, "--", *script]


def note_file(program: Sequence[str]) -> Path | None:
    """Where a program that runs out of GPU memory says so: beside its log, which all nodes see."""
    if "--log" not in program[:-1]:
        return None
    return Path(program[list(program).index("--log") + 1] + ".memory.json")


def start(program: Sequence[str], place: Place, environment: Mapping[str, str]) -> int:
    """Run a program to its end, and once more at half the tokens if GPU memory was not enough; returns its exit status."""
    note, environment = note_file(program), dict(environment)
    if note is not None:
        note.unlink(missing_ok=True)
        environment[NOTE] = str(note.absolute())
    code = _run(command_line(program, place), environment | meeting(place))
    if code and note is not None and note.is_file() and TOKEN_SHARE not in environment:
        said = json.loads(note.read_text(encoding="utf-8"))
        note.unlink()
        print(
            f"launch: GPU memory was not enough for {said['tokens']:,} tokens at a time; once more with half of them, which "
            "changes no batch.",
            file=sys.stderr,
        )
        code = _run(command_line(program, place), environment | meeting(place) | {TOKEN_SHARE: "0.5"})
    if note is not None:
        note.unlink(missing_ok=True)
    return code


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, which gets our signals and does not outlive us whatever way we end; returns its exit status."""
    process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent)
    handlers = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), lambda number, frame: process.send_signal(number))
    handlers[signal.SIGINT] = lambda number, frame: None  # a terminal sends it to both; wait for the other's end
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def main() -> None:
    """The program of the module's docstring; ends with the exit status of what it started."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=0, help="how many to take, outside of a job of Slurm")
    parser.add_argument("--nodes", type=int, default=1, help="how many the job has, in a job of Slurm")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- python SCRIPT ...")
    arguments = parser.parse_args()
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if program[:1] != ["python"] or len(program) < 2:
        raise ConfigError(
            f"launch: {' '.join(program) or 'nothing'!r} cannot be started; expected -- python SCRIPT ...."
        )
    if os.environ.get(SCHEDULER) == "slurm" and "SLURM_JOB_ID" in os.environ:
        place = slurm_place(os.environ, arguments.nodes)
        has_gpu = any(os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_ON_NODE"))
        if has_gpu or place.nodes > 1:
            sys.exit(start(program, place, os.environ))
    elif arguments.gpus > 0 and (devices := gpu_lock.visible_devices()):
        with gpu_lock.take(arguments.gpus, devices, int(os.environ.get(SHARE) or 1)) as taken:
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(taken)}
            sys.exit(start(program, Place(len(taken)), environment))
    # On processors this program's work is done: the other one takes its place, with its process number.
    os.execv(sys.executable, command_line(program, Place()))


if __name__ == "__main__":
    try:
        main()
    except PretrieveError as error:
        sys.exit(f"{type(error).__name__}: {error}")  # status 1
