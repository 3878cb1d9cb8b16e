"""Embed a task with one or more retrievers, search its test queries, score the runs, and mine negatives where they are asked for.

On several GPUs: torchrun --nproc-per-node N workflow_scripts/retrieve.py ...; each takes every N-th shard of the vectors.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.base.program import one_each, run_program
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_score_arguments(parser)
    parser.add_argument("--retrievers", type=Path, nargs="+", required=True, help="one for each run")
    parser.add_argument("--stores", type=Path, nargs="+", required=True, help="directories of their vectors")
    parser.add_argument("--negatives", type=Path, nargs="*", default=[], help="one .jsonl.gz for each run, or none")
    parser.add_argument("--options", type=json.loads, required=True, help="JSON of configuration.recipe_options")
    parser.add_argument("--search", type=json.loads, default={}, help="JSON: index, joint_candidates")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--mining-depth", type=int, default=200)
    parser.add_argument("--code", default="", help="what stands for the code that vectors are made by")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto")
    arguments = parser.parse_args()
    check_lists(arguments, retrievers=arguments.retrievers, stores=arguments.stores)
    if arguments.negatives:
        one_each(negatives=arguments.negatives, runs=arguments.runs)

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    depths = (arguments.depth, arguments.mining_depth)
    task = TaskSearch(arguments.task, arguments.options, arguments.search, *depths, arguments.threads)
    for retriever, store in zip(arguments.retrievers, arguments.stores, strict=True):
        task.embed(retriever, store, device, processes, arguments.code)
    processes.leave()
    if not processes.first:
        return
    absent = [None] * len(arguments.runs)
    lists = (arguments.retrievers, arguments.stores, arguments.sizes, arguments.runs)
    more = (arguments.candidates or absent, arguments.negatives or absent)
    for retriever, store, size, path, candidates, negatives in zip(*lists, *more, strict=True):
        task.run(store, size, path, candidates)
        if negatives:
            task.mine(store, retriever, size, negatives)
    score_options(arguments)


if __name__ == "__main__":
    run_program(main)
