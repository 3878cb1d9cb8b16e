"""The ids of a collection while it is written: each may come once, and what names one must name one that is there.

Documents and judgements come in any order, so a reference to an unknown id waits, with the place it stands in, until all is
read. Ids are held as hashes; a message that names an id reads it back.

What every query and judgement must be is here too, for the writer and for the look at a folder before a run: ``where()`` gives
the beginning of a message, the file and line; it is called for a message only.

**Hashes.** An id takes 12 bytes, however long it is: 8.8 million ids of MS MARCO are 1 GB as Python strings and 0.1 GB here.
The hash is Python's own, of 64 bits, which another process computes differently. Among n ids two different ones share a hash with
probability n²/2⁶⁵: two in a million for MS MARCO. Then one of them would be reported as standing twice, and an unknown id could
pass for a known one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import DataError


def hash_ids(ids: pa.Array) -> np.ndarray:
    """(n,) int64: the hashes of a string column, within this process."""
    return np.fromiter(map(hash, ids.to_pylist()), dtype=np.int64, count=len(ids))


class HashedIds:
    """Ids in the order they were added, with the line each came from (0: not known)."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._lines: list[np.ndarray] = []
        self._sorted = np.empty(0, dtype=np.int64)
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
        if len(self._sorted) != self._length:
            self._sorted = np.sort(self._all())
        if not self._length:
            return np.zeros(len(hashes), dtype=bool)
        place = np.minimum(np.searchsorted(self._sorted, hashes), self._length - 1)
        return self._sorted[place] == hashes

    def _all(self) -> np.ndarray:
        if len(self._parts) > 1:
            self._parts, self._lines = [np.concatenate(self._parts)], [np.concatenate(self._lines)]
        return self._parts[0] if self._parts else np.empty(0, dtype=np.int64)

    def repeated(self) -> tuple[int, tuple[tuple[int, int], tuple[int, int]] | None]:
        """How many ids had been added before. Of the first of them ``(row, line)``, both times; rows count from 0."""
        hashes = self._all()
        self.contains(hashes[:1])  # sorts
        count = int((self._sorted[1:] == self._sorted[:-1]).sum())
        if not count:
            return 0, None
        later = np.ones(len(hashes), dtype=bool)
        later[np.unique(hashes, return_index=True)[1]] = False
        row = int(later.argmax())
        first, lines = int(np.flatnonzero(hashes == hashes[row])[0]), self._lines[0]
        return count, ((first, int(lines[first])), (row, int(lines[row])))


#: Of references to ids that did not come yet, this many are remembered.
_PENDING = 1_000_000


def where(path: str, line: int) -> str:
    """The beginning of a message: the file ('' for none) and line (0 for none) that it is about.

    >>> where("qrels.tsv", 7), where("qrels.tsv", 0), where("", 7)
    ('qrels.tsv: line 7: ', 'qrels.tsv: ', '')
    """
    return f"{path}: " + (f"line {line}: " if line else "") if path else ""


class CollectionIds:
    """The ids of one kind (``document`` or ``query``), where each came from, and the references to them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._ids = HashedIds()
        self._files: list[tuple[int, str]] = []  # (first row, path)
        self._pending: list[tuple[int, str, str]] = []  # (hash, id, place and table)

    def add(self, ids: pa.Array, path: str, lines: np.ndarray) -> np.ndarray:
        """Take in ids (n,) from these lines (n,) of a file; their hashes (n,).

        Raises DataError for a document with an empty id.
        """
        if not self._files or self._files[-1][1] != path:
            self._files.append((len(self._ids), path))
        hashes = hash_ids(ids)
        self._ids.add(hashes, lines)
        if self.kind == "document" and (missing := int(pc.sum(pc.equal(pc.binary_length(ids), 0)).as_py() or 0)):
            raise DataError(f"{where(path, int(lines[0]))}{missing} of the documents from here on have an empty id.")
        return hashes

    def refer(self, ids: pa.Array, table: str, path: str, lines: np.ndarray) -> None:
        """Note that rows of a table name these ids (n,); those that are not known yet are looked for again at the end.

        Raises DataError when too many wait.
        """
        hashes = hash_ids(ids)
        for row in np.flatnonzero(~self._ids.contains(hashes)):
            place, name = where(path, int(lines[row])), ids[int(row)].as_py()
            if len(self._pending) >= _PENDING:
                raise DataError(
                    f"{place}more than {_PENDING:,} rows of {table} name a {self.kind} that was not read, the last "
                    f"{name!r}; do these files belong together?"
                )
            self._pending.append((int(hashes[row]), name, f"{place}{table}"))

    def check(self, id_of: Callable[[int], str], lacking: int = 0) -> set[int]:
        """Check all of it once everything is read; ``id_of`` gives the id of a row for a message, '' where it is not known.
        Returns the hashes of ids that were referred to and never came.

        Raises DataError for an id that appears twice, or more than ``lacking`` references to ids that never came.
        """
        count, first = self._ids.repeated()
        if first is not None:
            before, again = first
            more = f"; {count - 1} more ids stand twice" if count > 1 else ""
            name = id_of(again[0])
            raise DataError(
                f"{self._place(*again)}: {self.kind} id {f'{name!r} ' if name else ''}was used before, by "
                f"{self._place(*before)}; expected every id once{more}."
            )
        known = self._ids.contains(np.array([entry[0] for entry in self._pending], dtype=np.int64))
        unknown = [entry for entry, there in zip(self._pending, known, strict=True) if not there]
        if len(unknown) > lacking:
            _, name, place = unknown[0]
            more = f" (and {len(unknown) - 1} more such rows)" if len(unknown) > 1 else ""
            raise DataError(
                # Readers omit queries that nobody judges, so that none may be left.
                f"{place} name {self.kind} {name!r}, which is not "
                f"{f'among the {len(self._ids):,} that were read' if len(self._ids) else 'there, nor is any other of theirs'}"
                f"{more}; do these files belong together?"
            )
        return {entry[0] for entry in unknown}

    def _place(self, row: int, line: int) -> str:
        path = [path for start, path in self._files if start <= row][-1]
        place = f"line {line}" if line else f"{self.kind} {row + 1}"
        return f"{path}: {place}" if path else place


def check_query(where: Callable[[], str], query_id: str, text: str) -> None:
    """Raise DataError for a query without an id, or without a word, or whose text is none."""
    if not query_id or not isinstance(text, str) or not text.strip():
        raise DataError(
            f"{where()}query {query_id!r} has the text {text!r}; expected an id and words to search for: "
            "correct it or remove the query."
        )


def is_new_judgement(
    where: Callable[[], str], known: dict[int, int], query_id: str, doc_id: str, relevance: int
) -> bool:
    """Whether a pair was not judged before. ``known`` takes it in, as a hash in place of two ids.

    Raises DataError for a relevance below zero, or another one than the pair had.
    """
    if relevance < 0:
        raise DataError(
            f"{where()}relevance {relevance} of document {doc_id!r} for query {query_id!r} is below zero; "
            "expected 0 (judged, not relevant), 1 or more."
        )
    pair = hash((query_id, doc_id))
    before = known.get(pair)
    if before is None:
        known[pair] = relevance
        return True
    if before != relevance:
        raise DataError(
            f"{where()}document {doc_id!r} has relevance {relevance} for query {query_id!r}, and had {before} "
            "before; expected one judgement: remove the wrong one."
        )
    return False
