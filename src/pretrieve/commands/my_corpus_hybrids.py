"""Fuse BM25's run with those of dense retrievers, with weights that development questions choose, and score what comes out."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.base.arguments import add_device, json_object, required
from pretrieve.base.files import write_json
from pretrieve.base.progress import Progress
from pretrieve.corpora.tables import read_rows
from pretrieve.evaluation.fusion_weight import EVEN, FOREIGN, LEAST, choose_weight
from pretrieve.evaluation.retrieve import TaskSearch
from pretrieve.evaluation.task_scores import score_runs
from pretrieve.retrieval import bm25
from pretrieve.retrieval.fusion import fuse
from pretrieve.retrieval.search_task import search_task
from pretrieve.retrieval.trec_run import Run, read_trec, write_trec
from pretrieve.training.device import choose_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: table_request")
    out = "JSON: hybrid → weight of BM25, questions that chose it, and their mean score with each weight"
    required(parser, Path, out=out)
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    request = arguments.request
    root, dataset, metrics, depth, size = (request[key] for key in ("root", "dataset", "metrics", "depth", "size"))
    hybrids = [row for row in request["rows"] if row["kind"] == "hybrid"]
    task = TaskSearch(Path(paths.task_dir(root, dataset)), request["lengths"], {}, depth, threads=arguments.threads)
    # The questions that are kept apart of the training ones train nothing, so they are development questions too.
    development = [query for part in ("dev", "valid") for query in task.splits.ids(size, part)]
    judged = {query: task.qrels[query] for query in development}
    asked = development if len(development) >= LEAST else []  # fewer choose nothing
    lexical = _bm25(request, task, asked)
    conventions = request.get("conventions", ())
    otherwise = EVEN if request["start_reads_it"] else FOREIGN
    tested = read_trec(paths.run_file(root, request["systems"]["bm25"], dataset, 0))
    tested = _with_empty(tested, task.wanted(size, mined=False))
    chosen, outputs = {}, dict[Path, Path]()
    with Progress("hybrids", len(hybrids), "rows") as progress:
        for row in hybrids:
            seconds = [_dense(arguments, task, row["dense"], seed, asked) for seed in row["seeds"] if asked]
            choice = choose_weight(lexical, seconds, judged, metrics[0], otherwise, conventions)
            chosen[row["system"]] = choice._asdict()
            for seed in row["seeds"]:
                dense = read_trec(paths.run_file(root, row["dense"], dataset, seed))
                run = Path(paths.run_file(root, row["system"], dataset, seed))
                write_trec(run, fuse(tested, dense, choice.weight, depth), "hybrid")
                outputs[run] = Path(paths.metrics_file(root, row["system"], dataset, seed))
            progress.advance()
    score_runs(task.task, list(outputs), [size] * len(outputs), list(outputs.values()), metrics, conventions)
    write_json(arguments.out, chosen)


def _bm25(request: Mapping[str, Any], task: TaskSearch, wanted: list[str]) -> Run:
    """BM25's run of some queries, in their order; of none, one without queries."""
    if not wanted:
        return Run([], [], [])
    texts = dict(read_rows(task.task / "queries.parquet", ["query_id", "text"]))
    pairs = [(query, texts[query]) for query in wanted]
    return bm25.search(Path(request["index"]), pairs, task.depth, request["k1"], request["b"], task.threads)


def _dense(arguments: argparse.Namespace, task: TaskSearch, system: str, seed: int, wanted: list[str]) -> Run:
    """A retriever's run of some queries, which are embedded beside those that were tested."""
    request = arguments.request
    retriever = Path(paths.retriever_dir(request["root"], system, request["trained_on"], seed))
    store = Path(paths.embedding_dir(request["root"], system, request["dataset"], seed))
    device = choose_device(arguments.precision, arguments.threads)
    task.embed_beside(retriever, store, "development", wanted, device)
    return search_task(task.ids.store_of("development", wanted), store, task.depth, threads=task.threads)


def _with_empty(run: Run, queries: list[str]) -> Run:
    """The run with an empty ranking for a query that has no hits, which a file cannot hold."""
    missing = sorted(set(queries).difference(run.query_ids))
    return Run(
        [*run.query_ids, *missing], [*run.doc_ids, *([] for _ in missing)], [*run.scores, *([] for _ in missing)]
    )
