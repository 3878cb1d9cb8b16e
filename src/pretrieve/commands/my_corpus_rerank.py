"""Rank the best hits of a run again with a cross-encoder, and score what comes out."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.base.arguments import add_device, required
from pretrieve.base.paths import cost_beside
from pretrieve.evaluation.task_scores import score_runs
from pretrieve.finetuning.cross_encoding import rerank_hits
from pretrieve.models.retriever_files import load_cross_encoder
from pretrieve.retrieval.trec_run import read_trec, write_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.cost import Cost
from pretrieve.training.device import choose_device


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(
        parser,
        Path,
        task="directory of a retrieval task",
        model="of a cross-encoder",
        first="run whose hits are ranked",
    )
    required(parser, int, hits="of each query", query_length="tokens", passage_length="tokens")
    required(parser, Path, run="", output="metrics")
    required(parser, str, size="training-set size")
    parser.add_argument("--metrics", nargs="+", required=True)
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    device = choose_device(arguments.precision, arguments.threads)
    with Cost("search", arguments.threads) as cost:
        model, about = load_cross_encoder(arguments.model)
        data = Dataset(arguments.task)
        data.check_vocabulary(about, arguments.model)
        lengths = (arguments.query_length, arguments.passage_length)
        run = rerank_hits(model, data, read_trec(arguments.first), arguments.hits, lengths, device)
        write_trec(arguments.run, run, "rerank")
    cost.write(cost_beside(arguments.run))
    score_runs(arguments.task, [arguments.run], [arguments.size], [arguments.output], arguments.metrics)
