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
from pathlib import Path
from typing import Any

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.finetuning.fine_tuning import Beside, FineTuning, Trainable
from pretrieve.finetuning.groups import Group, Groups
from pretrieve.finetuning.model_search import PresentSearch
from pretrieve.finetuning.ranking import RankingObjective
from pretrieve.finetuning.train_curve import with_curve
from pretrieve.finetuning.train_maxp import MaxPRanking
from pretrieve.finetuning.train_ranking import ranking_parts
from pretrieve.retrieval.negatives import Negatives, mine, read_negatives, write_negatives
from pretrieve.retrieval.trec_run import Run


class FreshGroups:
    """The groups of every step, whose negatives are found again every ``refresh`` steps with the weights of that
    moment; and the files of all refreshes of a run.

    search: by the model in training; its folder also gets the files of all refreshes. rows: (n,) of the task's training queries.
    options: of the recipe: refresh; pool (documents searched for); sample (drawn of them); without_answers (False
    unless given); and those of groups. seed: of the draw. key: names the run (that of its checkpoints): a file of
    another run is never used. given: the groups until the first refresh; None: the first is before step 0.

    Groups are a function of the step and of the weights at the last refresh: they must be asked for in the order of the
    steps, and at the step of a refresh with the weights of that moment; the loop does so (:meth:`known_until`).
    """

    def __init__(
        self,
        search: PresentSearch,
        rows: np.ndarray,
        options: Mapping[str, Any],
        seed: int,
        key: str,
        given: Groups | None,
    ) -> None:
        self.rows, self.refresh, self.sample = np.asarray(rows), options["refresh"], options["sample"]
        self._present, self._data, self._options, self.seed, self._key = search, search.data, options, seed, key
        self._given = self._groups = given
        #: The step of the refresh whose lists are in use; -1: none yet.
        self._refreshed = -1

    def known_until(self, step: int) -> int:
        """The last step before the next refresh."""
        return step - step % self.refresh + self.refresh - 1

    def at(self, step: int, batch: int) -> Group:
        """The groups of a step of ``batch`` examples; at the first step of a period the lists are found first."""
        due = step - step % self.refresh
        if due == 0 and self._given is not None:
            self._groups, self._refreshed = self._given, -1
        elif due != self._refreshed:
            # Not the first step of its period: the run continues from a checkpoint, and has done this refresh before.
            negatives = self.find(due) if step == due > self._refreshed else self.read(due)
            options = {**self._options, "pool": self.sample, "pool_from": "first", "sources": "union"}
            self._groups, self._refreshed = Groups(self._data, self.rows, options, [negatives], self.seed), due
        return self._groups.at(step, batch)

    def path(self, step: int) -> Path:
        """The file of the refresh before that step."""
        return self._present.directory / f"step{step}.jsonl.gz"

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

    def keep(self, directory: Path, steps: int) -> list[Path]:
        """Copy the files of a finished run of this many steps to a new folder of the retriever's; returns where they are."""
        files = map(self.path, range(0, steps, self.refresh))
        return self._present.keep(filter(Path.is_file, files), directory)


def prepare(run: FineTuning) -> Trainable:
    """Until the first refresh the given negatives are used, if there are any. The lists of every refresh are kept in
    ``negatives/`` of the retriever's directory; the search for negatives is by the best window too, where there are
    several."""
    parts = ranking_parts(run)
    folder = run.work / "negatives"
    search = PresentSearch(parts.model, parts.data.task, run.options, run.device, folder, run.processes)
    given = parts.data.groups if run.negatives else None
    fresh = FreshGroups(search, parts.data.train, run.options, run.seed, parts.key, given)
    trained = parts.trainable(MaxPRanking if run.options["windows"] > 1 else RankingObjective, fresh)
    kept = Beside(lambda out: fresh.keep(out / "negatives", parts.steps), search.clear)
    return with_curve(parts, trained.leaving(kept))
