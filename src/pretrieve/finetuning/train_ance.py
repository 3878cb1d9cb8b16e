"""ANCE: negatives that the model itself ranks high *now*, found again and again while it trains (Xiong et al. 2021).

Negatives of a fixed list become easy: once the model has learnt to rank them low they give no gradient. So before step
n·r (r: ``refresh``) the corpus and the training queries are embedded with the weights of that moment, each query's
first ``pool`` documents are found by exact search (:mod:`pretrieve.finetuning.model_search`), the relevant ones are taken
out, and ``sample`` of the rest are drawn by (seed, step, query): from 200, 20, as SEED-Encoder has it (README,
--topk_training 200 --negative_sample 20; drivers/run_ann_data_gen.py:370-427). The groups of the next r steps are made
of these. A refresh does not change which queries a step has.

In open QA (``without_answers``) the hits that contain an answer are taken out too, before the draw. SEED-Encoder looks at the
first 100 there and keeps all that are left (drivers/run_ann_data_gen_dpr.py:307-324): ``pool`` and ``sample`` are both 100.

SEED-Encoder searches in a second job beside the training, so its negatives are a few thousand steps old when they are used; how
many depends on the machines. Here training waits, and a run is a function of its seed.

Until the first refresh the given negatives are used (those that the start model mined); without any, the first is before step 0.

Every refresh leaves its lists as a file of negatives, ``step{n·r}.jsonl.gz``. A run resumed from a checkpoint reads the one
in use; where a refresh is due at the very step, it is done again from the same weights. Several processes share
the embedding; the first one searches, and all read its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.finetuning.fine_tuning import Beside, FineTuning, Trainable
from pretrieve.finetuning.groups import Groups
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_curve import with_curve
from pretrieve.finetuning.train_maxp import MaxP
from pretrieve.finetuning.train_ranking import ranking_parts
from pretrieve.retrieval.negatives import Negatives, mine, read_negatives, write_negatives
from pretrieve.retrieval.trec_run import Run
from pretrieve.training.objective import MicroBatch


class FreshNegatives:
    """Negatives of the training queries under a model's present weights, and the files of all refreshes of a run.

    Parameters
    ----------
    search:
        with what is trained; its folder also gets the run's files.
    rows:
        (n,) of the task's training queries.
    options:
        of the recipe: pool (documents searched for); sample (drawn of them); without_answers (False unless given).
    seed:
        of the draw.
    key:
        names the run (that of its checkpoints): a file of another run is never used.
    """

    def __init__(
        self,
        search: PresentSearch,
        rows: np.ndarray,
        options: Mapping[str, Any],
        seed: int,
        key: str,
    ) -> None:
        self.rows, self.sample, self.directory = np.asarray(rows), options["sample"], search.directory
        self._present, self._data, self._options, self.seed, self._key = search, search.data, options, seed, key

    def path(self, step: int) -> Path:
        """The file of the refresh before that step."""
        return self.directory / f"step{step}.jsonl.gz"

    def find(self, step: int) -> Negatives:
        """Search with the present weights and write the file of ``step``; every process calls this, and all get the same."""
        run = self._present.run(self.rows, self._options["pool"], f"{self._key}-{step}")
        if run is not None:
            write_negatives(self.path(step), self._mine(run, step))
        self._present.processes.wait()
        return self.read(step)

    def read(self, step: int) -> Negatives:
        """The lists of an earlier refresh of this run.

        Raises DataError when the file is missing, damaged, or of another run.
        """
        negatives = read_negatives(self.path(step))
        found = (negatives.about.get("key"), negatives.about.get("step"))
        if found != (self._key, step):
            raise DataError(
                f"{negatives.path}: made by run {found[0]!r} at step {found[1]!r}, expected {self._key!r} at step {step}; delete "
                "the folder and the checkpoints beside it, and train again."
            )
        return negatives

    def _mine(self, run: Run, step: int) -> Negatives:
        """``sample`` of each query's first documents that are not relevant."""
        data = self._data
        qrels = {
            data.query_ids[row]: {data.document_ids[document]: 1 for document in data.relevant[row]}
            for row in self.rows
        }
        about = {"source": "ance", "step": step, "key": self._key, "sample": self.sample}
        answered = None
        if self._options.get("without_answers"):
            from pretrieve.retrieval.answered import answered_hits  # it needs regex, and other training does not

            answered = answered_hits(run, data.directory)
        negatives = mine(run, qrels, self._options["pool"], about, answered)
        for place, row in enumerate(self.rows.tolist()):
            size = len(negatives.doc_ids[place])
            if size > self.sample:
                drawn = np.random.default_rng([self.seed, 122, step, row]).choice(size, self.sample, replace=False)
                drawn.sort()
                negatives.doc_ids[place] = [negatives.doc_ids[place][hit] for hit in drawn]
                negatives.scores[place] = negatives.scores[place][drawn]
        return negatives

    def keep(self, directory: Path, steps: int, refresh: int) -> list[Path]:
        """Copy the files of a finished run of this many steps to a new folder of the retriever's; returns where they are."""
        files = map(self.path, range(0, steps, refresh))
        return self._present.keep(filter(Path.is_file, files), directory)


class AnceObjective(RankingObjective):
    """A ranking objective whose groups are renewed every ``refresh`` steps, from the lists of ``fresh``.

    The other arguments are those of :class:`~pretrieve.finetuning.ranking.RankingObjective`. groups: of the given negatives,
    until the first refresh; None: the first is before step 0.

    Its micro-batches are a function of the step and of the weights at the last refresh: they must be asked for in the order of
    the steps, and at the step of a refresh with the weights of that moment; the loop does so (:meth:`known_until`).
    """

    def __init__(self, fresh: FreshNegatives, *ranking: Any, **more: Any) -> None:
        super().__init__(*ranking, **more)
        self.refresh, self._given, self._fresh = self.options["refresh"], self.groups, fresh
        #: The step of the refresh whose lists are in use; -1: none yet.
        self.refreshed = -1

    def known_until(self, step: int) -> int:
        """The last step before the next refresh: what comes after it depends on weights that are not there yet."""
        return step - step % self.refresh + self.refresh - 1

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """The groups of a step; at the first step of a period the lists are found first."""
        self._use(step)
        return super().micro_batches(step, parts)

    def _use(self, step: int) -> None:
        due = step - step % self.refresh
        if due == 0 and self._given is not None:
            self.groups, self.refreshed = self._given, -1
        elif due != self.refreshed:
            # Not the first step of its period: the run continues from a checkpoint, and has done this refresh before.
            negatives = self._fresh.find(due) if step == due > self.refreshed else self._fresh.read(due)
            options = {**self.options, "pool": self._fresh.sample, "pool_from": "first", "sources": "union"}
            self.groups = Groups(self._data, self._fresh.rows, options, [negatives], self._fresh.seed)
            self.refreshed = due


class MaxPAnce(MaxP, AnceObjective):
    """ANCE over documents of several windows; the search for negatives is by the best window too."""


def prepare(run: FineTuning) -> Trainable:
    """Until the first refresh the given negatives are used, if there are any. The lists of every refresh are kept in
    ``negatives/`` of the retriever's directory."""
    parts, options = ranking_parts(run), run.options
    search = PresentSearch.of(parts.model, parts.data.task, run, "negatives")
    fresh = FreshNegatives(search, parts.data.train, options, run.seed, parts.key)
    kind = MaxPAnce if options["windows"] > 1 else AnceObjective
    trained = parts.trainable(partial(kind, fresh), parts.data.groups if run.negatives else None)
    kept = Beside(lambda out: fresh.keep(out / "negatives", parts.steps, options["refresh"]), search.clear)
    return with_curve(parts, trained.leaving(kept))
