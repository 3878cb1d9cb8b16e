"""Documents in tables: CSV, TSV, Parquet, JSON lines, and data sets of the hub, one document a row.

Which column holds what is told by its name (:data:`NAMES`, upper or lower case) unless it is said. Rows stream. Of a table
without a column of ids the rows are numbered from 1, over all its files.

* CSV and TSV have a header line; the separator is whichever of tab, comma and semicolon is most in it, quotes are those of RFC
  4180.
* The columns of JSON lines are the keys of the first 1,000 objects; one may lack some of them.
* Data sets of the hub, ``hub:OWNER/NAME``, with ``:CONFIG`` after it where there are several, through the package ``datasets``:
  from its cache, or from the hub where there is a network. All splits, one after another.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.sizes import RATIO, too_large, unpacked_limit
from pretrieve.corpora.beir_documents import Document
from pretrieve.raw.raw_text import Form, Warnings, read_columns, read_json_lines, read_lines

HUB = "hub:"
_PACKED = ("", ".gz", ".bz2")
SEPARATED = tuple(f"{kind}{packed}" for kind in (".csv", ".tsv") for packed in _PACKED)
JSON_LINES = tuple(f".jsonl{packed}" for packed in _PACKED)
PARQUET = ".parquet"
SUFFIXES = (*SEPARATED, *JSON_LINES, PARQUET)
_HUB_NAME = re.compile(rf"{HUB}([\w.-]+/[\w.-]+)(?::([\w.-]+))?")
#: What a column is called that holds the id, the title, the text; the first that is there.
NAMES = {
    "id": ("_id", "id", "doc_id", "docid", "document_id", "docno", "pid", "passage_id", "page_id", "key", "url"),
    "title": ("title", "name", "headline", "heading", "subject"),
    "text": (
        "text",
        "contents",
        "content",
        "body",
        "document",
        "passage",
        "article",
        "abstract",
        "description",
        "sentence",
    ),
}
_BATCH = 1000
#: Names of columns, and characters of each, that a message lists.
_SHOWN = 40
#: Of a Parquet file rows that are in memory together: its pages can hold one long text for all of them.
_PARQUET_BATCH = 16
#: Bytes that a row counts for besides its values, for a file of a few kB can have 50 million empty ones.
_ROW_BYTES = 64
#: (names of columns → (row or line, their values) of each row).
Read = Callable[[list[str]], Iterator[tuple[int, Sequence[Any]]]]


def table_documents(files: Sequence[Path], columns: Mapping[str, str], warnings: Warnings) -> Iterator[Document]:
    """The rows of tables, file after file. ``columns``: id, title or text → the name of its column.

    Raises ConfigError for a name that no column has, and DataError for a table without a column of texts, a row without an id,
    a value that is a list, a record or bytes, and what the readers of raw files raise.
    """
    numbers = count(1)
    for path in files:
        yield from _documents(path, *_opened(path, warnings), columns, numbers, warnings)


def hub_documents(name: str, columns: Mapping[str, str], warnings: Warnings) -> Iterator[Document]:
    """The rows of ``hub:OWNER/NAME[:CONFIG]``.

    Raises ConfigError and DataError as :func:`table_documents`, and where there is no such data set.
    """
    numbers = count(1)
    for split in _splits(name):
        yield from _documents(name, split.column_names, _reader_of(split), columns, numbers, warnings)


def _reader_of(split: Any) -> Read:
    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        batches = split.select_columns(names).with_format("arrow").iter(_BATCH)
        return enumerate((row for batch in batches for row in _of_batch(batch, names)), 1)

    return read


def _of_batch(batch: Any, names: list[str]) -> Iterator[tuple]:
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _splits(name: str) -> list[Any]:
    import datasets

    datasets.utils.logging.set_verbosity_error()
    parts = _HUB_NAME.fullmatch(name)
    if not parts:
        raise DataError(f"{name}: no name of a data set; expected {HUB}OWNER/NAME, or {HUB}OWNER/NAME:CONFIG.")
    try:
        found = datasets.load_dataset(parts[1], parts[2])
    except (OSError, ValueError, KeyError, datasets.exceptions.DatasetsError) as error:
        why = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"{name}: cannot be read ({type(error).__name__}: {why}); expected a data set of the hub or its cache (HF_HOME); "
            f"with several configurations, {HUB}OWNER/NAME:CONFIG."
        ) from error
    return list(found.values())


def _opened(path: Path, warnings: Warnings) -> tuple[list[str], Read]:
    kind = path.name.lower()
    if kind.endswith(PARQUET):
        return _parquet(path)
    if kind.endswith(JSON_LINES):
        records = read_json_lines(path, warnings=warnings)
        first = list(islice(records, _BATCH))

        def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
            return ((line, [row.get(name) for name in names]) for line, row in chain(first, records))

        return list(dict.fromkeys(key for _, row in first for key in row)), read
    header = next((line.text for line in read_lines(path, label=None)), "")
    separator = max("\t,;", key=header.count)
    try:
        columns = next(csv.reader([header], delimiter=separator), [])
    except csv.Error as error:
        raise DataError(f"{path}: line 1: {error}; expected a header with the names of the columns.") from None

    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        at = [columns.index(name) for name in names]
        rows = read_columns(path, columns, Form(separator, header=True, quoted=True), warnings=warnings)
        return ((line, [fields[place] for place in at]) for line, fields in rows)

    return columns, read


def _parquet(path: Path) -> tuple[list[str], Read]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again.") from None

    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        size = path.stat().st_size
        # What the file declares of its pages may be far less than what their rows come to: each counts.
        number = counted = 0
        try:
            with pq.ParquetFile(path) as file:
                groups = map(file.metadata.row_group, range(file.num_row_groups))
                _refuse_size(path, size, sum(group.total_byte_size for group in groups))
                for batch in file.iter_batches(_PARQUET_BATCH, columns=names, use_threads=False):
                    counted += batch.nbytes + _ROW_BYTES * len(batch)
                    _refuse_size(path, size, counted)
                    for row in _of_batch(batch, names):
                        number += 1
                        yield number, row
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: damaged after row {number:,} ({error}); fetch or write it again.") from None

    return columns, read


def _refuse_size(path: Path, size: int, unpacked: int) -> None:
    if unpacked > (limit := unpacked_limit(size)):
        raise too_large(f"{path}, unpacked", unpacked, limit, f"{RATIO} times the file and a margin")


def _documents(
    path: object,
    columns: Sequence[str],
    read: Read,
    given: Mapping[str, str],
    numbers: Iterator[int],
    warnings: Warnings,
) -> Iterator[Document]:
    found = _find(path, columns, given)
    names = list(dict.fromkeys(found.values()))
    of_row = {what: itemgetter(names.index(name)) for what, name in found.items()}
    if "id" not in found:
        warnings.add("table without a column of ids, its rows are numbered", str(path))
    for number, values in read(names):
        row = {
            what: _as_text(get(values), f"{path}: row {number}: column {found[what]!r}") for what, get in of_row.items()
        }
        counted = str(next(numbers))
        if not row.setdefault("id", counted):
            raise DataError(f"{path}: row {number}: no id in column {found['id']!r}; expected one in every row.")
        yield Document(row["id"], row.get("title", ""), row["text"])


def _as_text(value: Any, where: str) -> str:
    if isinstance(value, list | dict | bytes):
        raise DataError(f"{where} is {type(value).__name__} {str(value)[:60]!r}; expected a text or a number.")
    return "" if value is None else str(value)


def _find(path: object, columns: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """id, title, text → the column that holds it; without those that no column holds."""
    found = {}
    lower = {name.lower().strip(): name for name in reversed(columns)}
    for what, usual in NAMES.items():
        if what in given:
            if given[what] not in columns:
                raise ConfigError(
                    f"columns: {what}: {given[what]!r} is not a column of {path}; it has {_listed(columns)}"
                    f"{nearest(given[what], columns[:_SHOWN])}"
                )
            found[what] = given[what]
        elif name := next((name for name in usual if name in lower), ""):
            found[what] = lower[name]
    if "text" not in found:
        raise DataError(
            f"{path}: no column of texts among {_listed(columns)}; expected one of "
            f"{', '.join(NAMES['text'])}, or its name: columns: {{text: NAME}}."
        )
    return found


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - _SHOWN:,} more" if len(columns) > _SHOWN else ""
    return (", ".join(repr(name[:_SHOWN]) for name in columns[:_SHOWN]) or "none") + more
