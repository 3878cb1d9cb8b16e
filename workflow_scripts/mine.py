"""Search a task's training questions in embedding stores, and keep what ranks high and is not relevant: negatives."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.program import one_each, run_program
from pretrieve.evaluation.retrieve import TaskSearch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--stores", nargs="+", type=Path, required=True, help="directories with corpus and queries")
    parser.add_argument("--retrievers", nargs="+", type=Path, required=True, help="who made each of them")
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each store: whose training questions")
    parser.add_argument("--depth", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", nargs="+", type=Path, required=True, help="one file of negatives for each store")
    options = parser.parse_args()
    one_each(stores=options.stores, retrievers=options.retrievers, sizes=options.sizes, out=options.out)
    task = TaskSearch(options.task, {}, {}, mining_depth=options.depth, threads=options.threads)
    for store, retriever, size, out in zip(options.stores, options.retrievers, options.sizes, options.out, strict=True):
        task.mine(store, retriever, size, out)


if __name__ == "__main__":
    run_program(main)
