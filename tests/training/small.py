"""Objectives on the tiny corpus for the tests of a step, in one process and in several; no test of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from small_body import small_body
from torch import nn

from pretrieve.models.encoder import Encoder
from pretrieve.pretraining import cocondenser
from pretrieve.pretraining.condenser import Condenser
from pretrieve.pretraining.contrastive import Contrastive
from pretrieve.pretraining.examples import MaskedPassages, Setting, TextForm
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.pretraining.presets import resolve
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device
from pretrieve.training.objective import MicroBatch
from pretrieve.training.optimiser import OptimiserConfig

CPU = Device(torch.device("cpu"), bf16=False)
BATCH = 10
#: Adam divides by the root of the squared gradient: with its usual eps of 1e-8, gradients that are 0 but for rounding (those of
#: key biases are) move weights by the learning rate, and no two sums in another order agree.
CONFIG = OptimiserConfig(5, 1e-2, eps=1e-3)
#: Token budgets: the whole batch at once, a few micro-batches, and one for every example.
BUDGETS = (10**6, 60, 1)


class PairsAndSpread(Contrastive):
    """Contrastive, and a second term that each micro-batch computes by itself, a mean over tokens."""

    terms = {"contrastive": 1.0, "spread": 0.3}

    def _pack(self, pairs) -> MicroBatch:
        batch = super()._pack(pairs)
        return replace(batch, counts=batch.counts | {"spread": batch.tokens})

    def vectors(self, batch: MicroBatch, with_losses: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        vectors, _ = super().vectors(batch, with_losses)
        return vectors, {"spread": 50 * (vectors**4).sum()} if with_losses else {}


def make(name: str, store: TokenStore, budget: int, dropout: float = 0.0, batch: int = BATCH):
    """mlm, condenser, cocondenser, pairs, cosine, separate (two towers) or spread (:class:`PairsAndSpread`); always of the
    same weights."""
    config = small_body(store.vocabulary_size, dropout=dropout, std=0.1, word_std=0.3)
    if name == "cocondenser":
        options = resolve(name, "paper", {"skip_layer": 1, "head_layers": 1, "span_length": 12}, "test")
        encoder = Encoder(config, 8, "cls", 1)
        return cocondenser.build(Setting(options, batch // 2, encoder, store, 5, CPU.device, budget))
    if name in ("mlm", "condenser"):
        examples = MaskedPassages(store, 5, batch, TextForm(24), Masking("word"), budget)
        options = {"head_layers": 1, "skip_layer": 1, "late_mlm": True}
        setting = Setting(options, batch, Encoder(config, 8, "cls", 1), store, 1, CPU.device)
        return (MaskedLanguageModel if name == "mlm" else Condenser)(setting, examples)
    similarity, temperature = ("cosine", 0.1) if name == "cosine" else ("dot", 0.5)
    encoder = Encoder(config, 8, "cls", 1, similarity)
    kind = PairsAndSpread if name == "spread" else Contrastive
    given = {"tasks": ["ict", "bfs", "wlp"], "query_length": 12, "passage_length": 24}
    changes = {
        "temperature": temperature,
        "ict_keep": 0.1,
        "towers": "separate" if name == "separate" else "shared",
    }
    return kind(
        Setting(given | resolve("pairs", "paper", changes, "test"), batch, encoder, store, 5, CPU.device, budget)
    )


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}


def kept_graphs(objective, step: int, seed: int) -> dict[str, torch.Tensor]:
    """The gradient of a contrastive objective without any cache: all micro-batches encoded with their graphs, one backward.

    Micro-batch i draws its dropout from the state that (seed, step, i) gives, as :mod:`pretrieve.training.step` says.
    """
    from pretrieve.training.step import _seed_dropout

    objective.module.train().zero_grad(set_to_none=True)
    batches = objective.micro_batches(step)
    totals = {term: sum(batch.counts[term] for batch in batches) for term in objective.terms}
    vectors, loss = [], torch.zeros(())
    for number, batch in enumerate(batches):
        _seed_dropout(seed, step, number)
        part, own = objective.vectors(batch, True)
        vectors.append(part)
        loss = loss + sum(objective.terms[term] * value / totals[term] for term, value in own.items())
    contrast = objective.contrast(vectors, batches)
    loss = loss + sum(objective.terms[term] * value / totals[term] for term, value in contrast.items())
    loss.backward()
    return gradients(objective.module)


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)
