"""Fuse BM25's run with those of dense retrievers, with weights that development questions choose, and score what comes out."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.arguments import add_device, json_object, required
from pretrieve.base.files import write_json
from pretrieve.base.progress import Progress
from pretrieve.corpora.tables import read_table
from pretrieve.evaluation.fusion_weight import choose_weight
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.evaluation.task_scores import score_runs
from pretrieve.retrieval import bm25
from pretrieve.retrieval.embed_task import embed_queries
from pretrieve.retrieval.fusion import fuse
from pretrieve.retrieval.search_task import TaskIds, search_task
from pretrieve.retrieval.trec_run import Run, read_trec, write_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.device import choose_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: table_request")
    required(parser, Path, index_dir="of BM25")
    required(parser, float, k1="", b="")
    required(
        parser,
        Path,
        out="JSON: hybrid → weight of BM25, questions that chose it, and their mean score with each weight",
    )
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    request = arguments.request
    root, dataset, metric = request["root"], request["dataset"], request["metrics"][0]
    task = Path(paths.task_dir(root, dataset))
    hybrids = [row for row in request["rows"] if row["kind"] == "hybrid"]
    size = paths.parse_system(hybrids[0]["dense"]).size
    splits, qrels = SplitTable(task / "splits.parquet"), read_qrels(task / "qrels.parquet")
    # Nothing is validated on the training questions that are kept apart for that, so they are development questions too.
    development = [query for part in ("dev", "valid") for query in splits.ids(size, part)]
    judged = {query: qrels[query] for query in development}
    lexical = _bm25(arguments, task, development)
    tested = read_trec(
        paths.run_file(root, next(row for row in request["rows"] if row["kind"] == "bm25")["system"], dataset, 0)
    )
    tested = _with_empty(tested, splits.needed(size))
    chosen = {}
    with Progress("hybrids", len(hybrids), "rows") as progress:
        for row in hybrids:
            seconds = [_dense(arguments, task, row["dense"], seed, development) for seed in row["seeds"] if development]
            choice = choose_weight(lexical, seconds, judged, metric)
            chosen[row["system"]] = choice._asdict()
            for seed in row["seeds"]:
                dense = read_trec(paths.run_file(root, row["dense"], dataset, seed))
                run = paths.run_file(root, row["system"], dataset, seed)
                write_trec(run, fuse(tested, dense, choice.weight, request["depth"]), "hybrid")
                score_runs(
                    task,
                    [Path(run)],
                    [size],
                    [Path(paths.metrics_file(root, row["system"], dataset, seed))],
                    request["metrics"],
                )
            progress.advance()
    write_json(arguments.out, chosen)


def _bm25(arguments: argparse.Namespace, task: Path, wanted: list[str]) -> Run:
    """BM25's run of some queries, in their order; of none, one without queries."""
    if not wanted:
        return Run([], [], [])
    table = read_table(task / "queries.parquet", ["query_id", "text"])
    texts = dict(zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    pairs = [(query, texts[query]) for query in wanted]
    depth = arguments.request["depth"]
    return bm25.search(arguments.index_dir, pairs, depth, arguments.k1, arguments.b, arguments.threads)


def _dense(arguments: argparse.Namespace, task: Path, system: str, seed: int, wanted: list[str]) -> Run:
    """A retriever's run of some queries, which are embedded beside those that were tested."""
    request, ids = arguments.request, TaskIds.read(task)
    retriever = Path(paths.retriever_dir(request["root"], system, request["trained_on"], seed))
    store = Path(paths.embedding_dir(request["root"], system, request["dataset"], seed))
    device = choose_device(arguments.precision, arguments.threads)
    length, rows = request["lengths"]["query_length"], {"development": ids.rows_of(wanted)}
    embed_queries(Dataset(task), retriever, store, length, device, rows)
    own = ids.store_of("development", wanted)
    return search_task(own, store, wanted, request["depth"], threads=arguments.threads)


def _with_empty(run: Run, queries: list[str]) -> Run:
    """The run with an empty ranking for a query that has no hits, which a file cannot hold."""
    missing = [query for query in queries if query not in set(run.query_ids)]
    return Run(
        [*run.query_ids, *missing], [*run.doc_ids, *([] for _ in missing)], [*run.scores, *([] for _ in missing)]
    )
