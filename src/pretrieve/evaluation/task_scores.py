"""Scores of a task's runs: one metrics file for each run, which is the unit that tables are made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.metrics import metrics_record, read_qrels
from pretrieve.files import write_json
from pretrieve.retrieval.candidates import read_candidates
from pretrieve.tasks.split_table import SplitTable


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

    candidates: what each run was taken from, in the rerank setting; a query's pool is then as large as its list, else as the
    corpus.

    Raises
    ------
    ConfigError
        for a metric that the task cannot be scored by.
    DataError
        when a run and the task do not belong together.
    """
    searched = read_table(task / "corpus.parquet", ["doc_id"]).num_rows
    qrels = read_qrels(task / "qrels.parquet")
    answers, splits = TaskAnswers(task), SplitTable(task / "splits.parquet")
    for run, size, output, given in zip(runs, sizes, outputs, candidates or [None] * len(runs), strict=True):
        queries = splits.needed(size)
        pool: int | dict[str, int] = searched
        if given is not None:
            pool = dict.fromkeys(queries, 0) | {query: len(found) for query, found in read_candidates(given).items()}
        write_json(output, metrics_record(run, qrels, queries, pool, metrics, answers, conventions))
