"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

from __future__ import annotations

import argparse
from pathlib import Path

import ranx  # noqa: F401  (slow to import: here, so that it counts as the job's start)

from pretrieve.cli import one_each, run_program, split_queries
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.metrics import metrics_record, read_qrels
from pretrieve.files import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qrels", type=Path, required=True, help="qrels.parquet: query_id, doc_id, relevance")
    parser.add_argument("--splits", type=Path, required=True, help="splits.parquet: size, query_id, split")
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each run")
    parser.add_argument("--outputs", type=Path, nargs="+", required=True, help="one JSON for each run")
    parser.add_argument("--metrics", nargs="+", required=True, help="such as recall@100 mrr@10")
    pool = parser.add_mutually_exclusive_group(required=True)
    pool.add_argument("--candidates", type=int, help="number of documents that were searched")
    pool.add_argument("--corpus", type=Path, help="corpus.parquet, to count them")
    options = parser.parse_args()
    one_each(runs=options.runs, sizes=options.sizes, outputs=options.outputs)
    candidates = options.candidates
    if candidates is None:
        candidates = read_table(options.corpus, ["doc_id"]).num_rows
    qrels = read_qrels(options.qrels)
    for run, size, output in zip(options.runs, options.sizes, options.outputs, strict=True):
        queries = split_queries(options.splits, size)
        write_json(output, metrics_record(run, qrels, queries, candidates, options.metrics))


if __name__ == "__main__":
    run_program(main)
