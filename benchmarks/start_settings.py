"""A search for settings of the scale ``small``, where encoders are continued from one published checkpoint. What was run of it:
benchmarks/results/start_settings.md.

One rule for each group, never one setting for one method:

``base``       masked words from the start: learning rate × ``heads_steps`` (the first steps, with the body frozen). Chosen by the
               development loss: that of the texts which the same epoch would come to next, so none of them was trained on
``continued``  objectives that are continued from the best base found so far: learning rate. The mean of their development losses
``scratch``    masked words from random weights (`transformer-mlm`): learning rate × batch, with equal texts. The development loss
``recipes``    fine-tuning: learning rate × steps, of the start itself, which is none of the objectives that are compared.
               MRR@10 of the development questions of ``squad-passages``, which no table uses

    snakemake results/small/corpora/wikipedia-small/tokens/meta.json --cores all --config scale=small mirror=DIR
    snakemake results/small/tables/pretrieve/controls.csv --cores all --config scale=small mirror=DIR 'only=[minilm]'
    PYTHONPATH=src python benchmarks/start_settings.py [--only GROUP ...] [--steps N]

Writes benchmarks/results/start_settings.json, and a table in Markdown beside it. ``--steps``: shorter runs, whose results stand
beside those of the whole length and are not compared with them. A killed search continues where it was, and two searches of
different settings can run at the same time.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from demo_settings import with_changes
from recipe_settings import tuned_ranks

from pretrieve.models.hf_format import Checkpoint, read_encoder, save_encoder
from pretrieve.models.published import read_start
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.pretrain import continue_heads, make_encoder, trained_heads
from pretrieve.raw import hub
from pretrieve.text.token_store import TokenStore
from pretrieve.training.checkpoint import Checkpoints
from pretrieve.training.device import Device, choose_device
from pretrieve.training.loop import RunSettings, content_key, train
from pretrieve.training.objective import Objective
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import encoder_options
from pretrieve.workflow.scales import at_scale

SEED = 0  # not a seed of the tables
#: Steps' worth of texts that a development loss is a mean over.
DEV_STEPS = 40
RATES = (1e-4, 3e-4, 6e-4, 1e-3)
HEADS = (0, 0.1, 0.2)  # shares of the steps
BATCHES = (64, 16)
CONTINUED = ("bert", "condenser", "retromae", "seed-3-2")
RECIPE = "minilm.dpr-bm25"
FINE_RATES = (1e-5, 2e-5, 5e-5, 1e-4)
FINE_STEPS = (100, 300)


def dev_loss(objective: Objective, first: int, device: Device) -> dict[str, float]:
    """Mean of each term over the texts of the steps from ``first`` on."""
    sums, counts = dict.fromkeys(objective.terms, 0.0), dict.fromkeys(objective.terms, 0)
    with torch.no_grad(), device.autocast():
        for step in range(first, first + DEV_STEPS):
            for batch in objective.micro_batches(step):
                for term, value in objective.losses(batch).items():
                    sums[term] += float(value)
                    counts[term] += batch.counts[term]
    return {term: sums[term] / counts[term] for term in sums}


class Search:
    """Runs of encoders with changed budgets, on the real corpus; what is done is kept in ``work``."""

    def __init__(self, config: dict[str, Any], arguments: argparse.Namespace) -> None:
        self.config, self.root, self.steps = config, arguments.root, arguments.steps
        self.rates, self.shares, self.batches = arguments.rates, arguments.heads, arguments.batches
        self.work = self.root / "start_settings"
        self.store = TokenStore(self.root / "corpora/wikipedia-small/tokens")
        self.device = choose_device("auto", 1)

    def run(
        self, encoder: str, budget: str, changes: dict[str, Any], start: Checkpoint | None, keep: Path | None
    ) -> dict:
        """Pre-train one encoder; its development loss and how long it took."""
        known = self.config["scales"]["small"]["pretraining"]["budgets"][budget]
        batch = changes.get("batch", known["batch"])
        steps = (self.steps or known["steps"]) * known["batch"] // batch
        share = changes.get("heads_share", known.get("heads_steps", 0) / known["steps"])
        changes = {"learning_rate": changes["learning_rate"], "batch": batch, "steps": steps}
        changes["heads_steps"] = round(share * steps)
        changed = {f"pretraining.budgets.{budget}": known | changes}
        options = encoder_options(with_changes(self.config, changed), encoder)
        made = make_encoder(options, self.store, SEED, start)
        read = self.store.read_by(made.config.kind)
        objective = build_objective(
            Setting(options.objective, options.budget.batch, made, read, SEED, self.device.device)
        )
        if start is not None:
            continue_heads(objective, start)
        key = content_key(options.to_dict(), self.store.key, start.about if start else None)
        checkpoints = Checkpoints(self.work / f"checkpoints/{key}", key)
        settings = RunSettings(self.device, SEED, 120.0)
        optimiser = OptimiserConfig(steps=steps, **options.budget.constants())
        outcome = train(objective, optimiser, settings, checkpoints, label=f"{encoder} {changes}")
        loss = dev_loss(objective, steps, self.device)
        if keep is not None:
            about = {"objective": options.objective, "changes": changes, "trained_projection": False}
            about |= {"vocabulary_sha256": self.store.meta["vocabulary_sha256"]}
            save_encoder(keep, made, trained_heads(objective), about)
        checkpoints.clear()
        wall_s = round(outcome.spent.wall_s)
        return {"dev": loss, "loss": sum(loss.values()), "wall_s": wall_s, "tokens": outcome.tokens}


def base(search: Search, results: dict, save) -> None:
    start = read_start(Path(hub.place_of(encoder_options(search.config, "base").start)))
    for share, rate in product(search.shares, search.rates):
        name = f"rate {rate:g}, heads {share:.0%}"
        if name not in results:
            keep = search.work / "base" / name.replace(" ", "_").replace(",", "").replace("%", "")
            found = search.run("base", "base", {"learning_rate": rate, "heads_share": share}, start, keep)
            save(name, found | {"directory": str(keep), "value": found["loss"]})


def continued(search: Search, results: dict, save, bases: dict) -> None:
    best = min(bases.values(), key=lambda one: one["value"])
    start = read_encoder(Path(best["directory"]))
    for rate in search.rates:
        name = f"rate {rate:g}"
        if name not in results:
            rows = {row: search.run(row, "continued", {"learning_rate": rate}, start, None) for row in CONTINUED}
            save(name, {"rows": rows, "value": float(np.mean([row["loss"] for row in rows.values()]))})


def scratch(search: Search, results: dict, save) -> None:
    counts = np.bincount(search.store.tokens)
    save("word frequencies alone", {"value": float(scipy.stats.entropy(counts)), "wall_s": 0})
    for batch, rate in product(search.batches, search.rates):
        name = f"rate {rate:g}, batch {batch}"
        if name not in results:
            found = search.run("transformer-mlm", "pairs", {"learning_rate": rate, "batch": batch}, None, None)
            save(name, found | {"value": found["loss"]})


def recipes(search: Search, results: dict, save) -> None:
    for steps, rate in product(FINE_STEPS, FINE_RATES):
        name = f"rate {rate:g}, {steps} steps"
        if name not in results:
            change, begin = {"learning_rate": rate, "steps": steps}, time.time()
            ranks = tuned_ranks(search.config, RECIPE, change, search.root, SEED, search.device)
            value = float(np.where(ranks < 10, 1 / (ranks + 1), 0).mean())
            save(name, {"value": value, "wall_s": round(time.time() - begin)})


def table(results: dict[str, dict]) -> str:
    """All groups in Markdown, the best setting of each first."""
    lines = []
    for group, settings in results.items():
        better = -1 if group.startswith("recipes") else 1
        lines += [f"| {group} | {'MRR@10' if better < 0 else 'development loss'} | minutes |", "|---|---:|---:|"]
        for name, one in sorted(settings.items(), key=lambda item: better * item[1]["value"]):
            lines.append(f"| {name} | {one['value']:.3f} | {_minutes(one)} |")
        lines.append("")
    return "\n".join(lines)


def _minutes(one: dict) -> str:
    return f"{sum(part['wall_s'] for part in one.get('rows', {'': one}).values()) / 60:.1f}"


def main() -> None:
    groups = ("base", "continued", "scratch", "recipes")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=groups, default=groups)
    parser.add_argument("--steps", type=int, help="of all groups but recipes; by default the scale's")
    parser.add_argument("--rates", nargs="*", type=float, default=RATES, help="of the same groups")
    parser.add_argument("--heads", nargs="*", type=float, default=HEADS, help="shares of the steps, of the group base")
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES, help="of the group scratch")
    parser.add_argument("--root", type=Path, default=Path("results/small"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/start_settings.json"))
    arguments = parser.parse_args()
    search = Search(at_scale(read_config() | {"scale": "small"}), arguments)
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    suffix = f", {arguments.steps:,} steps" if arguments.steps else ""

    def saving(group: str):
        def save(name: str, found: dict) -> None:
            if arguments.out.exists():  # what another search has written in the meantime
                for other, settings in json.loads(arguments.out.read_text()).items():
                    results.setdefault(other, {}).update(settings)
            results[group][name] = found
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")
            arguments.out.with_suffix(".md").write_text(table(results))
            print(f"{group} {name}: {found['value']:.3f}", flush=True)

        return results.setdefault(group, {}), save

    if "base" in arguments.only:
        base(search, *saving(f"base{suffix}"))
    if "continued" in arguments.only:
        continued(search, *saving(f"continued{suffix}"), results[f"base{suffix}"])
    if "scratch" in arguments.only:
        scratch(search, *saving(f"scratch{suffix}"))
    if "recipes" in arguments.only:
        recipes(search, *saving("recipes"))
    print(table(results))


if __name__ == "__main__":
    main()
