"""Writing a collection directory: documents, queries and judgements of any benchmark, in one form.

A reader (:mod:`pretrieve.benchmarks.readers`) puts what it reads into a :class:`CollectionWriter`, which
checks it. Texts are never held: memory is 12 bytes for each id (:mod:`pretrieve.tasks.collection_ids`), one block of rows, and
about 100 bytes for each judgement. What stands in the directory, and how it is read back:
:mod:`pretrieve.tasks.collection_tables`; :mod:`pretrieve.tasks.collection_task` makes a task of it.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import unfinished, write_json
from pretrieve.raw.raw_text import Warnings
from pretrieve.tasks.collection_ids import CollectionIds, check_query, hash_ids, is_new_judgement, where
from pretrieve.tasks.collection_tables import SCHEMAS, SPLITS, Table

#: Rows, and bytes of text, that are written at a time.
BLOCK_ROWS, BLOCK_BYTES = 20_000, 16 << 20


class CollectionWriter:
    """Takes documents, queries and judgements in any order; a context manager. All files of ``directory`` appear when
    the block ends well, and none of them when it does not: what was there before stays.

    directory: to be written; files of an older collection are replaced. reader: who wrote it. licence: of the data. Both stand
    in ``stats.json``.

    A reader says in ``variant`` what was done to the texts ('' for nothing), and in ``expected`` what must be read, before
    anything is omitted: ``documents``, ``queries``, ``judgements``, ``answers``, ``negatives``, and of one split
    ``queries.test``, ``judgements.train``, …. ``lacking`` judgements and negatives may be of unknown documents: they are omitted.
    ``warnings`` counts what was omitted; it ends up in ``stats.json``.

    Raises DataError for an id that appears twice, a judgement, answer or negative of an unknown id, a query without text, a
    relevance below zero, two judgements of one pair that differ, documents none of which has a text or a title, or counts
    that are not the expected ones. The message names the file and line given to :meth:`at`. What can only be known at the
    end, such as an unknown id, is raised when the block ends.
    """

    def __init__(self, directory: Path | str, reader: str, licence: str = "") -> None:
        self.directory = Path(directory)
        self.reader, self.variant, self.licence = reader, "", licence
        self.expected: dict[str, int] = {}
        self.lacking = 0
        self.warnings = Warnings()
        self.counts: Counter[str] = Counter()
        # Beside its place, so that moving the files needs no copying.
        self._temporary = unfinished(self.directory)
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        self._tables = {name: Table(self._temporary, name) for name in SCHEMAS}
        self._rows: dict[str, list[tuple]] = {name: [] for name in SCHEMAS}  # each with its line behind it
        self._bytes = 0
        self._ids = {kind: CollectionIds(kind) for kind in ("document", "query")}
        self._empty: set[int] = set()
        self._unknown: set[int] = set()
        self._pairs: dict[int, int] = {}
        self._given: Path | str = ""
        self._path, self._line = "", 0

    # ------------------------------------------------------------------------------------------------ what readers call

    def at(self, path: Path | str, line: int = 0) -> None:
        """Say which file and line the next rows come from; messages name them. 0: no line."""
        if path is not self._given and str(path) != self._path:
            # Rows of the last file are still to be checked, and its name belongs to them.
            self._flush_all()
            self._path = str(path)
        self._given, self._line = path, line

    def add_document(self, doc_id: str, title: str, text: str) -> None:
        """One document. One without any text and title is omitted and counted."""
        if not isinstance(text, str) or not isinstance(title, str):
            raise DataError(
                f"{self._where()}document {doc_id!r} has the title {title!r}, text {text!r}; expected two texts."
            )
        self._bytes += len(text)
        self._append("collection", (doc_id, title, text))

    def add_documents(self, doc_ids: pa.Array, titles: pa.Array | None, texts: pa.Array, first_line: int = 0) -> None:
        """A block of documents as string columns (n,) without nulls, from consecutive lines of the file of :meth:`at`.

        titles None: none has a title. What :meth:`add_document` does, without a step in Python for each document.
        """
        self._flush("collection")
        if titles is None:
            titles = pa.repeat(pa.scalar(""), len(doc_ids))
        self._write("collection", [doc_ids, titles, texts], _lines(first_line, len(doc_ids)))

    def add_query(self, query_id: str, text: str, split: str) -> None:
        """One query; ``split`` is train, dev or test."""
        self._check_split(query_id, split)
        check_query(self._where, query_id, text)
        self.counts[f"queries.{split}"] += 1
        self._append("queries", (query_id, text, split))

    def add_judgement(self, query_id: str, doc_id: str, relevance: int, split: str) -> None:
        """How relevant a document is to a query: 0 judged and not relevant, 1 and more relevant.

        The same judgement again is omitted and counted.
        """
        self._check_split(query_id, split)
        new = is_new_judgement(self._where, self._pairs, query_id, doc_id, relevance)
        self.counts[f"judgements.{split}"] += 1
        self.counts["judgements"] += 1
        if not new:
            self.warnings.add("judgement that was there before, left out", f"{self._where()}{query_id} {doc_id}")
            return
        self._append("qrels", (query_id, doc_id, relevance, split))

    def add_answers(self, query_id: str, answers: list[str], regex: bool = False) -> None:
        """The answers of a query, one or more; ``regex``: they are regular expressions."""
        listed = isinstance(answers, (list, tuple))
        if not listed or not answers or not all(isinstance(answer, str) and answer for answer in answers):
            raise DataError(
                f"{self._where()}query {query_id!r} has the answers {answers!r}; expected one or more texts."
            )
        self._append("answers", (query_id, answers, regex))

    def add_negative(self, query_id: str, doc_id: str) -> None:
        """A document that the publisher gives as a negative of a query."""
        self.counts["negatives"] += 1
        self._append("negatives", (query_id, doc_id))

    def add_negatives(self, query_ids: pa.Array, doc_ids: pa.Array, first_line: int = 0) -> None:
        """A block of negatives as string columns (n,), from consecutive lines of the file of :meth:`at`."""
        self._flush("negatives")
        self.counts["negatives"] += len(doc_ids)
        self._write("negatives", [query_ids, doc_ids], _lines(first_line, len(doc_ids)))

    # -------------------------------------------------------------------------------------------------- blocks and checks

    def _where(self, line: int | None = None) -> str:
        return where(self._path, self._line if line is None else line)

    def _check_split(self, query_id: str, split: str) -> None:
        if split not in SPLITS:
            raise DataError(f"{self._where()}query {query_id!r} has the split {split!r}; expected {', '.join(SPLITS)}.")

    def _append(self, name: str, row: tuple) -> None:
        rows = self._rows[name]
        rows.append((*row, self._line))
        if len(rows) >= BLOCK_ROWS or self._bytes >= BLOCK_BYTES:
            self._flush(name)

    def _flush(self, name: str) -> None:
        if not self._rows[name]:
            return
        *columns, lines = zip(*self._rows[name], strict=True)
        try:
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMAS[name], strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
            raise DataError(
                f"{self._path or self.reader}: {name} of lines {lines[0]} to {lines[-1]} cannot be written ({error}); "
                f"expected {', '.join(f'{field.name} {field.type}' for field in SCHEMAS[name])}."
            ) from None
        self._rows[name] = []
        self._write(name, arrays, np.array(lines, dtype=np.int64))

    def _take_in(self, doc_ids: pa.Array, titles: pa.Array, texts: pa.Array, lines: np.ndarray) -> list[pa.Array]:
        """Count documents and note their ids; the columns without those that are omitted."""
        self._bytes = 0
        self.counts["documents"] += len(doc_ids)
        hashes = self._ids["document"].add(doc_ids, self._path, lines)
        no_text = _blank(texts)
        if no_text.any():
            no_title = _blank(titles)
            for row in np.flatnonzero(no_text):
                kind = "document without text, left out" if no_title[row] else "document with a title and no text"
                self.warnings.add(kind, f"{self._where(int(lines[row]))}document {doc_ids[int(row)].as_py()!r}")
            empty = no_text & no_title
            if empty.any():
                self._empty.update(hashes[empty].tolist())
                keep = pa.array(~empty)
                doc_ids, titles, texts = (column.filter(keep) for column in (doc_ids, titles, texts))
        return [doc_ids, titles, texts]

    def _flush_all(self) -> None:
        for name in SCHEMAS:
            self._flush(name)

    def _write(self, name: str, columns: list[pa.Array], lines: np.ndarray) -> None:
        """Write rows of a table; references are checked now or, if not known yet, at the end."""
        if name == "collection":
            columns = self._take_in(*columns, lines)
        elif name == "queries":
            self._ids["query"].add(columns[0], self._path, lines)
        else:
            self._ids["query"].refer(columns[0], name, self._path, lines)
            if name != "answers":
                self._ids["document"].refer(columns[1], name, self._path, lines)
        self._tables[name].write(columns)

    # -------------------------------------------------------------------------------------------------------- the end

    def __enter__(self) -> CollectionWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        try:
            try:
                if kind is None:
                    self._finish()
            finally:
                for table in self._tables.values():
                    table.close()
            if kind is None:
                self._publish()
        finally:  # also of a full disk, where a table cannot be closed
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _finish(self) -> None:
        self._flush_all()
        for kind, ids in self._ids.items():
            self._unknown |= ids.check(partial(self._id_of, kind), self.lacking if kind == "document" else 0)
        self._leave_out_rows()
        if self.counts["documents"] and not self._tables["collection"].rows:
            raise DataError(
                f"{self.directory}: reader {self.reader} read {self.counts['documents']:,} documents, none of which has a "
                "text or a title; expected documents to search in."
            )
        for name in ("queries", "answers"):
            self.counts[name] = self._tables[name].rows
        self._check_expected()

    def _id_of(self, kind: str, row: int) -> str:
        """The id of a row, read back; '' where rows were omitted, so that numbers do not fit."""
        name = "collection" if kind == "document" else "queries"
        if self._empty and kind == "document":
            return ""
        self._tables[name].close()
        column = pq.read_table(self._temporary / f"{name}.parquet", columns=[SCHEMAS[name].names[0]])[0]
        return column[row].as_py()

    def _leave_out_rows(self) -> None:
        """Write judgements and negatives once more without those of documents that were omitted, or are not there."""
        left_out = np.array(sorted(self._empty | self._unknown), dtype=np.int64)
        if not len(left_out):
            return
        for name in ("qrels", "negatives"):
            old = self._tables[name]
            old.close()
            if not old.rows:
                continue
            os.replace(old.path, part := old.path.with_suffix(".part"))
            self._tables[name] = Table(self._temporary, name)
            for batch in pq.ParquetFile(part).iter_batches(batch_size=BLOCK_ROWS, use_threads=False):
                hashes = hash_ids(batch.column(1))
                gone = np.isin(hashes, left_out)
                for row in np.flatnonzero(gone):
                    example = " ".join(str(column[int(row)].as_py()) for column in batch.columns)
                    why = "is not in the corpus" if int(hashes[row]) in self._unknown else "has no text"
                    self.warnings.add(f"row of {name} whose document {why}, left out", example)
                self._tables[name].write([column.filter(pa.array(~gone)) for column in batch.columns])
            part.unlink()

    def _check_expected(self) -> None:
        for key, count in self.expected.items():
            if key.partition(".")[0] not in ("documents", "queries", "judgements", "answers", "negatives"):
                raise ConfigError(f"expected count {key!r}: no such count; there are {', '.join(sorted(self.counts))}.")
            if self.counts[key] != count:
                raise DataError(
                    f"{self.directory}: reader {self.reader} read {self.counts[key]:,} {key}, expected {count:,}; a file is "
                    "not the one that the publisher ships, or not whole: compare its checksum, or fetch it again."
                )

    def _publish(self) -> None:
        write_json(
            self._temporary / "stats.json",
            {
                "counts": {key: count for key, count in self.counts.items() if count},
                "kept": {name: table.rows for name, table in self._tables.items() if table.rows},
                "warnings": {
                    kind: {"count": count, "first": self.warnings.examples[kind]}
                    for kind, count in self.warnings.counts.items()
                },
                "reader": self.reader,
                "variant": self.variant,
                "licence": self.licence,
            },
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        # stats.json says that a collection is whole: it goes first and comes last.
        (self.directory / "stats.json").unlink(missing_ok=True)
        for name in SCHEMAS:
            made = self._temporary / f"{name}.parquet"
            if made.exists():
                os.replace(made, self.directory / made.name)
            else:
                (self.directory / made.name).unlink(missing_ok=True)
        os.replace(self._temporary / "stats.json", self.directory / "stats.json")


def _lines(first: int, count: int) -> np.ndarray:
    """Consecutive lines of a file; 0: not known."""
    return np.arange(first, first + count) if first else np.zeros(count, np.int64)


def _blank(texts: pa.Array) -> np.ndarray:
    """(n,) bool: which texts are empty or white space, as ``str.strip`` sees it."""
    # Nearly every text begins with a printable ASCII character; the others are looked at one by one.
    unclear = ~pc.match_substring_regex(texts, "^[!-~]").to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(unclear):
        unclear[row] = not texts[int(row)].as_py().strip()
    return unclear
