"""C7: the gradient cache against a direct step, and against sentence-transformers' CachedMultipleNegativesRankingLoss.

One contrastive step without the optimiser: gradients of the in-batch softmax over B pairs (B = 64, 256, 1024), 2 layers, 128-d,
[CLS], cosine, temperature 0.05, no dropout: the demo's encoder. Queries of about 20 tokens, documents of about 55, random
tokens. ``direct`` is our step with everything in one micro-batch; ``cached`` the same with micro-batches of at most so many
tokens, each but the last encoded twice (``pretrieve.training.step``). A forward pass is a third of a step's arithmetic, so
with m micro-batches, which are equal, the cache costs a factor of 1 + (m − 1)/3m: 7/6 with two, at most 4/3. Peers get their
texts padded ready-made, with the same weights; ``mini_batch_size`` 32 is their default, 128 the faster one. First, equality:
gradients of all parameters, cached and direct, to 1e-5 of the largest; and of the word embeddings, theirs, to 1e-4.

Where the CPU multiplies bf16 (AMX or AVX512-BF16), the project uses it: there ours is compared in bf16, and peers are measured
as they come, in fp32, and in bf16 autocast, their second pass too. Gradients in bf16 are within 0.1 of those in fp32, in norm.

Then four micro-batches, for this body and one of 6 layers x 384: a direct step, and the encoding that a cached one repeats,
measured by itself. Their sum is what a cached step would take if smaller micro-batches took as long for each token. Last, what a
step adds to a process's memory at its peak, by batch, for 6 x 384: ``docs/gradient-cache.svg``.

    PRETRIEVE_PEERS=DIR PYTHONPATH=src python benchmarks/c7_gradient_cache.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import concurrent.futures
import dataclasses
import importlib
import multiprocessing
import re
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import steps
import torch
from plain_hf import as_bert_model, made_up_vocabulary

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.contrastive import Contrastive
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.pairs.pair import Pairs, pack_pairs
from pretrieve.pretraining.presets import resolve
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file
from pretrieve.training.device import Device, choose_device, cpu_multiplies_bf16
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

BATCHES = (64, 256, 1024)
BUDGETS = (4096, 16384)
QUERY_LENGTH, PASSAGE_LENGTH, VOCABULARY, DIM, TEMPERATURE = 32, 64, 8192, 128, 0.05
DIRECT, MINI_BATCHES = 1 << 60, (32, 128)
TARGET_DIRECT, TARGET_PEER = 1.25, 2.0
#: Wide enough at the start for texts to have different vectors, and so gradients to compare.
CONFIG = BodyConfig(
    vocabulary_size=VOCABULARY,
    hidden=128,
    layers=2,
    heads=2,
    feed_forward=256,
    max_positions=128,
    dropout=0.0,
    std=0.2,
    word_std=0.5,
)
BODIES = {
    "2x128": CONFIG,
    "6x384": dataclasses.replace(CONFIG, hidden=384, layers=6, heads=12, feed_forward=1536, std=0.1),
}
FOUR, PAIRS = 4, 256
MEMORY_BATCHES, MEMORY_BODY = (16, 32, 64, 128, 256, 512), "6x384"


class Once:
    """Pairs of a passage's first sentence and the rest of it; no passage twice in a batch, as the peer has no rule for that."""

    name = "once"

    def __init__(self, store: TokenStore) -> None:
        self.store = store
        self.n_pairs = store.n_passages

    def sample(self, rng: np.random.Generator, n: int) -> Pairs:
        passages = rng.permutation(self.store.n_passages)[:n]
        first = np.asarray(self.store.passage_starts)[passages]
        return Pairs(first, passages, first, np.zeros(n, dtype=bool))


class Ours:
    """The gradients of a step, cut at ``budget`` tokens."""

    def __init__(self, encoder: Encoder, store: TokenStore, batch: int, budget: int, bf16: bool = False) -> None:
        self.device = Device(steps.CPU, bf16)
        lengths = {"tasks": ["ict"], "query_length": QUERY_LENGTH, "passage_length": PASSAGE_LENGTH}
        options = lengths | resolve("pairs", "paper", {"temperature": TEMPERATURE}, "benchmark")
        self.objective = Contrastive(Setting(options, batch, encoder, store, 1, steps.CPU, budget))
        self.objective.sampler = Once(store)

    def step(self, step: int) -> float:
        self.objective.module.zero_grad(set_to_none=True)
        batches = self.objective.micro_batches(step)
        done = accumulate(self.objective, batches, self.device, Processes(), (1, step))
        return done.means["contrastive"]

    def again(self, step: int) -> None:
        """The encoding alone that a step repeats."""
        *batches, _ = self.objective.micro_batches(step)
        with torch.no_grad(), self.device.autocast():
            for batch in batches:
                self.objective.vectors(batch, False)

    def gradients(self) -> dict[str, torch.Tensor]:
        return {n: p.grad.clone() for n, p in self.objective.module.named_parameters() if p.grad is not None}


def features(packed: Packed) -> dict[str, torch.Tensor]:
    """What a tokenizer gives, in the caller's order."""
    parts = steps.rows_of(packed.tokens, packed.lengths)
    rows: list[np.ndarray] = [parts[0]] * len(parts)
    for place, part in zip(packed.order, parts, strict=True):
        rows[place] = part
    ids = steps.padded(rows, 0)
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def peer_model(package: Any, encoder: Encoder, directory: Path) -> torch.nn.Module:
    """Our encoder as a SentenceTransformer."""
    from transformers import PreTrainedTokenizerFast

    bert = as_bert_model(encoder.body)
    bert.save_pretrained(directory)
    tokenizer = from_vocab_file(made_up_vocabulary(directory, VOCABULARY))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL_TOKENS, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(directory)
    modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    dense = modules.Dense(CONFIG.hidden, DIM, activation_function=torch.nn.Identity())
    dense.linear.load_state_dict(encoder.projection.state_dict())
    body = modules.Transformer(str(directory))
    model = package.SentenceTransformer(
        modules=[body, modules.Pooling(CONFIG.hidden, pooling_mode="cls"), dense, modules.Normalize()], device="cpu"
    )
    return model.train()


def peer_variants(model: torch.nn.Module, objective: Contrastive, rounds: int, bf16: bool) -> dict[str, Callable]:
    """sentence-transformers' losses, forward and backward; in fp32, and in bf16 too if asked for."""
    losses = importlib.import_module("sentence_transformers.sentence_transformer.losses")
    batches = []
    for step in range(rounds):
        pairs = objective.sampler.sample(np.random.default_rng([1, 103, step]), objective._batch)
        batches.append(
            [features(p) for p in pack_pairs(objective.store, objective._articles, pairs, QUERY_LENGTH, PASSAGE_LENGTH)]
        )

    def variant(loss: torch.nn.Module, low: bool) -> Callable[[int], float]:
        def call(step: int) -> float:
            model.zero_grad(set_to_none=True)
            # The backward pass as well: the cached loss encodes a second time in there.
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
                value = loss([dict(feature) for feature in batches[step]], None)
                value.backward()
            return float(value.detach())

        return call

    found = {
        f"ST cached, {size}": losses.CachedMultipleNegativesRankingLoss(
            model, scale=1 / TEMPERATURE, mini_batch_size=size
        )
        for size in MINI_BATCHES
    }
    found["ST direct"] = losses.MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
    return {
        name + common.BF16 * low: variant(loss, low)
        for low in (False, True)
        if bf16 or not low
        for name, loss in found.items()
    }


def check(ours: dict[str, Ours], peers: dict[str, Callable], model: torch.nn.Module | None) -> dict[str, float]:
    """Gradients of the first step."""
    ours["direct"].step(0)
    direct, found = ours["direct"].gradients(), {}
    largest = max(float(g.abs().max()) for g in direct.values())
    if not largest > 1e-4:
        raise SystemExit("the gradient is zero; there is nothing to compare.")

    def in_bf16(name: str, gradients: dict[str, torch.Tensor]) -> None:
        off, whole = (
            torch.cat([part.flatten() for part in parts]).norm()
            for parts in ([g - direct[n] for n, g in gradients.items()], [direct[n] for n in gradients])
        )
        found[name] = float(off / whole)
        if not found[name] <= 0.1:
            raise SystemExit(f"{name}: the gradient differs by {found[name]:.1e} of its norm; expected at most 0.1.")

    for name, variant in ours.items():
        variant.step(0)
        gradients = variant.gradients()
        if name.endswith(common.BF16):
            in_bf16(name, gradients)
            continue
        found[name] = max(float((gradients[n] - g).abs().max()) for n, g in direct.items()) / largest
        if gradients.keys() != direct.keys() or not found[name] <= 1e-5:
            raise SystemExit(f"{name}: the gradient differs by {found[name]:.1e}; expected at most 1e-5.")
    words = direct["body.words.weight"]
    for name, call in peers.items():
        call(0)
        grad = next(p.grad for n, p in model.named_parameters() if n.endswith("word_embeddings.weight"))
        if name.endswith(common.BF16):
            in_bf16(name, {"body.words.weight": torch.cat([words[:1], grad[1:]])})
            continue
        # The row of [PAD]: transformers keeps its gradient at zero, and we never read it.
        found[name] = float((grad[1:] - words[1:]).abs().max() / words.abs().max())
        if not found[name] <= 1e-4:
            raise SystemExit(f"{name}: the gradient differs by {found[name]:.1e}; expected at most 1e-4.")
    return found


def texts(directory: Path) -> TokenStore:
    """Passages of two sentences."""
    rng = np.random.default_rng(1)
    lengths = np.clip(np.exp(rng.normal(np.log([16.0, 50.0]), 0.4, (2048, 2))), 4, 80).astype(np.int64)
    return steps.random_store(directory, VOCABULARY, lengths.ravel(), rng, sentences=2)


def limit(body: str, rounds: int, bf16: bool) -> dict[str, Any]:
    """A cached step with four micro-batches beside a direct one, and beside that and what is repeated."""
    with tempfile.TemporaryDirectory() as name:
        store = texts(Path(name))
        encoder = Encoder(BODIES[body], DIM, "cls", 1, similarity="cosine")
        direct = Ours(encoder, store, PAIRS, DIRECT, bf16)
        tokens = [sum(batch.tokens for batch in direct.objective.micro_batches(step)) for step in range(rounds)]
        cached = Ours(encoder, store, PAIRS, int(max(tokens) * 0.3), bf16)
        parts = [[batch.tokens for batch in cached.objective.micro_batches(step)] for step in range(rounds)]
        if {len(part) for part in parts} != {FOUR}:
            raise SystemExit(f"{body}: micro-batches of {parts} tokens; expected {FOUR} in each round.")
        times = common.interleave({"direct": direct.step, "cached": cached.step, "again": cached.again}, rounds)
    both = [(once + more) / once for once, more in zip(times["direct"], times["again"], strict=True)]
    return {
        "micro_batches": parts[0],
        "cpu_s": common.medians(times),
        "of_direct": common.ratios({n: times[n] for n in ("cached", "direct")}, "direct")["cached"],
        "with_repeat_of_direct": common.spread(both),
    }


def peak(batch: int, budget: int, bf16: bool) -> float:
    """MB that a step adds to this process at its peak."""
    choose_device("fp32", 1)
    with tempfile.TemporaryDirectory() as name:
        encoder = Encoder(BODIES[MEMORY_BODY], DIM, "cls", 1, similarity="cosine")
        ours = Ours(encoder, texts(Path(name)), batch, budget, bf16)
        return round(common.peak_kb(lambda: ours.step(0)) / 1e3, 1)


def memory(bf16: bool) -> dict[str, dict[int, float]]:
    """Variant → batch → MB; each in a process of its own."""
    budgets = {"direct": DIRECT} | {f"cached, {budget}": budget for budget in BUDGETS}
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        return {
            name: {batch: pool.submit(peak, batch, budget, bf16).result() for batch in MEMORY_BATCHES}
            for name, budget in budgets.items()
        }


def fill(axes: Any, found: dict[str, dict[int, float]]) -> None:
    for (name, values), marker in zip(found.items(), "os^", strict=True):
        label = re.sub(r"cached, (\d+)", lambda match: f"cached, micro-batches of {int(match[1]):,} tokens", name)
        axes.plot(list(values), [value / 1e3 for value in values.values()], marker=marker, label=label)
    axes.set(xscale="log", yscale="log", xlabel="pairs in a batch", ylabel="memory of a step (GB)")
    axes.set_xticks(MEMORY_BATCHES, list(map(str, MEMORY_BATCHES)))
    gigabytes = (0.25, 0.5, 1, 2, 4)
    axes.set_yticks(gigabytes, [f"{value:g}" for value in gigabytes])
    axes.minorticks_off()


def run(batch: int, rounds: int, package: Any, bf16: bool) -> dict[str, Any]:
    """Check, measure and print one batch size."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        store = texts(directory)
        encoder = Encoder(CONFIG, DIM, "cls", 1, similarity="cosine")
        ours = {"direct": Ours(encoder, store, batch, DIRECT)}
        tokens = [sum(b.tokens for b in ours["direct"].objective.micro_batches(s)) for s in range(rounds)]
        suffix, parts = common.BF16 * bf16, {}
        for budget in BUDGETS:
            # At least two micro-batches, or nothing is cached.
            most = min(budget, max(tokens) * 11 // 20)
            for low in sorted({False, bf16}):
                variant = Ours(encoder, store, batch, most, low)
                ours[f"cached, {budget}{common.BF16 * low}"] = variant
            parts[f"cached, {budget}{suffix}"] = len(variant.objective.micro_batches(0))
        direct = f"direct{suffix}"
        ours[direct] = Ours(encoder, store, batch, DIRECT, bf16)
        model = peer_model(package, encoder, directory / "model") if package else None
        peers = peer_variants(model, ours["direct"].objective, rounds, bf16) if package else {}
        differences = check(ours, peers, model)
        times = common.interleave({n: v.step for n, v in ours.items()} | peers, rounds)
    against_direct = {name: common.ratios({name: times[name], direct: times[direct]}, direct)[name] for name in parts}
    fastest = min(parts, key=lambda name: statistics.median(times[name]))
    against_peers = common.ratios({n: v for n, v in times.items() if n in peers or n == fastest}, fastest)
    rows = []
    for name, values in times.items():
        rate = sum(tokens) / rounds / statistics.median(values)
        over = common.middle(against_direct, name)
        verdict = common.verdict(-over, -TARGET_DIRECT).replace(">= -", "<= ") if over else ""
        faster = common.middle(against_peers, name)
        as_it_comes = name.startswith("ST cached") and not name.endswith(common.BF16)
        target = common.verdict(faster, TARGET_PEER) if as_it_comes else ""
        rows.append([name, parts.get(name, ""), rate, over, verdict, faster, target])
    common.table(
        f"C7: B={batch}, {sum(tokens) // rounds:,} tokens a step",
        ["variant", "micro-batches", "tokens/CPU-s", "of direct", "target", f"{fastest} is faster by", "target"],
        rows,
    )
    return {
        "tokens": sum(tokens) // rounds,
        "micro_batches": parts,
        "gradient_difference": differences,
        "cpu_s": common.medians(times),
        "of_direct": against_direct,
        "fastest": fastest,
        "ratio": against_peers,
    }


def main() -> None:
    args = common.arguments(__doc__, rounds=7)
    choose_device("fp32", 1)
    package, bf16 = common.peer("sentence_transformers"), cpu_multiplies_bf16()
    results = {str(batch): run(batch, args.rounds, package, bf16) for batch in BATCHES}
    limits = {body: limit(body, args.rounds, bf16) for body in BODIES}
    common.table(
        f"C7: four micro-batches, {PAIRS} pairs",
        ["body", "of direct", "direct and repeat"],
        [
            [body, found["of_direct"]["median"], found["with_repeat_of_direct"]["median"]]
            for body, found in limits.items()
        ],
    )
    added = memory(bf16)
    rows = [[name, *values.values()] for name, values in added.items()]
    common.table(f"C7: MB of a step, {MEMORY_BODY}", ["variant", *map(str, MEMORY_BATCHES)], rows)
    if args.out == common.RESULTS:
        common.draw("c7", common.ROOT / "docs/gradient-cache.svg", lambda axes: fill(axes, added))
    versions = {} if package is None else {"sentence_transformers": package.__version__}
    common.write(
        "c7_gradient_cache",
        args,
        ("torch", "transformers"),
        multiplies_bf16=bf16,
        peers=versions,
        targets={"of_direct": TARGET_DIRECT, "ratio": TARGET_PEER},
        results=results,
        four_micro_batches=limits,
        memory_mb={name: {str(batch): value for batch, value in values.items()} for name, values in added.items()},
    )


if __name__ == "__main__":
    main()
