"""C16: approximate search among a million sentences: recall@100 against queries a second, memory, and the time to build.

The vectors are real: sentences of a corpus and questions of a task, encoded by one retriever (``--store``, ``--task``,
``--retriever``: directories of a finished run). Ours is the search that the workflow runs: candidates of the index, scored
again from the store (:mod:`pretrieve.retrieval.approximation`); ``k_factor``: candidates for each hit. Beside it: faiss's index
alone, which ranks by its own scores, and hnswlib with the same links and lists. Recall is against exact search by the same
vectors, and ties count. Searches: one thread, CPU time, interleaved; builds: two threads, elapsed and CPU time. Memory: of the
index as a file; ours needs the store on the disk as well. The result is written after each setting.

    PRETRIEVE_PEERS=DIR PYTHONPATH=src python benchmarks/c16_approximate.py --store … --task … --retriever …

``DIR`` has the peer: ``pip install --no-deps --target DIR hnswlib``.
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.models.retriever_files import load_retriever
from pretrieve.retrieval.approximation import recall_at, search_index
from pretrieve.retrieval.embed import encode
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.index import build_index, load_faiss, set_search
from pretrieve.retrieval.search import DenseScorer, search
from pretrieve.retrieval.shards import Shards
from pretrieve.retrieval.trec_run import Run
from pretrieve.text.packing import pack_sentences
from pretrieve.text.token_store import TokenStore
from pretrieve.training.device import choose_device

DEPTH, LENGTH, THREADS = 100, 64, 2
SHARD = 65_536  # sentences: what a stopped encoding loses at most
#: Kind and options of an index → what a search of it may be told.
INDEXES: list[tuple[dict[str, Any], list[dict[str, int]]]] = [
    ({"kind": "IVF", "lists": 1024}, [{"probes": probes} for probes in (4, 16, 64, 256)]),
    (
        {"kind": "IVFPQ", "lists": 1024, "bytes": 48},
        [{"probes": probes, "k_factor": factor} for probes in (16, 64, 256) for factor in (1, 10)],
    ),
    ({"kind": "PQ", "bytes": 48}, [{"k_factor": factor} for factor in (1, 4, 10, 20)]),
    ({"kind": "HNSW", "links": 32, "build": 200}, [{"search": length} for length in (64, 128, 256, 512)]),
]


class Clock:
    """Elapsed and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._begun = time.monotonic(), time.process_time()

    def passed(self) -> dict[str, float]:
        elapsed, cpu = time.monotonic() - self._begun[0], time.process_time() - self._begun[1]
        return {"build_s": round(elapsed, 1), "build_cpu_s": round(cpu, 1)}


def encoded(store: TokenStore, rows: np.ndarray, tower: Any, device: Any) -> np.ndarray:
    """(n, dim) float32 of length 1 of sentences."""
    vectors = encode(tower, lambda chosen: pack_sentences(store, chosen, LENGTH), rows, device)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_store(options: argparse.Namespace, folder: Path) -> tuple[EmbeddingReader, np.ndarray]:
    """The store of the sentences, and the questions' vectors."""
    model, _ = load_retriever(options.retriever)
    store, asked = TokenStore(options.store), TokenStore(options.task / "queries")
    device = choose_device("auto", options.encoding_threads)
    drawn = np.sort(np.random.default_rng(0).permutation(store.n_sentences)[: options.rows])
    queries = encoded(asked, np.arange(asked.n_sentences)[: options.queries], model.query, device)
    writer = EmbeddingWriter(folder, "corpus", len(drawn), queries.shape[1], "benchmark", Shards(SHARD))
    for shard, start, stop in writer.pending():
        writer.write(shard, encoded(store, drawn[start:stop], model.document, device))
    writer.finish()
    return EmbeddingReader(folder, "corpus"), queries


def faiss_alone(index: Any, queries: np.ndarray) -> np.ndarray:
    return index.search(queries, DEPTH)[1]


def rows_to_run(rows: np.ndarray, queries: np.ndarray, reader: EmbeddingReader) -> Run:
    """Hits by number, with exact scores, in their order."""
    ids, scores = [], []
    for vector, found in zip(queries, rows, strict=True):
        found = found[found >= 0]
        exact = reader[found].astype(np.float64) @ vector.astype(np.float64)
        order = np.argsort(-exact, kind="stable")
        ids.append([str(row) for row in found[order]])
        scores.append(exact[order].astype(np.float32))
    return Run([str(number) for number in range(len(rows))], ids, scores)


def of_faiss(reader: EmbeddingReader, queries: np.ndarray, ids: list[str], kinds: set[str]) -> Iterator[dict[str, Any]]:
    """A line for each index and setting of a search, with a function for ours and for faiss alone."""
    faiss = load_faiss(THREADS, reader.dim)
    for options, settings in INDEXES:
        kind = options["kind"]
        if kind not in kinds:
            continue
        begun = Clock()
        index = build_index(reader, options | {"parallel": True}, THREADS)
        built, size = begun.passed(), faiss.serialize_index(index).nbytes
        for setting in settings:
            set_search(index, setting)
            faiss.omp_set_num_threads(1)
            factor = setting.get("k_factor", 1)
            ours: Callable[[], Run] = lambda index=index, factor=factor: search_index(
                index, DenseScorer(reader, queries, 1), ids, DEPTH, k_factor=factor
            )
            about = {"index": kind, **{k: v for k, v in options.items() if k != "kind"}, **setting}
            about |= {**built, "index_mb": round(size / 1e6, 1)}
            alone = {"faiss alone": lambda index=index: faiss_alone(index, queries)}
            yield about | {"run": {"ours": ours} | (alone if factor == 1 else {})}


def of_hnswlib(package: Any, reader: EmbeddingReader, queries: np.ndarray, folder: Path) -> Iterator[dict[str, Any]]:
    (options, settings) = INDEXES[-1]
    index = package.Index("ip", reader.dim)
    index.init_index(max_elements=reader.rows, M=options["links"], ef_construction=options["build"])
    index.set_num_threads(THREADS)
    begun = Clock()
    for start, block in reader.shards():
        index.add_items(block, np.arange(start, start + len(block)))
    built = begun.passed()
    index.save_index(str(folder / "hnswlib"))
    size = (folder / "hnswlib").stat().st_size
    index.set_num_threads(1)
    for setting in settings:
        index.set_ef(max(setting["search"], DEPTH))
        about = {"index": "HNSW", "links": options["links"], "build": options["build"], **setting}
        about |= {**built, "index_mb": round(size / 1e6, 1)}
        yield about | {"run": {"hnswlib": lambda: index.knn_query(queries, k=DEPTH)[0].astype(np.int64)}}


def main() -> None:
    parser = common.parser(__doc__, rounds=3, rows=1_000_000, queries=1000)
    parser.add_argument("--store", type=Path, required=True, help="token store of a corpus")
    parser.add_argument("--task", type=Path, required=True, help="task with the questions")
    parser.add_argument("--retriever", type=Path, required=True)
    kinds = [options["kind"] for options, _ in INDEXES]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, help="some alone, in a result of their own")
    parser.add_argument("--vectors", type=Path, help="keeps the vectors, and goes on where an encoding was stopped")
    parser.add_argument("--encoding-threads", type=int, default=THREADS)
    options = parser.parse_args()
    package = common.peer("hnswlib") if "HNSW" in options.kinds else None
    name = "_".join(["c16_approximate", str(options.rows), *([] if options.kinds == kinds else options.kinds)])
    packages = ("faiss-cpu", "numpy") + (("hnswlib",) if package else ())
    about = {"rows": options.rows, "queries": options.queries, "depth": DEPTH}
    lines = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        reader, queries = write_store(options, options.vectors or folder)
        print(f"{reader.rows:,} sentences of {reader.dim} dimensions are encoded.", flush=True)
        ids = [str(row) for row in range(reader.rows)]
        begun = time.process_time()
        exact = search(reader, queries, ids, DEPTH)
        per_query = (time.process_time() - begun) / len(queries)
        lines.append({"index": "Flat", "by": "ours", "recall": 1.0, "queries_per_cpu_s": round(1 / per_query, 1)})
        variants = of_faiss(reader, queries, ids, set(options.kinds))
        peers = of_hnswlib(package, reader, queries, folder) if package else iter(())
        for one in (case for cases in (variants, peers) for case in cases):
            functions = one.pop("run")
            calls = {by: lambda _, call=call: call() for by, call in functions.items()}
            times = common.interleave(calls, options.rounds, warm_up=False)
            for by, call in functions.items():
                found = call()
                run = found if isinstance(found, Run) else rows_to_run(found, queries, reader)
                rate = round(len(queries) / statistics.median(times[by]), 1)
                recall = round(float(recall_at(run, exact, DEPTH).mean()), 4)
                lines.append({**one, "by": by, "recall": recall, "queries_per_cpu_s": rate})
                print(lines[-1], flush=True)
            common.write(name, options, packages, **about, lines=lines)
    head = ["index", "by", "recall", "queries_per_cpu_s", "index_mb", "build_s", "build_cpu_s"]
    rows = [
        [", ".join(f"{k} {v}" for k, v in line.items() if k not in head[1:])] + [line.get(k, "") for k in head[1:]]
        for line in lines
    ]
    common.table(f"C16: {options.rows:,} sentences, {options.queries:,} questions, recall@{DEPTH}", head, rows)


if __name__ == "__main__":
    main()
