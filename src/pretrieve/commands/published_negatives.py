"""The negatives that a benchmark's publisher ships, as a file of negatives for training."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import ending_in, required
from pretrieve.base.paths import cost_beside
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.retrieval.negatives import write_negatives
from pretrieve.retrieval.published_negatives import published_negatives
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, Path, collection="directory with negatives.parquet", task="task made of it")
    parser.add_argument("--depth", type=int, default=200, help="at most this many of each query")
    required(parser, ending_in(".jsonl.gz"), out="file of negatives")


def main(options: argparse.Namespace) -> None:
    splits = SplitTable(options.task / "splits.parquet")
    with Cost("mine", 1) as cost:
        ids = (query for size in splits.sizes for part in ("train", "valid") for query in splits.ids(size, part))
        qrels = read_qrels(options.task / "qrels.parquet")
        # Sorted, for equal input gives equal bytes.
        found = published_negatives(options.collection, options.task, sorted(set(ids)), qrels, options.depth)
        write_negatives(options.out, found)
    cost.write(cost_beside(options.out))
