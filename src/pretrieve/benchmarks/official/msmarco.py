"""MS MARCO's passages and documents, and the topics of TREC Deep Learning 2019 and 2020 on them.

https://microsoft.github.io/msmarco/Datasets.html and https://microsoft.github.io/msmarco/TREC-Deep-Learning; no file has a
header, columns are separated by tabs and never quoted::

    collection.tsv                   passage id, text
    para.title.txt                   passage id, title: of the titled variant, see below
    msmarco-docs.tsv                 document id, url, title, body
    queries.*.tsv                    query id, text
    qrels.*.tsv, *qrels-pass.txt     query id, 0 or Q0, passage id, relevance: tabs or blanks
    qidpidtriples.train.full.2.tsv   query id, id of a relevant passage, id of a negative; lines end with \\r\\n

The dev judgements come in two sizes: ``qrels.dev.small.tsv``, whose 6,980 queries every paper reports, and all of
``qrels.dev.tsv``. The topics of TREC are the split ``test`` of a collection of their own.

Passages have no titles. RocketQA took them from the documents and published the collection once more as ``para.txt`` and
``para.title.txt`` (https://rocketqa.bj.bcebos.com/corpus/marco.tar.gz), in the same order (PaddlePaddle/Research,
NLP/ACL2021-PAIR/wget_data.sh pastes them line by line; staoxiao/RetroMAE, get_data.sh gives a passage without a line an empty
title). Condenser and RetroMAE use titles, SEED-Encoder and ANCE do not: scores on the two are not to be compared, so they are
collections of different names, and ``variant`` in ``stats.json`` says which.

Counts: https://ir-datasets.com/msmarco-passage.html, https://ir-datasets.com/msmarco-document.html.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.raw.column_blocks import read_column_blocks
from pretrieve.raw.raw_text import read_columns
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_tables import SPLITS
from pretrieve.tasks.qrels_lines import add_judgements, splits_of_queries

#: (judged queries, judgements) of each file that the publishers ship for a split.
PASSAGE_COUNTS = {
    "train": [(502_939, 532_761)],
    "dev": [(6_980, 7_437), (55_578, 59_273)],
    "test": [(43, 9_260), (54, 11_386)],
}
DOCUMENT_COUNTS = {
    "train": [(367_013, 367_013)],
    "dev": [(5_193, 5_193)],
    "test": [(43, 16_258), (45, 9_098)],
}
PASSAGES, DOCUMENTS = 8_841_823, 3_213_835


def read_msmarco_passages(files: Mapping[str, Path], writer: CollectionWriter, official: bool = True) -> None:
    """files: ``collection``; optional ``titles`` (the titled variant), ``{train,dev,test}_queries`` with
    ``{train,dev,test}_qrels``, and ``negatives`` (qidpidtriples); official: whether the publishers' counts must come out;
    false for a part, or for other data in this layout.

    Raises DataError when a file is damaged or not in the layout, or ``titles`` is not in the order of ``collection``, and
    ConfigError when queries are given without judgements, or the other way round.
    """
    if official:
        writer.expected["documents"] = PASSAGES
    writer.variant = "titles of the documents (RocketQA)" if "titles" in files else "no titles"
    passages = read_column_blocks(files["collection"], ["pid", "text"], unit="passages", warnings=writer.warnings)
    titles = _Titles(files["titles"], files["collection"]) if "titles" in files else None
    for first, (ids, texts) in passages:
        writer.at(files["collection"], first)
        writer.add_documents(ids, titles.of(ids) if titles else None, texts, first)
    if titles:
        titles.end()
    _add_queries(files, writer, PASSAGE_COUNTS if official else None)


def read_msmarco_documents(
    files: Mapping[str, Path],
    writer: CollectionWriter,
    official: bool = True,
    url: bool = False,
    max_chars: int | None = None,
) -> None:
    """Read MS MARCO's documents: the body is the text.

    files: ``docs``; optional ``{train,dev,test}_queries`` with ``{train,dev,test}_qrels``, and ``negatives``; official: as
    for passages; url: put the address and a blank in front of the title; max_chars: keep this many characters of each body;
    None: all. The code of ANCE and SEED-Encoder puts a separator between address, title and body, and keeps the first 10,000
    characters of all three together (docs/fidelity.md).
    """
    if official:
        writer.expected["documents"] = DOCUMENTS
    done = ["url in front of the title"] if url else []
    done += [f"first {max_chars} characters of the body"] if max_chars else []
    writer.variant = ", ".join(done)
    path, columns = files["docs"], ["docid", "url", "title", "body"]
    documents = read_column_blocks(path, columns, unit="documents", warnings=writer.warnings)
    for first, (ids, urls, titles, bodies) in documents:
        writer.at(path, first)
        if url:
            titles = pc.binary_join_element_wise(urls, titles, " ")
        if max_chars:
            bodies = pc.utf8_slice_codeunits(bodies, 0, max_chars)
        writer.add_documents(ids, titles, bodies, first)
    _add_queries(files, writer, DOCUMENT_COUNTS if official else None)


class _Titles:
    """Titles in the order of the passages, some of which may have none; two blocks of them in memory."""

    def __init__(self, path: Path, passages: Path) -> None:
        self._path, self._passages = path, passages
        self._blocks: Iterator[tuple[int, list[pa.Array]]] = read_column_blocks(path, ["pid", "title"], unit="titles")
        self._ids = self._titles = pa.array([], pa.string())
        self._line = 1

    def of(self, ids: pa.Array) -> pa.Array:
        """(n,) titles of the next n passages, '' for those that the file lacks."""
        # No more than n titles can belong to n passages.
        while len(self._ids) < len(ids):
            block = next(self._blocks, None)
            if block is None:
                break
            self._ids = pa.concat_arrays([self._ids, block[1][0]])
            self._titles = pa.concat_arrays([self._titles, block[1][1]])
        place = pc.index_in(ids, value_set=self._ids)
        found = place.drop_null().to_numpy()
        if not np.array_equal(found, np.arange(len(found))):
            raise self._disorder(next(n for n in range(len(found) + 1) if n not in set(found[: n + 1].tolist())))
        titles = pc.fill_null(self._titles.take(place), "")
        self._ids, self._titles = self._ids[len(found) :], self._titles[len(found) :]
        self._line += len(found)
        return titles

    def end(self) -> None:
        """Raise unless every title had its passage."""
        if len(self._ids) or next(self._blocks, None) is not None:
            raise self._disorder(0)

    def _disorder(self, place: int) -> DataError:
        name = self._ids[place].as_py() if place < len(self._ids) else "?"
        return DataError(
            f"{self._path}: line {self._line + place}: passage {name!r} is not in this place in "
            f"{self._passages}; expected titles in the order of the passages: sort both files by id."
        )


def _add_queries(
    files: Mapping[str, Path], writer: CollectionWriter, counts: Mapping[str, list[tuple[int, int]]] | None
) -> None:
    """Queries that are judged, their judgements, and negatives."""
    for split in SPLITS:
        if (f"{split}_queries" in files) != (f"{split}_qrels" in files):
            raise ConfigError(f"{split}_queries and {split}_qrels belong together; give both files, or none of them.")
    qrels = {split: files[f"{split}_qrels"] for split in SPLITS if f"{split}_qrels" in files}
    split_of = splits_of_queries(qrels, "trec", writer.warnings)
    if counts is not None:
        judged = Counter(split_of.values())
        for split in qrels:
            known = dict(counts[split])
            # Which of the files it is, is told by its queries; the first where it is none of them.
            queries = judged[split] if judged[split] in known else counts[split][0][0]
            writer.expected |= {f"queries.{split}": queries, f"judgements.{split}": known[queries]}
    for split in qrels:
        path = files[f"{split}_queries"]
        for line, (query_id, text) in read_columns(path, ["qid", "query"], warnings=writer.warnings):
            writer.at(path, line)
            writer.counts[f"queries_read.{split}"] += 1
            if split_of.get(query_id) == split:
                writer.add_query(query_id, text, split)
            else:
                writer.warnings.add(
                    f"query that is not judged in '{split}', left out", f"{path}: line {line}: {query_id}"
                )
    add_judgements(writer, qrels, "trec", split_of)
    if "negatives" in files:
        _add_negatives(files["negatives"], writer)


def _add_negatives(path: Path, writer: CollectionWriter) -> None:
    columns = ["qid", "positive pid", "negative pid"]
    for first, (query_ids, _, doc_ids) in read_column_blocks(path, columns, unit="triples", warnings=writer.warnings):
        if first == 1 and " " in query_ids[0].as_py().strip():
            raise DataError(
                f"{path}: line 1: found the text {query_ids[0].as_py()[:60]!r}; expected ids, as in "
                "qidpidtriples.train.full.2.tsv: triples of texts (triples.train.small.tsv) do not say which passages they are."
            )
        writer.at(path, first)
        writer.add_negatives(query_ids, doc_ids, first)
