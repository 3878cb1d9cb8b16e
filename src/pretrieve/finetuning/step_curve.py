"""How well a retriever ranks while it is being fine-tuned: figure 6 (a) and (b) of paper ``seed_encoder``.

At ``curve`` evenly spaced steps, and before the first, the whole corpus is searched with the test queries, and the run is
kept: ``steps/{steps done}.trec.gz`` beside the retriever. Runs are scored like any other, later; nothing is chosen by them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pretrieve.models.dual_encoder import DualEncoder
from pretrieve.retrieval.embed import embed_rows, encode
from pretrieve.retrieval.embeddings import EmbeddingReader
from pretrieve.retrieval.run import write_trec
from pretrieve.retrieval.search import search
from pretrieve.tasks.dataset import Dataset
from pretrieve.training.device import Device
from pretrieve.training.loop import Watcher

#: Hits of a run.
DEPTH = 100


class StepCurve:
    """Looks on beside another watcher, whose calls it passes on.

    Parameters
    ----------
    rows:
        of the queries that are searched with.
    options:
        of the recipe: ``curve``, query_length, passage_length.
    steps:
        of the run.
    directory:
        of the runs, until the training has ended.
    """

    def __init__(
        self,
        model: DualEncoder,
        data: Dataset,
        rows: np.ndarray,
        options: Mapping[str, Any],
        steps: int,
        device: Device,
        directory: Path,
    ) -> None:
        self._model, self._data, self._rows, self._options = model, data, rows, options
        self._device, self._directory = device, Path(directory)
        self._at = {round(steps * (i + 1) / options["curve"]) - 1 for i in range(options["curve"])}

    def beside(self, watcher: Watcher) -> None:
        """Look on at every step that ``watcher`` sees."""
        own = watcher.after_step

        def both(step: int) -> None:
            own(step)
            if step in self._at:
                self.look(step + 1)

        watcher.after_step = both

    def look(self, done: int) -> None:
        """Write the run of the present weights, after ``done`` steps."""
        data, options = self._data, self._options
        queries = encode(
            self._model.query, lambda rows: data.pack_queries(rows, options["query_length"]), self._rows, self._device
        )
        store = self._directory / "embeddings"
        shutil.rmtree(store, ignore_errors=True)
        embed_rows(
            self._model.document,
            lambda rows: data.pack_candidates(rows, options["passage_length"]),
            len(data.document_ids),
            store,
            "corpus",
            f"step {done}",
            self._device,
        )
        query_ids = [data.query_ids[row] for row in self._rows]
        reader = EmbeddingReader(store, "corpus")
        run = search(reader, queries, data.document_ids, DEPTH, query_ids=query_ids, threads=torch.get_num_threads())
        del reader
        shutil.rmtree(store)
        write_trec(self._directory / f"{done}.trec.gz", run, "dense")

    def keep(self, directory: Path) -> None:
        """Move the runs of a finished training to the retriever's directory."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for file in sorted(self._directory.glob("*.trec.gz")):
            shutil.copyfile(file, directory / file.name)

    def clear(self) -> None:
        """Remove what stands beside the checkpoints."""
        shutil.rmtree(self._directory, ignore_errors=True)
