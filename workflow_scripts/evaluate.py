"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

from __future__ import annotations

import argparse

import ranx  # noqa: F401  (slow to import: here, so that it counts as the job's start)

from pretrieve.cli import run_program
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_score_arguments(parser)
    options = parser.parse_args()
    check_lists(options)
    score_options(options)


if __name__ == "__main__":
    run_program(main)
