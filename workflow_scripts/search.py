"""Search embedded corpora and write a run of the test queries for each (store, training-set size) pair."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pretrieve.cli import one_each, run_program, split_queries
from pretrieve.retrieval.candidates import read_candidates
from pretrieve.retrieval.run import write_trec
from pretrieve.retrieval.search_task import TaskIds, search_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True, help="directory of a retrieval task")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: index, joint_candidates")
    parser.add_argument("--stores", type=Path, nargs="+", required=True, help="directories with corpus and queries")
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each store")
    parser.add_argument(
        "--candidates", type=Path, nargs="*", help="rank only the hits of these runs, one for each store"
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="one for each store")
    options = parser.parse_args()
    given = {"candidates": options.candidates} if options.candidates else {}
    one_each(stores=options.stores, sizes=options.sizes, runs=options.runs, **given)
    ids = TaskIds.read(options.task)
    lists = (options.stores, options.sizes, options.candidates or [None] * len(options.stores), options.runs)
    for store, size, candidates, path in zip(*lists, strict=True):
        wanted = split_queries(options.task / "splits.parquet", size)
        run = search_task(
            ids,
            store,
            wanted,
            options.depth,
            options.options,
            options.threads,
            read_candidates(candidates) if candidates else None,
            path.with_name(path.name.replace(".trec.gz", ".recall.json")),
        )
        write_trec(path, run, "dense")


if __name__ == "__main__":
    run_program(main)
