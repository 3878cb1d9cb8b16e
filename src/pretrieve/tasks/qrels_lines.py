"""Judgements of relevance in the layouts they are published in, and which split a query belongs to.

======  ============================  ============================================================================
layout  columns                       who
======  ============================  ============================================================================
beir    query-id, corpus-id, score    BEIR's ``qrels/{split}.tsv``: tabs, a header line, often ``\\r\\n``
trec    topic, iteration, document,   TREC (https://trec.nist.gov/data/qrels_eng/) and MS MARCO: blanks or tabs, no
        grade                         header; the iteration is ``0`` or ``Q0`` and means nothing
======  ============================  ============================================================================

BEIR writes and reads its files with Python's ``csv`` (beir/util.py, data_loader.py): an id with a quote, such as a title of
FEVER's Wikipedia, is quoted, and its quotes are written twice. Some copies of BEIR sets lack the header line. BEIR's own loader
would then skip the first judgement; here it is read, and counted as a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pretrieve.base.errors import DataError
from pretrieve.raw.raw_text import Form, Warnings, read_columns
from pretrieve.tasks.collection import CollectionWriter

BEIR_COLUMNS = ("query-id", "corpus-id", "score")
TREC_COLUMNS = ("topic", "iteration", "document", "grade")
#: A query that is judged in two splits belongs to the first of these: nothing is trained on what is tested.
PRECEDENCE = ("test", "dev", "train")
#: What a collection's column of relevance can hold.
LARGEST = 2**31 - 1


class Judged(NamedTuple):
    """A line of a file of judgements."""

    line: int
    query_id: str
    doc_id: str
    relevance: int


def read_qrels(
    path: Path, layout: str, warnings: Warnings | None = None, label: str | None = "", below_zero: str = "error"
) -> Iterator[Judged]:
    """The judgements of a file in the layout ``beir`` or ``trec``, in file order; ``label``: of the progress, None for none.
    ``below_zero``: with ``leave-out``, for publishers who write −1 for "not judged" (TREC-COVID), such lines are no judgements.

    Raises DataError for another number of columns, a relevance that is not a whole number or above :data:`LARGEST`, an empty id,
    or a file without judgements.
    """
    trec = layout == "trec"
    columns = TREC_COLUMNS if trec else BEIR_COLUMNS
    found = header = False
    form = Form(None) if trec else Form(quoted=True)
    for number, fields in read_columns(path, columns, form, label, warnings):
        query_id, doc_id, grade = (fields[0], fields[2], fields[3]) if trec else fields
        if number == 1 and not trec:
            if header := tuple(fields) == BEIR_COLUMNS:
                continue
            if warnings is not None and _whole(grade):
                warnings.add("judgements without the header line", f"{path}: line 1: {fields}")
        if not _whole(grade) or not query_id or not doc_id:
            raise _not_a_judgement(path, number, fields, columns, found or header)
        try:
            relevance = int(grade)
        except ValueError:  # thousands of digits
            relevance = LARGEST + 1
        if relevance > LARGEST:
            raise DataError(
                f"{path}: line {number}: the relevance of document {doc_id!r} for query {query_id!r} is {grade[:20]}"
                f"{'…' if len(grade) > 20 else ''}; expected a whole number up to {LARGEST:,}."
            )
        found = True
        if relevance < 0 and below_zero == "leave-out":
            if warnings is not None:
                warnings.add("judgement below zero, left out", f"{path}: line {number}: {query_id} {doc_id}")
            continue
        yield Judged(number, query_id, doc_id, relevance)
    if not found:
        raise DataError(
            f"{path}: no judgement in it; expected lines of {', '.join(columns)}: leave an empty split out."
        )


def _not_a_judgement(path: Path, number: int, fields: list[str], columns: tuple[str, ...], below: bool) -> DataError:
    """below: the header or a judgement was read before."""
    place, beir = f"{path}: line {number}: ", columns == BEIR_COLUMNS
    if beir and number > 1 and tuple(fields) == BEIR_COLUMNS:
        if below:
            return DataError(
                f"{place}the header stands below other lines; expected it in line 1 only: remove this line."
            )
        above = "line 1 is empty" if number == 2 else f"lines 1 to {number - 1} are empty"
        return DataError(
            f"{place}the header stands here, for {above}; expected it in line 1: remove what is empty above it."
        )
    header = f" or the header {', '.join(BEIR_COLUMNS)}" if beir and number == 1 else ""
    return DataError(
        f"{place}found {', '.join(map(repr, fields))}; expected {', '.join(columns)}, the last a whole number{header}."
    )


def _whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


def splits_of_queries(files: Mapping[str, Path], layout: str, warnings: Warnings) -> dict[str, str]:
    """Query id → split, from the files of judgements (split → file); one in two files is counted and gets the first
    split of :data:`PRECEDENCE`."""
    split_of: dict[str, str] = {}
    for split in PRECEDENCE:
        if split not in files:
            continue
        twice = set()
        for judged in read_qrels(files[split], layout):
            if split_of.setdefault(judged.query_id, split) != split and judged.query_id not in twice:
                twice.add(judged.query_id)
                other = split_of[judged.query_id]
                warnings.add(
                    f"query of split '{split}' that is judged in '{other}' too, kept there only",
                    f"{files[split]}: line {judged.line}: {judged.query_id!r}",
                )
    return split_of


def add_judgements(
    writer: CollectionWriter,
    files: Mapping[str, Path],
    layout: str,
    split_of: Mapping[str, str],
    below_zero: str = "error",
    moved: bool = False,
) -> None:
    """Give the judgements of all files (split → file) to the writer. ``below_zero``: see :func:`read_qrels`. ``moved``: queries
    belong to the split that ``split_of`` says, whichever file judges them."""
    for split, path in files.items():
        for line, query_id, doc_id, relevance in read_qrels(path, layout, writer.warnings, below_zero=below_zero):
            writer.at(path, line)
            if (own := split_of.get(query_id, split)) == split or (moved and own):
                writer.add_judgement(query_id, doc_id, relevance, own)
