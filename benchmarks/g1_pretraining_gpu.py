"""G1: a training step of MLM, RetroMAE and Condenser with BERT-base on a GPU, against transformers in bf16, eager and compiled.

12 layers, 768-d, V = 30,522; 256 or 64 texts with the lengths of web passages, at most 128 or 512 tokens (57 % full when
padded), random tokens. Ours is bf16 on packed batches. The peer is ``plain_hf.py``: padded, logits at all positions, torch's
fused attention, bf16 autocast, fused AdamW; with ``--compile`` also ``compiled``, the same through ``torch.compile``, whose
first steps are not timed. First, equality: same weights, same masks, dropout off, fp32: losses agree to 1e-3.

MFU, the share of the machine's rate of matrix products that is used, counts real tokens only. Operations of a token, forward and
backward::

    6·12·d²·layers + 12·layers·L·d + 6·d·V·f        L: mean length of the texts; f: logits a token

with the decoder's or head's layers among ``layers``; f is the masked share (MLM), twice that (Condenser), or that and nearly 1
(RetroMAE). The rate it is divided by is that of an 8192³ product in bf16, measured in the same run.

Of ``--compile`` there is no result yet. ``--small`` checks the script on any machine, and measures nothing of use.

    PYTHONPATH=src python benchmarks/g1_pretraining_gpu.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain_hf
import steps
import torch

from pretrieve.models.config import BodyConfig
from pretrieve.training.device import choose_device
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig

NAMES = ("mlm", "retromae", "condenser")
SHAPES = {128: 256, 512: 64}  # longest text: texts a step
TARGETS = {"mfu": {128: 0.45, 512: 0.55}, "HF": 2.5, "HF compiled": 1.3}
BERT_BASE = {"vocabulary_size": 30522, "hidden": 768, "layers": 12, "heads": 12, "feed_forward": 3072}
SMALL = {"vocabulary_size": 512, "hidden": 64, "layers": 4, "heads": 2, "feed_forward": 256}


def synchronise(device: torch.device) -> None:
    """Wait for what the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleave(
    variants: dict[str, Callable[[int], object]], rounds: int, device: torch.device, untimed: int = 3
) -> dict[str, list[float]]:
    """Elapsed seconds of every variant in every round, after ``untimed`` calls of each."""

    def waited(variant: Callable[[int], object]) -> Callable[[int], None]:
        def call(number: int) -> None:
            variant(number)
            synchronise(device)

        return call

    for variant in variants.values():
        for number in range(untimed):
            variant(number % rounds)
    synchronise(device)
    calls = {name: waited(variant) for name, variant in variants.items()}
    return common.interleave(calls, rounds, warm_up=False, clock=time.perf_counter)


def with_cudnn(call: Callable[..., object]) -> Callable[..., object]:
    """A peer's call with cuDNN's attention, as torch has it; ours is without it (:mod:`pretrieve.training.device`)."""

    def run(*given: object) -> object:
        torch.backends.cuda.enable_cudnn_sdp(True)
        try:
            return call(*given)
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)

    return run


def product_rate(device: torch.device, size: int) -> float:
    """Operations a second of a product of two (size, size) matrices in bf16."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    times = interleave({"product": lambda _: left @ right}, 5, device)["product"]
    return 2 * size**3 / statistics.median(times)


def operations(objective: Objective, config: BodyConfig, step: int) -> float:
    """Of a step, by the formula above."""
    tokens = squares = logits = 0
    for batch in objective.micro_batches(step):
        tokens += batch.tokens
        squares += int((batch.data.corrupted.lengths**2).sum())
        logits += sum(batch.counts[term] for term in objective.word_terms)
    beside = [part for name, part in objective.module.items() if name in ("decoder", "condenser")]
    layers = config.layers + sum(len(part.layers) for part in beside)
    body = 6 * 12 * config.hidden**2 * layers * tokens + 12 * layers * config.hidden * squares
    return body + 6 * config.hidden * config.vocabulary_size * logits


def run(
    name: str, shape: dict[str, int], length: int, batch: int, rounds: int, device: torch.device, compiled: bool
) -> dict[str, Any]:
    """Check and measure one objective at one length."""
    config = BodyConfig(**shape, max_positions=length, dropout=0.1)
    changes = {"skip_layer": config.layers // 2} if name == "condenser" else None
    with tempfile.TemporaryDirectory() as directory:
        rng = np.random.default_rng(steps.SEED)
        lengths = np.maximum(steps.web_lengths(batch * rounds, rng) * length // steps.LENGTH, 8) - 2
        store = steps.random_store(Path(directory), config.vocabulary_size, lengths, rng)

        objective = steps.make(name, config, store, changes, batch=batch, length=length, device=device)
        batches = [plain_hf.batch_of(name, objective, step) for step in range(rounds)]
        batches = [{key: value.to(device) for key, value in each.items()} for each in batches]
        model = plain_hf.make(name, objective).to(device).eval()
        objective.module.to(device)
        ours = steps.mean_loss(objective, 0)
        with torch.no_grad():
            theirs = {term: float(value) for term, value in model(**batches[0]).items()}
        if any(abs(ours[term] - theirs[term]) > 1e-3 for term in objective.terms):
            raise SystemExit(f"{name}: losses differ: ours {ours}, transformers {theirs}")
        schedule = OptimiserConfig(rounds, 1e-4)
        peer = steps.TrainerStepper(model, plain_hf.weighted(objective), batches, bf16=True)
        variants = {"ours": steps.Stepper(objective, schedule, True, device), "HF": peer}
        if compiled:
            other = variants["HF compiled"] = peer.twin(bf16=True)
            other.model = torch.compile(
                other.model, dynamic=True, backend="inductor" if device.type == "cuda" else "eager"
            )
        work = [operations(objective, config, step) for step in range(rounds)]
        tokens = [sum(part.tokens for part in objective.micro_batches(step)) for step in range(rounds)]
        calls = {n: with_cudnn(v.step) if n.startswith("HF") else v.step for n, v in variants.items()}
        times = interleave(calls, rounds, device)
    return {
        "loss": {"ours": ours, "hf": theirs},
        "tokens_per_s": {n: round(statistics.median(np.divide(tokens, t)), 1) for n, t in times.items()},
        "operations_per_s": {n: round(statistics.median(np.divide(work, t))) for n, t in times.items()},
        "ratio": common.ratios(times, "ours"),
    }


def main() -> None:
    parser = common.parser(__doc__, rounds=9)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--compile", action="store_true", help="also against the compiled peer")
    parser.add_argument("--small", action="store_true", help="a check of this script on any machine")
    args = parser.parse_args()
    if not args.small and not torch.cuda.is_available():
        raise SystemExit("G1 measures a GPU and there is none here: nothing was measured (--small checks the script).")
    device = choose_device().device
    rate = product_rate(device, 256 if args.small else 8192)
    results: dict[str, Any] = {}
    for length, batch in {24: 8}.items() if args.small else SHAPES.items():
        for name in args.only:
            found = run(name, SMALL if args.small else BERT_BASE, length, batch, args.rounds, device, args.compile)
            found["mfu"] = {n: round(value / rate, 4) for n, value in found["operations_per_s"].items()}
            results[f"{name}, {length}"] = found
            rows = [
                [n, found["tokens_per_s"][n], found["mfu"][n], common.middle(found["ratio"], n)]
                for n in found["tokens_per_s"]
            ]
            common.table(
                f"G1: {name}, at most {length} tokens", ["variant", "real tokens/s", "MFU", "ours is faster by"], rows
            )
    if not args.small:
        gpu = torch.cuda.get_device_name(device)
        common.write("g1_pretraining_gpu", args, ("torch",), gpu=gpu, rate=rate, targets=TARGETS, results=results)


if __name__ == "__main__":
    main()
