"""Index a task's corpus with BM25, search all its queries once, and write the test run of each training-set size."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretrieve.cli import one_each, run_program, split_queries
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval import bm25
from pretrieve.retrieval.run import write_trec
from pretrieve.training.cost import Cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="corpus.parquet: doc_id, sentence, passage")
    parser.add_argument("--queries", type=Path, required=True, help="queries.parquet: query_id, text")
    parser.add_argument("--splits", type=Path, required=True, help="splits.parquet: size, query_id, split")
    parser.add_argument("--index-dir", type=Path, required=True)
    parser.add_argument("--k1", type=float, default=0.9)
    parser.add_argument("--b", type=float, default=0.4)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", nargs="+", required=True)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="one TREC run for each size")
    parser.add_argument("--costs", type=Path, nargs="+", required=True, help="one JSON for each size")
    options = parser.parse_args()
    one_each(sizes=options.sizes, runs=options.runs, costs=options.costs)
    test_queries = [split_queries(options.splits, size) for size in options.sizes]
    with Cost("bm25", options.threads) as cost:
        corpus = read_table(options.corpus, ["doc_id", "sentence", "passage"])
        columns = (corpus[name].to_pylist() for name in ("doc_id", "sentence", "passage"))
        documents = ((d, f"{s} {p}" if s else p) for d, s, p in zip(*columns, strict=True))
        bm25.build_index(documents, options.index_dir, options.threads)
        queries = read_table(options.queries, ["query_id", "text"])
        pairs = list(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
        run = bm25.search(options.index_dir, pairs, options.depth, options.k1, options.b, options.threads)
    for query_ids, run_path, cost_path in zip(test_queries, options.runs, options.costs, strict=True):
        write_trec(run_path, run.restrict(query_ids), "bm25")
        cost.write(cost_path)


if __name__ == "__main__":
    run_program(main)
