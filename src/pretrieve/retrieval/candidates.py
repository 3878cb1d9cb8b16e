"""The documents that each query is given to rank, in the rerank setting."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from pretrieve.base.errors import DataError
from pretrieve.corpora.tables import read_table
from pretrieve.retrieval.trec_run import read_trec


def read_candidates(path: Path | str) -> dict[str, list[str]]:
    """The candidates of each query, from a ``.parquet`` file with columns query_id and doc_id, or from a TREC run.

    Raises
    ------
    DataError
        when the file is missing or damaged, an id is empty, or a pair occurs twice.
    """
    path = Path(path)
    if path.suffix != ".parquet":
        run = read_trec(path)
        return dict(zip(run.query_ids, run.doc_ids, strict=True))
    table = read_table(path, ["query_id", "doc_id"])
    columns = [table[name].cast(pa.string()).to_pylist() for name in ("query_id", "doc_id")]
    candidates: dict[str, dict[str, None]] = {}
    for row, (query_id, doc_id) in enumerate(zip(*columns, strict=True)):
        if not query_id or not doc_id:
            raise DataError(f"{path}: row {row} has query '{query_id}' and document '{doc_id}', expected two ids.")
        mine = candidates.setdefault(query_id, {})
        if doc_id in mine:
            raise DataError(
                f"{path}: row {row}: document '{doc_id}' is a candidate of query '{query_id}' twice; give it once."
            )
        mine[doc_id] = None
    return {query_id: list(mine) for query_id, mine in candidates.items()}
