"""What the rules say of scores: a family (encoder and recipe) on a data set, by search or by prediction.

The same words are used in a rule of their own and, where a data set also trains the family, after its fine-tuning. Loaded by
every call of Snakemake: standard library only.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from pretrieve.base import paths
from pretrieve.base.program import THEN
from pretrieve.workflow.joined_jobs import Families
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.rule_data import DataRules
from pretrieve.workflow.rule_models import RETRIEVER_FILES, STORE_FILES, ModelRules
from pretrieve.workflow.stage_code import stage_code


class ScoreRules:
    """Of a plan. ``{dataset}`` is what is tested on; sizes: training-set sizes of the family, as the job has them."""

    def __init__(self, plan: Plan, data: DataRules, models: ModelRules) -> None:
        self.plan, self.config, self.data, self.models = plan, plan.config, data, models

    def stage(self, dataset: str) -> str:
        """The command that scores: ``retrieve``, or ``predict`` for tasks of examples."""
        return "predict" if self.plan.is_examples(dataset) else "retrieve"

    def code(self, dataset: str) -> str:
        """The code that scores follow from."""
        return stage_code(f"{self.stage(dataset)}.py")

    def retrievers(self, sizes: Sequence[str], wildcards: Any) -> list[str]:
        """Files of the models that are scored."""
        return self._files("retrievers", self.plan.trained_on(wildcards.dataset), sizes, wildcards, *RETRIEVER_FILES)

    def made(self, job: Families) -> list[str]:
        """Files of vectors, runs or predictions, scores, and negatives where they are mined."""
        of_sizes, place, sizes = self.models.of_sizes, job.place, job.sizes
        scores = of_sizes("metrics", place, sizes, ".json")
        if self.plan.is_examples(job.places[0]):
            return [*of_sizes("predictions", place, sizes, ".tsv.gz"), *scores]
        files = [*of_sizes("embeddings", place, sizes, *STORE_FILES), *of_sizes("runs", place, sizes, ".trec.gz")]
        return [*files, *scores, *(of_sizes("negatives", place, sizes, ".jsonl.gz") if job.follows == "mined" else [])]

    def words(self, sizes: Sequence[str], mined: bool, wildcards: Any) -> str:
        """The command line behind the command's name, without log and threads: Snakemake does not record a param that a function
        makes of ``threads``, so a change of these words would run nothing again."""
        dataset = wildcards.dataset
        task = self.plan.trained_on(dataset)
        options = json.dumps(self.models.options_of(task, wildcards), sort_keys=True, separators=(",", ":"))
        models = self._files("retrievers", task, sizes, wildcards)
        lists = {"--outputs": self._files("metrics", dataset, sizes, wildcards, ".json")}
        if self.plan.is_examples(dataset):
            words = ["--task", paths.task_dir(self.plan.root, dataset), "--sizes", *sizes]
            words += ["--metrics", *self.plan.metrics_of(dataset), "--options", options]
            lists |= {
                "--models": models,
                "--predictions": self._files("predictions", dataset, sizes, wildcards, ".tsv.gz"),
            }
        else:
            words = [*shlex.split(self.data.score_arguments(dataset, sizes)), "--options", options]
            words += ["--search", json.dumps(self.plan.scale.get("search", {}), sort_keys=True)]
            words += ["--mining-depth", str(self.config["mining_depth"])]
            # Vectors are made again when this changes, and not for an edit of what searches or scores them.
            words += ["--vectors-code", stage_code("pretrieve.retrieval.embed_task")]
            lists |= {"--retrievers": models, "--stores": self._files("embeddings", dataset, sizes, wildcards)}
            lists |= {"--runs": self._files("runs", dataset, sizes, wildcards, ".trec.gz")}
            lists |= {"--candidates": self.data.candidate_runs(dataset, sizes)}
            lists |= {"--negatives": self._files("negatives", dataset, sizes, wildcards, ".jsonl.gz") if mined else []}
        words += [word for option, files in lists.items() if files for word in (option, *files)]
        return shlex.join(words)

    def training_words(self, sizes: Sequence[str], follows: str, wildcards: Any) -> str:
        """The command line of finetune.py, without log and threads, and of what ``follows`` it (:meth:`Plan.trainings`)."""
        words = self.models.training_words(sizes, wildcards)
        if not follows:
            return words
        return f"{words} {THEN} {self.stage(wildcards.dataset)} {self.words(sizes, follows == 'mined', wildcards)}"

    def _files(self, kind: str, dataset: str, sizes: Sequence[str], wildcards: Any, *ending: str) -> list[str]:
        patterns = self.models.of_sizes(kind, dataset, sizes, *ending)
        return [pattern.format(family=wildcards.family, seed=wildcards.seed) for pattern in patterns]
