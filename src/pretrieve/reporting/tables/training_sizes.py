"""How many examples a training-set size really has: ``1k`` of a small data set may be a hundred."""

from __future__ import annotations

from pathlib import Path

from pretrieve.base.paths import parse_system, task_dir
from pretrieve.reporting.tables.references import STATISTICS
from pretrieve.tasks.split_table import SplitTable

#: Splits whose labels a recipe uses: it learns from the first, and chooses snapshots or epochs by the second.
LABELLED = ("train", "valid")


def training_examples(root: str, trained_on: str, system: str) -> int | None:
    """Labelled examples that a system was given, those for validation with them.

    None for what is not trained, and where the splits of the data set that it was trained on are not there.

    Raises
    ------
    DataError
        when those splits are damaged, or have no such size.
    """
    path = Path(task_dir(root, trained_on)) / "splits.parquet"
    if not system or system == STATISTICS or (parsed := parse_system(system)).encoder == "bm25" or not path.is_file():
        return None
    splits = SplitTable(path)
    return sum(len(splits.ids(parsed.size, split)) for split in LABELLED)
