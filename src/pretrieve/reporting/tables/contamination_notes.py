"""What encoders may have read of the texts that they are tested on, said under each table that has such scores.

The numbers are those of :mod:`pretrieve.corpora.contamination`, one file for each data set. All encoders of a table were
pre-trained on the same corpus, so an overlap lifts all of them; BM25, which is not trained, it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pretrieve.references.tables import STATISTICS
from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.results import ResultFiles, Setting


def scored_datasets(lines: Sequence[Line]) -> list[str]:
    """The data sets that a table has measured scores on; counts of data need no encoder."""
    return list(dict.fromkeys(line.dataset for line in lines if line.measured and line.system != STATISTICS))


def overlaps_of(datasets: Iterable[str], setting: Setting) -> dict[str, dict[str, Any]]:
    """Data set → its numbers, of those whose overlap the scale measures, in the given order; for a mean, its data sets.

    Raises
    ------
    DataError
        when a file is missing or damaged.
    """
    files = ResultFiles()
    parts = dict.fromkeys(part for name in datasets for part in setting.parts.get(name, (name,)))
    return {part: files.read(setting.overlaps[part]) for part in parts if part in setting.overlaps}


def overlap_lines(lines: Sequence[Line], setting: Setting) -> list[tuple[str, str]]:
    """(term, sentence) for each data set, for below the table."""
    numbers = overlaps_of(scored_datasets(lines), setting)
    return [(f"Overlap {dataset}", overlap_sentence(one)) for dataset, one in numbers.items()]


def overlap_sentence(numbers: dict[str, Any]) -> str:
    """How much of a test set the pre-training corpus holds.

    >>> overlap_sentence({"of": "texts of test examples", "corpus": "wiki", "test_paragraphs": 2000, "paragraphs": 0})
    'none of 2,000 texts of test examples is in the pre-training corpus wiki'
    """
    total, found = numbers["test_paragraphs"], numbers["paragraphs"]
    where = f"in the pre-training corpus {numbers['corpus']}"
    if not found:
        return f"none of {total:,} {numbers['of']} is {where}"
    how = f"{numbers['paragraphs_by_title']:,} by the title of the article, {numbers['paragraphs_by_text']:,} by text"
    return (
        f"{found:,} of {total:,} {numbers['of']} ({found / total:.0%}) are {where}: {how}; "
        f"{numbers['articles']:,} of its {numbers['corpus_articles']:,} articles, which are not excluded"
    )
