"""C4: exact search for the 10, 100 and 1,000 best of 10,000 to 10 million vectors, against faiss as it comes, and tuned.

Unit vectors of 256, 384 and 768 dimensions (10 million: 384 alone, 15 GB) in an embedding store; 1, 16 and 128 queries (few:
below 128,000 / dim faiss does not multiply matrices by default) and many. Two of ours: ``search`` is what the project runs,
the store streamed from its memory map, candidates scored again in float64, ties settled, ids looked up; ``top_k`` is its first
stage alone, which is all that the peers do. Peers: ``faiss.knn`` in a process of its own without the project's settings; the
same with ``OPENBLAS_CORETYPE`` and the BLAS threshold set by hand. Both read the same memory map. faiss as it comes is measured
for the 100 best of at most 100,000, for it takes minutes beyond. One thread, CPU time, interleaved. First, equality: scores of
all agree to 1e-5.

``cold``: elapsed seconds of a search whose store is on the disk alone, and of reading its files (:func:`cold`).
``limits``: what one core reads from memory and multiplies, a second. ``docs/exact-search.svg`` has both as lines: one query
cannot be faster than its vectors are read, and many not faster than they are multiplied.

    PYTHONPATH=src python benchmarks/c4_search.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DEPTHS = (10, 100, 1000)
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
DIMS = (256, 384, 768)
FEW = (1, 16, 128)
#: Of the figure, and of 10 million vectors.
DIM, DEPTH = 384, 100
TARGETS = {"faiss default": 20.0, "faiss tuned": 1.0}
SHOWN = ("ours, search", "ours, top_k", "faiss tuned", "faiss default")
SHARD = 262_144  # rows of a shard, as the project writes them


def faiss_alone(shards: list[str], dim: int, counts: tuple[int, ...], tuned: bool) -> dict[str, Callable]:
    """faiss in a process of its own: the settings that it has, or those that it should have."""
    if tuned:
        from pretrieve.retrieval.index import _coretype

        coretype = _coretype()
        if coretype:
            os.environ["OPENBLAS_CORETYPE"] = coretype
    import faiss

    faiss.omp_set_num_threads(1)
    if tuned:
        faiss.cvar.distance_compute_blas_threshold = 20
    maps = [np.load(path, mmap_mode="r") for path in shards]

    def find(queries: np.ndarray, depth: int) -> np.ndarray:
        scores = [faiss.knn(queries, part, min(depth, len(part)), faiss.METRIC_INNER_PRODUCT)[0] for part in maps]
        return -np.sort(-np.hstack(scores), axis=1)[:, :depth]

    asked = {count: make_queries(count, dim) for count in counts}
    return {
        f"{count} {depth}": lambda _, queries=queries, depth=depth: find(queries, depth)
        for count, queries in asked.items()
        for depth in DEPTHS
    }


def make_queries(count: int, dim: int) -> np.ndarray:
    return unit(np.random.default_rng(1).standard_normal((count, dim), dtype=np.float32))


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def measure(rows: int, dim: int, counts: tuple[int, ...], rounds: int, directory: Path) -> dict:
    """Ratios for one store, by depth and number of queries."""
    from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
    from pretrieve.retrieval.shards import Shards

    rng = np.random.default_rng(0)
    writer = EmbeddingWriter(directory, "corpus", rows, dim, "benchmark", Shards(SHARD))
    for shard, start, stop in writer.pending():
        writer.write(shard, unit(rng.standard_normal((stop - start, dim), dtype=np.float32)))
    writer.finish()
    ids = [f"d{i}" for i in range(rows)]
    paths = [str(path) for path in sorted(directory.glob("corpus-*.npy"))]
    # Before the peers start: what is mapped somewhere stays in memory.
    from_disk = {"cold": cold(directory, ids, make_queries(1, dim), paths)} if rows >= 1_000_000 else {}
    reader = EmbeddingReader(directory, "corpus")
    peers = {
        name: common.Worker(faiss_alone, paths, dim, counts, name == "faiss tuned", without=("OPENBLAS_CORETYPE",))
        for name in TARGETS
    }
    return from_disk | {
        str(depth): {
            str(count): compare(reader, ids, peers, make_queries(count, dim), depth, rounds) for count in counts
        }
        for depth in DEPTHS
    }


def cold(directory: Path, ids: list[str], queries: np.ndarray, paths: list[str]) -> dict[str, float]:
    """Elapsed seconds of a search and of reading its files, both from the disk, with one thread."""
    from pretrieve.retrieval.embeddings import EmbeddingReader
    from pretrieve.retrieval.search import search

    def forget() -> None:
        for path in paths:
            with open(path, "rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read() -> None:
        for path in paths:
            with open(path, "rb", buffering=0) as stream:
                while stream.read(1 << 23):
                    pass

    # A reader of its own each time: it must not know the longest vector.
    tasks = {"search": lambda: search(EmbeddingReader(directory, "corpus"), queries, ids, DEPTH), "read": read}
    seconds: dict[str, float] = {}
    for name, task in tasks.items():
        forget()
        begun = time.monotonic()
        task()
        seconds[name] = round(time.monotonic() - begun, 2)
    return seconds


def limits() -> dict[str, float]:
    """What one core does at most: GB read from memory, and GFLOP of products, a second of CPU time."""
    import torch

    torch.set_num_threads(1)
    block = np.ones(1 << 28, np.float32)  # 1 GB: no cache holds it
    square = torch.ones(1536, 1536)

    def most(task: Callable[[], object], work: float) -> float:
        times = common.interleave({"": lambda _: task()}, 7)[""]
        return round(work / min(times) / 1e9, 2)

    gigabytes = max(most(block.max, block.nbytes), most(block.sum, block.nbytes))
    return {"gb_per_s": gigabytes, "gflop_per_s": most(lambda: square @ square, 2 * 1536**3)}


def compare(reader, ids: list[str], workers: dict, queries: np.ndarray, depth: int, rounds: int) -> dict:
    """Ratios for one store, one number of queries and one depth."""
    from pretrieve.retrieval.index import top_k
    from pretrieve.retrieval.search import search

    (count, dim), rows = queries.shape, len(ids)
    peers = [name for name in workers if name == "faiss tuned" or (depth == 100 and rows <= 100_000)]

    def first_stage() -> np.ndarray:
        scores = [top_k(queries, part, min(depth, len(part)), 1)[0] for _, part in reader.shards()]
        return -np.sort(-np.hstack(scores), axis=1)[:, :depth]

    case = f"{count} {depth}"
    variants: dict[str, Callable] = {
        "ours, search": lambda _: np.stack(search(reader, queries, ids, depth).scores),
        "ours, top_k": lambda _: first_stage(),
        **{name: workers[name].variant(case) for name in peers},
    }
    exact = variants["ours, search"](0)
    found = {name: workers[name].variant(case, returns=True)(0).result for name in peers}
    for name, scores in (found | {"ours, top_k": first_stage()}).items():
        if not np.allclose(scores, exact, atol=1e-5):
            raise SystemExit(f"{name}: scores differ from those of exact search, {rows} x {dim}, {count} queries.")
    # One call takes from 0.2 ms; several make a time that the clock can tell from noise.
    repeat = max(1, round(0.05 / (2 * rows * dim * count / 5e10 + 1e-3)))
    times = common.interleave(
        {name: repeated(variant, repeat) for name, variant in variants.items()}, rounds, warm_up=False
    )
    rate = {name: 2 * rows * dim * count * repeat / 1e9 / value for name, value in common.medians(times).items()}
    return {
        "gflop_per_cpu_s": {name: round(value, 2) for name, value in rate.items()},
        "ratio_search": common.ratios(times, "ours, search"),
        "ratio_top_k": common.ratios(times, "ours, top_k"),
    }


def repeated(variant: Callable[[int], object], times: int) -> Callable[[int], object]:
    """Call a variant several times; seconds of another process are added up."""

    def call(number: int) -> object:
        results = [variant(number) for _ in range(times)]
        if isinstance(results[0], common.Spent):
            return common.Spent(sum(result.seconds for result in results), None)
        return None

    return call


def main() -> None:
    args = common.arguments(__doc__, rounds=5, rows=SIZES[-1], many=1000)
    results: dict[str, dict] = {}
    bounds = limits()
    for dim, rows in itertools.product(DIMS, SIZES):
        if rows > args.rows or (rows == SIZES[-1] and dim != DIM):
            continue
        large = rows >= 1_000_000  # minutes for each call of an untuned faiss
        counts = FEW if rows == SIZES[-1] else (*FEW, args.many // 4 if large else args.many)
        with tempfile.TemporaryDirectory() as directory:
            found = measure(rows, dim, counts, min(args.rounds, 3) if large else args.rounds, Path(directory))
        results[f"{rows}x{dim}"] = found
        for depth in map(str, DEPTHS):
            common.table(
                f"C4: top {depth} of {rows:,} x {dim}, GFLOP/CPU-s; in brackets, how much faster ours is: search, top_k",
                ["queries", *SHOWN],
                [[count, *(cell(name, value) for name in SHOWN)] for count, value in found[depth].items()],
            )
        if "cold" in found:
            print(f"  from the disk: a search {found['cold']['search']} s, its files alone {found['cold']['read']} s")
    summary = summarise(results)
    for name, value in summary.items():
        target = TARGETS["faiss default" if name.startswith("top_k to faiss default") else "faiss tuned"]
        print(f"  {name}: {value:.3g}  {common.verdict(value, target)}")
    if args.out == common.RESULTS:
        common.draw("c4", common.ROOT / "docs/exact-search.svg", lambda axes: fill(axes, results, bounds), (5.6, 3.8))
    common.write(
        "c4_search",
        args,
        ("faiss-cpu", "numba", "numpy", "torch"),
        depths=DEPTHS,
        limits=bounds,
        results=results,
        summary=summary,
        targets=TARGETS,
    )


def fill(axes: Any, results: dict, bounds: dict[str, float]) -> None:
    """Queries a second of CPU time against size: ours, tuned faiss and what the core can do."""
    sizes = [rows for rows in SIZES if f"{rows}x{DIM}" in results]
    for count, line in (("1", "o-"), (str(FEW[-1]), "s--")):
        asked = "one query" if count == "1" else f"{count} queries"
        for name, label in (("ours, search", "pretrieve"), ("faiss tuned", "tuned faiss")):
            found = (results[f"{rows}x{DIM}"][str(DEPTH)][count]["gflop_per_cpu_s"][name] for rows in sizes)
            rates = [1e9 * rate / (2 * rows * DIM) for rate, rows in zip(found, sizes, strict=True)]
            axes.plot(sizes, rates, line, color="C0" if label == "pretrieve" else "C1", label=f"{label}, {asked}")
    memory = [1e9 * bounds["gb_per_s"] / (4 * rows * DIM) for rows in sizes]
    products = [1e9 * bounds["gflop_per_s"] / (2 * rows * DIM) for rows in sizes]
    axes.plot(sizes, products, "-.", color="0.4", label="as fast as products")
    axes.plot(sizes, memory, ":", color="0.4", label="as fast as the memory")
    axes.set(xscale="log", yscale="log", xlabel=f"vectors of {DIM} dimensions", ylabel="queries a CPU second")


def summarise(results: dict) -> dict[str, float]:
    """Least and greatest ratios. One query is apart: faiss is faster for it with its default settings."""
    cells = [
        (int(size.partition("x")[0]), int(depth), int(count), value)
        for size, by_depth in results.items()
        for depth, by_count in by_depth.items()
        if depth != "cold"
        for count, value in by_count.items()
    ]

    def medians(key: str, peer: str, case: tuple[int, int] | None = None, one: bool = False) -> list[float]:
        return [
            value[key][peer]["median"]
            for rows, depth, count, value in cells
            if peer in value[key] and (count == 1) == one and case in (None, (rows, depth))
        ]

    summary = spread("top_k to faiss default", medians("ratio_top_k", "faiss default"))
    summary |= spread("top_k to faiss tuned", medians("ratio_top_k", "faiss tuned"))
    summary |= spread("search to faiss default, one query", medians("ratio_search", "faiss default", one=True))
    for rows, depth in dict.fromkeys((rows, depth) for rows, depth, *_ in cells):
        name = f"search to faiss tuned, top {depth} of {rows:,}"
        summary |= spread(name, medians("ratio_search", "faiss tuned", (rows, depth)))
    return summary


def spread(name: str, ratios: list[float]) -> dict[str, float]:
    return {f"{name}, {word}": round(value, 3) for word, value in (("least", min(ratios)), ("greatest", max(ratios)))}


def cell(name: str, value: dict) -> str:
    if name not in value["gflop_per_cpu_s"]:
        return "–"
    rate = f"{value['gflop_per_cpu_s'][name]:.3g}"
    if name.startswith("ours"):
        return rate
    return f"{rate} ({value['ratio_search'][name]['median']:.2f}, {value['ratio_top_k'][name]['median']:.2f})"


if __name__ == "__main__":
    main()
