"""The one training loop: every objective, pre-training or fine-tuning, goes through :func:`train`.

An objective says, for a step number, which examples the *global* batch has, as micro-batches that fit in memory, and how
many terms each loss is a mean over. The loop divides by the count over the whole global batch, so the result does not
depend on how the batch was cut, nor on how many processes share it: a mean of micro-batch means would.

Everything random is a function of (seed, step, micro-batch). So a run that is killed and started again continues from its
last checkpoint and ends with the same bits on a CPU.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import torch
from torch import nn

from pretrieve.base.errors import PretrieveError
from pretrieve.base.progress import Progress
from pretrieve.training.checkpoint import Checkpoints, Snapshots, State, pack_state, pack_weights, unpack_state
from pretrieve.training.cost import NOTHING, Spent, cpu_seconds
from pretrieve.training.csv_rows import write_rows
from pretrieve.training.device import Device
from pretrieve.training.memory import out_of_memory
from pretrieve.training.objective import MicroBatch, Objective
from pretrieve.training.optimiser import OptimiserConfig, Phases
from pretrieve.training.processes import ALONE, Processes
from pretrieve.training.step import accumulate

#: How far a first loss may be from the expected one, as a share of it.
FIRST_LOSS_TOLERANCE = 0.15
#: Of a learning curve without a row.
COLUMNS = ["step", "tokens", "tokens_per_s", "loss", "learning_rate", "gradient_norm"]


class Prefetch:
    """``prefetch(step, last)`` → the batches of a step; on a GPU, those of step + 1 are begun at the same time.

    On a CPU batches are made when they are asked for: a thread would take from the core that trains.
    """

    def __init__(self, make: Callable[[int], list[MicroBatch]], device: Device) -> None:
        self._make = make
        self._pool = ThreadPoolExecutor(1) if device.device.type == "cuda" else None
        self._waiting: tuple[int, Future] | None = None

    def __call__(self, step: int, last: int) -> list[MicroBatch]:
        """Batches of ``step``; nothing is begun after step ``last``."""
        if self._pool is None:
            return self._make(step)
        ready = self._waiting
        batches = ready[1].result() if ready and ready[0] == step else self._make(step)
        self._waiting = (step + 1, self._pool.submit(self._make, step + 1)) if step < last else None
        return batches

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class RunSettings:
    """How one training run is done. Of all this only the seed, and the device's precision, decide what comes out.

    checkpoint_seconds: a run that has a place for checkpoints saves one this often. processes: the group that shares
    each batch; every member is called with the same arguments and ends with the same weights. stop: asked after every
    step but the last, whether to save and end here; one process that says yes is enough for all. token_budget: tokens
    of a micro-batch of pre-training; None: the device's default.
    """

    device: Device
    seed: int
    checkpoint_seconds: float = 60.0
    processes: Processes = ALONE
    stop: Callable[[], bool] | None = None
    token_budget: int | None = None


class TrainingError(PretrieveError):
    """A loss that is not finite, or not where it should begin: going on would only spend time."""


class Stopped(Exception):
    """Training was asked to stop before its last step; what it did is saved, and the same call continues from there."""


@dataclass
class Watcher:
    """Called after every step; keeps what it needs in ``tensors`` and ``info``, which go into the checkpoints. ``snapshots``:
    the steps whose weights are kept."""

    after_step: Callable[[int], None] = lambda step: None
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    info: dict = field(default_factory=dict)
    snapshots: Snapshots | None = None


@dataclass
class Outcome:
    """What a run did: learning curve rows, real tokens, and what it took. ``earlier``: the part of earlier processes, up to the
    checkpoints that the next one continued from."""

    curve: list[dict[str, float]] = field(default_factory=list)
    tokens: int = 0
    spent: Spent = NOTHING
    earlier: Spent = NOTHING


def content_key(*parts: object) -> str:
    """A short hash of JSON-able values: what a checkpoint or an embedding store belongs to."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def train(
    objective: Objective,
    config: OptimiserConfig,
    run: RunSettings,
    checkpoints: Checkpoints | None = None,
    watcher: Watcher | None = None,
    label: str = "training",
    expected_first: dict[str, float] | None = None,
) -> Outcome:
    """Train ``objective.module`` in place for ``config.steps`` steps.

    checkpoints: where to resume from, and to save to; None trains without. watcher: looks on after every step
    (validation); its state is saved and restored with the run's. expected_first: loss term → what it should be at step
    0, within :data:`FIRST_LOSS_TOLERANCE`, for fresh weights.

    Raises Stopped when ``run.stop`` said so; OutOfMemory when a micro-batch does not fit into the GPU (the message says
    how many tokens would); TrainingError when the loss or its gradient is NaN or infinite (the message has step,
    learning rate, loss terms and batch ids; the weights are then those of the step before), or a first loss is not the
    expected one.
    """
    device, processes = run.device, run.processes
    module = objective.module.to(device.device)
    watcher = watcher or Watcher()
    curve: list[dict[str, float]] = []
    first, tokens, earlier = 0, 0, NOTHING
    saved = checkpoints.latest() if checkpoints else None
    if saved and watcher.snapshots and (lost := watcher.snapshots.lost(saved.step)):
        print(f"{label}: the weights of steps {lost} are not there any more; it begins again", file=sys.stderr)
        saved = None
    begins = processes.every(saved.step if saved else 0)  # and all have read before one writes
    if len(set(begins)) > 1:
        raise TrainingError(
            f"{label}: the processes would continue from steps {[int(step) for step in begins]}; they need one folder of "
            "checkpoints that all can read."
        )
    phases = Phases(module, config, saved.step if saved else 0)
    if saved:
        unpack_state({n: t for n, t in saved.tensors.items() if not n.startswith("watcher/")}, module, phases.optimiser)
        watcher.tensors = {n.removeprefix("watcher/"): t for n, t in saved.tensors.items() if n.startswith("watcher/")}
        watcher.info = saved.info["watcher"]
        first, tokens, curve = saved.step, saved.info["tokens"], saved.info["curve"]
        earlier = Spent(*saved.info["spent"])
        print(f"{label}: going on from step {first:,} of {config.steps:,}", file=sys.stderr)
    begun = last_saved = time.monotonic()
    begun_cpu = cpu_seconds()
    since_row = (begun, tokens)

    def spent() -> Spent:
        return Spent(earlier.wall_s + time.monotonic() - begun, earlier.cpu_s + cpu_seconds() - begun_cpu)

    def state(step: int, tensors: dict[str, torch.Tensor]) -> State:
        return State(step, tensors, {"tokens": tokens, "spent": spent(), "curve": curve, "watcher": watcher.info})

    def save(step: int) -> None:
        tensors = pack_state(module, phases.optimiser) | {f"watcher/{n}": t for n, t in watcher.tensors.items()}
        checkpoints.save(state(step, tensors))

    module.train()
    log_every = max(1, config.steps // 100)
    known_until = getattr(objective, "known_until", lambda step: config.steps - 1)
    with (
        Progress(label if processes.first else f"{label} [{processes.rank}]", config.steps, "steps", first) as progress,
        Prefetch(lambda step: objective.micro_batches(step, processes.world), device) as batches_of,
    ):
        for step in range(first, config.steps):
            rate = phases.set_rate(step)
            micro_batches = batches_of(step, last=min(config.steps - 1, known_until(step)))
            phases.optimiser.zero_grad(set_to_none=True)
            try:
                done = accumulate(objective, micro_batches, device, processes, (run.seed, step))
            except torch.OutOfMemoryError as error:
                largest = max(micro_batches, key=lambda batch: batch.tokens)
                numbers = sum(parameter.numel() for parameter in module.parameters())
                examples = max(len(largest.ids), largest.rows)
                raise out_of_memory(label, error, largest.tokens, examples, numbers) from None
            total = sum(objective.terms[term] * value for term, value in done.means.items())
            place = f"step {step} (seed {run.seed}, learning rate {rate:.3g}, terms {done.means})"
            _refuse_nan(f"{label}: the loss", total, place, done.bad)
            if step == 0:
                _check_first(label, done.means, expected_first or {})
            processes.add_gradients(module.parameters())
            norm = float(nn.utils.clip_grad_norm_(module.parameters(), config.clip or math.inf))
            _refuse_nan(f"{label}: the gradient norm", norm, place, micro_batches)
            phases.optimiser.step()
            phases.reach(step + 1)
            tokens += sum(batch.tokens for batch in micro_batches)
            if step % log_every == 0 or step == config.steps - 1:
                now = time.monotonic()
                speed = (tokens - since_row[1]) / max(now - since_row[0], 1e-9)
                since_row = (now, tokens)
                row = {"step": step, "tokens": tokens, "tokens_per_s": round(speed), "loss": total, **done.means}
                curve.append({**row, "learning_rate": rate, "gradient_norm": norm})
            watcher.after_step(step)
            if processes.first and watcher.snapshots and step + 1 in watcher.snapshots:
                watcher.snapshots.keep(state(step + 1, pack_weights(module)))
            progress.advance(1, f"loss {total:.3f}")
            if step == config.steps - 1:
                break
            ends = run.stop is not None and max(processes.every(float(run.stop()))) > 0
            overdue = time.monotonic() - last_saved >= run.checkpoint_seconds
            if checkpoints and processes.first and (ends or overdue):
                save(step + 1)
                last_saved = time.monotonic()
            if ends:
                raise Stopped(f"{label}: stopped after step {step + 1:,} of {config.steps:,}")
    module.eval()
    return Outcome(curve, tokens, spent(), earlier)


def _check_first(label: str, means: dict[str, float], expected: dict[str, float]) -> None:
    for term, value in expected.items():
        if abs(means[term] - value) > FIRST_LOSS_TOLERANCE * value:
            raise TrainingError(
                f"{label}: loss term {term} begins at {means[term]:.3f}; fresh weights of this initialisation should give "
                f"about {value:.3f} (ln V, and a little for the deviation of the logits). Look at body.std and body.word_std."
            )


def _refuse_nan(what: str, value: float, place: str, batches: list[MicroBatch]) -> None:
    if math.isfinite(value):
        return
    ids = [int(i) for batch in batches for i in batch.ids]
    shown = f"{ids[:8]}{f' and {len(ids) - 8} more' if len(ids) > 8 else ''}" if ids else "of another process"
    raise TrainingError(
        f"{what} is {value} at {place}, examples {shown}. Lower the learning rate, or look at these examples: a batch is a "
        "function of seed and step."
    )


def write_curve(path: Path, curve: list[dict[str, float]]) -> None:
    """Write a learning curve, one row for every 1 % of the steps: step (from 0), real tokens so far, tokens a second since
    the row before, the loss, each of its terms, learning rate, gradient norm before clipping."""
    write_rows(path, curve, COLUMNS)
