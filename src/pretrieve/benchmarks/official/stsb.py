"""STS-B, the semantic textual similarity benchmark (Cer et al. 2017, *SemEval-2017 Task 1*), in its three layouts.

Two sentences and the mean of five judges' scores, from 0 (unrelated) to 5 (the same meaning). Paper ``condenser`` §4.2
trains on 500, 1,000 and all pairs and reports Spearman's correlation on the test set (its table 1).

==========  ================================================================================================
layout      a line
==========  ================================================================================================
official    ``sts-train.csv`` of http://ixa2.si.ehu.eus/stswiki (STSbenchmark): genre, file, year, id, score,
            sentence 1, sentence 2, and for forum posts the sources of both. Separated by **tabs**, whatever the
            name says, without quoting: a quote is a character of the sentence
GLUE        ``train.tsv`` of STS-B.zip, with a header: index, genre, filename, year, old_index, source1, source2,
            sentence1, sentence2, score. Its ``test.tsv`` has no scores
sentences   ``stsb-en-train.csv``: sentence 1, sentence 2, score; separated by commas, quoted, without a header
            (https://github.com/PhilipMay/stsb-multi-mt)
==========  ================================================================================================

Which one a file has is told by its first line. All three have the same pairs in the same order; the third trims blanks and has
some characters as they were before the official files replaced them by ASCII. The official *dev* pairs validate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.official.example_reading import Job, Record, header_of, read_named, write_splits
from pretrieve.raw.raw_text import Form, Warnings, read_columns, read_lines
from pretrieve.tasks.example_task import TOP_SCORE

#: Fields of a line of the official layout: without, and with the sources of both sentences.
OFFICIAL = (7, 9)
GLUE = ("index", "sentence1", "sentence2", "score")


def score_of(path: Path, line: int, text: str) -> float:
    """A score. Raises DataError when it is not a number from 0 to 5."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not 0 <= score <= TOP_SCORE:
        raise DataError(f"{path}: line {line}: score {text!r}; expected a number from 0 to {TOP_SCORE:g}.")
    return score


def layout_of(path: Path) -> str:
    """``official``, ``GLUE`` or ``sentences``, from a file's first line. Raises DataError when it is none of these."""
    header = header_of(path)
    if header[:2] == ["index", "genre"]:
        return "GLUE"
    if len(header) in OFFICIAL:
        return "official"
    if len(header) == 1:
        return "sentences"
    raise DataError(
        f"{path}: line 1: {len(header)} fields separated by tabs; expected {OFFICIAL[0]} or {OFFICIAL[1]} (the "
        "official layout), GLUE's header, or a sentence pair and its score separated by commas."
    )


def read_stsb(path: Path, warnings: Warnings) -> Iterator[Record]:
    """The pairs of one file in any of the three layouts, numbered from 0.

    Raises DataError for another layout, a file without scores, another number of fields, an invalid score, or an official
    id (genre, file, year and number) that appears twice.
    """
    layout = layout_of(path)
    if layout == "GLUE":
        records = _glue(path, warnings)
    elif layout == "official":
        records = _official(path, warnings)
    else:
        records = read_columns(path, ("sentence1", "sentence2", "score"), Form(",", quoted=True), warnings=warnings)
    for number, (line, (first, second, score)) in enumerate(records):
        yield Record(str(number), (first, second), score_of(path, line, score), line)


def _official(path: Path, warnings: Warnings) -> Iterator[tuple[int, list[str]]]:
    seen: set[tuple[str, ...]] = set()
    for line, text in read_lines(path):
        fields = text.split("\t")
        if not text.strip():
            warnings.add("blank line", f"{path}, line {line}")
            continue
        if len(fields) not in OFFICIAL:
            raise DataError(
                f"{path}: line {line}: {len(fields)} fields; expected {OFFICIAL[0]} or {OFFICIAL[1]}, separated by "
                "tabs: genre, file, year, id, score, sentence 1, sentence 2, and the sources of both."
            )
        if (key := tuple(fields[:4])) in seen:
            raise DataError(f"{path}: line {line}: id '{' '.join(key)}' appears twice; expected one pair for each id.")
        seen.add(key)
        yield line, [fields[5], fields[6], fields[4]]


def _glue(path: Path, warnings: Warnings) -> Iterator[tuple[int, list[str]]]:
    header = header_of(path)
    if "score" not in header:
        raise DataError(
            f"{path}: line 1: no column 'score': GLUE's test set has no labels. Give the official sts-test.csv as "
            "test; it has the scores of the same pairs."
        )
    seen: set[str] = set()
    for line, (index, first, second, score) in read_named(path, GLUE, warnings, header):
        if index in seen:
            raise DataError(f"{path}: line {line}: index {index!r} appears twice; expected one pair for each.")
        seen.add(index)
        yield line, [first, second, score]


def build_stsb(files: Mapping[str, Path], job: Job) -> dict[str, Any]:
    """Write the task from the files ``train``, ``dev`` and ``test``, and return its statistics. Raises as :func:`read_stsb`
    and :func:`~pretrieve.benchmarks.official.example_reading.write_records`."""
    splits = {"train": "train", "dev": "valid", "test": "test"}
    # The third layout has other characters in some sentences: which one was read belongs to the score.
    job.about["layouts"] = {name: layout_of(files[name]) for name in splits}
    return write_splits("regression", 2, files, splits, read_stsb, job)
