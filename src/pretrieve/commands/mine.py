"""Embed a task's training questions, search them in embedding stores, and keep what ranks high and is not relevant: negatives."""

import argparse
from pathlib import Path

from pretrieve.base.arguments import (
    add_device,
    add_without_answers,
    ending_in,
    lengths,
    positive,
    required,
    required_lists,
)
from pretrieve.base.program import once_each, one_each
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.training.device import choose_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, task="")
    required_lists(parser, Path, stores="directories with the corpus", retrievers="who made each of them")
    required_lists(parser, str, sizes="one for each store: whose training questions")
    parser.add_argument("--depth", type=positive, default=200)
    add_without_answers(parser)
    required(parser, lengths, options="JSON of configuration.recipe_options: query_length, passage_length, …")
    add_device(parser)
    required_lists(parser, ending_in(".jsonl.gz"), out="one file of negatives for each store")


def main(options: argparse.Namespace) -> None:
    one_each(stores=options.stores, retrievers=options.retrievers, sizes=options.sizes, out=options.out)
    once_each(out=options.out)
    device = choose_device(options.precision, options.threads)
    numbers = {"mining_depth": options.depth, "threads": options.threads}
    task = TaskSearch(options.task, options.options, {}, **numbers, without_answers=options.without_answers)
    lists = (options.stores, options.retrievers, options.sizes, options.out)
    for store, retriever, size, out in zip(*lists, strict=True):
        task.embed_beside(retriever, store, "mining", task.wanted(size, True), device)
        task.mine(store, retriever, size, out)
