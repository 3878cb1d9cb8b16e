"""Measure what a query costs at this corpus's size: encoding it, searching vectors, BM25, a cross-encoder on BM25's hits."""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from pretrieve.base import paths
from pretrieve.base.arguments import add_device, json_object, required
from pretrieve.base.files import write_json
from pretrieve.corpora.tables import read_rows
from pretrieve.finetuning.cross_encoding import score_pairs
from pretrieve.models.retriever_files import load_cross_encoder, load_retriever
from pretrieve.retrieval import bm25
from pretrieve.retrieval.embed import encode
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.search import search
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.device import choose_device

#: Test queries that are asked, one after the other.
ASKED = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    required(parser, json_object, request="JSON of pretrieve/workflow/my_corpus_rows.py: search_request")
    required(parser, Path, out="JSON: milliseconds of a query (medians), bytes of the indexes and of a model")
    add_device(parser)


def main(arguments: argparse.Namespace) -> None:
    device = choose_device(arguments.precision, arguments.threads)
    request = arguments.request
    root, dataset, systems, depth = (request[key] for key in ("root", "dataset", "systems", "depth"))
    query_length = request["lengths"]["query_length"]
    task, index = Path(paths.task_dir(root, dataset)), Path(request["index"])
    retriever, cross = (
        Path(paths.retriever_dir(root, systems[name], request["trained_on"], request["seed"]))
        for name in ("published", "cross")
    )
    data = Dataset(task)
    wanted = SplitTable(task / "splits.parquet").needed(request["size"])[:ASKED]
    rows = [np.array([data.query_row(query)]) for query in wanted]
    dual, _ = load_retriever(retriever)
    dual.to(device.device).eval()
    pack = lambda numbers: data.pack_queries(numbers, query_length)
    vectors = [encode(dual.query, pack, row, device) for row in rows]
    corpus = EmbeddingReader(Path(paths.embedding_dir(root, systems["published"], dataset, request["seed"])), "corpus")
    texts = dict(read_rows(task / "queries.parquet", ["query_id", "text"]))
    pairs, more = [[(query, texts[query])] for query in wanted], (depth, request["k1"], request["b"])
    found = {
        "encode_ms": _milliseconds(lambda row: encode(dual.query, pack, row, device), rows),
        "search_ms": _milliseconds(lambda one: search(corpus, one, data.document_ids, depth), vectors),
        "bm25_ms": _milliseconds(lambda pair: bm25.search(index, pair, *more), pairs),
        "vectors_bytes": 4 * corpus.rows * corpus.dim,
        "bm25_bytes": _bytes(index),
        "model_bytes": _bytes(retriever),
        "hits": request["rerank"],
    }
    if request["reranks"]:
        model, about = load_cross_encoder(cross)
        model.to(device.device).eval()
        documents = np.arange(min(request["rerank"], len(data.document_ids)))
        lengths = (about["finetuning"]["query_length"], about["finetuning"]["passage_length"])  # its own
        found["rerank_ms"] = _milliseconds(
            lambda row: score_pairs(model, data, np.repeat(row, len(documents)), documents, lengths, device), rows[:5]
        )
    write_json(arguments.out, found)


def _milliseconds(ask: Callable[[object], object], questions: Sequence[object]) -> float:
    """Median over the questions, after one that does not count."""
    ask(questions[0])
    taken = []
    for question in questions:
        begun = time.perf_counter()
        ask(question)
        taken.append(1000 * (time.perf_counter() - begun))
    return round(median(taken), 3)


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
