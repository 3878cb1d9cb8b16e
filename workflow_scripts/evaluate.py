"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

from __future__ import annotations

import argparse
from pathlib import Path

import ranx  # noqa: F401  (slow to import: here, so that it counts as the job's start)

from pretrieve.cli import one_each, run_program
from pretrieve.evaluation.task_scores import score_runs


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
    score_runs(
        options.task,
        options.runs,
        options.sizes,
        options.outputs,
        options.metrics,
        options.conventions,
        options.candidates or (),
    )


if __name__ == "__main__":
    run_program(main)
