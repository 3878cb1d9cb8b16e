"""The negatives that a benchmark's publisher ships, as a file of negatives for training."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.program import run_program
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.retrieval.negatives import write_negatives
from pretrieve.retrieval.published_negatives import published_negatives
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", type=Path, required=True, help="directory with negatives.parquet")
    parser.add_argument("--task", type=Path, required=True, help="task made of it")
    parser.add_argument("--depth", type=int, default=200, help="of each query, at most so many")
    parser.add_argument("--out", type=Path, required=True, help="file of negatives, .jsonl.gz")
    options = parser.parse_args()
    splits = SplitTable(options.task / "splits.parquet")
    with Cost("mine", 1) as cost:
        ids = (query for size in splits.sizes for part in ("train", "valid") for query in splits.ids(size, part))
        qrels = read_qrels(options.task / "qrels.parquet")
        # Sorted, for equal input gives equal bytes.
        found = published_negatives(options.collection, options.task, sorted(set(ids)), qrels, options.depth)
        write_negatives(options.out, found)
    cost.write(str(options.out).replace(".jsonl.gz", ".cost.json"))


if __name__ == "__main__":
    run_program(main)
