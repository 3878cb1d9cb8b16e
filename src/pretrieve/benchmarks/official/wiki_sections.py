"""Wikipedia section triplets as their authors drew them: Ein Dor et al. 2018, *Learning Thematic Similarity Metric from
Article Sections Using Triplet Networks*.

The pivot and the positive sentence are from one section of an article, the negative one is from another section of it.
Reimers & Gurevych 2019 (§4.4) train on about 1.8 million triplets and test on 222,957 of other articles, and so does
paper ``condenser`` §4.2 (its table 2, with 1,000 and 10,000 triplets too). The metric is the share of triplets whose
pivot is nearer to the positive than to the negative sentence.

The files are those that sentence-transformers trains on (``wikipedia-sections-triplets.zip``): ``train.csv``,
``validation.csv`` and ``test.csv``, separated by commas and quoted, with a header. Of its columns ``Sentence1``
(pivot), ``Sentence2`` (positive) and ``Sentence3`` (negative) are read. The validation triplets validate.

:mod:`pretrieve.benchmarks.made.section_triplets` draws triplets of this kind from a corpus of one's own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.example_reading import Job, Record, header_of, read_named, write_splits
from pretrieve.raw.raw_text import Warnings

COLUMNS = ("Sentence1", "Sentence2", "Sentence3")


def read_wiki_sections(path: Path, warnings: Warnings) -> Iterator[Record]:
    """The triplets of one file, numbered from 0; none has a label. Raises DataError when a column is missing, a record has
    another number of fields, or its quotes do not fit."""
    line = "\t".join(header_of(path))
    try:
        header = next(csv.reader([line]))
    except csv.Error:  # a carriage return that ends no line
        raise DataError(
            f"{path}: line 1: header {line[:80]!r}; expected columns separated by commas, in one line."
        ) from None
    rows = read_named(path, COLUMNS, warnings, header, separator=",", quoted=True)
    for number, (line, sentences) in enumerate(rows):
        yield Record(str(number), tuple(sentences), None, line)


def build_wiki_sections(files: Mapping[str, Path], job: Job) -> dict[str, Any]:
    """Write the task from the files ``train``, ``validation`` and ``test``, and return its statistics. Raises as
    :func:`read_wiki_sections` and :func:`~pretrieve.benchmarks.official.example_reading.write_records`."""
    splits = {"train": "train", "validation": "valid", "test": "test"}
    return write_splits("triplet", 3, files, splits, read_wiki_sections, job)
