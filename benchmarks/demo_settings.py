"""How a scale's settings were chosen: a grid on the dev questions, one rule for all objectives.

**demo.** Each setting of the first group pre-trains MLM and ICT+BFS+WLP for about the same compute, fine-tunes these two and the
random initialisation on 5 % and 80 % of the training questions of both tasks, and scores the *dev* questions, which no table
uses. The setting with the highest mean recall@100 over all of these is the demo's: never one setting for one method. The second
group does the same for the encoders that go on from the shared base, with the learning rate of their budget.

    snakemake results/demo/corpora/encyclopedia-demo/tokens/meta.json results/demo/tasks/{questions,descriptions}/stats.json
    PYTHONPATH=src python benchmarks/demo_settings.py [--only NAME ...]

About 3 minutes for each setting on one core, and 3 more for the base.

**small.** The same rule, with less of everything: each rate of pre-training serves ICT+BFS+WLP and MLM, with the scale's own
steps; both are fine-tuned on 5 % of the training questions of SQuAD as ReQA. About 35 minutes for each rate on one core.

    snakemake results/small/corpora/wikipedia-small/tokens/meta.json results/small/tasks/squad-reqa/stats.json \\
        --cores all --config scale=small mirror=DIR
    PYTHONPATH=src python benchmarks/demo_settings.py --scale small [--only RATE ...]

Prints a table and adds to benchmarks/results/demo_settings.json, or small_settings.json.
"""

import argparse
import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pretrieve.finetuning.finetune import optimiser_config
from pretrieve.finetuning.groups import Groups, steps_for
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.validation import BestSnapshot
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.models.encoder import Encoder
from pretrieve.pretraining.examples import Setting
from pretrieve.pretraining.objectives import build_objective
from pretrieve.pretraining.pretrain import make_encoder, trained_heads
from pretrieve.retrieval.embed import encode
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import Device, choose_device
from pretrieve.training.loop import RunSettings, content_key, train
from pretrieve.training.optimiser import OptimiserConfig
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.job_options import encoder_options, recipe_options, started_from
from pretrieve.workflow.scales import at_scale

ROWS = ("transformer-none", "transformer-mlm", "transformer-ict-bfs-wlp")
SMALL_ROWS = ("transformer-ict-bfs-wlp", "transformer-mlm")
CONTINUED_ROWS = ("bert", "condenser", "retromae", "seed-3-2")

#: name → changes to scales.demo (keys with dots); steps are set so that every setting costs about the same. One learning
#: rate serves all pre-training objectives, as in the paper.
SETTINGS = {
    "base": {},
    "learning-rate-2e-4": {"pretraining.budgets.pairs.learning_rate": 2e-4},
    "learning-rate-1e-3": {"pretraining.budgets.pairs.learning_rate": 1e-3},
    "finetune-lr-1e-3": {"finetuning.reqa.learning_rate": 1e-3},
    "finetune-lr-2e-4": {"finetuning.reqa.learning_rate": 2e-4},
    "temperature-0.1": {"temperature": 0.1},
    "bert-initialisation": {"body.word_std": 0.02, "body.positions": "normal", "body.position_std": 0.02},
    "three-layers": {"layers.deep": 3, "pretraining.budgets.pairs.steps": 120},
}


#: The same for the encoders that go on from the base.
CONTINUED_SETTINGS = {
    "continued-lr-5e-4": {"pretraining.budgets.continued.learning_rate": 5e-4},
    "continued-lr-1e-3": {"pretraining.budgets.continued.learning_rate": 1e-3},
    "continued-lr-2e-3": {"pretraining.budgets.continued.learning_rate": 2e-3},
}
RATES = {rate: {"pretraining.budgets.pairs.learning_rate": float(rate)} for rate in ("5e-5", "1e-4", "2e-4", "5e-4")}


class Grid(NamedTuple):
    """The search of a scale. ``settings``: name → rows, and changes to the scale."""

    corpus: str
    tasks: tuple[str, ...]
    sizes: tuple[str, ...]
    settings: dict[str, tuple[tuple[str, ...], dict]]


GRIDS = {
    "demo": Grid(
        "encyclopedia-demo",
        ("questions", "descriptions"),
        ("5pct", "80pct"),
        {name: (ROWS, changes) for name, changes in SETTINGS.items()}
        | {name: (CONTINUED_ROWS, changes) for name, changes in CONTINUED_SETTINGS.items()},
    ),
    "small": Grid(
        "wikipedia-small", ("squad-reqa",), ("5pct",), {rate: (SMALL_ROWS, change) for rate, change in RATES.items()}
    ),
}


def with_changes(config: dict, changes: dict) -> dict:
    """A copy of the configuration with some keys of its scale changed."""
    config = copy.deepcopy(config)
    for path, value in changes.items():
        node = config["scales"][config["scale"]]
        *parents, last = path.split(".")
        for parent in parents:
            node = node[parent]
        node[last] = value
    return config


def dev_ranks(dual: DualEncoder, data: Dataset, size: str, options: dict, device: Device) -> np.ndarray:
    """(dev questions,) ranks of the right candidate among all, from 0."""
    rows, everything = data.split(size, "dev"), np.arange(len(data.candidate_passage))
    queries = encode(dual.query, lambda r: data.pack_queries(r, options["query_length"]), rows, device)
    documents = encode(dual.document, lambda r: data.pack_candidates(r, options["passage_length"]), everything, device)
    scores = queries @ documents.T
    right = scores[np.arange(len(rows)), data.positive[rows]]
    return (scores > right[:, None]).sum(axis=1)


def pretrained(config: dict, row: str, store: TokenStore, seed: int, device, known: dict) -> tuple[Encoder, dict]:
    """An encoder as the configuration has it, and the heads trained beside it; ``known`` keeps what is trained."""
    options = encoder_options(config, row)
    start = started_from(config, row)
    key = content_key(options.to_dict(), encoder_options(config, start).to_dict() if start else None)
    if key in known:
        return known[key]
    if start:
        encoder, begun = copy.deepcopy(pretrained(config, start, store, seed, device, known))
    else:
        encoder, begun = make_encoder(options, store, seed), {}
    heads = {}
    if options.budget is not None:
        budget = options.budget
        setting = Setting(options.objective, budget.batch, encoder, store, seed, device.device)
        objective = build_objective(setting)
        heads = trained_heads(objective)
        for name in heads.keys() & begun.keys():
            heads[name].load_state_dict(begun[name].state_dict())
        train(
            objective, OptimiserConfig(steps=budget.steps, **budget.constants()), RunSettings(device, seed), label=row
        )
    known[key] = encoder, heads
    return known[key]


def finetuned(encoder: Encoder, data: Dataset, size: str, recipe: dict, seed: int, device) -> DualEncoder:
    """A fine-tuned copy, the snapshot with the best validation loss."""
    encoder = copy.deepcopy(encoder)
    model = DualEncoder(encoder, encoder, "sde")
    training, validation = data.split(size, "train"), data.split(size, "valid")
    groups = Groups(data, training, recipe, [], seed)
    steps = steps_for(len(groups), recipe)
    watcher = BestSnapshot(model, data, training, validation, recipe, steps, device)
    watcher.start()
    goal = RankingObjective(model, data, groups, recipe, device.device)
    train(goal, optimiser_config(recipe, steps), RunSettings(device, seed), watcher=watcher, label=size)
    watcher.restore()
    return model


def run_setting(config: dict, name: str, store: TokenStore, tasks: dict[str, Dataset], seed: int, known: dict) -> dict:
    """Dev recall@100 by row, task and size. ``known`` keeps what other settings have in common with this one."""
    grid = GRIDS[config["scale"]]
    rows, changes = grid.settings[name]
    config = with_changes(config, changes)
    device = choose_device("auto", 1)
    recipe = recipe_options(config, "reqa", next(iter(tasks)))
    recalls = {}
    for row in rows:
        options = encoder_options(config, row).to_dict()
        encoder, _ = pretrained(config, row, store, seed, device, known)
        for task, data in tasks.items():
            for size in grid.sizes:
                cell = content_key(options, recipe, task, size)
                if cell not in known:
                    retriever = finetuned(encoder, data, size, recipe, seed, device)
                    known[cell] = float((dev_ranks(retriever, data, size, recipe, device) < 100).mean())
                recalls[f"{row} {task} {size}"] = known[cell]
    return {"changes": changes, "recall@100": recalls, "mean": float(np.mean(list(recalls.values())))}


def add_result(out: Path, name: str, outcome: dict[str, Any]) -> None:
    """Print what a setting came to, and add it to the file, which is read again each time: several may run side by side."""
    results = json.loads(out.read_text()) if out.exists() else {}
    results[name] = outcome
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{name:22} mean {outcome['mean']:.3f}", flush=True)
    for row, value in outcome["recall@100"].items():
        print(f"    {value:.3f}  {row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=list(GRIDS), default="demo")
    parser.add_argument("--only", nargs="*", help="settings; by default all of the scale")
    parser.add_argument("--root", type=Path, help="by default results/SCALE")
    parser.add_argument("--seed", type=int, default=11, help="not a seed of the tables")
    parser.add_argument("--out", type=Path, help="by default benchmarks/results/SCALE_settings.json")
    arguments = parser.parse_args()
    scale, grid = arguments.scale, GRIDS[arguments.scale]
    if unknown := {*(arguments.only or ())} - {*grid.settings}:
        parser.error(f"--only: {', '.join(sorted(unknown))}; the scale {scale} has {', '.join(grid.settings)}")
    root = arguments.root or Path("results") / scale
    config = at_scale(read_config() | {"scale": scale})
    store = TokenStore(root / f"corpora/{grid.corpus}/tokens")
    tasks, known = {name: Dataset(root / "tasks" / name) for name in grid.tasks}, {}
    for name in arguments.only or grid.settings:
        outcome = run_setting(config, name, store, tasks, arguments.seed, known)
        add_result(arguments.out or Path(f"benchmarks/results/{scale}_settings.json"), name, outcome)


if __name__ == "__main__":
    main()
