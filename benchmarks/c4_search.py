"""C4: exact search for the 10, 100 and 1,000 best of 10,000 to 1,000,000 vectors, against faiss as it comes, and tuned.

Unit vectors of 256 and 768 dimensions in an embedding store; 1, 16 and 128 queries (few: below 128,000 / dim faiss does not
multiply matrices by default) and many. Two of ours: ``search`` is what the project runs, the store streamed from its
memory map, candidates scored again in float64, ties settled, ids looked up; ``top_k`` is its first stage alone, which is
all that the peers do. Peers: ``faiss.knn`` in a process of its own without the project's settings; the same with
``OPENBLAS_CORETYPE`` and the BLAS threshold set by hand. Both read the same memory map. faiss as it comes is measured for the
100 best of at most 100,000, for it takes minutes beyond. One thread, CPU time, interleaved. First, equality: scores of all
agree to 1e-5.

    PYTHONPATH=src python benchmarks/c4_search.py
"""

from __future__ import annotations

import common  # isort: skip  (sets thread counts)

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

DEPTHS = (10, 100, 1000)
DIMS = (256, 768)
FEW = (1, 16, 128)
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
    reader = EmbeddingReader(directory, "corpus")
    ids = [f"d{i}" for i in range(rows)]
    paths = [str(path) for path in sorted(directory.glob("corpus-*.npy"))]
    peers = {
        name: common.Worker(faiss_alone, paths, dim, counts, name == "faiss tuned", without=("OPENBLAS_CORETYPE",))
        for name in TARGETS
    }
    return {
        str(depth): {
            str(count): compare(reader, ids, peers, make_queries(count, dim), depth, rounds) for count in counts
        }
        for depth in DEPTHS
    }


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
    args = common.arguments(__doc__, rounds=5, rows=1_000_000, many=1000)
    sizes = [rows for rows in (10_000, 100_000, 1_000_000) if rows <= args.rows]
    results: dict[str, dict] = {}
    for dim in DIMS:
        for rows in sizes:
            large = rows == 1_000_000  # minutes for each call of an untuned faiss
            with tempfile.TemporaryDirectory() as directory:
                counts = (*FEW, args.many // 4 if large else args.many)
                rounds = min(args.rounds, 3) if large else args.rounds
                results[f"{rows}x{dim}"] = measure(rows, dim, counts, rounds, Path(directory))
            for depth, by_count in results[f"{rows}x{dim}"].items():
                common.table(
                    f"C4: top {depth} of {rows:,} x {dim}, GFLOP/CPU-s; in brackets, how much faster ours is: search, top_k",
                    ["queries", *SHOWN],
                    [[count, *(cell(name, value) for name in SHOWN)] for count, value in by_count.items()],
                )
    summary = summarise(results)
    for name, value in summary.items():
        target = TARGETS["faiss default" if name.startswith("top_k to faiss default") else "faiss tuned"]
        print(f"  {name}: {value:.3g}  {common.verdict(value, target)}")
    common.write(
        "c4_search",
        args,
        ("faiss-cpu", "numba", "numpy"),
        depths=DEPTHS,
        results=results,
        summary=summary,
        targets=TARGETS,
    )


def summarise(results: dict) -> dict[str, float]:
    """Least and greatest ratios. One query is apart: faiss is faster for it with its default settings."""
    cells = [
        (int(size.partition("x")[0]), int(depth), int(count), value)
        for size, by_depth in results.items()
        for depth, by_count in by_depth.items()
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
