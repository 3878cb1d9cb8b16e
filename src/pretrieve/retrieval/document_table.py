"""Documents as a search shows them: ``documents.parquet`` with ``doc_id``, ``title`` and ``text``, in the order of the vectors.

Ids are read as a whole, for every hit needs one; of titles and texts only the blocks of rows that have a hit, so that opening
the table costs the same whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file
from pretrieve.corpora.tables import read_table
from pretrieve.tasks.collection_tables import SCHEMAS, with_title

FILE = "documents.parquet"
_SCHEMA = SCHEMAS["collection"]
#: Rows of a block: what one hit costs to read.
_BLOCK = 512


def write_documents(directory: Path, documents: Iterable[tuple[str, str, str]]) -> int:
    """Write (doc_id, title, text) as they come; returns their number.

    Raises DataError when an id occurs twice, or there is no document.
    """
    path, known, coming = Path(directory) / FILE, dict[str, None](), iter(documents)
    with whole_file(path) as stream, pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
        while rows := list(islice(coming, _BLOCK)):
            for doc_id, _, _ in rows:
                if doc_id in known:
                    raise DataError(
                        f"document '{doc_id}' occurs twice, as number {list(known).index(doc_id) + 1:,} and {len(known) + 1:,}; "
                        "give every document its own id."
                    )
                known[doc_id] = None
            columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        if not known:
            raise DataError("there is no document to search in; expected one or more with a text or a title.")
    return len(known)


class DocumentTable:
    """Read access to what :func:`write_documents` wrote. Raises DataError where it is missing or damaged."""

    def __init__(self, directory: Path) -> None:
        self.path = Path(directory) / FILE
        try:
            self._ids = read_table(self.path, ["doc_id"])
        except DataError as error:
            raise DataError(f"{self.path}: missing or damaged; make the directory again.") from error
        if (found := pq.read_schema(self.path)) != _SCHEMA:
            said = ", ".join(f"{field.name}: {field.type}" for field in found)[:200]
            raise DataError(
                f"{self.path}: columns {said}; expected {', '.join(_SCHEMA.names)}, all strings; make the directory again."
            )

    def __len__(self) -> int:
        return self._ids.num_rows

    @cached_property
    def ids(self) -> list[str]:
        """The ids in the order of the rows."""
        return self._ids["doc_id"].to_pylist()

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {doc_id: row for row, doc_id in enumerate(self.ids)}

    def texts(self) -> Iterator[str]:
        """Every document as it is read by BM25 and the encoder, in the order of the rows, a block at a time."""
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=_BLOCK, columns=["title", "text"], use_threads=False):
                yield from map(with_title, *(column.to_pylist() for column in batch.columns))

    def shown(self, doc_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Id → title and text of the given documents. Raises DataError where one is not there."""
        found: dict[str, tuple[str, str]] = {}
        with pq.ParquetFile(self.path) as file:
            starts = np.cumsum([0, *(file.metadata.row_group(n).num_rows for n in range(file.num_row_groups))])
            read = cache(lambda block: [c.to_pylist() for c in file.read_row_group(block, ["title", "text"]).columns])
            for doc_id in doc_ids:
                if doc_id not in self._row_of:
                    raise DataError(
                        f"{self.path}: has no document {doc_id[:60]!r}, which an index beside it has; make the directory again."
                    )
                row = self._row_of[doc_id]
                block = int(np.searchsorted(starts, row, side="right")) - 1
                title, text = (column[row - starts[block]] for column in read(block))
                found[doc_id] = title or "", text or ""
        return found
