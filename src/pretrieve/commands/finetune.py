"""Fine-tune one encoder by one recipe on one task, for every training-set size asked for.

On several GPUs: torchrun --nproc-per-node N workflow_scripts/finetune.py ...; the result is that of one process.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pretrieve.base.arguments import add_training, json_object, required, required_lists
from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import cost_beside
from pretrieve.base.program import once_each, one_each
from pretrieve.finetuning.fine_tuning import FineTuning, options_of_size
from pretrieve.finetuning.finetune import finetune
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def made_of(entry: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a retriever is made of, as paths; and the files that say what that cost."""
    places = {name: Path(entry[name]) if entry.get(name) else None for name in ("start", "teacher")}
    negatives = {source: Path(file) for source, file in entry.get("negatives", {}).items()}
    costs = [f"{place}/cost.json" for place in places.values() if place]
    costs += [cost_beside(file) for file in negatives.values()]
    return {**places, "negatives": negatives}, costs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, encoder="", task="")
    required(parser, json_object, options="JSON of configuration.recipe_options")
    parser.add_argument("--made-of", type=json_object, default={}, help="JSON: size → start, teacher, negatives")
    required_lists(parser, str, sizes="")
    parser.add_argument("--watched", nargs="*", default=[], help="sizes that the recipe's `curve` is for")
    required_lists(parser, Path, out="one retriever directory for each size")
    add_training(parser)


def main(arguments: argparse.Namespace, stop: Callable[[], bool] | None = None) -> None:
    """stop: asked after every step but the last, whether to save and end here."""
    one_each(sizes=arguments.sizes, out=arguments.out)
    once_each(out=arguments.out)
    unknown = set(arguments.made_of) - set(arguments.sizes)
    if unknown:
        raise ConfigError(f"--made-of: sizes {sorted(unknown)} are not among --sizes {arguments.sizes}.")

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    for size, out in zip(arguments.sizes, arguments.out, strict=True):
        parts, behind = made_of(arguments.made_of.get(size, {}))
        run = FineTuning(
            options_of_size(arguments.options, size, arguments.watched),
            arguments.encoder,
            arguments.task,
            size,
            arguments.seed,
            device,
            arguments.checkpoints / size,
            processes=processes,
            **parts,
        )
        with Cost("finetune", arguments.threads) as cost:
            cost.gpus = processes.world
            outcome = finetune(run, out, arguments.checkpoint_seconds, stop)
            cost.tokens, cost.earlier = outcome.tokens, outcome.earlier
        if processes.first and (cost.tokens or not (out / "cost.json").is_file()):
            cost.write(out / "cost.json", behind)
    processes.wait()
    if not arguments.followed:
        processes.leave()
