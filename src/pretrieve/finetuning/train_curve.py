"""Looking at a retriever's training on the way, how well it ranks: figure 6 (a) and (b) of paper ``seed_encoder``.

At ``curve`` evenly spaced steps, and before the first, the whole corpus is searched with the test queries
(:mod:`pretrieve.finetuning.model_search`), and the run is kept: ``steps/{steps done}.trec.gz`` beside the retriever. Runs
are scored like any other, later; nothing is chosen by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.finetuning.fine_tuning import Beside, FineTuning, Trainable
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_ranking import Parts, ranking_parts
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.training.loop import Watcher

#: Hits of a run.
DEPTH = 100


class StepCurve:
    """Looks on beside another watcher, whose calls it passes on.

    search: with what is trained; its folder gets the runs, until the training has ended. rows: of the queries that are
    searched with. options: of the recipe: ``curve``. steps: of the run.
    """

    def __init__(self, search: PresentSearch, rows: np.ndarray, options: Mapping[str, Any], steps: int) -> None:
        self._rows, self._directory, self._present = rows, search.directory, search
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
        run = self._present.run(self._rows, DEPTH, f"step {done}")
        if run is not None:
            write_trec(self._directory / f"{done}.trec.gz", run, "dense")

    def keep(self, directory: Path) -> None:
        """Copy the runs of a finished training to the retriever's directory."""
        self._present.keep(sorted(self._directory.glob("*.trec.gz")), directory)


def prepare(run: FineTuning, objective: type[RankingObjective] = RankingObjective) -> Trainable:
    """As :func:`~pretrieve.finetuning.train_ranking.prepare`, with the runs of ``curve`` steps next to the retriever."""
    parts = ranking_parts(run)
    return with_curve(parts, parts.trainable(objective, parts.data.groups))


def with_curve(parts: Parts, trained: Trainable) -> Trainable:
    """The same training, with such runs if the recipe's option ``curve`` asks for them."""
    run, task = parts.run, parts.data.task
    if not run.options["curve"]:
        return trained
    search = PresentSearch.of(parts.model, task, run, "steps")
    curve = StepCurve(search, task.split(run.size, "test"), run.options, parts.steps)
    curve.beside(parts.watcher)
    return trained.leaving(Beside(lambda out: curve.keep(out / "steps"), search.clear, lambda: curve.look(0)))
