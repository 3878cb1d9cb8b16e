"""``splits.parquet`` of a task: which of its queries (or examples) train, validate and test, in each training-set size."""

from __future__ import annotations

from pathlib import Path

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_rows


class SplitTable:
    """The file ``path``, read once: size → split → ids, each in file order.

    Raises DataError when the file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids: dict[str, dict[str, list[str]]] = {}
        for size, query_id, split in read_rows(self.path, ("size", "query_id", "split")):
            self._ids.setdefault(size, {}).setdefault(split, []).append(query_id)

    @property
    def sizes(self) -> list[str]:
        """Every training-set size, in file order."""
        return list(self._ids)

    def ids(self, size: str, split: str) -> list[str]:
        """Ids of one split of a size; [] when it has none. Raises DataError when the file has no such size."""
        if size not in self._ids:
            raise DataError(f"{self.path}: no size {size!r}; it has {sorted(self._ids)}.")
        return list(self._ids[size].get(split, ()))

    def needed(self, size: str, split: str = "test") -> list[str]:
        """As :meth:`ids`, where there must be some.

        Raises DataError when the file lacks that size or split; the message lists what it has.
        """
        found = self._ids.get(size, {}).get(split)
        if not found:
            pairs = sorted(f"{one}/{part}" for one, parts in self._ids.items() for part in parts)
            raise DataError(
                f"{self.path}: no queries for size '{size}', split '{split}'; found: {', '.join(pairs) or 'no rows'}."
            )
        return list(found)
