"""Reads a task directory back, and searches it with BM25, for the tests of its writers."""

from __future__ import annotations

import argparse
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pretrieve.commands import bm25
from pretrieve.corpora.tables import read_table
from pretrieve.tasks.task import SCHEMAS
from pretrieve.text.token_store import TokenStore


class Task:
    """Read access to a task directory; each part is read when it is first asked for.

    ``corpus``, ``queries``, ``qrels`` and ``splits`` are Arrow tables with the columns of the module's table;
    ``passages`` and ``query_tokens`` are the token stores.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    def _table(self, name: str) -> pa.Table:
        return read_table(self.directory / f"{name}.parquet", SCHEMAS[name].names)

    @cached_property
    def corpus(self) -> pa.Table:
        return self._table("corpus")

    @cached_property
    def queries(self) -> pa.Table:
        return self._table("queries")

    @cached_property
    def qrels(self) -> pa.Table:
        return self._table("qrels")

    @cached_property
    def splits(self) -> pa.Table:
        return self._table("splits")

    @cached_property
    def passages(self) -> TokenStore:
        return TokenStore(self.directory / "passages")

    @cached_property
    def query_tokens(self) -> TokenStore:
        return TokenStore(self.directory / "queries")

    @cached_property
    def stats(self) -> dict[str, Any]:
        return json.loads((self.directory / "stats.json").read_text())

    def relevant(self) -> dict[str, dict[str, int]]:
        """Query id → doc id → relevance."""
        found: dict[str, dict[str, int]] = {}
        columns = (self.qrels[name].to_pylist() for name in SCHEMAS["qrels"].names)
        for query_id, doc_id, relevance in zip(*columns, strict=True):
            found.setdefault(query_id, {})[doc_id] = relevance
        return found


def search_by_bm25(task: Path, metrics: str = "mrr@10") -> dict[str, Path]:
    """Search for all queries of a task as the workflow does; returns the files that are written beside it, by option."""
    names = {"index-dir": "index", "runs": "run.trec", "outputs": "metrics.json", "costs": "cost.json"}
    names |= {"negatives": "negatives.jsonl.gz"}
    places = {option: task.with_name(f"{task.name}-{name}") for option, name in names.items()}
    words = ["--task", task, "--sizes", "full", "--metrics", *metrics.split()]
    words += [word for option, place in places.items() for word in (f"--{option}", place)]
    parser = argparse.ArgumentParser()
    bm25.add_arguments(parser)
    bm25.main(parser.parse_args([str(word) for word in words]))
    return places
