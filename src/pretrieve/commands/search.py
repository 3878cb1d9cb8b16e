"""Search embedded corpora and write a run of the test queries, and its metrics, for each (store, training-set size) pair.

One program does both: its start would take longer than scoring a run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_threads, json_object, required_lists
from pretrieve.evaluation.entropy_file import write_entropy
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.evaluation.ranx_metrics import metric_of_ranx
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options
from pretrieve.retrieval.candidates import read_candidates
from pretrieve.retrieval.search_task import TaskIds, entropy_of, recall_file, search_task
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.tasks.split_table import SplitTable

metric_of_ranx()  # slow to load: here, so that it counts as the job's start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_score_arguments(parser)
    required_lists(parser, Path, stores="corpus and queries embedded, one for each run")
    parser.add_argument("--depth", type=int, default=100)
    add_threads(parser)
    parser.add_argument("--options", type=json_object, default={}, help="JSON: index, joint_candidates")
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="scores are divided by it in contrastive entropy"
    )


def main(options: argparse.Namespace) -> None:
    check_lists(options, stores=options.stores)
    ids, splits = TaskIds.read(options.task), SplitTable(options.task / "splits.parquet")
    qrels = read_qrels(options.task / "qrels.parquet")
    lists = (options.stores, options.sizes, options.candidates or [None] * len(options.stores), options.runs)
    for store, size, candidates, path in zip(*lists, strict=True):
        wanted = splits.needed(size)
        given = read_candidates(candidates) if candidates else None
        run = search_task(ids, store, wanted, options.depth, options.options, options.threads, given, recall_file(path))
        write_trec(path, run, "dense")
        write_entropy(path, entropy_of(ids, store, wanted, qrels, options.temperature, options.threads))
    score_options(options)
