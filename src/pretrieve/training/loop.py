"""The one training loop: every objective, pre-training or fine-tuning, goes through :func:`train`.

An objective says, for a step number, which examples the *global* batch has, as micro-batches that fit in memory, and how
many terms each loss is a mean over. The loop divides by the count over the whole global batch, so the result does not
depend on how the batch was cut: a mean of micro-batch means would.

Everything random is a function of (seed, step). So a run that is killed and started again continues from its last
checkpoint and ends with the same bits on a CPU.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from pretrieve.errors import PretrieveError
from pretrieve.files import whole_file
from pretrieve.training.checkpoint import Checkpoints, State, pack_state, unpack_state
from pretrieve.training.device import Device
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser
from pretrieve.training.progress import Progress


class TrainingError(PretrieveError):
    """A loss that is not finite: going on would only spend time."""


@dataclass(frozen=True)
class MicroBatch:
    """Part of a global batch: the objective's own data, how many items each loss term sums over, and real tokens."""

    data: Any
    counts: dict[str, int]
    tokens: int


class Objective(Protocol):
    """What can be trained. ``terms``: loss term → its weight in the total; ``module``: all trained parameters."""

    module: nn.Module
    terms: dict[str, float]

    def micro_batches(self, step: int) -> list[MicroBatch]:
        """The global batch of a step; a pure function of the step."""
        ...

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Loss terms of a micro-batch, each *summed* over its ``counts``."""
        ...


@dataclass
class Watcher:
    """Called after every step; keeps what it needs in ``tensors`` and ``info``, which go into the checkpoints."""

    after_step: Callable[[int], None] = lambda step: None
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    info: dict = field(default_factory=dict)


@dataclass
class Outcome:
    """What a run did: learning curve rows, real tokens, and wall seconds over all its parts (kills included)."""

    curve: list[dict[str, float]]
    tokens: int
    wall_s: float


def content_key(*parts: object) -> str:
    """A short hash of JSON-able values: what a checkpoint or an embedding store belongs to."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def train(
    objective: Objective,
    config: OptimiserConfig,
    device: Device,
    seed: int,
    checkpoints: Checkpoints | None = None,
    checkpoint_seconds: float = 60.0,
    watcher: Watcher | None = None,
    label: str = "training",
) -> Outcome:
    """Train ``objective.module`` in place for ``config.steps`` steps.

    Parameters
    ----------
    checkpoints:
        where to resume from, and to save to every ``checkpoint_seconds``; None trains without.
    watcher:
        looks on after every step (validation); its state is saved and restored with the run's.

    Raises
    ------
    TrainingError
        when the loss is NaN or infinite; the message has step, learning rate and loss terms.
    """
    module = objective.module.to(device.device)
    optimiser = make_optimiser(module, config)
    watcher = watcher or Watcher()
    curve: list[dict[str, float]] = []
    first, tokens, spent = 0, 0, 0.0
    saved = checkpoints.latest() if checkpoints else None
    if saved:
        unpack_state({n: t for n, t in saved.tensors.items() if not n.startswith("watcher/")}, module, optimiser)
        watcher.tensors = {n.removeprefix("watcher/"): t for n, t in saved.tensors.items() if n.startswith("watcher/")}
        watcher.info = saved.info["watcher"]
        first, tokens, spent, curve = saved.step, saved.info["tokens"], saved.info["wall_s"], saved.info["curve"]
        print(f"{label}: going on from step {first:,} of {config.steps:,}", file=sys.stderr)
    begun = last_saved = time.monotonic()

    def save(step: int) -> None:
        state = pack_state(module, optimiser) | {f"watcher/{n}": t for n, t in watcher.tensors.items()}
        info = {"tokens": tokens, "wall_s": spent + time.monotonic() - begun, "curve": curve, "watcher": watcher.info}
        checkpoints.save(State(step, state, info))

    module.train()
    log_every = max(1, config.steps // 100)
    with Progress(label, total=config.steps, unit="steps", initial=first) as progress:
        for step in range(first, config.steps):
            torch.manual_seed((seed * 1_000_003 + step) % 2**63)  # dropout
            rate = learning_rate_at(config, step)
            for group in optimiser.param_groups:
                group["lr"] = rate
            micro_batches = objective.micro_batches(step)
            totals = {term: sum(batch.counts[term] for batch in micro_batches) for term in objective.terms}
            optimiser.zero_grad(set_to_none=True)
            sums = dict.fromkeys(objective.terms, 0.0)
            for batch in micro_batches:
                with device.autocast():
                    losses = objective.losses(batch)
                loss = sum(w * losses[t].float() / max(totals[t], 1) for t, w in objective.terms.items())
                loss.backward()
                for term in sums:
                    sums[term] += losses[term].detach().double() / max(totals[term], 1)
            means = {term: float(value) for term, value in sums.items()}
            total = sum(objective.terms[term] * value for term, value in means.items())
            if not math.isfinite(total):
                raise TrainingError(
                    f"{label}: the loss is {total} at step {step} (seed {seed}, learning rate {rate:.3g}, terms {means}). "
                    "Lower the learning rate, or look at this step's batch: it is a function of seed and step."
                )
            norm = nn.utils.clip_grad_norm_(module.parameters(), config.clip or math.inf)
            optimiser.step()
            tokens += sum(batch.tokens for batch in micro_batches)
            if step % log_every == 0 or step == config.steps - 1:
                row = {"step": step, "tokens": tokens, "loss": total, **means}
                curve.append({**row, "learning_rate": rate, "gradient_norm": float(norm)})
            watcher.after_step(step)
            progress.advance(1, f"loss {total:.3f}")
            now = time.monotonic()
            if checkpoints and now - last_saved >= checkpoint_seconds and step < config.steps - 1:
                save(step + 1)
                last_saved = now
    module.eval()
    return Outcome(curve, tokens, spent + time.monotonic() - begun)


def write_curve(path: Path, curve: list[dict[str, float]]) -> None:
    """Write a learning curve as CSV, one row for every 1 % of the steps."""
    columns = list(curve[0]) if curve else ["step", "tokens", "loss", "learning_rate", "gradient_norm"]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{value:.6g}" for name, value in row.items()} for row in curve)
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())
