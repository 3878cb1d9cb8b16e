"""The ids of a collection while it is written: each may come once, and what names one must name one that is there.

Documents and judgements come in any order, so a reference to an unknown id waits, with the place it stands in, until all is
read. Ids are held as hashes (:mod:`pretrieve.tasks.hashed_ids`); a message that names an id reads it back.

What every query and judgement must be is here too, for the writer and for the look at a folder before a run: ``where()`` gives
the beginning of a message, the file and line; it is called for a message only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import DataError
from pretrieve.tasks.hashed_ids import HashedIds, hash_ids

#: Of references to ids that did not come yet, so many are remembered.
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

        Raises
        ------
        DataError
            for a document with an empty id.
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

        Raises
        ------
        DataError
            when too many wait.
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

    def check(self, id_of: Callable[[int], str]) -> None:
        """Check all of it once everything is read; ``id_of`` gives the id of a row for a message, '' where it is not known.

        Raises
        ------
        DataError
            for an id that stands twice, or a reference to an id that never came.
        """
        self._check_unique(id_of)
        self._check_known()

    def _check_unique(self, id_of: Callable[[int], str]) -> None:
        count, first = self._ids.repeated()
        if first is not None:
            places = [self._place(*pair) for pair in zip(first[:2], first[2:], strict=True)]
            more = f"; {count - 1} more ids stand twice" if count > 1 else ""
            name = id_of(first.row)
            raise DataError(
                f"{places[1]}: {self.kind} id {f'{name!r} ' if name else ''}was used before, by {places[0]}; "
                f"expected every id once{more}."
            )

    def _place(self, row: int, line: int) -> str:
        path = [path for start, path in self._files if start <= row][-1]
        place = f"line {line}" if line else f"{self.kind} {row + 1}"
        return f"{path}: {place}" if path else place

    def _check_known(self) -> None:
        known = self._ids.contains(np.array([entry[0] for entry in self._pending], dtype=np.uint64))
        unknown = [entry for entry, there in zip(self._pending, known, strict=True) if not there]
        if unknown:
            _, name, place = unknown[0]
            more = f" (and {len(unknown) - 1} more such rows)" if len(unknown) > 1 else ""
            raise DataError(
                f"{place} name {self.kind} {name!r}, which is not among the {len(self._ids):,} that were read{more}; do "
                "these files belong together?"
            )


def check_query(where: Callable[[], str], query_id: str, text: str) -> None:
    """Raise DataError for a query without an id, or without a word."""
    if not query_id or not text.strip():
        raise DataError(
            f"{where()}query {query_id!r} has the text {text!r}; expected an id and words to search for: "
            "correct it or leave the query out."
        )


def is_new_judgement(
    where: Callable[[], str], known: dict[int, int], query_id: str, doc_id: str, relevance: int
) -> bool:
    """Whether a pair was not judged before. ``known`` takes it in, as a hash in place of two ids.

    Raises
    ------
    DataError
        for a relevance below zero, or another one than the pair had.
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
