"""Looking at a retriever's training on the way, how well it ranks: figure 6 (a) and (b) of paper ``seed_encoder``.

At ``curve`` evenly spaced steps, and before the first, the whole corpus is searched with the test queries
(:mod:`pretrieve.finetuning.model_search`), and the run is kept: ``steps/{steps done}.trec.gz`` beside the retriever. Runs
are scored like any other, later; nothing is chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pretrieve.finetuning.fine_tuning import Beside, FineTuning, Trainable
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_ranking import Parts, ranking_parts
from pretrieve.retrieval.trec_run import write_trec
from pretrieve.training.loop import Watcher

#: Hits of a run.
DEPTH = 100


def keep_run(search: PresentSearch, rows: np.ndarray, done: int) -> None:
    """Write the run of query rows (n,) with the present weights, after ``done`` steps, into the folder of ``search``."""
    run = search.run(rows, DEPTH, f"step {done}")
    if run is not None:
        write_trec(search.directory / f"{done}.trec.gz", run, "dense")


def look_on(watcher: Watcher, look: Callable[[int], None], count: int, steps: int) -> None:
    """Beside what ``watcher`` does after each of ``steps``, call ``look(steps done)`` at ``count`` of them, evenly spaced."""
    own, at = watcher.after_step, {round(steps * (i + 1) / count) for i in range(count)}

    def both(step: int) -> None:
        own(step)
        if step + 1 in at:
            look(step + 1)

    watcher.after_step = both


def prepare(run: FineTuning, objective: type[RankingObjective] = RankingObjective) -> Trainable:
    """As :func:`~pretrieve.finetuning.train_ranking.prepare`, with the runs of ``curve`` steps next to the retriever."""
    parts = ranking_parts(run)
    return with_curve(parts, parts.trainable(objective, parts.data.groups))


def with_curve(parts: Parts, trained: Trainable) -> Trainable:
    """The same training, with such runs if the recipe's option ``curve`` asks for them."""
    run, task = parts.run, parts.data.task
    if not run.options["curve"]:
        return trained
    search = PresentSearch(parts.model, task, run.options, run.device, run.work / "steps", run.processes)
    look = partial(keep_run, search, task.split(run.size, "test"))
    look_on(parts.watcher, look, run.options["curve"], parts.steps)
    keep = lambda out: search.keep(sorted(search.directory.glob("*.trec.gz")), out / "steps")
    return trained.leaving(Beside(keep, search.clear, lambda: look(0)))
