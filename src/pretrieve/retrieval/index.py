"""faiss, set up for the machine it runs on, and exact (flat, inner product) search with it.

Two settings make faiss-cpu's flat search 5-21 times faster on recent processors. Its OpenBLAS is older than they are
and takes them for a Prescott unless ``OPENBLAS_CORETYPE`` names a core before faiss is first imported; and it
multiplies matrices only for 20 queries or more *and* only above a work threshold that small searches never reach.
So faiss is imported through :func:`load_faiss` everywhere in this project.

With faiss-gpu and a GPU, :func:`top_k` and :func:`build_index` use the first GPU by themselves. That path follows the
documented interface of faiss but has not been run where this was developed: there faiss is faiss-cpu only.
"""

from __future__ import annotations

import difflib
import os
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from pretrieve.errors import ConfigError
from pretrieve.retrieval.embeddings import EmbeddingReader

#: Index kinds that :func:`build_index` knows.
KINDS = ("Flat",)

#: Longest list that faiss-gpu returns; longer ones are searched on the CPU.
GPU_MAX_K = 2048


def load_faiss(threads: int) -> ModuleType:
    """Import faiss with the settings above and ``threads`` OpenMP threads."""
    coretype = _coretype()
    if coretype:
        os.environ.setdefault("OPENBLAS_CORETYPE", coretype)
    import faiss

    faiss.cvar.distance_compute_blas_threshold = 20
    faiss.omp_set_num_threads(threads)
    return faiss


def _coretype(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """OpenBLAS's name for a core with this processor's vector instructions; None where they are unknown."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    if "avx512f" in flags and "avx512dq" in flags:
        return "SkylakeX"
    return "Haswell" if "avx2" in flags else None


@cache
def _gpu_resources():
    """faiss's GPU memory pool, or None without faiss-gpu or without a GPU. Made once: it is hundreds of MB."""
    import faiss

    if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
        return None
    return faiss.StandardGpuResources()


def top_k(queries: np.ndarray, block: np.ndarray, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner-product top-k of ``queries`` (Q, dim) float32 in ``block`` (n, dim) float32, k <= n, without an index.

    Returns scores (Q, k) float32 descending and rows (Q, k) int64. Equal scores come in any order, and which of those
    that tie at the end are kept is up to faiss: :mod:`pretrieve.retrieval.search` settles both.
    """
    faiss = load_faiss(threads)
    resources = _gpu_resources()
    if resources is not None and k <= GPU_MAX_K:
        return faiss.knn_gpu(resources, queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)


def build_index(reader: EmbeddingReader, kind: str = "Flat", threads: int = 1):
    """A faiss index of all rows of ``reader``, in row order, filled shard by shard.

    ``Flat`` keeps a float32 copy of the store in memory (on the GPU when there is one); searching the reader itself
    needs none.

    Raises
    ------
    ConfigError
        when ``kind`` is not one of :data:`KINDS`.
    """
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.4)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise ConfigError(f"index kind '{kind}' is unknown, expected one of: {', '.join(KINDS)}{hint}")
    faiss = load_faiss(threads)
    index = faiss.IndexFlatIP(reader.dim)
    resources = _gpu_resources()
    if resources is not None:
        index = faiss.index_cpu_to_gpu(resources, 0, index)
    for _, shard in reader.shards():
        index.add(np.ascontiguousarray(shard))
    return index
