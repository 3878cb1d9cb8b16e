"""The embedding store: one float32 matrix as ``.npy`` shards, written so that a killed run loses one shard at most.

A store ``corpus`` in a directory is::

    corpus-00000.npy  corpus-00001.npy ...   (shard_rows, dim) float32 each, the last one shorter
    corpus.json                              rows, dim, dtype, key, shard_rows, shards: [{file, rows}]; written last
    corpus.partial.json                      the same plan without shards, while the store is being written

``key`` is the caller's name for the content (a hash of model, texts and settings). A restart with the same key keeps
the shards that are there; any other plan removes them. A shard is moved to its name only when it is whole, so a shard
that exists is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pretrieve.errors import ConfigError, DataError
from pretrieve.files import whole_file, write_json

DTYPE = np.dtype("<f4")


class EmbeddingWriter:
    """Write a (rows, dim) matrix shard by shard, in any order.

    Usage::

        writer = EmbeddingWriter(directory, "corpus", rows, dim, key)
        for shard, start, stop in writer.pending():
            writer.write(shard, encode(texts[start:stop]))
        writer.finish()
    """

    def __init__(
        self, directory: Path | str, name: str, rows: int, dim: int, key: str, shard_rows: int = 262_144
    ) -> None:
        if rows < 0 or dim < 1 or shard_rows < 1:
            raise ConfigError(
                f"embedding store '{name}': rows={rows}, dim={dim}, shard_rows={shard_rows}; "
                "expected rows >= 0, dim >= 1, shard_rows >= 1."
            )
        self.directory, self.name = Path(directory), name
        self._plan = {
            "name": name,
            "rows": rows,
            "dim": dim,
            "dtype": "float32",
            "key": key,
            "shard_rows": shard_rows,
        }
        self._meta = self.directory / f"{name}.json"
        self._partial = self.directory / f"{name}.partial.json"
        self._shards = [(start, min(start + shard_rows, rows)) for start in range(0, rows, shard_rows)]
        self._resume()

    def _resume(self) -> None:
        finished = _read_json(self._meta) or {}
        if {key: finished.get(key) for key in self._plan} == self._plan:
            return
        if _read_json(self._partial) != self._plan:
            # Another plan: its meta file goes first, so that no reader sees it beside shards that are gone.
            self._meta.unlink(missing_ok=True)
            for shard in self.directory.glob(f"{self.name}-{'[0-9]' * 5}.npy"):
                shard.unlink()
            write_json(self._partial, self._plan)

    def _path(self, shard: int) -> Path:
        return self.directory / f"{self.name}-{shard:05d}.npy"

    def _complete(self, shard: int) -> bool:
        try:
            _open_shard(self._path(shard), self._shape(shard), self._meta)
        except DataError:
            return False
        return True

    def _shape(self, shard: int) -> tuple[int, int]:
        start, stop = self._shards[shard]
        return stop - start, self._plan["dim"]

    def pending(self) -> list[tuple[int, int, int]]:
        """What is still to be written: (shard, first row, row after the last), in row order."""
        return [(i, start, stop) for i, (start, stop) in enumerate(self._shards) if not self._complete(i)]

    def write(self, shard: int, array: np.ndarray) -> None:
        """Write one shard: (its rows, dim), any float type, finite.

        Raises
        ------
        DataError
            when the shape is not the shard's or a value is not finite; the message names the row.
        """
        array = np.ascontiguousarray(array, dtype=DTYPE)
        if array.shape != self._shape(shard):
            raise DataError(f"{self._path(shard)}: array of shape {array.shape}, expected {self._shape(shard)}.")
        finite = np.isfinite(array).all(axis=1)
        if not finite.all():
            row = self._shards[shard][0] + int(np.argmin(finite))
            raise DataError(f"{self._path(shard)}: the embedding of row {row} is not finite; check the encoder.")
        with whole_file(self._path(shard)) as stream:
            np.save(stream, array, allow_pickle=False)

    def finish(self) -> None:
        """Write the meta file; a shard that is still missing is a DataError."""
        pending = self.pending()
        if pending:
            raise DataError(
                f"{self._path(pending[0][0])}: not written yet ({len(pending)} shards to go); write it first."
            )
        shards = [{"file": self._path(i).name, "rows": self._shape(i)[0]} for i in range(len(self._shards))]
        write_json(self._meta, {**self._plan, "shards": shards})
        self._partial.unlink(missing_ok=True)


class EmbeddingReader:
    """Read a finished store through memory maps: ``rows``, ``dim`` and ``key`` are attributes.

    Raises
    ------
    DataError
        when the meta file or a shard is missing, short or of another shape; the message says which and what to do.
    """

    def __init__(self, directory: Path | str, name: str) -> None:
        self.path = Path(directory) / f"{name}.json"
        meta = _read_json(self.path)
        if meta is None:
            raise DataError(f"{self.path}: no embedding store (or not JSON), expected its meta file; run the encoder.")
        try:
            self.rows, self.dim, self.key = int(meta["rows"]), int(meta["dim"]), str(meta["key"])
            sizes = [(self.path.parent / shard["file"], int(shard["rows"])) for shard in meta["shards"]]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{self.path}: {type(error).__name__} {error}; expected rows, dim, key and shards. "
                "Delete it and run the encoder again."
            ) from error
        if sum(rows for _, rows in sizes) != self.rows:
            raise DataError(
                f"{self.path}: shards have {sum(rows for _, rows in sizes)} rows, expected {self.rows}. "
                "Delete it and run the encoder again."
            )
        self._maps = [_open_shard(path, (rows, self.dim), self.path) for path, rows in sizes]
        self._first = np.cumsum([0, *(rows for _, rows in sizes)])

    def shards(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, memory map (shard rows, dim) float32) in row order."""
        yield from ((int(first), shard) for first, shard in zip(self._first, self._maps, strict=False))

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Copy the given rows, (n,) integers in any order, repeats allowed, to (n, dim) float32."""
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.rows):
            raise DataError(f"{self.path}: row {rows.min()}..{rows.max()} asked for, expected 0..{self.rows - 1}.")
        out = np.empty((len(rows), self.dim), dtype=np.float32)
        of_shard = np.searchsorted(self._first, rows, side="right") - 1
        for shard in np.unique(of_shard):
            mine = np.flatnonzero(of_shard == shard)
            out[mine] = self._maps[shard][rows[mine] - self._first[shard]]
        return out

    def read(self) -> np.ndarray:
        """The whole matrix (rows, dim) float32 in memory: for queries, not for a corpus."""
        return np.concatenate([np.empty((0, self.dim), np.float32), *self._maps])


def _open_shard(path: Path, shape: tuple[int, int], meta: Path) -> np.ndarray:
    advice = f"delete {meta.name} and run the encoder again"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: shard is missing, expected {shape[0]} rows of {shape[1]}; {advice}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise DataError(
            f"{path}: shard is damaged or short ({error}), expected {shape[0]} rows of {shape[1]}; {advice}."
        ) from error
    if array.shape != shape or array.dtype != DTYPE:
        raise DataError(
            f"{path}: shard of shape {array.shape} {array.dtype}, "
            f"expected {shape[0]} rows of {shape[1]} float32; {advice}."
        )
    return array


def _read_json(path: Path) -> dict | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None
