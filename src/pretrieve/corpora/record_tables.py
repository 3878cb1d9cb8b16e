"""Documents in tables: CSV, TSV, Parquet, JSON lines, and data sets of the hub, one document a row.

Which column holds what is told by its name (:data:`NAMES`, upper or lower case) unless it is said. Rows stream. Of a table
without a column of ids the rows are numbered from 1, over all its files.

* CSV and TSV have a header; the separator is whichever of tab, comma and semicolon is most in it, outside quotes. Quotes of CSV
  are those of RFC 4180. A ``.tsv`` is cut at its tabs alone, as MS MARCO's: quotes are characters, but around a whole field in
  which all others are doubled, as pandas and Excel write it. With line breaks or tabs in its fields it is a ``.csv`` by RFC 4180.
* The columns of JSON lines are the keys of the first 1,000 objects, and ``title``; one may lack some of them.
* Data sets of the hub, ``hub:OWNER/NAME``, with ``:CONFIG`` after it where there are several, through the package ``datasets``:
  from its cache, or from the hub where there is a network. All splits, one after another.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from math import isnan
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pretrieve.base.errors import ConfigError, DataError, nearest
from pretrieve.base.sizes import RATIO, too_large, unpacked_limit
from pretrieve.corpora.beir_documents import Document
from pretrieve.raw.raw_text import Form, Warnings, check_id, read_columns, read_json_lines, read_lines
from pretrieve.tasks.collection_ids import HashedIds, hash_ids

HUB = "hub:"
_PACKED = ("", ".gz", ".bz2")
_TSV = tuple(f".tsv{packed}" for packed in _PACKED)
SEPARATED = (*(f".csv{packed}" for packed in _PACKED), *_TSV)
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
_WHAT = {name: what for what, usual in NAMES.items() for name in usual}
_BATCH = 1000
#: Lines that the header of a CSV may have.
_HEADER_LINES = 20
#: Names of columns in quotes, whose separators are characters.
_QUOTED = re.compile(r'(?<![^\t,;])"(?:[^"]|"")*(?:"|$)')
#: Below it every whole number is a float.
_EXACT = 2**53
#: Names of columns, and characters of each, that a message lists.
_SHOWN = 40
#: Of a Parquet file rows that are in memory together: its pages can hold one long text for all of them.
_PARQUET_BATCH = 16
#: Bytes that a row counts for besides its values, for a file of a few kB can have 50 million empty ones.
_ROW_BYTES = 64
#: (names of columns → (row or line, their values) of each row).
Read = Callable[[list[str]], Iterator[tuple[int, Sequence[Any]]]]
#: (its place, for a message; its document) of each row.
Rows = Iterator[tuple[str, Document]]


def table_documents(files: Sequence[Path], columns: Mapping[str, str], warnings: Warnings) -> Iterator[Document]:
    """The rows of tables, file after file. ``columns``: id, title or text → the name of its column.

    Raises ConfigError for a name that no column has, and DataError for a table without a column of texts, a row without an id or
    with that of another, a value that is a list, a record or bytes, where there is no row, and what the readers of raw files
    raise.
    """

    def rows(found: Warnings) -> Rows:
        numbers = count(1)
        for path in files:
            yield from _documents(str(path), *_opened(path, found), columns, numbers, found)

    return _once(", ".join(map(str, files[:_SHOWN])), rows, warnings)


def hub_documents(name: str, columns: Mapping[str, str], warnings: Warnings) -> Iterator[Document]:
    """The rows of ``hub:OWNER/NAME[:CONFIG]``.

    Raises ConfigError and DataError as :func:`table_documents`, and where there is no such data set.
    """

    def rows(found: Warnings) -> Rows:
        numbers = count(1)
        for split in _splits(name):
            place, names = f"{name}, split {split.split}", dict.fromkeys(split.column_names, 1)
            yield from _documents(place, names, _reader_of(split), columns, numbers, found)

    return _once(name, rows, warnings)


def _once(source: str, rows: Callable[[Warnings], Rows], warnings: Warnings) -> Iterator[Document]:
    """The documents of all rows. Raises DataError where there is none, and, after the last, for an id that came before."""
    ids, batch = HashedIds(), list[str]()
    add = lambda: ids.add(hash_ids(pa.array(batch, pa.string())), np.zeros(len(batch)))
    for _, document in rows(warnings):
        yield document
        batch.append(document.doc_id)
        if len(batch) == _BATCH:
            add()
            batch.clear()
    add()
    if not len(ids):
        raise DataError(f"{source}: no row; expected a document in each, below a header where there is one.")
    more, found = ids.repeated()
    if found is not None:
        # They are read again, for ids are kept as hashes.
        before, again = (next(islice(rows(Warnings()), row, None)) for row, _ in found)
        raise DataError(
            f"{again[0]}: id {again[1].doc_id[:60]!r} was used before, by {before[0]}; expected every id once"
            f"{f'; {more - 1:,} more rows have an id that was used before' if more > 1 else ''}."
        )


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


def _opened(path: Path, warnings: Warnings) -> tuple[dict[str, int], Read]:
    """Columns, with the row or line in which each is first, and their reader."""
    kind = path.name.lower()
    if kind.endswith(PARQUET):
        return _parquet(path)
    if kind.endswith(JSON_LINES):
        return _json_lines(path, warnings)
    header = _header(path, 1 if kind.endswith(_TSV) else _HEADER_LINES)
    if "\r" in header:
        raise DataError(
            f"{path}: line 1: a line break '\\r' without '\\n'; expected lines that end in '\\n' or '\\r\\n': "
            "write the file again with those."
        )
    separator = max("\t,;", key=_QUOTED.sub("", header).count)
    plain = separator == "\t" and kind.endswith(_TSV)
    lines = (line.text + "\n" for line in read_lines(path, label=None))  # a name may have line breaks
    try:
        fields = header.split("\t") if plain else next(csv.reader(lines, delimiter=separator), [])
    except csv.Error as error:
        raise DataError(f"{path}: line 1: {error}; expected a header with the names of the columns.") from None
    columns = list(map(_unquoted, fields)) if plain else fields

    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        _refuse_twice(f"{path}: line 1", columns, names)
        at = [columns.index(name) for name in names]
        form = Form(separator, header=True, quoted=not plain)
        try:
            for line, values in read_columns(path, fields, form, warnings=warnings):
                yield line, [_unquoted(values[place]) if plain else values[place] for place in at]
        except DataError as error:
            if not plain or " fields; expected " not in str(error):
                raise
            raise DataError(f"{error} If quoted fields have line breaks or tabs in them, name the file .csv.") from None

    return dict.fromkeys(columns, 1), read


def _header(path: Path, most: int) -> str:
    """The first line, or more where a quoted name has line breaks; the first alone where the quotes do not end."""
    lines, quotes = [""], 0
    for number, line in enumerate(islice(read_lines(path, label=None), most)):
        lines[number:] = [line.text]
        quotes += line.text.count('"')
        if quotes % 2 == 0:
            return "\n".join(lines)
    return lines[0]


def _refuse_twice(place: str, columns: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if (count := columns.count(name)) > 1:
            raise DataError(f"{place}: {count} columns are named {name!r}; expected one. Rename the others.")


def _unquoted(field: str) -> str:
    """A field of a ``.tsv``: quotes around all of it are dropped, if those within are doubled."""
    inside = field[1:-1]
    quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if quoted else field


def _json_lines(path: Path, warnings: Warnings) -> tuple[dict[str, int], Read]:
    records = read_json_lines(path, warnings=warnings)
    first = list(islice(records, _BATCH))
    columns = dict[str, int]()
    for line, row in first:
        for name in row:
            columns.setdefault(name, line)

    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        for line, row in chain(first, records):
            for name in row:
                if name not in columns and name.lower().strip() in _WHAT:
                    columns[name] = line  # for the message that it is not read
            yield line, [row.get(name) for name in names]

    return columns, read


def _parquet(path: Path) -> tuple[dict[str, int], Read]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again.") from None

    def read(names: list[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        _refuse_twice(str(path), columns, names)
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

    return dict.fromkeys(columns, 1), read


def _refuse_size(path: Path, size: int, unpacked: int) -> None:
    if unpacked > (limit := unpacked_limit(size)):
        raise too_large(f"{path}, unpacked", unpacked, limit, f"{RATIO} times the file and a margin")


def _documents(
    path: str,
    columns: Mapping[str, int],
    read: Read,
    given: Mapping[str, str],
    numbers: Iterator[int],
    warnings: Warnings,
) -> Rows:
    unit = "line" if path.lower().endswith((*SEPARATED, *JSON_LINES)) else "row"
    found = _find(path, list(columns), given)
    names = list(dict.fromkeys(found.values()))
    of_row = {what: itemgetter(names.index(name)) for what, name in found.items()}
    if "id" not in found:
        warnings.add("table without a column of ids, its rows are numbered", path)
    for number, values in read(names):
        where = f"{path}: {unit} {number}"
        row = {what: _as_text(get(values), f"{where}: column {found[what]!r}", what) for what, get in of_row.items()}
        counted = str(next(numbers))
        if not row.setdefault("id", counted):
            raise DataError(f"{where}: no id in column {found['id']!r}; expected one in every row.")
        document = Document(row["id"], row.get("title", ""), row["text"])
        if not (document.title.strip() or document.text.strip()):
            warnings.add("row without text and title", where)
        yield where, document
    for name, first in columns.items():
        what = _WHAT.get(name.lower().strip())
        if what and name not in names and what not in given and (what != "id" or "id" not in found):
            warnings.add(f"column {name!r}, usual for the {what}, is not read", f"{path}: {unit} {first}")


def _as_text(value: Any, where: str, what: str) -> str:
    if isinstance(value, float) and what == "id" and not isnan(value):
        # pandas makes floats of whole numbers where one is missing
        if not value.is_integer() or abs(value) >= _EXACT:
            raise DataError(f'{where} is float {value}; expected a text or a whole number: write "{value}".')
        value = int(value)
    if isinstance(value, bool | list | dict | bytes):
        raise DataError(f"{where} is {type(value).__name__} {str(value)[:60]!r}; expected a text or a number.")
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    text = str(value)
    if what == "id":
        check_id(where, text)
    return text


def _find(path: str, columns: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """id, title, text → the column that holds it; without those that no column holds."""
    found = {}
    json_lines = path.lower().endswith(JSON_LINES)
    lower = {name.lower().strip(): name for name in reversed(columns)}
    for what, usual in NAMES.items():
        if what in given:
            if given[what] not in columns:
                raise ConfigError(
                    f"columns: {what}: {given[what]!r} is not a column of {path}{f' in its first {_BATCH:,} rows' * json_lines}; "
                    f"it has {_listed(columns)}"
                    f"{nearest(given[what], columns[:_SHOWN])}"
                )
            found[what] = given[what]
        elif name := next((name for name in usual if name in lower), ""):
            found[what] = lower[name]
    if "text" not in found:
        raise DataError(
            f"{path}: no {f'column of texts among {_listed(columns)}' if any(columns) else 'names of columns in line 1'}; "
            f"expected one of {', '.join(NAMES['text'])}, or its name: --columns text=NAME of make-corpus, "
            f"my_corpus_options={{columns: {{text: NAME}}}} of a run."
        )
    if json_lines:
        found.setdefault("title", "title")  # of no object yet, but one that comes later may have it
    return found


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - _SHOWN:,} more" if len(columns) > _SHOWN else ""
    return (", ".join(repr(name[:_SHOWN]) for name in columns[:_SHOWN]) or "none") + more
