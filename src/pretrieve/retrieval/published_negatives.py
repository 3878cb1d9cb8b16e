"""Negatives that a benchmark's publisher ships → the file of negatives that training reads.

MS MARCO ships triples (``qidpidtriples.train.full.2.tsv``: a query, a relevant passage, one that BM25 found), DPR a list of hard
negatives with each training question. Both are ``negatives.parquet`` of a collection
(:mod:`pretrieve.tasks.collection_tables`), in the publisher's order. Of each query that may train, the first ``depth`` distinct
documents are kept that the task has and nobody judged relevant to it. Nobody scored them, so the score of place n is −n: only
the order means anything.

Rows stream, 400 million of MS MARCO. In memory are 4 bytes for each negative that is kept, and the ids of the task's documents.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection as Ids
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.negatives import Negatives
from pretrieve.tasks.collection_tables import Collection


def published_negatives(
    collection: Path | str, task: Path | str, queries: Ids[str], qrels: Mapping[str, Mapping[str, int]], depth: int
) -> Negatives:
    """The publisher's negatives of ``queries`` (ids), which are queries of ``task``, a task of ``collection``.

    The header says how many of the queries have none (``without_negatives``), and how many rows were of documents that the task
    does not have (``unknown``: it may have drawn some of them) or that are relevant (``relevant``).

    Raises DataError when the collection ships no negatives, or none for any of these queries.
    """
    source = Collection(collection)
    path = source.directory / "negatives.parquet"
    if not source.has("negatives"):
        raise DataError(
            f"{path}: no such file; expected the negatives of a data set whose publisher ships them, read from its file of "
            "negatives (MS MARCO) or its training file (DPR): name that file in the data set, or take another source."
        )
    documents: list[str] = read_table(Path(task) / "corpus.parquet", ["doc_id"])["doc_id"].to_pylist()
    row_of = {doc_id: row for row, doc_id in enumerate(documents)}
    kept = {query_id: array("i") for query_id in queries}
    # One query's rows are together in both publishers' files, so a set is held for the current query only.
    current, seen = "", set[int]()
    skipped = {"unknown": 0, "relevant": 0}
    for batch in source.batches("negatives", 65_536):
        for query_id, doc_id in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            rows = kept.get(query_id)
            if rows is None or len(rows) >= depth:
                continue
            if query_id != current:
                current, seen = query_id, set(rows)
            row = row_of.get(doc_id, -1)
            if row < 0 or qrels.get(query_id, {}).get(doc_id, 0) > 0:
                skipped["unknown" if row < 0 else "relevant"] += 1
            elif row not in seen:
                seen.add(row)
                rows.append(row)
    empty = sum(not rows for rows in kept.values())
    if empty == len(kept):
        raise DataError(
            f"{path}: no negative of any of the {len(kept):,} training queries of {task} in it; do they belong together? Make "
            "the collection and its task again."
        )
    about = {"source": "published", "collection": str(source.directory), "depth": depth, "queries": len(kept)}
    return Negatives(
        list(kept),
        [[documents[row] for row in rows] for rows in kept.values()],
        [-np.arange(1, len(rows) + 1, dtype=np.float32) for rows in kept.values()],
        about | {"without_negatives": empty} | skipped,
    )
