"""A retriever on a task, up to its scores: vectors of both sides, the run of the test queries with its entropies, and negatives.

What a job of the workflow does before ranx scores its runs (:mod:`pretrieve.evaluation.task_scores`). A bundle's machine
without ranx does this much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pretrieve.base.paths import cost_beside
from pretrieve.evaluation.entropy_file import write_entropy
from pretrieve.evaluation.metrics import read_qrels
from pretrieve.retrieval.answered import answered_hits
from pretrieve.retrieval.embed_task import TaskTexts, embed_queries, embed_task
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.negatives import mine, write_negatives
from pretrieve.retrieval.search_task import TaskIds, entropy_of, recall_file, search_task
from pretrieve.retrieval.trec_run import Run, read_candidates, write_trec
from pretrieve.tasks.dataset import Dataset
from pretrieve.tasks.split_table import SplitTable
from pretrieve.training.cost import Cost
from pretrieve.training.device import Device
from pretrieve.training.processes import Processes


@dataclass(frozen=True)
class TaskSearch:
    """A task that retrievers are tried on. options: of the recipe (lengths, windows, temperature); search: of an index, see
    :func:`~pretrieve.retrieval.search_task.search_task`; depth, mining_depth: documents of a run's query, and of a mined one;
    without_answers: what is mined contains no answer of its query (:mod:`pretrieve.retrieval.answered`)."""

    task: Path
    options: Mapping[str, Any]
    search: Mapping[str, Any]
    depth: int = 100
    mining_depth: int = 200
    threads: int = 1
    without_answers: bool = False

    @cached_property
    def data(self) -> Dataset:
        return Dataset(self.task)

    @cached_property
    def ids(self) -> TaskIds:
        return TaskIds.read(self.task)

    @cached_property
    def splits(self) -> SplitTable:
        return SplitTable(self.task / "splits.parquet")

    @cached_property
    def qrels(self) -> dict[str, dict[str, int]]:
        return read_qrels(self.task / "qrels.parquet")

    def wanted(self, size: str, mined: bool) -> list[str]:
        """The test queries of a training-set size; or those that negatives are mined for, which train and validate."""
        if mined:
            return [*self.splits.needed(size, "train"), *self.splits.ids(size, "valid")]
        return self.splits.needed(size)

    def stores_of(self, size: str, mined: bool) -> dict[str, list[str]]:
        """Store → its queries: ``queries`` and, where negatives are ``mined``, ``mining``."""
        return {"queries": self.wanted(size, False)} | ({"mining": self.wanted(size, True)} if mined else {})

    def embed(
        self,
        retriever: Path,
        store: Path,
        wanted: Mapping[str, Sequence[str]],
        device: Device,
        processes: Processes | None = None,
        code: str = "",
    ) -> None:
        """Write the vectors of the task's candidates and of the ``wanted`` queries (store → ids) into ``store``, and what that
        cost. Vectors that are there of the same retriever, texts and ``code`` stay, and so does their cost."""
        processes = processes or Processes()
        queries = {name: self.ids.rows_of(ids) for name, ids in wanted.items()}
        lengths = (self.options["query_length"], self.options["passage_length"], self.options.get("windows", 1))
        texts = TaskTexts(self.data, *lengths)
        with Cost("embed", self.threads) as cost:
            cost.gpus = processes.world
            cost.tokens = embed_task(texts, retriever, store, device, processes, code, queries)
        file = store / "cost.json"
        if processes.first and (cost.tokens or not file.is_file()):
            cost.write(file)

    def embed_beside(self, retriever: Path, store: Path, name: str, wanted: Sequence[str], device: Device) -> None:
        """Write the vectors of ``wanted`` queries as the store ``name`` next to the candidates' ones. They are made again
        whenever those are."""
        rows, corpus = {name: self.ids.rows_of(wanted)}, EmbeddingReader(store, "corpus")
        embed_queries(self.data, retriever, store, self.options["query_length"], device, rows, code=corpus.key)

    def run(self, store: Path, size: str, path: Path, candidates: Path | None = None) -> Run:
        """Search the test queries of a training-set size, and write the run, its entropies, and what that cost.

        candidates: another run, whose hits alone are ranked."""
        with Cost("search", self.threads) as cost:
            ids = self.ids.store_of("queries", self.wanted(size, False))
            given = read_candidates(candidates) if candidates else None
            run = search_task(ids, store, self.depth, self.search, self.threads, given, recall_file(path))
            write_trec(path, run, "dense")
            temperature = float(self.options.get("temperature", 1.0))
            write_entropy(path, entropy_of(ids, store, self.qrels, temperature, self.threads))
        cost.write(cost_beside(path))
        return run

    def mine(self, store: Path, retriever: Path, size: str, path: Path) -> None:
        """Search the queries of a size that :meth:`wanted` has mined, and write what ranks high and is not relevant; with what
        that cost."""
        with Cost("mine", self.threads) as cost:
            ids = self.ids.store_of("mining", self.wanted(size, True))
            run = search_task(ids, store, self.mining_depth, threads=self.threads)
            about = {"source": retriever.parent.parent.name, "retriever": str(retriever), "size": size}
            answered = answered_hits(run, self.task) if self.without_answers else None
            write_negatives(path, mine(run, self.qrels, self.mining_depth, about, answered))
        behind = [f"{retriever}/cost.json", f"{store}/cost.json"]
        cost.write(cost_beside(path), behind)
