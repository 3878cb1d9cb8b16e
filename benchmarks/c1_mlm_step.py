"""C1: one MLM training step with the optimiser, against ``transformers.BertForMaskedLM`` as a Trainer steps it.

4 layers, 256-d, vocabularies of 30522 and 8192, batches of 32 passages with the lengths of web passages (at most 128
tokens, padded batches are 57 % full), random tokens. Ours is what ``pretrieve.training.loop.train`` does in a step,
batch preparation and masking included (checked below: the same weights, bit for bit); the peer gets its padded and
masked batches ready-made. Peer variants: padded to the longest of the batch, logits at all positions (the Trainer's
default), the same in bf16 autocast, and both ``grouped``: batches of similar length (the Trainer's ``group_by_length``;
its time is taken for each real token). Ours runs in the precision the project takes on the machine: bf16 where the
CPU multiplies it (AMX or AVX512-BF16), else fp32, and then nothing is measured in bf16, which is emulated there. First,
equality: same weights, same masks, dropout off: the losses agree to 1e-4, and those of both in bf16 autocast agree with them to
one part in a thousand.

Two limits. ``products`` counts the floating-point operations of the matrix products in a step, the peer's over ours: what a step
of nothing else would gain at equal speed and precision. ``products alone`` is the time of such a step: the matrix products of
ours (linear layers, masked words' logits, and both gradients of each; the last layer for masked words alone) on arrays of the
same shapes, and nothing else, in the same precision; attention is left out.

    PYTHONPATH=src python benchmarks/c1_mlm_step.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import statistics
import tempfile
from pathlib import Path

import numpy as np
import plain_hf
import steps
import torch
from transformers import BertForMaskedLM

from pretrieve.models.config import BodyConfig
from pretrieve.models.word_head import LOGITS_AT_ONCE, ROWS_AT_LEAST
from pretrieve.training.device import choose_device, cpu_multiplies_bf16
from pretrieve.training.optimiser import OptimiserConfig

TARGETS = {30522: {"fp32": 8.0, "bf16": 6.0}, 8192: {"fp32": 5.0, "bf16": 3.5}}


def hf_loss(model: BertForMaskedLM, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The Trainer's: logits at all positions, mean over the labels."""
    return model(**{name: batch[name] for name in ("input_ids", "attention_mask", "labels")}).loss


class Products:
    """The matrix products of a step of ``tokens`` tokens, ``masked`` of them predicted."""

    def __init__(self, config: BodyConfig, sizes: list[tuple[int, int]], kind: torch.dtype) -> None:
        d, f, v = config.hidden, config.feed_forward, config.vocabulary_size
        self.sizes, self.layers, self.vocabulary = sizes, config.layers, v
        self.weights = [torch.randn(out, given).to(kind) for given, out in ((d, 3 * d), (d, d), (d, f), (f, d))]
        self.words, self.transform = torch.randn(v, d).to(kind), torch.randn(d, d).to(kind)

    @staticmethod
    def _layer(rows: int, weight: torch.Tensor) -> None:
        x, upstream = weight.new_ones(rows, weight.shape[1]), weight.new_ones(rows, weight.shape[0])
        x @ weight.T, upstream @ weight, upstream.T @ x

    def step(self, step: int) -> None:
        tokens, masked = self.sizes[step]
        for _ in range(self.layers - 1):
            for weight in self.weights:
                self._layer(tokens, weight)
        # The last layer: keys and values of all tokens, the rest for the masked words alone.
        joint, *others = self.weights
        self._layer(tokens, joint[joint.shape[1] :])
        for weight in (joint[: joint.shape[1]], *others):
            self._layer(masked, weight)
        self._layer(masked, self.transform)
        parts = -(-masked // max(ROWS_AT_LEAST, LOGITS_AT_ONCE["cpu"] // self.vocabulary))
        rows = -(-masked // parts)
        for first in range(0, masked, rows):
            self._layer(min(rows, masked - first), self.words)


def run(vocabulary: int, rounds: int, multiplies_bf16: bool) -> dict:
    """Check, measure and print one vocabulary size."""
    config = steps.body(vocabulary)
    schedule = OptimiserConfig(rounds, 1e-4)
    with tempfile.TemporaryDirectory() as directory:
        rng = np.random.default_rng(steps.SEED)
        lengths = steps.web_lengths(steps.BATCH * rounds, rng) - 2
        store = steps.random_store(Path(directory), vocabulary, lengths, rng)
        objective = steps.make("mlm", config, store)
        rows = [steps.masked_rows(objective, step) for step in range(rounds)]
        batches = [steps.padded_batch(part) for part in rows]
        everything = sorted((row for part in rows for row in part), key=lambda row: len(row["input_ids"]))
        grouped = [steps.padded_batch(everything[i : i + steps.BATCH]) for i in range(0, len(everything), steps.BATCH)]
        model = plain_hf.as_bert(objective)
        ours = steps.mean_loss(objective, 0)["mlm"]
        with torch.no_grad():
            theirs = float(hf_loss(model.eval(), batches[0]))
            low = {}
            if multiplies_bf16:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    low = {"ours": steps.mean_loss(objective, 0)["mlm"], "hf": float(hf_loss(model, batches[0]))}
        if not abs(ours - theirs) <= 1e-4:
            raise SystemExit(f"losses differ: ours {ours}, HF {theirs}")
        if any(abs(loss - ours) > 1e-3 * ours for loss in low.values()):
            raise SystemExit(f"losses in bf16 differ: {low}, in fp32 {ours}")
        steps.check_step(lambda: steps.make("mlm", config, store))
        peer = steps.TrainerStepper(model, hf_loss, batches)
        tokens = [sum(len(row["input_ids"]) for row in part) for part in rows]
        masked = [sum(int((row["labels"] >= 0).sum()) for row in part) for part in rows]
        fp32 = {
            "ours fp32": steps.Stepper(objective, schedule),
            "HF fp32": peer,
            "HF fp32 grouped": peer.twin(grouped),
        }
        bf16 = {}
        if multiplies_bf16:
            bf16 = {
                "ours bf16": steps.Stepper(steps.make("mlm", config, store), schedule, bf16=True),
                "HF bf16": peer.twin(bf16=True),
                "HF bf16 grouped": peer.twin(grouped, bf16=True),
            }
        precision = "bf16" if multiplies_bf16 else "fp32"
        kind, alone = getattr(torch, {"fp32": "float32", "bf16": "bfloat16"}[precision]), f"products alone {precision}"
        limit = {alone: Products(config, list(zip(tokens, masked, strict=True)), kind)}
        times = common.interleave({name: v.step for name, v in (fp32 | limit | bf16).items()}, rounds)
        counted = {name: steps.products(lambda v=fp32[name]: v.step(0)) for name in ("ours fp32", "HF fp32")}
    grouped_tokens = [int(batch["attention_mask"].sum()) for batch in grouped]
    # Per real token from here on. One round's grouped batch is all short or all long, so it takes the mean over all.
    spent = {name: [t / n for t, n in zip(values, tokens, strict=True)] for name, values in times.items()}
    for name in [name for name in times if name.endswith("grouped")]:
        spent[name] = [sum(times[name]) / sum(grouped_tokens)] * rounds
    best = f"ours {precision}"
    ratio = common.ratios(spent, best)
    # What a step of nothing but its products would reach against the peers, and the share they have in ours.
    share = common.ratios({k: spent[k] for k in (alone, best)}, best)[alone]
    bound = common.ratios({k: v for k, v in spent.items() if k == alone or k.startswith("HF")}, alone)
    ratio.pop(alone)
    targets = {
        name: common.verdict(ratio[name]["median"], TARGETS[vocabulary][name.removeprefix("HF ")])
        for name in ("HF fp32", "HF bf16")
        if name in ratio
    }
    fill = sum(tokens) / sum(batch["input_ids"].numel() for batch in batches)
    common.table(
        f"C1: V={vocabulary}, {steps.BATCH} passages, fill {fill:.2f}; loss {ours:.5f}, HF {theirs:.5f}",
        ["variant", "real tokens/s", f"{best} is faster by", "target"],
        common.speeds(spent, 1, ratio, targets),
    )
    return {
        "loss": {"ours": ours, "hf": theirs, "difference": abs(ours - theirs), "bf16": low},
        "fill": round(fill, 4),
        "tokens_per_cpu_s": {name: round(1 / statistics.median(values), 1) for name, values in spent.items()},
        "ours": best,
        "ratio": ratio,
        "products": {
            "giga": {name: round(n / 1e9, 2) for name, n in counted.items()},
            "ratio": round(counted["HF fp32"] / counted["ours fp32"], 3),
        },
        "products_share_of_our_step": share,
        "ratio_if_only_products": bound,
        "targets": targets,
    }


def main() -> None:
    args = common.arguments(__doc__, rounds=9)
    choose_device("fp32", 1)
    multiplies_bf16 = cpu_multiplies_bf16()
    results = {str(vocabulary): run(vocabulary, args.rounds, multiplies_bf16) for vocabulary in TARGETS}
    common.write("c1_mlm_step", args, ("torch", "transformers"), multiplies_bf16=multiplies_bf16, results=results)


if __name__ == "__main__":
    main()
