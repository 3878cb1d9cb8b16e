"""C1: one MLM training step with the optimiser, against ``transformers.BertForMaskedLM`` as a Trainer steps it.

4 layers, 256-d, vocabularies of 30522 and 8192, batches of 32 passages with the lengths of web passages (at most 128
tokens, padded batches are 57 % full), random tokens. Ours is what ``pretrieve.training.loop.train`` does in a step,
batch preparation and masking included (checked below: the same weights, bit for bit); the peer gets its padded and
masked batches ready-made. Peer variants: padded to the longest of the batch, logits at all positions (the Trainer's
default), the same in bf16 autocast, and ``grouped``: batches of similar length (the Trainer's ``group_by_length``;
its time is taken for each real token). Ours runs in the precision the project takes on the machine: bf16 where the
CPU has AMX, else fp32. First, equality: same weights, same masks, dropout off: the losses agree to 1e-4.

    PYTHONPATH=src python benchmarks/c1_mlm_step.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import copy
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder, MaskedWordHead
from pretrieve.models.hf_format import _bert_config, to_bert_names
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.text.token_store import ARRAYS, TokenStore
from pretrieve.text.vocabulary import SpecialIds
from pretrieve.training.device import Device, choose_device
from pretrieve.training.loop import Objective, train
from pretrieve.training.optimiser import OptimiserConfig, learning_rate_at, make_optimiser

BATCH, LENGTH, FILL = 32, 128, 0.57
SEED = 1
TARGETS = {30522: {"fp32": 8.0, "bf16": 6.0}, 8192: {"fp32": 5.0, "bf16": 3.5}}


def web_lengths(n: int, rng: np.random.Generator) -> np.ndarray:
    """Lengths with [CLS] and [SEP]: log-normal, cut at LENGTH, mean FILL·LENGTH."""
    return np.clip(np.exp(rng.normal(np.log(72), 0.5, n)), 8, LENGTH).astype(np.int64)


def random_store(directory: Path, vocabulary: int, passages: int, rng: np.random.Generator) -> TokenStore:
    """A token store of random words, one sentence a passage."""
    lengths = web_lengths(passages, rng) - 2
    starts = np.concatenate([[0], np.cumsum(lengths)])
    index, one = np.arange(passages + 1), np.array([0, 1])
    arrays = dict.fromkeys(ARRAYS, np.empty(0, np.int64)) | {
        "tokens": rng.integers(5, vocabulary, starts[-1]).astype(np.uint16),
        "sentence_starts": starts,
        "passage_starts": index,
        "section_starts": one * passages,
        "article_starts": one,
        "title_starts": one * 0,
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


class Stepper:
    """A module, its optimiser, and one step: what ``train`` does, so that variants can take turns."""

    def __init__(self, objective: Objective, config: OptimiserConfig, device: Device) -> None:
        self.objective, self.config, self.device = objective, config, device
        self.optimiser = make_optimiser(objective.module, config)

    def step(self, step: int) -> None:
        torch.manual_seed((SEED * 1_000_003 + step) % 2**63)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate_at(self.config, step)
        batches = self.objective.micro_batches(step)
        count = sum(batch.counts["mlm"] for batch in batches)
        self.optimiser.zero_grad(set_to_none=True)
        for batch in batches:
            with self.device.autocast():
                loss = self.objective.losses(batch)["mlm"]
            (loss.float() / count).backward()
        nn.utils.clip_grad_norm_(self.objective.module.parameters(), self.config.clip)
        self.optimiser.step()


class PaddedStepper:
    """The peer: ready-made batches, forward with labels, backward, clip, fused AdamW (the Trainer's defaults)."""

    def __init__(self, model: BertForMaskedLM, batches: list[dict[str, torch.Tensor]], bf16: bool) -> None:
        self.model, self.batches, self.bf16 = model, batches, bf16
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def step(self, step: int) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.model(**self.batches[step]).loss
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


def as_bert(objective: MaskedLanguageModel, config: BodyConfig) -> BertForMaskedLM:
    """The same weights as a BertForMaskedLM."""
    model = BertForMaskedLM(BertConfig(**{k: v for k, v in _bert_config(config).items() if k != "architectures"}))
    body, head = objective.encoder.body.state_dict(), objective.head.state_dict()
    state = {f"bert.{name}": tensor.clone() for name, tensor in to_bert_names(body).items()}
    for ours, theirs in {"transform": "transform.dense", "norm": "transform.LayerNorm"}.items():
        for kind in ("weight", "bias"):
            state[f"cls.predictions.{theirs}.{kind}"] = head[f"{ours}.{kind}"].clone()
    state["cls.predictions.bias"] = head["bias"].clone()
    missing, extra = model.load_state_dict(state, strict=False)
    if extra or any("decoder" not in name and "position_ids" not in name for name in missing):
        raise SystemExit(f"weights do not fit: missing {missing}, extra {extra}")
    model.tie_weights()
    return model


def padded(rows: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, torch.Tensor]:
    """(tokens, labels) of each sequence → a batch padded to its longest sequence."""
    longest = max(len(tokens) for tokens, _ in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for i, (tokens, label) in enumerate(rows):
        ids[i, : len(tokens)], labels[i, : len(tokens)] = torch.from_numpy(tokens), torch.from_numpy(label)
        mask[i, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def sequences(objective: MaskedLanguageModel, step: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The corrupted sequences of our step and their labels (-100: not predicted), in packed order."""
    result = []
    for batch in objective.micro_batches(step):
        packed, positions, targets = batch.data
        labels = np.full(len(packed.tokens), -100, dtype=np.int64)
        labels[positions] = targets
        result += [
            (packed.tokens[start : start + length], labels[start : start + length])
            for start, length in zip(packed.starts, packed.lengths, strict=True)
        ]
    return result


def check(objective: MaskedLanguageModel, model: BertForMaskedLM, batch: dict[str, torch.Tensor]) -> dict[str, float]:
    """Loss difference on the same weights and masks, without dropout; and our step against the training loop."""
    objective.module.eval()
    model.eval()
    with torch.no_grad():
        micro = objective.micro_batches(0)
        ours = sum(float(objective.losses(m)["mlm"]) for m in micro) / sum(m.counts["mlm"] for m in micro)
        theirs = float(model(**batch).loss)
    if not abs(ours - theirs) <= 1e-4:
        raise SystemExit(f"losses differ: ours {ours}, HF {theirs}")
    objective.module.train()
    model.train()
    return {"ours": ours, "hf": theirs, "difference": abs(ours - theirs)}


def check_step(objective: MaskedLanguageModel, make, config: OptimiserConfig, device: Device) -> None:
    """Two of our steps here and in the training loop must give equal bits."""
    here, loop = make(), make()
    here.module.load_state_dict(objective.module.state_dict())
    loop.module.load_state_dict(objective.module.state_dict())
    here.module.train()
    config = OptimiserConfig(2, config.learning_rate)
    stepper = Stepper(here, config, device)
    for step in range(2):
        stepper.step(step)
    train(loop, config, device, SEED, label="the training loop")
    for (name, a), b in zip(here.module.state_dict().items(), loop.module.state_dict().values(), strict=True):
        if not torch.equal(a, b):
            raise SystemExit(f"the step measured here is not the training loop's: {name} differs.")


def run(vocabulary: int, rounds: int, device: Device, amx: bool) -> dict:
    """Check, measure and print one vocabulary size."""
    config = BodyConfig(
        vocabulary_size=vocabulary, hidden=256, layers=4, heads=4, feed_forward=1024, max_positions=LENGTH
    )
    schedule = OptimiserConfig(rounds, 1e-4)
    with tempfile.TemporaryDirectory() as directory:
        store = random_store(Path(directory), vocabulary, BATCH * rounds, np.random.default_rng(SEED))

        def make() -> MaskedLanguageModel:
            return MaskedLanguageModel(
                Encoder(config, 128, "cls", SEED), MaskedWordHead(config, SEED), store, SEED, BATCH, LENGTH
            )

        objective = make()
        steps = [sequences(objective, step) for step in range(rounds)]
        batches = [padded(rows) for rows in steps]
        everything = sorted((row for rows in steps for row in rows), key=lambda row: len(row[0]))
        grouped = [padded(everything[i : i + BATCH]) for i in range(0, len(everything), BATCH)]
        model = as_bert(objective, config)
        losses = check(objective, model, batches[0])
        check_step(objective, make, schedule, device)
        second = make()
        second.module.load_state_dict(objective.module.state_dict())
        second.module.train()
        fp32 = {
            "ours fp32": Stepper(objective, schedule, Device(torch.device("cpu"), False)),
            "HF fp32": PaddedStepper(model, batches, False),
            "HF fp32 grouped": PaddedStepper(copy.deepcopy(model), grouped, False),
        }
        bf16 = {
            "ours bf16": Stepper(second, schedule, Device(torch.device("cpu"), True)),
            "HF bf16": PaddedStepper(copy.deepcopy(model), batches, True),
        }
        # Without AMX, bf16 is emulated and up to three times slower than fp32: one round shows it, and it is no peer.
        measured = fp32 | bf16 if amx else fp32
        times = common.interleave({name: v.step for name, v in measured.items()}, rounds)
        emulated = {} if amx else common.interleave({name: v.step for name, v in bf16.items()}, 1, warm_up=False)
    tokens = [sum(len(row[0]) for row in rows) for rows in steps]
    grouped_tokens = [int(batch["attention_mask"].sum()) for batch in grouped]
    # Per real token from here on. One round's grouped batch is all short or all long, so it takes the mean over all.
    spent = {name: [t / n for t, n in zip(values, tokens, strict=True)] for name, values in times.items()}
    spent["HF fp32 grouped"] = [sum(times["HF fp32 grouped"]) / sum(grouped_tokens)] * rounds
    best = "ours bf16" if amx else "ours fp32"
    ratio = common.ratios(spent, best)
    targets = {
        name: common.verdict(ratio[name]["median"], TARGETS[vocabulary][name.removeprefix("HF ")])
        for name in ("HF fp32", "HF bf16")
        if name in ratio
    }
    fill = sum(tokens) / sum(batch["input_ids"].numel() for batch in batches)
    common.table(
        f"C1: V={vocabulary}, {BATCH} passages, fill {fill:.2f}; loss {losses['ours']:.5f}, HF {losses['hf']:.5f}",
        ["variant", "real tokens/s", f"{best} is faster by", "target"],
        [
            [n, 1 / statistics.median(v), ratio.get(n, {}).get("median", ""), targets.get(n, "")]
            for n, v in spent.items()
        ]
        + [[f"{n}, emulated, 1 round", tokens[0] / v[0], "", ""] for n, v in emulated.items()],
    )
    return {
        "loss": losses,
        "fill": round(fill, 4),
        "tokens_per_cpu_s": {name: round(1 / statistics.median(values), 1) for name, values in spent.items()},
        "emulated_bf16_tokens_per_cpu_s_one_round": {n: round(tokens[0] / v[0], 1) for n, v in emulated.items()},
        "ours": best,
        "ratio": ratio,
        "targets": targets,
    }


def main() -> None:
    args = common.arguments(__doc__, rounds=5)
    device = choose_device("fp32", 1)
    amx = torch.cpu._is_amx_tile_supported()
    if not amx:
        print("This CPU has no AMX tiles: bf16 is emulated, and the project uses fp32 on it.")
    results = {str(vocabulary): run(vocabulary, args.rounds, device, amx) for vocabulary in TARGETS}
    common.write("c1_mlm_step", args, ("torch", "transformers"), amx=amx, results=results)


if __name__ == "__main__":
    main()
