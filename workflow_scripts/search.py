"""Search embedded corpora exactly and write a run of the test queries for each (store, training-set size) pair."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.cli import one_each, run_program, split_queries
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.index import KINDS, build_index
from pretrieve.retrieval.run import write_trec
from pretrieve.retrieval.search import search, select_queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="corpus.parquet: doc_id, in row order of the stores")
    parser.add_argument("--queries", type=Path, required=True, help="queries.parquet: query_id, in row order")
    parser.add_argument("--splits", type=Path, required=True, help="splits.parquet: size, query_id, split")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--index",
        choices=[*KINDS, "stream"],
        default="Flat",
        help="faiss index to build in memory; stream: none, read the shards from disk (for a corpus that does not fit)",
    )
    parser.add_argument("--stores", type=Path, nargs="+", required=True, help="directories with corpus and queries")
    parser.add_argument("--sizes", nargs="+", required=True, help="one for each store")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="one for each store")
    options = parser.parse_args()
    one_each(stores=options.stores, sizes=options.sizes, runs=options.runs)
    doc_ids = read_table(options.corpus, ["doc_id"])["doc_id"].to_pylist()
    query_ids = read_table(options.queries, ["query_id"])["query_id"].to_pylist()
    for store, size, path in zip(options.stores, options.sizes, options.runs, strict=True):
        wanted = split_queries(options.splits, size)
        ids, vectors = select_queries(EmbeddingReader(store, "queries"), query_ids, wanted)
        corpus = EmbeddingReader(store, "corpus")
        index = corpus if options.index == "stream" else build_index(corpus, options.index, options.threads)
        run = search(index, vectors, doc_ids, options.depth, query_ids=ids, threads=options.threads)
        write_trec(path, run, "dense")


if __name__ == "__main__":
    run_program(main)
