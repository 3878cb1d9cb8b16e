"""faiss, set up for the machine it runs on, and its indexes by configuration.

**Settings.** Two of them make faiss-cpu's flat search many times faster on recent processors. Its OpenBLAS is older than
they are and takes them for a Prescott unless ``OPENBLAS_CORETYPE`` names a core before faiss is first imported; and it
multiplies matrices only above ``queries x dim`` = 128,000, which small searches never reach. So faiss is imported
through :func:`load_faiss` everywhere in this project.

**Kinds** (all by inner product; what is excluded from the dict takes the value of :data:`DEFAULTS`)::

    {kind: Flat}                                  every vector as it is, exact
    {kind: IVF, lists: 256, probes: 16}           k-means cells; a query looks into the nearest `probes` cells
    {kind: HNSW, links: 32, build: 200, search: 256}  a graph with `links` neighbours a node; `build` and `search` are
                                                  the lengths of the candidate lists (efConstruction, efSearch)
    {kind: PQ, bytes: 32, k_factor: 10}           product quantisation: one byte for each of `bytes` parts of a vector;
                                                  `k_factor` candidates for each hit get their exact score
    {kind: IVFPQ, lists: 256, probes: 16, bytes: 32, k_factor: 10}   cells whose vectors are quantised

Cells and code books are learnt on at most ``train`` rows, drawn by ``seed``. Only Flat is exact; the others are
searched by :mod:`pretrieve.retrieval.approximation`, which also measures what they miss.

**Same bits.** Index files are equal for any number of threads and any shards: training and adding run on one thread, in
blocks of a fixed size, because sums inside k-means and the order of insertion into a HNSW graph depend on threads.
``parallel: true`` gives that up for speed: all threads build, and two builds may differ. Searching never depends on the
number of threads, as faiss gives each query to one; the last bits of first-stage scores may depend on the batch.

With faiss-gpu and a GPU, :func:`top_k`, Flat and IVF use the first GPU by themselves; the other kinds stay on the CPU.
That path follows the documented interface of faiss but has not been run where this was developed: there faiss is
faiss-cpu only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.files import whole_file, write_json
from pretrieve.retrieval.embeddings import EmbeddingReader

_TRAIN = {"train": 65_536, "seed": 0, "parallel": False}
#: kind: its options and their values where the configuration has none.
DEFAULTS: dict[str, dict[str, int | bool]] = {
    "Flat": {},
    "IVF": {"lists": 256, "probes": 16, **_TRAIN},
    "HNSW": {"links": 32, "build": 200, "search": 256, "seed": 0, "parallel": False},
    "PQ": {"bytes": 32, "k_factor": 10, **_TRAIN},
    "IVFPQ": {"lists": 256, "probes": 16, "bytes": 32, "k_factor": 10, **_TRAIN},
}

#: Index kinds that :func:`build_index` knows.
KINDS = tuple(DEFAULTS)
#: Smallest value of an option where it is not 1. faiss's graph needs two links.
_LEAST = {"seed": 0, "links": 2}
#: A code of one byte means 256 centroids, for which k-means needs as many rows.
_CODES = 256
#: Rows that are added at a time.
_ADD = 65_536
#: Longest list that faiss-gpu returns; longer ones are searched on the CPU.
GPU_MAX_K = 2048


def load_faiss(threads: int, dim: int | None = None) -> ModuleType:
    """Import faiss with the settings above and ``threads`` OpenMP threads.

    ``dim`` is the width of the vectors to be searched, where known: a single query is then not made a matrix product,
    which is slower for it than inner products one by one (2.8 against 4.3 GFLOP/s; 17 against 4.4 for 8 queries).
    """
    if "faiss" not in sys.modules:  # later the setting is not read any more
        coretype = _coretype()
        if coretype:
            os.environ.setdefault("OPENBLAS_CORETYPE", coretype)
    import faiss

    faiss.cvar.distance_compute_blas_threshold = 20 if dim is None else 2 * dim
    faiss.omp_set_num_threads(threads)
    return faiss


def _coretype(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """OpenBLAS's name for a core with this processor's vector instructions; None where they are unknown."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
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


def _on_gpu(faiss: ModuleType, index, kind: str):
    """The index on the first GPU, where there is one and faiss has this kind on it."""
    resources = _gpu_resources()
    return index if resources is None or kind not in ("Flat", "IVF") else faiss.index_cpu_to_gpu(resources, 0, index)


def top_k(queries: np.ndarray, block: np.ndarray, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner-product top-k of ``queries`` (Q, dim) float32 in ``block`` (n, dim) float32, k <= n, without an index.

    Returns scores (Q, k) float32 descending and rows (Q, k) int64. Equal scores come in any order, and which of those
    that tie at the end are kept is up to faiss: :mod:`pretrieve.retrieval.search` settles both.
    """
    faiss = load_faiss(threads, queries.shape[1])
    resources = _gpu_resources()
    if resources is not None and k <= GPU_MAX_K:
        return faiss.knn_gpu(resources, queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)


def check_index(options: Mapping | str) -> dict:
    """All options of an index, defaults filled in; ``"IVF"`` is short for ``{kind: IVF}``. Imports neither faiss nor torch.

    >>> check_index({"kind": "HNSW", "links": 16})
    {'kind': 'HNSW', 'links': 16, 'build': 200, 'search': 256, 'seed': 0, 'parallel': False}

    Raises ConfigError when the kind or an option is unknown, or a value is not allowed.
    """
    given = {"kind": options} if isinstance(options, str) else dict(options)
    kind = given.pop("kind", None)
    if kind not in KINDS:
        same = [known for known in KINDS if known.lower() == str(kind).lower()]
        hint = nearest(same[0] if same else kind, KINDS) or "."
        raise ConfigError(f"index kind '{kind}' is unknown, expected one of: {', '.join(KINDS)}{hint}")
    complete = {"kind": kind, **DEFAULTS[kind]}
    for name, value in given.items():
        if name not in DEFAULTS[kind]:
            allowed = ", ".join(DEFAULTS[kind]) or "none"
            raise ConfigError(
                f"index {kind}: option '{name}' is unknown, expected one of: {allowed}{nearest(name, DEFAULTS[kind]) or '.'}"
            )
        if isinstance(DEFAULTS[kind][name], bool):
            if not isinstance(value, bool):
                raise ConfigError(f"index {kind}: {name}={value!r}, expected true or false.")
        elif not isinstance(value, int) or isinstance(value, bool) or value < _LEAST.get(name, 1):
            raise ConfigError(f"index {kind}: {name}={value!r}, expected a whole number >= {_LEAST.get(name, 1)}.")
        complete[name] = value
    if complete.get("probes", 0) > complete.get("lists", 0):
        raise ConfigError(
            f"index {kind}: probes={complete['probes']} of lists={complete['lists']}; expected probes of at most lists, "
            "where the search is exhaustive."
        )
    if complete.get("train", _CODES) < _least_rows(complete):
        raise ConfigError(
            f"index {kind}: train={complete['train']} rows, expected {_least_rows(complete)} or more: "
            "one for each list, and 256 for codes of one byte."
        )
    return complete


def _least_rows(options: Mapping) -> int:
    """Rows without which k-means cannot place its centroids."""
    return max(options.get("lists", 0), _CODES if "bytes" in options else 0)


def build_index(reader: EmbeddingReader, options: Mapping | str = "Flat", threads: int = 1):
    """A faiss index of all rows of ``reader``, in row order; ``options`` as in :func:`check_index`.

    ``Flat`` and ``IVF`` keep a float32 copy of the store in memory (on the GPU when there is one); searching the reader
    itself needs none. ``threads`` builds only with ``parallel``; ``Flat`` has nothing to compute.

    Raises ConfigError when the options are not allowed, or do not fit the store: fewer rows than lists, ``bytes`` that do not
    divide the width; and DataError for a vector that is not finite.
    """
    options = check_index(options)
    kind = options["kind"]
    if reader.rows < _least_rows(options):
        asked = ", ".join(f"{name}={options[name]}" for name in ("lists", "bytes") if name in options)
        # Codes need 256 in any case.
        fewer = "fewer lists, or " if reader.rows >= _least_rows(options | {"lists": 1}) else ""
        raise ConfigError(
            f"index {kind}: {reader.path} has {reader.rows} rows, expected {_least_rows(options)} or more for "
            f"{asked}; take {fewer}Flat, which is fast at this size."
        )
    if reader.dim % options.get("bytes", 1):
        raise ConfigError(
            f"index {kind}: bytes={options['bytes']} does not divide the width {reader.dim} of {reader.path}; "
            f"expected a divisor, such as {_divisor(reader.dim, options['bytes'])}."
        )
    faiss = load_faiss(threads if options.get("parallel") else 1)
    index = _empty(faiss, options, reader.dim)
    if not index.is_trained:
        index.train(_sample(reader, options["train"], options["seed"]))
    index = _on_gpu(faiss, index, kind)
    for start in range(0, reader.rows, _ADD):
        index.add(_take(reader, np.arange(start, min(start + _ADD, reader.rows))))
    set_search(index, options)
    faiss.omp_set_num_threads(threads)
    return index


def _divisor(dim: int, wanted: int) -> int:
    """The divisor of ``dim`` nearest to ``wanted``."""
    return min((d for d in range(1, dim + 1) if dim % d == 0), key=lambda d: abs(d - wanted))


def _empty(faiss: ModuleType, options: Mapping, dim: int):
    """An untrained index. Few points for a centroid are the configuration's choice, so faiss need not warn."""
    lists, size, links = options.get("lists"), options.get("bytes"), options.get("links")
    recipe = {
        "Flat": "Flat",
        "IVF": f"IVF{lists},Flat",
        "HNSW": f"HNSW{links},Flat",
        "PQ": f"PQ{size}np",  # np: codes are not reordered for a Hamming search that is not done; seconds for each byte
        "IVFPQ": f"IVF{lists},PQ{size}np",
    }[options["kind"]]
    index = faiss.index_factory(dim, recipe, faiss.METRIC_INNER_PRODUCT)
    clusterings = [index.cp] if lists else []
    clusterings += [index.pq.cp] if size else []
    for clustering in clusterings:
        clustering.seed, clustering.min_points_per_centroid = options["seed"], 1
    if links:
        index.hnsw.rng = faiss.RandomGenerator(options["seed"])
        index.hnsw.efConstruction = options["build"]
    return index


def _sample(reader: EmbeddingReader, rows: int, seed: int) -> np.ndarray:
    """At most ``rows`` rows of the store, (n, dim) float32 in row order, drawn by the seed without repeats."""
    if rows >= reader.rows:
        return _take(reader, np.arange(reader.rows))
    return _take(reader, np.sort(np.random.default_rng(seed).choice(reader.rows, rows, replace=False)))


def _take(reader: EmbeddingReader, rows: np.ndarray) -> np.ndarray:
    """Rows (n,) of the store, (n, dim); DataError where one is not finite, which k-means refuses and a graph does not find."""
    vectors = reader[rows]
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise DataError(f"{reader.path}: the embedding of row {rows[np.argmin(finite)]} is not finite; encode again.")
    return vectors


def set_search(index, options: Mapping) -> None:
    """Set ``probes`` or ``search`` of a built or loaded index; other options are not touched."""
    if "probes" in options:
        index.nprobe = options["probes"]
    if "search" in options:
        index.hnsw.efSearch = options["search"]  # faiss takes k where that is more


def is_exact(index) -> bool:
    """Whether ``index`` is a flat faiss index, on the CPU or the GPU."""
    return type(index).__name__.removeprefix("Gpu") in ("IndexFlat", "IndexFlatIP")


def write_index(index, directory: Path | str, options: Mapping | str, key: str) -> None:
    """Write ``index.faiss``, which any faiss opens, and then ``index.json`` with options, size and ``key``.

    ``key`` is the caller's name for the content, usually the key of the store.
    """
    directory, options = Path(directory), check_index(options)
    meta = directory / "index.json"
    meta.unlink(missing_ok=True)  # so that no reader sees it beside another index
    faiss = load_faiss(1)
    if type(index).__name__.startswith("Gpu"):
        index = faiss.index_gpu_to_cpu(index)
    with whole_file(directory / "index.faiss") as stream:
        faiss.write_index(index, faiss.PyCallbackIOWriter(stream.write, 1 << 20))
    size = (directory / "index.faiss").stat().st_size
    write_json(meta, {"key": key, "rows": index.ntotal, "dim": index.d, "file_bytes": size, "options": options})


def read_index(directory: Path | str, key: str | None = None, threads: int = 1):
    """Read what :func:`write_index` wrote: the index, and its description (key, rows, dim, options).

    Raises DataError when a file is missing, damaged or short, or the index was made from another ``key``.
    """
    meta, path = Path(directory) / "index.json", Path(directory) / "index.faiss"
    advice = "build the index again"
    try:
        about = json.loads(meta.read_text(encoding="utf-8"))
        found_key, rows, dim, size = about["key"], about["rows"], about["dim"], about["file_bytes"]
        options = check_index(about["options"])
    except FileNotFoundError:
        raise DataError(f"{meta}: no such file, expected the description of a faiss index; {advice}.") from None
    except (ValueError, KeyError, TypeError, ConfigError) as error:
        raise DataError(
            f"{meta}: {type(error).__name__} {error}; expected key, rows, dim, file_bytes and options; {advice}."
        ) from error
    if key is not None and found_key != key:
        raise DataError(f"{meta}: found key '{found_key}', expected '{key}': made from other embeddings; {advice}.")
    if not path.is_file() or path.stat().st_size != size:
        raise DataError(f"{path}: missing, or not {size} bytes long as {meta.name} says; {advice}.")
    faiss = load_faiss(threads)
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise DataError(f"{path}: damaged ({str(error).splitlines()[0]}); {advice}.") from error
    if (index.ntotal, index.d) != (rows, dim):
        raise DataError(f"{path}: {index.ntotal} vectors of {index.d}, expected {rows} of {dim}; {advice}.")
    index = _on_gpu(faiss, index, options["kind"])
    set_search(index, options)
    return index, about
