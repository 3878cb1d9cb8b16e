"""The files of a collection directory: their columns, a writer of one table, and the reader of the whole.

====================  =====================================================================================
collection.parquet    doc_id · title · text                       (string), in the order of the file
queries.parquet       query_id · text · split ('train' | 'dev' | 'test')
qrels.parquet         query_id · doc_id · relevance int32 · split (0: judged and not relevant)
answers.parquet       query_id · answers list<string> · regex bool     only of sets with answers to match
negatives.parquet     query_id · doc_id                           only of sets that ship them
stats.json            counts (read), kept (rows of each file), warnings, variant (what was done to the texts),
                      reader, licence
====================  =====================================================================================

All of it is checked as it is written: :mod:`pretrieve.tasks.collection`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pretrieve.base.disk import room_for
from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import check_table, read_table

SPLITS = ("train", "dev", "test")
SCHEMAS: dict[str, pa.Schema] = {
    "collection": pa.schema([("doc_id", pa.string()), ("title", pa.string()), ("text", pa.string())]),
    "queries": pa.schema([("query_id", pa.string()), ("text", pa.string()), ("split", pa.string())]),
    "qrels": pa.schema(
        [("query_id", pa.string()), ("doc_id", pa.string()), ("relevance", pa.int32()), ("split", pa.string())]
    ),
    "answers": pa.schema([("query_id", pa.string()), ("answers", pa.list_(pa.string())), ("regex", pa.bool_())]),
    "negatives": pa.schema([("query_id", pa.string()), ("doc_id", pa.string())]),
}
#: Tables that every collection has; the others are there when they have rows.
ALWAYS = ("collection", "queries", "qrels")


def with_title(title: str, text: str) -> str:
    """A document as it is read: its title, a blank and its text; what is empty is omitted.

    >>> with_title("A boat", "It floats."), with_title(" ", "It floats.")
    ('A boat It floats.', 'It floats.')
    """
    if not text.strip():
        return title
    return f"{title} {text}" if title.strip() else text


class Table:
    """One Parquet file ``{name}.parquet``, written in blocks of rows.

    A table without rows leaves no file unless it is one of ALWAYS.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.schema, self.rows = name, SCHEMAS[name], 0
        self.path = directory / f"{name}.parquet"
        self._writer: pq.ParquetWriter | None = None

    def write(self, columns: list[pa.Array]) -> None:
        if self._writer is None:
            # Ids and texts differ from row to row: a dictionary of them would be built and thrown away, and nobody asks
            # for the alphabetically first text of a row group.
            few = [name for name in ("title", "split", "regex", "relevance") if name in self.schema.names]
            options = {"compression": "zstd", "use_dictionary": few, "write_statistics": False}
            self._writer = pq.ParquetWriter(self.path, self.schema, **options)
        if columns and len(columns[0]):
            with room_for(self.path, remove=[self.path]):
                self._writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))
            self.rows += len(columns[0])

    def close(self) -> None:
        if self._writer is None and self.name in ALWAYS:
            self.write([])
        if self._writer is not None:
            with room_for(self.path, remove=[self.path]):
                self._writer.close()


class Collection:
    """Read access to a collection directory.

    ``stats`` is the content of ``stats.json``; ``documents`` streams, the tables are read when asked for.

    Raises DataError when a file of it is missing or damaged.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        path = self.directory / "stats.json"
        try:
            self.stats: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"{path}: no such file; expected a whole collection: read its raw files first.") from None
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}); read the collection's raw files again.") from None
        for name in ALWAYS:
            check_table(self._file(name), SCHEMAS[name].names)

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.parquet"

    @property
    def document_count(self) -> int:
        """Documents in ``collection.parquet``, without the empty ones."""
        return pq.ParquetFile(self._file("collection")).metadata.num_rows

    def has(self, name: str) -> bool:
        """Whether the collection has ``answers`` or ``negatives``."""
        return self._file(name).is_file()

    def documents(self, batch_size: int = 4096) -> Iterator[tuple[str, str, str]]:
        """(doc_id, title, text) in file order, in constant memory."""
        for batch in self.batches("collection", batch_size):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def batches(self, name: str, batch_size: int = 4096, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a table in record batches with the columns of :data:`SCHEMAS`, or some of them."""
        # Not buffered ahead: with large row groups that would be most of the memory.
        file = pq.ParquetFile(self._file(name), pre_buffer=False)
        yield from file.iter_batches(batch_size=batch_size, columns=columns or SCHEMAS[name].names, use_threads=False)

    def table(self, name: str) -> pa.Table:
        """A whole table (``queries``, ``qrels``, ``answers``)."""
        return read_table(self._file(name), SCHEMAS[name].names)
