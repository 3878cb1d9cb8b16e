"""Embed the queries and candidates of one task with one or more retrievers.

On several GPUs: torchrun --nproc-per-node N workflow_scripts/embed.py ...; each takes every N-th shard.
"""

import argparse
import json
from pathlib import Path

from pretrieve.base.program import one_each, run_program
from pretrieve.retrieval.embed_task import embed_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--retrievers", nargs="+", type=Path, required=True)
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one embedding directory for each retriever")
    parser.add_argument("--options", type=json.loads, required=True, help="JSON of configuration.recipe_options")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    arguments = parser.parse_args()
    one_each(retrievers=arguments.retrievers, out=arguments.out)

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    data, options = Dataset(arguments.task), arguments.options
    lengths, windows = (options["query_length"], options["passage_length"]), options.get("windows", 1)
    for retriever, out in zip(arguments.retrievers, arguments.out, strict=True):
        with Cost("embed", arguments.threads) as cost:
            cost.gpus = processes.world
            cost.tokens = embed_task(data, retriever, out, *lengths, device, windows, processes)
        if processes.first:
            cost.write(out / "cost.json")
    processes.leave()


if __name__ == "__main__":
    run_program(main)
