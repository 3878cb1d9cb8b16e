"""Embed a task with one or more retrievers, search its test queries, score the runs, and mine negatives where they are asked for.

On several GPUs: torchrun --nproc-per-node N workflow_scripts/retrieve.py ...; each takes every N-th shard of the vectors.
"""

import argparse
from pathlib import Path

from pretrieve.base.arguments import (
    add_device,
    add_without_answers,
    ending_in,
    json_object,
    lengths,
    positive,
    required,
    required_lists,
)
from pretrieve.base.program import once_each, one_each
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options
from pretrieve.training.device import choose_device
from pretrieve.training.processes import Processes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_score_arguments(parser, ending_in(".trec.gz"))
    required_lists(parser, Path, retrievers="one for each run", stores="directories of their vectors")
    parser.add_argument(
        "--negatives", type=ending_in(".jsonl.gz"), nargs="*", default=[], help="one for each run, or none"
    )
    required(parser, lengths, options="JSON of configuration.recipe_options: query_length, passage_length, …")
    parser.add_argument("--search", type=json_object, default={}, help="JSON: index, joint_candidates")
    parser.add_argument("--depth", type=positive, default=100)
    parser.add_argument("--mining-depth", type=positive, default=200)
    add_without_answers(parser)
    parser.add_argument("--vectors-code", default="", help="identifies the code that makes the vectors")
    add_device(parser)


def main(arguments: argparse.Namespace, scored: bool = True) -> None:
    """scored: whether the runs are scored, which needs ranx."""
    check_lists(arguments, retrievers=arguments.retrievers, stores=arguments.stores)
    once_each(runs=arguments.runs, negatives=arguments.negatives)
    if arguments.negatives:
        one_each(negatives=arguments.negatives, runs=arguments.runs)

    processes = Processes.join()
    device = choose_device(arguments.precision, arguments.threads)
    numbers = (arguments.depth, arguments.mining_depth, arguments.threads)
    task = TaskSearch(arguments.task, arguments.options, arguments.search, *numbers, arguments.without_answers)
    for retriever, store, size in zip(arguments.retrievers, arguments.stores, arguments.sizes, strict=True):
        task.embed(
            retriever, store, task.stores_of(size, bool(arguments.negatives)), device, processes, arguments.vectors_code
        )
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
    if scored:
        score_options(arguments)
