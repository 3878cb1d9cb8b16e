"""What a retrieval task and a task of examples share when they are read: rows of ids, splits, and one tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.tasks.split_table import SplitTable
from pretrieve.text.token_store import TokenStore


class TaskData:
    """A task's directory. ``item``: what a row of the splits is, for messages; ``_row``: its id → row."""

    item: str
    directory: Path
    _row: dict[str, int]

    @property
    def words(self) -> TokenStore:
        """The token store that says which vocabulary the task was made with."""
        raise NotImplementedError

    @cached_property
    def _splits(self) -> SplitTable:
        return SplitTable(self.directory / "splits.parquet")

    def split(self, size: str, split: str) -> np.ndarray:
        """Rows (n,) int64 of one split of one training-set size, in file order; the file is read once.

        Raises DataError when the task has no such size, or the splits name an id that the task does not have.
        """
        ids = self._splits.ids(size, split)
        lost = next((name for name in ids if name not in self._row), None)
        if lost is not None:
            raise DataError(f"{self._splits.path}: {self.item} {lost!r} is not in the task; rebuild the task.")
        return np.array([self._row[name] for name in ids], dtype=np.int64)

    def check_vocabulary(self, about: Mapping[str, Any], directory: Path) -> None:
        """Raise :class:`DataError` unless a model (its ``pretrieve.json``) and this task come from one tokenizer.

        Two vocabularies of one size would fit each other's shapes and give results that are merely bad.
        """
        ours = self.words.meta["vocabulary_sha256"]
        if about.get("vocabulary_sha256") != ours:
            raise DataError(
                f"{directory}: was made with vocabulary {str(about.get('vocabulary_sha256'))[:12]}, the task {self.directory} "
                f"with {ours[:12]}; both must come from one tokenizer. Delete the older of the two and run snakemake again."
            )
