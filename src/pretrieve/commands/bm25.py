"""Search a task with BM25: a run of the test queries for each training-set size, its scores, and negatives for training."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from pretrieve.base.arguments import add_threads, add_without_answers, ending_in, required, required_lists
from pretrieve.base.errors import ConfigError
from pretrieve.base.paths import cost_beside
from pretrieve.base.program import once_each
from pretrieve.corpora.language import LANGUAGES
from pretrieve.corpora.tables import read_rows
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.evaluation.task_scores import add_score_arguments, check_lists, score_options
from pretrieve.raw.json_file import read_json
from pretrieve.retrieval import bm25
from pretrieve.retrieval.answered import answered_hits
from pretrieve.retrieval.negatives import mine, write_negatives
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.tasks.collection_tables import with_title
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_score_arguments(parser)
    required(parser, Path, index_dir="")
    parser.add_argument("--k1", type=float, default=0.9)
    parser.add_argument("--b", type=float, default=0.4)
    parser.add_argument("--language", default="en", help=f"of the analyser: {', '.join(LANGUAGES)}")
    parser.add_argument("--depth", type=int, default=100)
    add_threads(parser)
    required_lists(parser, Path, costs="one JSON for each run")
    required(parser, ending_in(".jsonl.gz"), negatives="negatives of the queries that may train")
    parser.add_argument("--mining-depth", type=int, default=200)
    add_without_answers(parser)


def main(options: argparse.Namespace) -> None:
    check_lists(options, costs=options.costs)
    once_each(runs=options.runs)
    if min(options.depth, options.mining_depth) < 1:
        raise ConfigError(
            f"--depth is {options.depth}, --mining-depth {options.mining_depth}; expected 1 or more of each."
        )
    splits = SplitTable(options.task / "splits.parquet")
    test_queries = {size: splits.needed(size) for size in dict.fromkeys(options.sizes)}
    with Cost("bm25", options.threads) as cost:
        bm25.build_index(_documents(options.task), options.index_dir, options.threads, options.language)
        pairs = list(read_rows(options.task / "queries.parquet", ["query_id", "text"]))
        depth = max(options.depth, options.mining_depth)
        run = bm25.search(options.index_dir, pairs, depth, options.k1, options.b, options.threads)
    for size, run_path, cost_path in zip(options.sizes, options.runs, options.costs, strict=True):
        write_trec(run_path, run.restrict(test_queries[size]).cut(options.depth), "bm25")
        cost.write(cost_path)
    may_train = {query for size in splits.sizes for part in ("train", "valid") for query in splits.ids(size, part)}
    about = {"source": "bm25", "k1": options.k1, "b": options.b}
    qrels = read_qrels(options.task / "qrels.parquet")
    training, answered = run.restrict(may_train), None
    if options.without_answers:
        training = training.cut(options.mining_depth)  # no more texts are looked at than there may be negatives
        answered = answered_hits(training, options.task)
    write_negatives(options.negatives, mine(training, qrels, options.mining_depth, about, answered))
    cost.write(cost_beside(options.negatives))
    score_options(options)


def _documents(task: Path) -> Iterator[tuple[str, str]]:
    """(id, text) of every candidate, with the words that an encoder reads: its sentence in front, or in a task with titles
    apart its title, as Anserini's "flat" index of BEIR has them."""
    titled = read_json(task / "stats.json", "the statistics of a task").get("titled", False)
    for doc_id, title, sentence, passage in read_rows(
        task / "corpus.parquet", ["doc_id", "title", "sentence", "passage"]
    ):
        front = sentence or (title if titled and title != passage else "")
        yield doc_id, with_title(front, passage)
