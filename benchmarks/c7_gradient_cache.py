"""C7: the gradient cache against a direct step, and against sentence-transformers' CachedMultipleNegativesRankingLoss.

One contrastive step without the optimiser: gradients of the in-batch softmax over B pairs (B = 64, 256, 1024), 2 layers, 128-d,
[CLS], cosine, temperature 0.05, no dropout: the demo's encoder. Queries of about 20 tokens, documents of about 55, random
tokens. ``direct`` is our step with everything in one micro-batch; ``cached`` the same with micro-batches of at most so many
tokens, each but the last encoded twice (``pretrieve.training.step``). A forward pass is a third of a step, so with m
micro-batches the cache costs a factor of 1 + (m − 1)/3m in arithmetic: 7/6 with two, at most 4/3. Peers get their texts
padded ready-made, with the same weights; ``mini_batch_size`` 32 is their default, 128 the faster one. First, equality:
gradients of all parameters, cached and direct, to 1e-5 of the largest; and of the word embeddings, theirs, to 1e-4.

Where the CPU multiplies bf16 (AMX or AVX512-BF16), the project uses it: there ours is compared in bf16, and peers are measured
as they come, in fp32, and in bf16 autocast, their second pass too. Gradients in bf16 are within 0.1 of those in fp32, in norm.

    PRETRIEVE_PEERS=DIR PYTHONPATH=src python benchmarks/c7_gradient_cache.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import importlib
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import steps
import torch
from plain_hf import as_bert_model

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.contrastive import Contrastive, PairBatches
from pretrieve.pretraining.pairs.pair import Pairs, pack_pairs
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
        self.objective = Contrastive(
            encoder, store, Once(store), PairBatches(1, batch, QUERY_LENGTH, PASSAGE_LENGTH, TEMPERATURE), budget=budget
        )

    def step(self, step: int) -> float:
        self.objective.module.zero_grad(set_to_none=True)
        batches = self.objective.micro_batches(step)
        done = accumulate(self.objective, batches, self.device, Processes(), (1, step))
        return done.means["contrastive"]

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
    words = [f"w{number}" for number in range(VOCABULARY - len(SPECIAL_TOKENS))]
    (directory / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words]))
    tokenizer = from_vocab_file(directory / "vocab.txt")
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


def run(batch: int, rounds: int, package: Any, bf16: bool) -> dict[str, Any]:
    """Check, measure and print one batch size."""
    with tempfile.TemporaryDirectory() as name:
        directory, rng = Path(name), np.random.default_rng(1)
        lengths = np.clip(np.exp(rng.normal(np.log([16.0, 50.0]), 0.4, (2048, 2))), 4, 80).astype(np.int64)
        store = steps.random_store(directory, VOCABULARY, lengths.ravel(), rng, sentences=2)
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
        over = against_direct.get(name, {}).get("median", "")
        verdict = common.verdict(-over, -TARGET_DIRECT).replace(">= -", "<= ") if over else ""
        faster = against_peers.get(name, {}).get("median", "")
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
    versions = {} if package is None else {"sentence_transformers": package.__version__}
    common.write(
        "c7_gradient_cache",
        args,
        ("torch", "transformers"),
        multiplies_bf16=bf16,
        peers=versions,
        targets={"of_direct": TARGET_DIRECT, "ratio": TARGET_PEER},
        results=results,
    )


if __name__ == "__main__":
    main()
