"""C19: what it gains that jobs keep freed memory (:mod:`pretrieve.workflow.job_environment`).

Two processes with the same code, one with the tunables of the workflow's jobs and one with glibc's defaults, take turns: steps of
masked words on bodies of several sizes, with 32 and 128 passages of web lengths, and encoding of 4,096 tokens at a time. CPU
time, which includes the system's: of clearing pages. ``faults``: pages that a step is given; both losses are equal, bit for bit.

    PYTHONPATH=src python benchmarks/c19_allocator.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import os
import resource
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import steps
import torch

from pretrieve.models.batch import Batch
from pretrieve.models.transformer import Transformer
from pretrieve.text.packing import Packed
from pretrieve.training.device import choose_device
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.workflow.job_environment import NAME, TUNABLES

VOCABULARY, TOKENS = 30522, 4096
BODIES = {"4 × 256": (4, 256), "6 × 384": (6, 384), "12 × 768": (12, 768)}
BATCHES = (32, 128)


def setup(rounds: int) -> dict[str, Callable[[int], object]]:
    """By name: steps, which return the loss and the number of page faults, and encoding."""
    device = choose_device()
    functions: dict[str, Callable[[int], object]] = {}
    for name, (layers, hidden) in BODIES.items():
        body = steps.body(VOCABULARY, 0.0, layers, hidden, hidden // 32)
        for batch in BATCHES:
            if hidden == 768 and batch > min(BATCHES):
                continue
            functions[f"step, {name}, {batch} passages"] = counted(stepper(body, batch, rounds, device.bf16).step)
        model = Transformer(body).eval()
        model.initialise(torch.Generator().manual_seed(1))
        lengths = np.sort(steps.web_lengths(TOKENS // 73, np.random.default_rng(1)))[::-1].copy()
        tokens = np.random.default_rng(2).integers(5, VOCABULARY, lengths.sum())
        packed = Packed(tokens, np.zeros_like(tokens), lengths, np.arange(len(lengths)))
        functions[f"encoding, {name}"] = counted(lambda _, model=model, packed=packed: encode(model, packed, device))
    return functions


def stepper(body: object, batch: int, rounds: int, bf16: bool) -> steps.Stepper:
    with tempfile.TemporaryDirectory() as folder:
        lengths = steps.web_lengths(batch * (rounds + 1), np.random.default_rng(3))
        store = steps.random_store(Path(folder), VOCABULARY, lengths, np.random.default_rng(4))
        objective = steps.make("mlm", body, store, batch=batch)
        return steps.Stepper(objective, OptimiserConfig(rounds + 1, 1e-4), bf16)


def encode(model: Transformer, packed: Packed, device: object) -> float:
    with torch.inference_mode(), device.autocast():
        return float(model(Batch.of(packed, device.device), first_only=True).sum())


def counted(call: Callable[[int], float]) -> Callable[[int], tuple[float, int]]:
    def counting(number: int) -> tuple[float, int]:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        value = call(number)
        return value, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return counting


def watched(variant: Callable[[int], common.Spent], seen: list) -> Callable[[int], common.Spent]:
    """The same, which keeps what the calls return."""

    def call(number: int) -> common.Spent:
        spent = variant(number)
        seen.append(spent.result)
        return spent

    return call


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    os.environ[NAME] = TUNABLES
    workers = {
        "kept": common.Worker(setup, args.rounds),
        "default": common.Worker(setup, args.rounds, without=(NAME,)),
    }
    lines, rows = [], []
    for name in workers["kept"].names:
        seen: dict[str, list[tuple[float, int]]] = {"kept": [], "default": []}
        calls = {key: watched(worker.variant(name, returns=True), seen[key]) for key, worker in workers.items()}
        times = common.interleave(calls, args.rounds)
        if [loss for loss, _ in seen["kept"]] != [loss for loss, _ in seen["default"]]:
            raise SystemExit(f"{name}: the results differ")
        ratio = common.ratios(times, "kept")["default"]
        faults = {key: statistics.median(pages for _, pages in values[1:]) for key, values in seen.items()}
        lines.append({"what": name, "ratio": ratio, "seconds": common.medians(times), "faults": faults})
        rows.append([name, ratio["median"], ratio["min"], ratio["max"], *(int(faults[key]) for key in seen)])
        common.write("c19_allocator", args, ("torch",), tunables=TUNABLES, lines=lines)
    common.table(
        "C19: CPU time with glibc's defaults ÷ with freed memory kept",
        ["", "median", "least", "greatest", "faults", "faults, default"],
        rows,
    )


if __name__ == "__main__":
    main()
