"""Tasks without retrieval: examples of one to many texts with labels, as a directory that every recipe for them reads.

=================  ========================================================================================
texts.parquet      text_id · text
texts/             token store: text i (row of texts.parquet) is passage i, one sentence; see pretrieve.text.token_store
examples.parquet   example_id · texts list<int32> (rows of texts.parquet) · history list<int32> (the same; clicks only,
                   oldest first) · labels list<float32>
splits.parquet     size · query_id (an example_id) · split ('train' | 'valid' | 'test' | 'dev'); an example that a size
                   does not use has no row for it
stats.json         kind, classes, counts and mean lengths
=================  ========================================================================================

==================  ==============================  =======================================  ==================
kind                texts                           labels                                   benchmark
==================  ==============================  =======================================  ==================
``regression``      a, b                            one score from 0 to 5                    STS-B
``triplet``         anchor, positive, negative      none                                     Wikipedia sections
``classification``  a, or a and b                   one class number                         GLUE
``clicks``          candidates of one impression    1 (clicked) or 0 for each candidate,     MIND
                                                    at least one of each
==================  ==============================  =======================================  ==================

The writer takes iterables and keeps ids only, so a reader of MIND (2 million impressions) can stream. Rows are written
in the order they come: the same input gives the same bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.corpora.tables import TableWriter, read_table
from pretrieve.tasks.dataset import TaskData
from pretrieve.tasks.example_packing import pack_histories, pack_pairs
from pretrieve.tasks.example_splits import PARTS, make_example_splits
from pretrieve.tasks.splits import SplitRow, Target
from pretrieve.text.packing import Packed, pack_spans, passage_spans
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store

#: Kind → how many texts an example has (least, most; None: any number).
KINDS = {"regression": (2, 2), "triplet": (3, 3), "classification": (1, 2), "clicks": (2, None)}
#: Highest score of ``regression`` (STS-B's scale).
TOP_SCORE = 5.0

SCHEMAS: dict[str, pa.Schema] = {
    "texts": pa.schema([("text_id", pa.string()), ("text", pa.string())]),
    "examples": pa.schema(
        [
            ("example_id", pa.string()),
            ("texts", pa.list_(pa.int32())),
            ("history", pa.list_(pa.int32())),
            ("labels", pa.list_(pa.float32())),
        ]
    ),
    "splits": pa.schema([("size", pa.string()), ("query_id", pa.string()), ("split", pa.string())]),
}


class Text(NamedTuple):
    text_id: str
    text: str


class Example(NamedTuple):
    """``texts`` and ``history`` are rows of the task's texts."""

    example_id: str
    texts: Sequence[int]
    labels: Sequence[float] = ()
    history: Sequence[int] = ()


@dataclass
class ExampleTask:
    """A task on its way to the disk: ``texts`` are read first, then ``examples``; each may be a generator.

    part_of: example id → train, valid, test or dev; looked at when all examples are read. classes: names of the classes of
    ``classification``. about: how the task was made, for the statistics. counted: is called when all is read, and gives further
    entries of the statistics.
    """

    kind: str
    texts: Iterable[Text]
    examples: Iterable[Example]
    part_of: Mapping[str, str]
    classes: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    counted: Callable[[], Mapping[str, Any]] = dict


class ExampleContents:
    """A task in memory: its texts, each once, its examples, and the part (train, valid, test or dev) of each."""

    def __init__(self) -> None:
        self.texts: dict[str, Text] = {}
        self.examples: list[Example] = []
        self.part_of: dict[str, str] = {}
        self._row: dict[str, int] = {}

    def row(self, text_id: str, text: str) -> int:
        """The row of a text, which is added when its id is new."""
        self.texts.setdefault(text_id, Text(text_id, text))
        return self._row.setdefault(text_id, len(self._row))

    def add(self, example: Example, part: str = "") -> None:
        """One more example; its part may be said later, in ``part_of``."""
        self.examples.append(example)
        self.part_of[example.example_id] = part

    def write(self, kind: str, target: Target, about: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Draw the training-set sizes, write the task and return its statistics; ``more``: of :class:`ExampleTask`.

        Raises ConfigError for a size that cannot be drawn.
        """
        task = ExampleTask(kind, self.texts.values(), self.examples, self.part_of, about=about, **more)
        return write_example_task(target, task)


def _fault(example: Example, kind: str, n_texts: int, classes: int) -> str | None:
    """What is wrong with an example, or None."""
    least, most = KINDS[kind]
    texts, labels, history = example.texts, example.labels, example.history
    if len(texts) < least or (most is not None and len(texts) > most):
        bounds = f"{least}" if most == least else f"{least} to {most}" if most else f"at least {least}"
        return f"has {len(texts)} texts, expected {bounds}"
    for row in (*texts, *history):
        if not 0 <= row < n_texts:
            return f"names text {row}, expected a row of the {n_texts} texts"
    if history and kind != "clicks":
        return "has a history; only clicks have one"
    if kind == "triplet":
        return "has labels; a triplet has none" if len(labels) else None
    if kind == "clicks":
        if len(labels) != len(texts) or set(labels) != {0, 1}:
            wanted = f"a 0 or 1 for each of {len(texts)} candidates, and both of them"
            return f"has labels {list(labels)[:8]}, expected {wanted}"
        return None
    if len(labels) != 1:
        return f"has {len(labels)} labels, expected one"
    if kind == "regression" and not 0 <= labels[0] <= TOP_SCORE:
        return f"has score {labels[0]}, expected 0 to {TOP_SCORE:g}"
    if kind == "classification" and labels[0] not in range(classes):
        return f"has label {labels[0]}, expected a class number from 0 to {classes - 1}"
    return None


def _checked_texts(texts: Iterable[Text], directory: Path, writer: TableWriter) -> Iterator[PassageText]:
    seen: set[str] = set()
    for row, (text_id, text) in enumerate(texts):
        if text_id in seen:
            raise DataError(f"{directory}: text_id '{text_id}' appears twice; every one must be unique.")
        if not text.strip():
            raise DataError(f"{directory}: text '{text_id}' is empty; remove the examples that need it.")
        seen.add(text_id)
        writer.append((text_id, text))
        yield PassageText([text], row, row)


def _write_splits(splits: Iterable[SplitRow], directory: Path) -> dict[str, dict[str, int]]:
    """Write the splits; returns size → split → number of examples. Raises DataError where no example tests."""
    counts: dict[str, dict[str, int]] = {}
    with TableWriter(directory / "splits.parquet", SCHEMAS["splits"]) as writer:
        for row in splits:
            counts.setdefault(row.size, dict.fromkeys(PARTS, 0))[row.split] += 1
            writer.append(row)
        for size, count in counts.items():
            if not count["test"]:
                raise DataError(f"{directory}: size '{size}' has no test example; build the task from more data.")
    return counts


def write_example_task(target: Target, task: ExampleTask) -> dict[str, Any]:
    """Check a task, draw its training-set sizes, write its directory and return its statistics; ``stats.json`` is written last.

    Raises ConfigError for a size that cannot be drawn, and DataError naming the directory and the text or example that is wrong.
    """
    directory, kind, classes = target.out, task.kind, task.classes
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stats.json").unlink(missing_ok=True)
    with TableWriter(directory / "texts.parquet", SCHEMAS["texts"]) as writer:
        passages = _checked_texts(task.texts, directory, writer)
        store = write_token_store(directory / "texts", target.tokenizer, passages, label="texts")
        n_texts = writer.rows
    known: dict[str, None] = {}
    texts_seen = history_seen = 0
    label_counts = [0] * len(classes)
    with TableWriter(directory / "examples.parquet", SCHEMAS["examples"]) as writer:
        for example in task.examples:
            fault = _fault(example, kind, n_texts, len(classes))
            if example.example_id in known:
                fault = "stands twice; every id must be unique"
            if fault:
                raise DataError(f"{directory}: {kind} example '{example.example_id}' {fault}.")
            known[example.example_id] = None
            texts_seen += len(example.texts)
            history_seen += len(example.history)
            if classes:
                label_counts[int(example.labels[0])] += 1
            writer.append((example.example_id, list(example.texts), list(example.history), list(example.labels)))
        if not known:
            raise DataError(f"{directory}: the task has no examples; check that its input files belong together.")
    statistics = {
        "kind": kind,
        "classes": dict(zip(classes, label_counts, strict=True)),
        "examples": len(known),
        "texts": n_texts,
        "text_tokens": round(len(store.tokens) / n_texts, 2),
        "texts_per_example": round(texts_seen / len(known), 2),
        "history": round(history_seen / len(known), 2),
        "splits": _write_splits(make_example_splits(list(known), task.part_of, target.sizes, target.seed), directory),
        "about": task.about,
        **task.counted(),
    }
    write_json(directory / "stats.json", statistics | {"class_names": list(classes)})
    return statistics


def _ragged(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(values, starts (n+1,)) of a list column."""
    column = table[name].combine_chunks()
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    return column.flatten().to_numpy(), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


class ExampleData(TaskData):
    """One example task, for training and prediction.

    ``kind``; ``classes``: names; ``store``: tokens of the texts; ``example_ids`` (n); ``texts``, ``labels`` and
    ``history`` are flat arrays: example i has ``texts[text_starts[i]:text_starts[i+1]]`` (int64), labels and history
    likewise.

    Raises DataError when a file is missing or damaged.
    """

    item, name = "example", "example task"

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        stats = self._stated("kind", "class_names")
        self.kind: str = stats["kind"]
        self.classes: list[str] = stats["class_names"]
        self.store = TokenStore(self.directory / "texts")
        table = read_table(self.directory / "examples.parquet", SCHEMAS["examples"].names)
        self.example_ids: list[str] = table["example_id"].to_pylist()
        self._row = {example_id: row for row, example_id in enumerate(self.example_ids)}
        texts, self.text_starts = _ragged(table, "texts")
        history, self.history_starts = _ragged(table, "history")
        self.texts, self.history = texts.astype(np.int64), history.astype(np.int64)
        self.labels, self.label_starts = _ragged(table, "labels")
        for rows in (self.texts, self.history):
            if rows.max(initial=-1) >= self.store.n_passages:
                raise DataError(
                    f"{self.directory}: examples name text {rows.max()}, there are {self.store.n_passages} texts."
                )

    @property
    def words(self) -> TokenStore:
        return self.store

    def read_by(self, kind: str) -> ExampleData:
        """The task as a body of that kind reads its texts (:meth:`pretrieve.text.token_store.TokenStore.read_by`)."""
        data = copy.copy(self)
        data.store = self.store.read_by(kind)
        return data

    def check_kind(self, kind: str) -> None:
        """Raise :class:`ConfigError` when a recipe is for another kind of task."""
        if kind != self.kind:
            raise ConfigError(
                f"{self.directory}: a task of kind '{self.kind}', the recipe is for '{kind}'; take a recipe for it."
            )

    def text(self, rows: np.ndarray, place: int) -> np.ndarray:
        """(n,) text number ``place`` of examples (n,); -1 for an example that has fewer."""
        starts, ends = self.text_starts[rows] + place, self.text_starts[rows + 1]
        return np.where(starts < ends, self.texts[np.minimum(starts, len(self.texts) - 1)], -1)

    def label(self, rows: np.ndarray) -> np.ndarray:
        """(n,) float32 first label of examples (n,)."""
        return self.labels[self.label_starts[rows]]

    def candidates(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Texts (m,) and labels (m,) of one impression."""
        return (
            self.texts[self.text_starts[row] : self.text_starts[row + 1]],
            self.labels[self.label_starts[row] : self.label_starts[row + 1]],
        )

    def pack_texts(self, texts: np.ndarray, length: int) -> Packed:
        """``[CLS] text [SEP]`` for text rows (n,)."""
        return pack_spans(self.store, *passage_spans(self.store, texts), length)

    def pack_examples(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] a [SEP] b [SEP]``, or ``[CLS] a [SEP]`` where there is no b, for examples (n,)."""
        return pack_pairs(self.store, self.text(rows, 0), self.text(rows, 1), length)

    def pack_histories(self, rows: np.ndarray, length: int) -> Packed:
        """``[CLS] title [SEP] title [SEP]`` of what the users of examples (n,) clicked, the newest that fit."""
        starts, ends = self.history_starts[rows], self.history_starts[rows + 1]
        return pack_histories(self.store, self.history, starts, ends - starts, length)
