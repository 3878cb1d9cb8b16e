"""Scores of a task's runs: one metrics file for each run, which is the unit that tables are made from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from pretrieve.base.errors import ConfigError
from pretrieve.base.files import write_json
from pretrieve.base.program import once_each, one_each
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.entropy_file import add_entropy
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.evaluation.metrics_record import metrics_record
from pretrieve.retrieval.trec_run import read_candidates
from pretrieve.tasks.split_table import SplitTable


def add_score_arguments(parser: argparse.ArgumentParser, run: Callable[[str], Path] = Path) -> None:
    """The options of a program that scores runs; see :func:`score_options`. run: their type."""
    parser.add_argument("--task", type=Path, required=True, help="directory of a retrieval task")
    parser.add_argument("--runs", type=run, nargs="+", required=True)
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each run")
    parser.add_argument("--outputs", type=Path, nargs="+", required=True, help="metrics: one JSON for each run")
    parser.add_argument("--metrics", nargs="+", required=True, help="such as recall@100 mrr@10")
    parser.add_argument("--conventions", nargs="*", default=[], help="see pretrieve/evaluation/conventions.py")
    parser.add_argument(
        "--candidates",
        type=Path,
        nargs="*",
        default=[],
        help="the runs that each ranks the hits of, in the rerank setting",
    )


def check_lists(options: argparse.Namespace, **more: Sequence[object]) -> None:
    """Check that the options that name one thing for each run, and ``more`` of them, are equally long, and that no metrics file
    is one of the runs."""
    given = {"candidates": options.candidates} if options.candidates else {}
    one_each(runs=options.runs, sizes=options.sizes, outputs=options.outputs, **more, **given)
    once_each(outputs=options.outputs)
    if both := {*map(os.path.abspath, options.runs)} & {*map(os.path.abspath, options.outputs)}:
        raise ConfigError(f"--outputs: {min(both)} is a run, which would be overwritten; expected another name.")


def score_options(options: argparse.Namespace) -> None:
    """:func:`score_runs` with what a command line says."""
    score_runs(
        options.task,
        options.runs,
        options.sizes,
        options.outputs,
        options.metrics,
        options.conventions,
        options.candidates,
    )


def score_runs(
    task: Path,
    runs: Sequence[Path],
    sizes: Sequence[str],
    outputs: Sequence[Path],
    metrics: Sequence[str],
    conventions: Sequence[str] = (),
    candidates: Sequence[Path] = (),
) -> None:
    """Score each TREC run on the test queries of its training-set size and write its metrics file, in the order given.

    A dense run has its contrastive entropy in a file next to it, which goes into the metrics file.

    candidates: what each run was taken from, in the rerank setting; a query's pool is then as large as its list, else as the
    corpus.

    Raises ConfigError for a metric that the task cannot be scored by, and DataError when a run and the task do not belong
    together.
    """
    searched = read_table(task / "corpus.parquet", ["doc_id"])["doc_id"]
    qrels = read_qrels(task / "qrels.parquet")
    answers, splits = TaskAnswers(task), SplitTable(task / "splits.parquet")
    for run, size, output, given in zip(runs, sizes, outputs, candidates or [None] * len(runs), strict=True):
        queries = splits.needed(size)
        pool: pa.ChunkedArray | dict[str, list[str]] = searched
        if given is not None:
            pool = {query: [] for query in queries} | read_candidates(given)
        record = metrics_record(run, qrels, queries, pool, metrics, answers, conventions)
        add_entropy(record, run)
        write_json(output, record)
