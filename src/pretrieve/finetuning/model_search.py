"""Searching the whole corpus with the weights that a model has at this moment of its training.

Who asks: :mod:`pretrieve.finetuning.train_ance` for negatives, :mod:`pretrieve.finetuning.train_curve` for runs on the way.
A document is what ``passage_length`` tokens of it hold (FirstP), or the best of ``windows`` windows (MaxP,
:mod:`pretrieve.finetuning.train_maxp`): a model is searched with as it is trained.

Several processes share the embedding; the first one searches.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pretrieve.base.files import remove_if_empty
from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.retrieval.embed import Job, encode, run_jobs, shard_rows
from pretrieve.retrieval.embeddings import EmbeddingReader, EmbeddingWriter
from pretrieve.retrieval.search import DenseScorer, as_run
from pretrieve.retrieval.shards import Shards
from pretrieve.retrieval.trec_run import Run
from pretrieve.retrieval.window_search import rank_documents
from pretrieve.tasks.dataset import Dataset
from pretrieve.text.windows import PassageWindows
from pretrieve.training.device import Device
from pretrieve.training.processes import ALONE, Processes


class PresentSearch:
    """Embeds a task's candidates with the present weights of ``model``, and ranks them exactly for some of its queries.

    options: of the recipe: query_length, passage_length, windows (1 where it is missing). directory: of the run, where
    the vectors stand while they are needed; all processes see it.
    """

    def __init__(
        self,
        model: DualEncoder,
        data: Dataset,
        options: Mapping[str, Any],
        device: Device,
        directory: Path,
        processes: Processes = ALONE,
    ) -> None:
        self._model, self.data, self._options, self._device = model, data, options, device
        self.directory = Path(directory)
        self._store = self.directory / "embeddings"
        self.processes = processes

    def clear(self) -> None:
        """Remove the folder; after the run's checkpoints, which need what stands there to continue."""
        shutil.rmtree(self.directory, ignore_errors=True)
        remove_if_empty(self.directory.parent)

    def keep(self, files: Iterable[Path], directory: Path) -> list[Path]:
        """Copy files of the folder to a new one of the retriever's; returns where they are."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return [Path(shutil.copyfile(file, directory / file.name)) for file in files]

    def run(self, rows: np.ndarray, depth: int, moment: str) -> Run | None:
        """The best ``depth`` documents of query rows (n,). Every process calls this; the first one gets the run, the others None
        and perhaps sooner. ``moment``: names the weights."""
        data, options, limit = self.data, self._options, self._options.get("windows", 1)
        # None for FirstP.
        windows = None if limit == 1 else data.windows(options["passage_length"], limit)
        self._embed(windows, moment)
        if not self.processes.first:
            return None
        pack = lambda wanted: data.pack_queries(wanted, options["query_length"])
        queries = encode(self._model.query, pack, rows, self._device)
        reader = EmbeddingReader(self._store, "corpus")
        query_ids = [data.query_ids[row] for row in rows]
        scorer = DenseScorer(reader, queries, torch.get_num_threads())  # faiss sets it for torch too
        documents = None if windows is None else windows.windows.documents
        found = as_run(rank_documents(scorer, documents, data.document_ids, depth), data.document_ids, query_ids)
        del reader, scorer  # its files are mapped
        shutil.rmtree(self._store)
        return found

    def _embed(self, windows: PassageWindows | None, moment: str) -> None:
        data, tower, length = self.data, self._model.document, self._options["passage_length"]
        rows, pack = len(data.document_ids), lambda wanted: data.pack_candidates(wanted, length)
        if windows is not None:
            rows, pack = len(windows), windows.pack

        def make(owner: bool) -> list[Job]:
            if owner:  # what a search that was killed has left is perhaps not of these weights
                shutil.rmtree(self._store, ignore_errors=True)
            shards = Shards(shard_rows(rows, 4 * tower.width), owner)
            writer = EmbeddingWriter(self._store, "corpus", rows, tower.width, moment, shards)
            return [Job("corpus", tower, lambda batch: [tower(batch)], pack, rows, [writer])]

        run_jobs(make, self._device, self.processes)
