"""GLUE's MNLI, QQP, QNLI and SST-2 in their official TSV files (Wang et al. 2019, *GLUE*; https://gluebenchmark.com).

Paper ``seed_encoder`` A.2 (its table 8) fine-tunes on these four by the schedule of Devlin et al. 2019, and reports one
accuracy for each.

=========  ===================================  ==================  ============================================
set        texts, in BERT's order               label column        classes, in the order of their numbers
=========  ===================================  ==================  ============================================
``mnli``   sentence1, sentence2                 gold_label          entailment, neutral, contradiction
``qqp``    question1, question2                 is_duplicate        not_duplicate (0), duplicate (1)
``qnli``   question, sentence                   label               entailment, not_entailment
``sst-2``  sentence                             label               negative (0), positive (1)
=========  ===================================  ==================  ============================================

Columns are separated by tabs, found by their names in the header, and not quoted: a quote is a character of the text.

* GLUE's test sets have no labels, they are scored by its server. So **dev tests**. MNLI has two dev sets of other
  sources, *matched* with the training set and *mismatched*: one task each.
* Of the training file a share validates and an equal share is dev (``held_out_share``, 1 % each), drawn by the first
  text, so that the hypotheses of one premise stay together. With a labelled ``test`` file (SST-2's labels are public)
  that file tests, the official dev is dev, and only validation is held out.
* A few records of QQP are broken: line breaks within a question cut them in two. They are omitted and counted, as
  Hugging Face's loader of GLUE omits them (datasets, glue.py: "Filter out corrupted rows").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.example_reading import (
    Job,
    Part,
    Record,
    always,
    header_of,
    held_out,
    read_named,
    write_records,
)
from pretrieve.raw.raw_text import Warnings


class Layout(NamedTuple):
    """Columns of one set; ``labels`` are the classes as the file writes them, ``record_id`` None: it has no ids."""

    texts: tuple[str, ...]
    label: str
    record_id: str | None
    classes: tuple[str, ...]
    labels: tuple[str, ...]
    broken: bool = False


_NLI = ("entailment", "neutral", "contradiction")
_QNLI = ("entailment", "not_entailment")
LAYOUTS: dict[str, Layout] = {
    "mnli": Layout(("sentence1", "sentence2"), "gold_label", "index", _NLI, _NLI),
    "qqp": Layout(
        ("question1", "question2"), "is_duplicate", "id", ("not_duplicate", "duplicate"), ("0", "1"), broken=True
    ),
    "qnli": Layout(("question", "sentence"), "label", "index", _QNLI, _QNLI),
    "sst-2": Layout(("sentence",), "label", None, ("negative", "positive"), ("0", "1")),
}


def read_glue(path: Path, task: str, warnings: Warnings) -> Iterator[Record]:
    """The records of one file of a set (a key of :data:`LAYOUTS`), with the publisher's ids, or numbered from 0. Raises
    DataError for a missing column, such as that of labels, another number of fields, or an unknown label."""
    layout = LAYOUTS[task]
    header = header_of(path)
    if layout.label not in header:
        raise DataError(
            f"{path}: line 1: no column {layout.label!r}; the line has {', '.join(map(repr, header))}. GLUE's test "
            "sets have no labels: give the dev file instead."
        )
    names = (*layout.texts, layout.label, *([layout.record_id] if layout.record_id else ()))
    rows = read_named(path, names, warnings, header, skip_broken=layout.broken)
    width = len(layout.texts)
    for number, (line, fields) in enumerate(rows):
        label = fields[width]
        if label not in layout.labels:
            raise DataError(
                f"{path}: line {line}: label {label!r}; expected one of {', '.join(map(repr, layout.labels))}."
            )
        record_id = fields[-1] if layout.record_id else str(number)
        yield Record(record_id, tuple(fields[:width]), float(layout.labels.index(label)), line)


def build_glue(files: Mapping[str, Path], job: Job, task: str, held_out_share: float = 0.01) -> dict[str, Any]:
    """Write the task from the files ``train``, ``dev`` and, if it is labelled, ``test``; return its statistics. Raises as
    :func:`read_glue` and :func:`~pretrieve.benchmarks.official.example_reading.write_records`."""
    group_split = held_out(job.seed, held_out_share, ("valid",) if "test" in files else ("valid", "dev"))
    split_of: dict[str, Callable[[Record], str]] = {
        "train": lambda record: group_split(record.texts[0]),
        "dev": always("dev" if "test" in files else "test"),
        "test": always("test"),
    }
    parts = [
        Part(name, files[name], read_glue(files[name], task, job.warnings), split_of[name])
        for name in split_of
        if name in files
    ]
    layout = LAYOUTS[task]
    return write_records("classification", len(layout.texts), parts, job, layout.classes)
