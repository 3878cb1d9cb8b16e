"""What the benchmarks of training steps share: random corpora with the lengths of web passages, our step and a peer's.

Import ``common`` first. 4 layers of 256 dimensions; batches of 32 passages of at most 128 tokens, 57 % full when padded.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.presets import OPTIONS, resolve
from pretrieve.text.token_store import ARRAYS, TokenStore
from pretrieve.text.vocabulary import SpecialIds
from pretrieve.training.device import Device
from pretrieve.training.loop import Prefetch, RunSettings, train
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser
from pretrieve.training.processes import Processes
from pretrieve.training.step import accumulate

BATCH, LENGTH, SEED = 32, 128, 1
CPU = torch.device("cpu")


def body(vocabulary: int, dropout: float = 0.1, layers: int = 4, hidden: int = 256, heads: int = 4) -> BodyConfig:
    """4 layers, 256-d, if not otherwise."""
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "feed_forward": 4 * hidden, "max_positions": LENGTH}
    return BodyConfig(vocabulary_size=vocabulary, dropout=dropout, **sizes)


def web_lengths(n: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths with [CLS] and [SEP]: log-normal, cut at LENGTH, mean 0.57·LENGTH."""
    return np.clip(np.exp(rng.normal(np.log(72), 0.5, n)), 8, LENGTH).astype(np.int64)


def random_store(
    directory: Path,
    vocabulary: int,
    lengths: np.ndarray,
    rng: np.random.Generator,
    sentences: int = 1,
    articles: int = 1,
) -> TokenStore:
    """A token store of random word pieces, four of five of which begin a word: ``sentences`` to a passage, of ``lengths``
    (n · sentences,) tokens; ``articles`` with as many passages each, and no titles."""
    passages, starts = len(lengths) // sentences, np.concatenate([[0], np.cumsum(lengths)])
    index, article = np.arange(passages + 1), np.arange(articles + 1)
    arrays = dict.fromkeys(ARRAYS, np.empty(0, np.int64)) | {
        "tokens": rng.integers(5, vocabulary, starts[-1]).astype(np.uint16),
        "sentence_starts": starts,
        "passage_starts": index * sentences,
        "section_starts": article * (passages // articles),
        "article_starts": article,
        "title_starts": article * 0,
        "word_starts": (rng.random(vocabulary) < 0.8).astype(np.uint8),
    }
    for name, values in arrays.items():
        values.tofile(directory / f"{name}.bin")
    meta = {
        "vocabulary_size": vocabulary,
        "special_ids": vars(SpecialIds(0, 1, 2, 3, 4)),
        "arrays": {n: {"dtype": v.dtype.str, "length": len(v)} for n, v in arrays.items()},
    }
    (directory / "meta.json").write_text(json.dumps(meta))
    return TokenStore(directory)


def make(
    name: str,
    config: BodyConfig,
    store: TokenStore,
    changes: dict[str, Any] | None = None,
    batch: int = BATCH,
    length: int = LENGTH,
    preset: str | None = None,
    budget: int | None = None,
    device: torch.device = CPU,
) -> Objective:
    """An objective with fresh weights, as a pre-training job builds it; on passages, for blocks have no web lengths. ``changes``
    may have a list ``tasks``, of ``pairs``."""
    changes = ({"examples": "passages"} if "examples" in OPTIONS[name] else {}) | (changes or {})
    given: dict[str, Any] = {"name": name, "length": length, "query_length": length, "passage_length": length}
    given |= {"tasks": changes.pop("tasks")} if "tasks" in changes else {}
    options = given | resolve(name, preset, changes, "benchmark")
    return build_objective(Setting(options, batch, Encoder(config, 128, "cls", SEED), store, SEED, device, budget))


class Stepper:
    """An objective, its optimiser, and one step: what :func:`pretrieve.training.loop.train` does, so that variants can take
    turns (:func:`check_step`)."""

    def __init__(
        self, objective: Objective, config: OptimiserConfig, bf16: bool = False, device: torch.device = CPU
    ) -> None:
        self.objective, self.config, self.device = objective, config, Device(device, bf16)
        objective.module.to(device).train()
        self.optimiser = make_optimiser(objective.module, config)
        self.batches_of = Prefetch(lambda step: objective.micro_batches(step, 1), self.device)

    def step(self, step: int) -> float:
        """Returns the loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate_at(self.config, step)
        batches = self.batches_of(step, step + 1)
        self.optimiser.zero_grad(set_to_none=True)
        done = accumulate(self.objective, batches, self.device, Processes(), (SEED, step))
        nn.utils.clip_grad_norm_(self.objective.module.parameters(), self.config.clip)
        self.optimiser.step()
        return sum(weight * done.means[term] for term, weight in self.objective.terms.items())


def check_step(make_objective: Callable[[], Objective]) -> None:
    """Two steps of :class:`Stepper` and of the training loop must give equal bits."""
    here, loop = make_objective(), make_objective()
    loop.module.load_state_dict(here.module.state_dict())
    config = OptimiserConfig(2, 1e-4)
    stepper = Stepper(here, config)
    for step in range(2):
        stepper.step(step)
    train(loop, config, RunSettings(Device(CPU, False), SEED), label="the training loop")
    for (name, a), b in zip(here.module.state_dict().items(), loop.module.state_dict().values(), strict=True):
        if not torch.equal(a, b):
            raise SystemExit(f"the step measured here is not the training loop's: {name} differs.")


class TrainerStepper:
    """A peer's step on ready-made batches: loss, backward, clip, fused AdamW (the defaults of transformers' Trainer)."""

    def __init__(
        self, model: nn.Module, loss: Callable[[nn.Module, Any], torch.Tensor], batches: list, bf16: bool = False
    ) -> None:
        self.model, self.loss, self.batches, self.bf16 = model.train(), loss, batches, bf16
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def step(self, step: int) -> None:
        with torch.autocast(next(self.model.parameters()).device.type, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.model, self.batches[step])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def twin(self, batches: list | None = None, bf16: bool = False) -> TrainerStepper:
        """A copy with weights and optimiser of its own."""
        return TrainerStepper(copy.deepcopy(self.model), self.loss, batches or self.batches, bf16)


def products(step: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in a step, forward and backward."""

    def into(result, left, right, *_, **__) -> int:  # addmm_, which torch's table lacks
        return 2 * left[0] * left[1] * right[1]

    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: into})
    with counter:
        step()
    return counter.get_total_flops()


def mean_loss(objective: Objective, step: int) -> dict[str, float]:
    """Loss terms of a step, each a mean over its own items, without dropout."""
    objective.module.eval()
    sums, counts = dict.fromkeys(objective.terms, 0.0), dict.fromkeys(objective.terms, 0)
    with torch.no_grad():
        for batch in objective.micro_batches(step, 1):
            for term, value in objective.losses(batch).items():
                sums[term] += float(value)
                counts[term] += batch.counts[term]
    objective.module.train()
    return {term: sums[term] / counts[term] for term in sums}


def rows_of(values: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Packed (T,) → one array a sequence."""
    return np.split(values, np.cumsum(lengths)[:-1])


def padded(rows: list[np.ndarray], fill: int) -> torch.Tensor:
    """(n, longest) int64."""
    result = torch.full((len(rows), max(map(len, rows))), fill, dtype=torch.int64)
    for i, row in enumerate(rows):
        result[i, : len(row)] = torch.from_numpy(row)
    return result


def masked_rows(objective: Objective, step: int) -> list[dict[str, np.ndarray]]:
    """The sequences of our step in packed order: ``input_ids``, ``labels`` (-100: not predicted), ``original``."""
    result = []
    for batch in objective.micro_batches(step, 1):
        masked = batch.data
        labels = np.full(len(masked.original), -100, dtype=np.int64)
        labels[masked.positions] = masked.original[masked.positions]
        split = [rows_of(v, masked.corrupted.lengths) for v in (masked.corrupted.tokens, labels, masked.original)]
        result += [dict(zip(("input_ids", "labels", "original"), row, strict=True)) for row in zip(*split, strict=True)]
    return result


def padded_batch(rows: list[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    """Padded to the longest: ``input_ids``, ``labels``, ``original``, ``attention_mask``."""
    batch = {name: padded([row[name] for row in rows], -100 if name == "labels" else 0) for name in rows[0]}
    mask = torch.zeros_like(batch["input_ids"])
    for i, row in enumerate(rows):
        mask[i, : len(row["input_ids"])] = 1
    return batch | {"attention_mask": mask}
