"""What a retriever was really trained on: ``1k`` of a small data set may be a hundred examples, and some queries have no negative
that any list found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pretrieve.base.paths import parse_system, retriever_dir, task_dir
from pretrieve.references.tables import STATISTICS
from pretrieve.reporting.tables.results import ResultFiles
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


def negatives_note(root: str, trained_on: str, system: str, seeds: Iterable[int], files: ResultFiles) -> str:
    """How many training queries had no negative of the recipe's lists, and what became of them; '' for none, and where the
    retrievers of these seeds are not there (:mod:`pretrieve.finetuning.groups`)."""
    places = [Path(retriever_dir(root, system, trained_on, seed)) / "pretrieve.json" for seed in seeds]
    about = [files.read(str(place)) for place in places if place.is_file()]
    random, left = (
        max((one.get(key, 0) for one in about), default=0) for key in ("random_negatives", "left_out_without_negatives")
    )
    if not random + left:
        return ""
    parts = [
        *([f"{random:,} got random documents"] if random else []),
        *([f"for {left:,} all documents are relevant"] if left else []),
    ]
    asked = max(one["training_questions"] for one in about)
    return f"{random + left:,} of {asked:,} training queries without a negative of the lists ({', '.join(parts)})"
