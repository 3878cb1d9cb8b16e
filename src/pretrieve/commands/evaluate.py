"""Evaluate runs on the test queries of their training-set sizes and write one metrics JSON for each run."""

import argparse

from pretrieve.evaluation.ranx_metrics import metric_of_ranx
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options

metric_of_ranx()  # slow to load: here, so that it counts as the job's start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_score_arguments(parser)


def main(options: argparse.Namespace) -> None:
    check_lists(options)
    score_options(options)
