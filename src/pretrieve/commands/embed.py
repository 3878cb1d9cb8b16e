"""Embed the queries and candidates of one task with one or more retrievers.

On several GPUs: torchrun --nproc-per-node N workflow_scripts/embed.py ...; each takes every N-th shard.
"""

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_device, json_object, required, required_lists
from pretrieve.base.program import one_each
from pretrieve.retrieval.embed_task import embed_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, task="")
    required_lists(parser, Path, retrievers="", out="one embedding directory for each retriever")
    required(parser, json_object, options="JSON of configuration.recipe_options")
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
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
