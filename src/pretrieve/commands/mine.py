"""Search a task's training questions in embedding stores, and keep what ranks high and is not relevant: negatives."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_threads, required, required_lists
from pretrieve.base.program import one_each
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.retrieval.negatives import mine, write_negatives
from pretrieve.retrieval.search_task import TaskIds, search_task
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, task="")
    required_lists(parser, Path, stores="directories with corpus and queries", retrievers="who made each of them")
    required_lists(parser, str, sizes="one for each store: whose training questions")
    parser.add_argument("--depth", type=int, default=200)
    add_threads(parser)
    required_lists(parser, Path, out="one file of negatives for each store")


def main(options: argparse.Namespace) -> None:
    one_each(stores=options.stores, retrievers=options.retrievers, sizes=options.sizes, out=options.out)
    ids, qrels = TaskIds.read(options.task), read_qrels(options.task / "qrels.parquet")
    splits = SplitTable(options.task / "splits.parquet")
    lists = (options.stores, options.retrievers, options.sizes, options.out)
    for store, retriever, size, out in zip(*lists, strict=True):
        with Cost("mine", options.threads) as cost:
            wanted = [query for part in ("train", "valid") for query in splits.needed(size, part)]
            run = search_task(ids, store, wanted, options.depth, threads=options.threads)
            about = {"source": retriever.parent.parent.name, "retriever": str(retriever), "size": size}
            write_negatives(out, mine(run, qrels, options.depth, about))
        behind = [f"{retriever}/cost.json", f"{store}/cost.json"]
        cost.write(str(out).replace(".jsonl.gz", ".cost.json"), behind)
