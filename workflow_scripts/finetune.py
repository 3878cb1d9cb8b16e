"""Fine-tune one encoder on one task for every training-set size asked for."""

import argparse
import json
import os
from pathlib import Path

from pretrieve.cli import one_each, run_program
from pretrieve.finetuning.run import finetune
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--options", type=json.loads, required=True, help="JSON of configuration.recipe_options")
    parser.add_argument("--sizes", nargs="+", required=True)
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one retriever directory for each size")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=os.environ.get("PRETRIEVE_CHECKPOINT_SECONDS", "60")
    )
    arguments = parser.parse_args()
    one_each(sizes=arguments.sizes, out=arguments.out)

    device = choose_device(arguments.precision, arguments.threads)
    data = Dataset(arguments.task)
    for size, out in zip(arguments.sizes, arguments.out, strict=True):
        with Cost("finetune", arguments.threads) as cost:
            outcome = finetune(
                arguments.options,
                arguments.encoder,
                data,
                size,
                out,
                arguments.seed,
                device,
                arguments.checkpoints / size,
                arguments.checkpoint_seconds,
            )
            cost.tokens = outcome.tokens
        cost.write(out / "cost.json")


if __name__ == "__main__":
    run_program(main)
