"""How well a retriever ranks while it is being fine-tuned: figure 6 (a) and (b) of paper ``seed_encoder``.

At ``curve`` evenly spaced steps, and before the first, the whole corpus is searched with the test queries
(:mod:`pretrieve.finetuning.model_search`), and the run is kept: ``steps/{steps done}.trec.gz`` next to the retriever. Runs
are scored like any other, later; nothing is chosen by them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.training.loop import Watcher

#: Hits of a run.
DEPTH = 100


class StepCurve:
    """Wraps another watcher, whose calls it passes on.

    Parameters
    ----------
    search:
        with what is trained; its folder gets the runs, until the training has ended.
    rows:
        of the queries that are searched with.
    options:
        of the recipe: ``curve``.
    steps:
        of the run.
    """

    def __init__(self, search: PresentSearch, rows: np.ndarray, options: Mapping[str, Any], steps: int) -> None:
        self._rows, self._directory, self._present = rows, search.directory, search
        self._at = {round(steps * (i + 1) / options["curve"]) - 1 for i in range(options["curve"])}

    def beside(self, watcher: Watcher) -> None:
        """Also watch every step that ``watcher`` sees."""
        own = watcher.after_step

        def both(step: int) -> None:
            own(step)
            if step in self._at:
                self.look(step + 1)

        watcher.after_step = both

    def look(self, done: int) -> None:
        """Write the run of the present weights, after ``done`` steps."""
        run = self._present.run(self._rows, DEPTH, f"step {done}")
        if run is not None:
            write_trec(self._directory / f"{done}.trec.gz", run, "dense")

    def keep(self, directory: Path) -> None:
        """Move the runs of a finished training to the retriever's directory."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for file in sorted(self._directory.glob("*.trec.gz")):
            shutil.copyfile(file, directory / file.name)

    def clear(self) -> None:
        """Remove the files next to the checkpoints."""
        shutil.rmtree(self._directory, ignore_errors=True)
