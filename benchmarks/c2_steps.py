"""C2: a training step of Condenser, RetroMAE, DupMAE and SEED-Encoder, against a plain implementation and ``pretense``.

4 layers, 256-d, batches of 32 passages with the lengths of web passages (at most 128 tokens, padded batches are 57 %
full), random tokens, vocabularies of 30522 and 8192. Ours is what ``pretrieve.training.loop.train`` does in a step,
drawing of masks included (C1 checks that); peers get padded and masked batches ready-made, RetroMAE's row masks too.

``plain``: ``plain_hf.py``, transformers' parts, logits at all positions. Same weights and masks: its losses must equal ours
to 1e-4 with dropout off, and its gradient of the word embeddings to one part in a thousand.
``pretense`` (PyPI): the only other package with these objectives. It defines them in its own way (RetroMAE's decoder without
LayerNorms on its inputs, a bag of words with counts), so it gets the same batches, but no equality can be asked for; it has no
SEED-Encoder.

Memory: a process of its own for each variant, resident size at the peak of a step over what it was before (weights and the
optimiser's state; gradients, states and logits are in the difference). ``held`` is the peak of what torch's tensors take in
another step: without what the C library keeps of freed memory, which nearly all of them are too small to be given back.
``products``: floating-point operations of the matrix products in a step, the peer's over ours: what a step of nothing else
would gain at equal speed and precision (``--count`` counts them again, into the results that are there).
``ours, 1280`` is ours with micro-batches of at most that many tokens: two or three a step instead of one.

Where the CPU multiplies bf16 (AMX or AVX512-BF16), the project uses it, and ``ours, bf16`` is what is compared (its micro-batches
too, and ``ours`` is fp32). Targets are for the faster, and the smaller, of the peers as they come, in fp32; ``plain, bf16`` and
``pretense, bf16`` are the same peers in autocast, with the same loss to one part in a hundred.

    PRETRIEVE_PEERS=DIR PYTHONPATH=src python benchmarks/c2_steps.py --vocabulary 8192
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import ctypes
import functools
import gc
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain_hf
import steps
import torch
from torch.nn import functional

from pretrieve.models.transformer import seeded
from pretrieve.models.word_head import word_loss
from pretrieve.training.device import choose_device, cpu_multiplies_bf16
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig

TARGETS = {"condenser": 7.0, "retromae": 3.0, "dupmae": 3.0, "seed-encoder": 3.0}
MEMORY_TARGET = 4.0
#: Another token budget than the default, for its peak and its price.
BUDGET = 1280
#: What differs from the default preset: half of our 4 layers are early.
CHANGES: dict[str, dict[str, Any]] = {"condenser": {"skip_layer": 2}}
PRETENSE = {
    "condenser": {"skip_layer": 2, "head_layers": 2, "late_mlm": True},
    "retromae": {"decoder_layers": 1},
    "dupmae": {"decoder_layers": 1, "bow_loss_weight": 0.1},
}


def pretense_batch(name: str, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A plain batch under pretense's names."""
    if name == "condenser":
        return {key: batch[key] for key in ("input_ids", "attention_mask", "labels")}
    result = {f"encoder_{key}": batch[key] for key in ("input_ids", "attention_mask", "labels")}
    result |= {"decoder_input_ids": batch["original"], "decoder_labels": batch["decoder_labels"]}
    result["decoder_attention_mask"] = ~batch["visible"][:, 0]
    return result | ({"bag_word_weight": batch["bag_weight"]} if name == "dupmae" else {})


def pretense_loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Its own total."""
    return model(**batch).loss


def names_of(bf16: bool) -> tuple[list[str], str, str]:
    """All variants, ours that is compared, and the same with the small budget."""
    every = ["ours", "plain", "pretense"]
    best = "ours" + common.BF16 * bf16
    small = f"ours, {BUDGET}" + common.BF16 * bf16
    return [*every, *(name + common.BF16 for name in every if bf16), small], best, small


def make_variants(name: str, vocabulary: int, rounds: int, directory: Path, names: list[str]) -> dict[str, Any]:
    """The steppers of ``names``, and the objective of ours in fp32."""
    rng = np.random.default_rng(steps.SEED)
    lengths = steps.web_lengths(steps.BATCH * rounds, rng) - 2
    store = steps.random_store(directory, vocabulary, lengths, rng)
    config, changes = steps.body(vocabulary), CHANGES.get(name)
    objective = steps.make(name, config, store, changes)
    wanted = {variant.split(",")[0] for variant in names}
    batches = [plain_hf.batch_of(name, objective, s) for s in range(rounds)] if wanted & {"plain", "pretense"} else []
    package = common.peer("pretense") if "pretense" in wanted and name in PRETENSE else None
    ready = [pretense_batch(name, batch) for batch in batches] if package is not None else []
    found: dict[str, Any] = {"objective": objective}
    for variant in names:
        bf16 = variant.endswith(common.BF16)
        kind = variant.removesuffix(common.BF16)
        if kind == "plain":
            model, loss = plain_hf.make(name, objective), plain_hf.weighted(objective)
            found[variant] = steps.TrainerStepper(model, loss, batches, bf16)
        elif kind == "pretense" and package is not None:
            method = package.MethodConfig(name=name, **PRETENSE[name])
            model = package.create_pretraining_model(method, plain_hf.as_bert(objective))
            found[variant] = steps.TrainerStepper(model, pretense_loss, ready, bf16)
        elif kind != "pretense":
            budget = None if kind == "ours" else BUDGET
            own = objective if variant == "ours" else steps.make(name, config, store, changes, budget=budget)
            found[variant] = steps.Stepper(own, OptimiserConfig(rounds, 1e-4), bf16)
    return found


def check(objective: Objective, plain: steps.TrainerStepper, bf16: bool) -> dict[str, Any]:
    """The losses of the first step, and the gradient of the word embeddings, without dropout; and the losses in bf16."""
    ours = steps.mean_loss(objective, 0)
    model = plain.model.eval()
    terms = model(**plain.batches[0])
    theirs = {term: float(value.detach()) for term, value in terms.items()}
    if any(abs(ours[term] - theirs[term]) > 1e-4 for term in objective.terms):
        raise SystemExit(f"losses differ: ours {ours}, plain {theirs}")
    sum(objective.terms[term] * value for term, value in terms.items()).backward()
    expected = model.lm.bert.embeddings.word_embeddings.weight.grad
    objective.module.eval()
    batches = objective.micro_batches(0, 1)
    for batch in batches:
        sum(
            objective.terms[term] * value / sum(b.counts[term] for b in batches)
            for term, value in objective.losses(batch).items()
        ).backward()
    gradient = objective.body.words.weight.grad
    difference = float((gradient - expected).norm() / expected.norm())
    if not difference <= 1e-3:
        raise SystemExit(f"gradients of the word embeddings differ by {difference:.1e} of their norm")
    low = {}
    if bf16:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            low["ours"] = steps.mean_loss(objective, 0)
            low["plain"] = {term: float(value) for term, value in model(**plain.batches[0]).items()}
        if any(
            abs(value - ours[term]) > 0.01 * ours[term] for losses in low.values() for term, value in losses.items()
        ):
            raise SystemExit(f"losses in bf16 differ: {low}, in fp32 {ours}")
    for module in (objective.module, model):
        module.zero_grad(set_to_none=True)
        module.train()
    return {"ours": ours, "plain": theirs, "gradient_difference": difference, "bf16": low}


def held(step: Callable[[], None]) -> int:
    """Bytes that torch's tensors take more at the peak of a step than before it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    return int(np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]).max())


def peak(name: str, vocabulary: int, variant: str) -> None:
    """Print how many kB a step takes at its peak beyond weights and optimiser, resident and held by tensors; run in a process
    of its own."""
    choose_device("fp32", 1)
    with tempfile.TemporaryDirectory() as directory:
        stepper = make_variants(name, vocabulary, 2, Path(directory), [variant])[variant]
        stepper.step(0)
        stepper.optimiser.zero_grad(set_to_none=True)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        resident = common.peak_kb(lambda: stepper.step(1))
        stepper.optimiser.zero_grad(set_to_none=True)
        print(resident, held(lambda: stepper.step(1)) // 1024)


def peaks(name: str, vocabulary: int, variants: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    """:func:`peak` of each variant: resident, held."""
    found = {}
    for variant in variants:
        code = f"import c2_steps; c2_steps.peak({name!r}, {vocabulary}, {variant!r})"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
        found[variant] = [int(word) for word in done.stdout.split()[-2:]]
    return {v: two[0] for v, two in found.items()}, {v: two[1] for v, two in found.items()}


def run(name: str, vocabulary: int, rounds: int, bf16: bool) -> tuple[dict[str, Any], list[list]]:
    """Check and measure one objective."""
    names, best, small = names_of(bf16)
    with tempfile.TemporaryDirectory() as directory:
        variants = make_variants(name, vocabulary, rounds, Path(directory), names)
        objective = variants.pop("objective")
        losses = check(objective, variants["plain"], bf16)
        tokens = [sum(b.tokens for b in objective.micro_batches(step, 1)) for step in range(rounds)]
        times = common.interleave({n: v.step for n, v in variants.items()}, rounds)
    ratio = common.ratios(times, best)
    price = ratio.pop(small)
    resident, tensors = peaks(name, vocabulary, list(variants))
    peers = [variant for variant in times if not variant.startswith("ours")]

    def less(peak: dict[str, int]) -> dict[str, dict[str, float]]:
        return {mine: {peer: round(peak[peer] / peak[mine], 3) for peer in peers} for mine in (best, small)}

    smaller, rows = less(resident), []
    for variant, values in times.items():
        rate = statistics.median(n / t for n, t in zip(tokens, values, strict=True))
        row = [f"{name}, {variant}", rate, "", "", resident[variant] / 1000, tensors[variant] / 1000, "", "", ""]
        if variant in ratio:
            row[2] = ratio[variant]["median"]
        if variant in peers:
            row[6:8] = smaller[best][variant], smaller[small][variant]
            if not variant.endswith(common.BF16):
                row[3] = common.verdict(row[2], TARGETS[name])
                row[8] = common.verdict(row[6], MEMORY_TARGET)
        rows.append(row)
    return {
        "loss": losses,
        "tokens_per_cpu_s": {row[0].removeprefix(f"{name}, "): round(row[1], 1) for row in rows},
        "ours": best,
        "ratio": ratio,
        "target": TARGETS[name],
        "peak_kb": resident,
        "held_kb": tensors,
        "peak_ratio": smaller,
        "held_ratio": less(tensors),
        "peak_target": MEMORY_TARGET,
        "time_of_small_budget": price,
    }, rows


def count(name: str, vocabulary: int) -> dict[str, dict[str, float]]:
    """Operations of a step's matrix products in 1e9, and peers' over ours."""
    with tempfile.TemporaryDirectory() as directory:
        variants = make_variants(name, vocabulary, 1, Path(directory), ["ours", "plain", "pretense"])
        variants.pop("objective")
        found = {v: steps.products(lambda s=s: s.step(0)) for v, s in variants.items()}
    own = found["ours"]
    return {
        "giga": {v: round(n / 1e9, 2) for v, n in found.items()},
        "ratio": {v: round(n / own, 3) for v, n in found.items() if v != "ours"},
    }


def word_loss_alone(vocabulary: int, rounds: int, bf16: bool) -> dict[str, dict[str, float]]:
    """The word loss of all of a step's tokens, forward and backward, against a linear layer and cross-entropy; in fp32, and in
    autocast where the CPU multiplies bf16."""
    generator = seeded(steps.SEED)
    states, words = (torch.randn(n, 256, generator=generator).mul_(0.1).requires_grad_() for n in (2400, vocabulary))
    bias = torch.zeros(vocabulary, requires_grad=True)
    targets = torch.randint(vocabulary, (2400,), generator=generator)

    def plain() -> torch.Tensor:
        return functional.cross_entropy(functional.linear(states, words, bias), targets, reduction="sum")

    def gradient(loss: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loss, (states, words, bias))[0]

    ours = functools.partial(word_loss, states, words, bias, targets)
    if not torch.allclose(gradient(ours()), gradient(plain()), atol=1e-5):
        raise SystemExit("the gradients of the word loss differ")

    def call(function: Callable[[], torch.Tensor], low: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = function()
        gradient(loss)

    found = {}
    for name, low in {"fp32": False, **({"bf16": True} if bf16 else {})}.items():
        variants = {"ours": lambda _, low=low: call(ours, low), "plain": lambda _, low=low: call(plain, low)}
        found[name] = common.ratios(common.interleave(variants, rounds), "ours")["plain"]
    return found


def main() -> None:
    parser = common.parser(__doc__, rounds=5)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--only", nargs="*", choices=list(TARGETS))
    parser.add_argument("--count", action="store_true", help="only count the products, into the results that are there")
    args = parser.parse_args()
    choose_device("fp32", 1)
    bf16 = cpu_multiplies_bf16()
    if args.count:
        path = args.out / f"c2_steps_{args.vocabulary}.json"
        body = json.loads(path.read_text())
        for name, result in body["results"].items():
            result["products"] = count(name, args.vocabulary)
            print(name, result["products"])
        path.write_text(json.dumps(body, indent=1) + "\n")
        return
    results, rows = {}, []
    for name in args.only or TARGETS:
        results[name], more = run(name, args.vocabulary, args.rounds, bf16)
        results[name]["products"] = count(name, args.vocabulary)
        print(name, results[name]["products"])
        rows += more
    common.table(
        f"C2: V={args.vocabulary}, {steps.BATCH} passages, 4 layers, 256-d",
        [
            "variant",
            "real tokens/CPU-s",
            "ours is faster by",
            "target",
            "peak MB",
            "held MB",
            "ours takes less by",
            f"ours, {BUDGET}",
            "target",
        ],
        rows,
    )
    head = word_loss_alone(args.vocabulary, args.rounds, bf16)
    shown = ", ".join(f"{ratio['median']} ({name})" for name, ratio in head.items())
    print(f"\nthe word loss of 2,400 tokens alone, times faster than logits for all: {shown}")
    common.write(
        f"c2_steps_{args.vocabulary}",
        args,
        ("torch", "transformers"),
        vocabulary=args.vocabulary,
        small_budget=BUDGET,
        multiplies_bf16=bf16,
        peers={"pretense": getattr(common.peer("pretense"), "__version__", None)},
        results=results,
        word_loss_alone=head,
    )


if __name__ == "__main__":
    main()
