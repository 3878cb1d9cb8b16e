"""Matrices on disk as ``.npy`` shards of consecutive rows, written so that a killed run loses one shard a process at most.

A store ``corpus`` in a directory is::

    corpus-00000{part}.npy  corpus-00001{part}.npy ...   (shard_rows, width) each, the last one shorter
    corpus.json                                          the plan, and shards: [{file, rows}]; written last
    corpus.plan.json                                     the plan alone; written first

A plan has ``rows``, ``shard_rows``, what the kind of store adds, and ``key``: the caller's name for the content (a hash of
model, texts and settings). A restart with the same plan keeps the shards that are there, also if somebody has removed the meta
file, as Snakemake does before it runs a job again; any other plan removes them. A shard
is moved to its name only when it is whole, so a shard that exists is complete.

Most stores have one file a shard; those of sparse vectors have two parts (:mod:`pretrieve.retrieval.embeddings` has both kinds).
Shards can be written in any order and by several processes: one of them *owns* the store, which means that it alone removes
what is left of another plan, before the others look, and writes the meta file, after they are done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file, write_json


@dataclass(frozen=True)
class Part:
    """One matrix of a store: what its file names add, its columns, and the type of its numbers."""

    suffix: str
    width: int
    dtype: np.dtype


@dataclass(frozen=True)
class Shards:
    """How a store is cut and who writes it: rows of a shard; ``owner``: see the module's docstring."""

    rows: int = 262_144
    owner: bool = True


ALONE = Shards()


class ShardWriter:
    """Write the matrices of a store shard by shard, in any order.

    plan: what else than the rows of a shard must be equal for shards of an earlier run to be kept; parts: the matrices, all of
    ``plan["rows"]`` rows. Alone in a run, a writer owns its store.
    """

    def __init__(self, directory: Path | str, name: str, plan: dict, parts: Sequence[Part], shards: Shards) -> None:
        self.directory, self.name, self.parts = Path(directory), name, tuple(parts)
        rows, shard_rows = plan["rows"], shards.rows
        self._plan = {"name": name, **plan, "shard_rows": shard_rows}
        self._meta = self.directory / f"{name}.json"
        plan_file = self.directory / f"{name}.plan.json"
        self._shards = [(start, min(start + shard_rows, rows)) for start in range(0, rows, shard_rows)]
        if shards.owner and read_json(plan_file) != self._plan:
            remove_store(self.directory, name)
            write_json(plan_file, self._plan)

    def _path(self, shard: int, part: Part) -> Path:
        return self.directory / f"{self.name}-{shard:05d}{part.suffix}.npy"

    def _shape(self, shard: int, part: Part) -> tuple[int, int]:
        start, stop = self._shards[shard]
        return stop - start, part.width

    def _complete(self, shard: int) -> bool:
        try:
            for part in self.parts:
                open_shard(self._path(shard, part), self._shape(shard, part), part.dtype, self._meta)
        except DataError:
            return False
        return True

    def pending(self) -> list[tuple[int, int, int]]:
        """What is still to be written: (shard, first row, row after the last), in row order."""
        return [(i, start, stop) for i, (start, stop) in enumerate(self._shards) if not self._complete(i)]

    def write(self, shard: int, *arrays: np.ndarray) -> None:
        """Write one shard: for each part its rows, (rows of the shard, width), finite.

        Raises DataError when a shape is not the shard's or a value is not finite; the message names the row.
        """
        ready = []
        for part, given in zip(self.parts, arrays, strict=True):
            path, shape = self._path(shard, part), self._shape(shard, part)
            array = np.ascontiguousarray(given, dtype=part.dtype)
            if array.shape != shape:
                raise DataError(f"{path}: array of shape {array.shape}, expected {shape}.")
            finite = np.isfinite(array).all(axis=1)
            if not finite.all():
                row = self._shards[shard][0] + int(np.argmin(finite))
                raise DataError(f"{path}: the embedding of row {row} is not finite; check the encoder.")
            ready.append((path, array))
        for path, array in ready:
            with whole_file(path) as stream:
                np.save(stream, array, allow_pickle=False)

    def finish(self) -> None:
        """Write the meta file; a shard that is still missing is a DataError."""
        pending = self.pending()
        if pending:
            path = self._path(pending[0][0], self.parts[0])
            raise DataError(f"{path}: not written yet ({len(pending)} shards to go); write it first.")
        shards = [
            {"file": self._path(i, part).name, "rows": self._shape(i, part)[0]}
            for part in self.parts
            for i in range(len(self._shards))
        ]
        write_json(self._meta, {**self._plan, "shards": shards})


def remove_store(directory: Path, name: str) -> None:
    """Remove a store, finished or not, if there is one."""
    # The meta file is removed first, so that no reader sees it without its shards.
    for suffix in (".json", ".plan.json"):
        (directory / f"{name}{suffix}").unlink(missing_ok=True)
    for shard in directory.glob(f"{name}-{'[0-9]' * 5}*.npy"):
        shard.unlink()


class ShardedRows:
    """The shards of one part as one read-only matrix: ``shape``, ``dtype``, ``len()``, and rows by ``[...]``.

    ``rows[a:b]`` and ``rows[array of row numbers]`` copy these rows to memory; nothing else is read.
    """

    def __init__(self, maps: list[np.ndarray], part: Part, path: Path) -> None:
        self._maps, self._path = maps, path
        self._first = np.cumsum([0, *(len(shard) for shard in maps)])
        self.shape, self.dtype = (int(self._first[-1]), part.width), part.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def shards(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, memory map (shard rows, width)) in row order."""
        yield from ((int(first), shard) for first, shard in zip(self._first, self._maps, strict=False))

    def __getitem__(self, rows: slice | np.ndarray | Sequence[int]) -> np.ndarray:
        """(n, width) copy of the given rows: a slice, or integers in any order, repeats allowed.

        Raises DataError when a row does not exist.
        """
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise DataError(f"{self._path}: row {rows.min()}..{rows.max()} asked for, expected 0..{len(self) - 1}.")
        out = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        of_shard = np.searchsorted(self._first, rows, side="right") - 1
        for shard in np.unique(of_shard):
            mine = np.flatnonzero(of_shard == shard)
            out[mine] = self._maps[shard][rows[mine] - self._first[shard]]
        return out

    def read(self) -> np.ndarray:
        """The whole matrix in memory."""
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *self._maps])


def open_store(
    directory: Path | str, name: str, parts: dict[str, tuple[str, np.dtype]], numbers: Sequence[str] = ()
) -> tuple[dict, list[tuple[list[np.ndarray], Part, Path]]]:
    """A finished store through memory maps: its meta file, and for each part the arguments of :class:`ShardedRows`.

    parts: suffix → (name of the number in the meta file that is its width, type of its entries); numbers: what else the
    meta file must have.

    Raises DataError when the meta file or a shard is missing, short or of another shape; the message says which and what to do.
    """
    path = Path(directory) / f"{name}.json"
    meta = read_json(path)
    if meta is None:
        raise DataError(f"{path}: no embedding store (or not JSON), expected its meta file; run the encoder.")
    matrices = []
    try:
        rows, _ = int(meta["rows"]), [meta["key"], *(int(meta[number]) for number in numbers)]
        files = [(path.parent / shard["file"], int(shard["rows"])) for shard in meta["shards"]]
        plans = [Part(suffix, int(meta[width]), np.dtype(dtype)) for suffix, (width, dtype) in parts.items()]
    except (KeyError, TypeError, ValueError) as error:
        names = ", ".join(["rows", *dict.fromkeys(width for width, _ in parts.values()), *numbers, "key"])
        raise DataError(
            f"{path}: {type(error).__name__} {error}; expected {names} and shards. Delete it and run the encoder again."
        ) from error
    for number, part in enumerate(plans):
        mine = files[number * len(files) // len(plans) : (number + 1) * len(files) // len(plans)]
        if sum(count for _, count in mine) != rows:
            raise DataError(
                f"{path}: shards have {sum(count for _, count in mine)} rows, expected {rows}. "
                "Delete it and run the encoder again."
            )
        maps = [open_shard(file, (count, part.width), part.dtype, path) for file, count in mine]
        matrices.append((maps, part, path))
    return meta, matrices


def open_shard(path: Path, shape: tuple[int, int], dtype: np.dtype, meta: Path) -> np.ndarray:
    """Memory map of one shard.

    Raises DataError when it is missing, damaged, or of another shape or type.
    """
    advice = f"delete {meta.name} and run the encoder again"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: shard is missing, expected {shape[0]} rows of {shape[1]}; {advice}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise DataError(
            f"{path}: shard is damaged or short ({error}), expected {shape[0]} rows of {shape[1]}; {advice}."
        ) from error
    if array.shape != shape or array.dtype != dtype:
        raise DataError(
            f"{path}: shard of shape {array.shape} {array.dtype}, "
            f"expected {shape[0]} rows of {shape[1]} {dtype.name}; {advice}."
        )
    return array


def read_json(path: Path) -> dict | None:
    """A JSON object, or None where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
