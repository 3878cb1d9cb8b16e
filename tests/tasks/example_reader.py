"""Reads an example task back, for the tests of its writers."""

from __future__ import annotations

from pathlib import Path

from pretrieve.corpora.tables import read_table
from pretrieve.tasks.example_task import ExampleData


class Examples:
    """``examples``: id → (texts, labels, history), texts as strings; ``splits``: size → split → ids; ``data``."""

    def __init__(self, directory: Path) -> None:
        self.data = ExampleData(directory)
        texts = read_table(directory / "texts.parquet", ["text"])["text"].to_pylist()
        self.examples = {}
        for row in read_table(directory / "examples.parquet").to_pylist():
            names = [[texts[i] for i in row[column]] for column in ("texts", "history")]
            self.examples[row["example_id"]] = (names[0], row["labels"], names[1])
        self.splits: dict[str, dict[str, list[str]]] = {}
        for row in read_table(directory / "splits.parquet").to_pylist():
            self.splits.setdefault(row["size"], {}).setdefault(row["split"], []).append(row["query_id"])


def tree_bytes(directory: Path) -> dict[str, bytes]:
    """Every file of a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
