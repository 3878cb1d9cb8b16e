"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

from __future__ import annotations

import argparse

from pretrieve.base.program import run_program
from pretrieve.evaluation.ranx_metrics import metric_of_ranx
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options

metric_of_ranx()  # slow to load: here, so that it counts as the job's start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_score_arguments(parser)
    options = parser.parse_args()
    check_lists(options)
    score_options(options)


if __name__ == "__main__":
    run_program(main)
