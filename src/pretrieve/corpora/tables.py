"""The four Parquet tables of a corpus, and writers that append to them row group by row group.

=============  ==========================================================================================
articles       article_id int32 · page_id int64 (-1: no dump page) · title · description · topic ·
               has_page bool (full text from a dump) · has_lead bool (lead from an encyclopaedia)
sections       section_id int32 · article_id int32 · level int8 · heading   (first section: level 1, '')
passages       passage_id int32 · section_id int32 · article_id int32 · source ('page' | 'lead') · text ·
               sentence_starts list<int32> · sentence_ends list<int32>   (character offsets in text)
links          passage_id int32 · article_id int32 (of the page linked to; -1: not in the corpus) ·
               title (of the link, normalised; a redirect keeps its own) · start int32 · end int32 (of the label in text)
=============  ==========================================================================================

Rows are in corpus order: the sections of an article, and the passages of a section, are consecutive, and ids count
from 0 without a gap, so an id is also a row number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from pretrieve.base.disk import room_for
from pretrieve.base.errors import DataError
from pretrieve.base.files import unfinished

SCHEMAS: dict[str, pa.Schema] = {
    "articles": pa.schema(
        [
            ("article_id", pa.int32()),
            ("page_id", pa.int64()),
            ("title", pa.string()),
            ("description", pa.string()),
            ("topic", pa.string()),
            ("has_page", pa.bool_()),
            ("has_lead", pa.bool_()),
        ]
    ),
    "sections": pa.schema(
        [("section_id", pa.int32()), ("article_id", pa.int32()), ("level", pa.int8()), ("heading", pa.string())]
    ),
    "passages": pa.schema(
        [
            ("passage_id", pa.int32()),
            ("section_id", pa.int32()),
            ("article_id", pa.int32()),
            ("source", pa.string()),
            ("text", pa.string()),
            ("sentence_starts", pa.list_(pa.int32())),
            ("sentence_ends", pa.list_(pa.int32())),
        ]
    ),
    "links": pa.schema(
        [
            ("passage_id", pa.int32()),
            ("article_id", pa.int32()),
            ("title", pa.string()),
            ("start", pa.int32()),
            ("end", pa.int32()),
        ]
    ),
}

#: Rows held in memory before they are written as one row group.
ROW_GROUP = 20_000


class TableWriter:
    """Append rows (tuples in schema order) to a Parquet file in constant memory; the file appears when it is whole.

    Used as a context manager: on an exception the half-written file is removed and nothing takes its place.

    Raises DataError when the disk is full.
    """

    def __init__(self, path: Path, schema: pa.Schema, row_group: int = ROW_GROUP) -> None:
        self.path = path
        self.schema = schema
        self.rows = 0
        self._row_group = row_group
        self._buffer: list[tuple] = []
        self._temporary = unfinished(self.path)
        with room_for(self.path, remove=[self._temporary]):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")

    def append(self, row: tuple) -> int:
        """Add one row and return its number, counted from 0."""
        self._buffer.append(row)
        self.rows += 1
        if len(self._buffer) >= self._row_group:
            self._flush()
        return self.rows - 1

    def _flush(self) -> None:
        if self._buffer:
            columns = zip(*self._buffer, strict=True)
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self.schema, strict=True)]
            with room_for(self.path, remove=[self._temporary]):
                self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
            self._buffer = []

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if kind is not None:
            return self._give_up()
        try:
            self._flush()
            with room_for(self.path, remove=[self._temporary]):
                self._writer.close()
                os.replace(self._temporary, self.path)
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Close without a word: what is still in a buffer may fail to be written, and is not wanted."""
        with suppress(OSError):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet table. Raises DataError when the file is missing, is not Parquet, or lacks one of ``columns``."""
    with _readable(path):
        table = pq.read_table(path, columns=columns)
    _check_columns(path, columns or (), table.column_names)
    return table


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple]:
    """The rows of a Parquet table, a block in memory at a time; raises as :func:`read_table` does."""
    with _readable(path), pq.ParquetFile(path) as file:
        _check_columns(path, columns, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=ROW_GROUP, columns=columns, use_threads=False):
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def titles_of(corpus: Path) -> list[str]:
    """The titles of a corpus's articles; raises as :func:`read_table` does."""
    return read_table(corpus / "articles.parquet", ["title"])["title"].to_pylist()


def check_table(path: Path, columns: Sequence[str]) -> None:
    """Raise as :func:`read_table` does; only the end of the file is read, which says what is in it."""
    with _readable(path):
        names = pq.read_schema(path).names
    _check_columns(path, columns, names)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Build it with: snakemake {path}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            # Only the first line says what is wrong: of a column that is missing, all others follow.
            f"{path}: not a readable Parquet file, or without a column that is needed ({(str(error).splitlines() or [''])[0]}). "
            "Write it again; what snakemake made: delete it and run snakemake again."
        ) from error


def _check_columns(path: Path, wanted: Sequence[str], found: list[str]) -> None:
    missing = set(wanted) - set(found)
    if missing:
        raise DataError(f"{path}: columns {sorted(missing)} are missing; it has {found}.")
