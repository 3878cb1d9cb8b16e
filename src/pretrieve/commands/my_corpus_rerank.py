"""Rank the best hits of a run again with a cross-encoder, and score what comes out."""

import argparse
from pathlib import Path

from pretrieve.base import paths
from pretrieve.base.arguments import add_device, json_object, required
from pretrieve.evaluation.task_scores import score_runs
from pretrieve.finetuning.cross_encoding import rerank_hits
from pretrieve.models.retriever_files import load_cross_encoder
from pretrieve.retrieval.trec_run import read_trec, write_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: search_request")
    required(parser, int, seed="of the cross-encoder")
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    device = choose_device(arguments.precision, arguments.threads)
    request, seed = arguments.request, arguments.seed
    root, dataset, systems = request["root"], request["dataset"], request["systems"]
    task = Path(paths.task_dir(root, dataset))
    directory = Path(paths.retriever_dir(root, systems["cross"], request["trained_on"], seed))
    first = read_trec(paths.run_file(root, systems["bm25"], dataset, 0))
    out = Path(paths.run_file(root, systems["reranked"], dataset, seed))
    with Cost("search", arguments.threads) as cost:
        model, about = load_cross_encoder(directory)
        data = Dataset(task)
        data.check_vocabulary(about, directory)
        lengths = (about["finetuning"]["query_length"], about["finetuning"]["passage_length"])  # its own
        write_trec(out, rerank_hits(model, data, first, request["rerank"], lengths, device), "rerank")
    cost.write(paths.cost_beside(out))
    metrics = Path(paths.metrics_file(root, systems["reranked"], dataset, seed))
    score_runs(task, [out], [request["size"]], [metrics], request["metrics"], request.get("conventions", ()))
