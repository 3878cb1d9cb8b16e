"""Ids as 64-bit hashes: is one known, and does one stand twice, at 12 bytes an id however long the ids are.

8.8 million ids of MS MARCO are 1 GB as Python strings and 0.1 GB here. The hash is FNV-1a
(https://datatracker.ietf.org/doc/html/rfc9923), computed for whole Arrow columns, one byte position at a time. Among n
ids two different ones share a hash with probability n²/2⁶⁵: two in a million for MS MARCO. Then one of them would be
reported as standing twice, and an unknown id could pass for a known one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def hash_ids(ids: pa.Array) -> np.ndarray:
    """(n,) uint64: FNV-1a of the UTF-8 bytes of a string column without nulls.

    >>> [hex(h) for h in hash_ids(pa.array(["", "a", "foobar"]))]
    ['0xcbf29ce484222325', '0xaf63dc4c8601ec8c', '0x85944171f73967e8']
    """
    ids = ids.cast(pa.large_string())
    _, offset_buffer, data_buffer = ids.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    hashes = np.full(len(ids), _OFFSET, dtype=np.uint64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    # Longest first: those that have a byte at a position are then the first rows.
    order = np.argsort(-lengths, kind="stable")
    starts, counts = starts[order], np.searchsorted(-lengths[order], -np.arange(1, lengths.max(initial=0) + 1), "right")
    sorted_hashes = hashes[order]
    for position, count in enumerate(counts):
        part = sorted_hashes[:count]
        part ^= data[starts[:count] + position]
        part *= _PRIME
    hashes[order] = sorted_hashes
    return hashes


class Repeated(NamedTuple):
    """Two rows (counted from 0) with one id, and the lines they came from (0: not known)."""

    first_row: int
    row: int
    first_line: int
    line: int


class HashedIds:
    """Ids in the order they were added, with the line each came from (0: not known)."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._lines: list[np.ndarray] = []
        self._sorted = np.empty(0, dtype=np.uint64)
        self._sorted_length = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        """Append the hashes (n,) of ids and their lines (n,)."""
        self._parts.append(hashes)
        self._lines.append(lines.astype(np.uint32))
        self._length += len(hashes)

    def contains(self, hashes: np.ndarray) -> np.ndarray:
        """(n,) bool: which of these hashes were added."""
        if self._sorted_length != self._length:
            self._sorted = np.sort(self._all())
            self._sorted_length = self._length
        if not self._length:
            return np.zeros(len(hashes), dtype=bool)
        place = np.minimum(np.searchsorted(self._sorted, hashes), self._length - 1)
        return self._sorted[place] == hashes

    def _all(self) -> np.ndarray:
        if len(self._parts) > 1:
            self._parts, self._lines = [np.concatenate(self._parts)], [np.concatenate(self._lines)]
        return self._parts[0] if self._parts else np.empty(0, dtype=np.uint64)

    def repeated(self) -> tuple[int, Repeated | None]:
        """How many ids were there before they were added, and the first of them."""
        if not self._length:
            return 0, None
        hashes = self._all()
        self.contains(hashes[:1])  # sorts
        count = int((self._sorted[1:] == self._sorted[:-1]).sum())
        if not count:
            return 0, None
        order = np.argsort(hashes, kind="stable")
        same = hashes[order][1:] == hashes[order][:-1]
        row = int(order[1:][same].min())
        first = int(np.flatnonzero(hashes == hashes[row])[0])
        lines = self._lines[0]
        return count, Repeated(first, row, int(lines[first]), int(lines[row]))
