"""Embed the queries and candidates of one task with one or more retrievers."""

import argparse
from pathlib import Path

from pretrieve.cli import one_each, run_program
from pretrieve.retrieval.embed_task import embed_task
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--retrievers", nargs="+", type=Path, required=True)
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one embedding directory for each retriever")
    parser.add_argument("--query-length", type=int, required=True)
    parser.add_argument("--passage-length", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    arguments = parser.parse_args()
    one_each(retrievers=arguments.retrievers, out=arguments.out)

    device = choose_device(arguments.precision, arguments.threads)
    data = Dataset(arguments.task)
    for retriever, out in zip(arguments.retrievers, arguments.out, strict=True):
        with Cost("embed", arguments.threads) as cost:
            cost.tokens = embed_task(data, retriever, out, arguments.query_length, arguments.passage_length, device)
        cost.write(out / "cost.json")


if __name__ == "__main__":
    run_program(main)
