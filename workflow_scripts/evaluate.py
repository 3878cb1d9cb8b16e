"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

from __future__ import annotations

import argparse
from pathlib import Path

import ranx  # noqa: F401  (slow to import: here, so that it counts as the job's start)

from pretrieve.cli import one_each, run_program, split_queries
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.metrics import metrics_record, needs_answers, read_qrels
from pretrieve.files import write_json
from pretrieve.retrieval.candidates import read_candidates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True, help="directory of a retrieval task")
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each run")
    parser.add_argument("--outputs", type=Path, nargs="+", required=True, help="one JSON for each run")
    parser.add_argument("--metrics", nargs="+", required=True, help="such as recall@100 mrr@10")
    parser.add_argument("--conventions", nargs="*", default=[], help="see pretrieve/evaluation/conventions.py")
    parser.add_argument(
        "--candidates", type=Path, nargs="*", help="what each run was taken from, in the rerank setting"
    )
    options = parser.parse_args()
    given = {"candidates": options.candidates} if options.candidates else {}
    one_each(runs=options.runs, sizes=options.sizes, outputs=options.outputs, **given)
    searched = read_table(options.task / "corpus.parquet", ["doc_id"]).num_rows
    qrels = read_qrels(options.task / "qrels.parquet")
    answers = TaskAnswers(options.task) if any(map(needs_answers, options.metrics)) else None
    lists = (options.runs, options.sizes, options.outputs, options.candidates or [None] * len(options.runs))
    for run, size, output, candidates in zip(*lists, strict=True):
        queries = split_queries(options.task / "splits.parquet", size)
        pool: int | dict[str, int] = searched
        if candidates is not None:
            pool = dict.fromkeys(queries, 0) | {
                query: len(found) for query, found in read_candidates(candidates).items()
            }
        write_json(output, metrics_record(run, qrels, queries, pool, options.metrics, answers, options.conventions))


if __name__ == "__main__":
    run_program(main)
