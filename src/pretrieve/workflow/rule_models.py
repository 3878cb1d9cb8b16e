"""What the rules say of encoders, of fine-tuned families, and of their scores: what each is made of, its options and its code.

Loaded by every call of Snakemake: standard library only. ``wildcards``: with ``family`` (``ENCODER.RECIPE``), ``dataset`` (that
is trained on, and of scores the tested one) and ``seed``; ``sizes``: training-set sizes of the family, as the job has them.
"""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from pretrieve.base import paths
from pretrieve.base.errors import check_names
from pretrieve.base.program import THEN
from pretrieve.finetuning import trainers
from pretrieve.pretraining import objectives
from pretrieve.raw import hub
from pretrieve.workflow.job_options import (
    encoder_options,
    from_outside,
    lineage,
    recipe_options,
    started_from,
)
from pretrieve.workflow.joined_jobs import Families
from pretrieve.workflow.plan import Plan, as_argument
from pretrieve.workflow.rule_data import DataRules
from pretrieve.workflow.scales import corpus_of
from pretrieve.workflow.stage_code import stage_code

RETRIEVER_FILES = ("model.safetensors", "heads.safetensors", "pretrieve.json")
ENCODER_FILES = ("config.json", *RETRIEVER_FILES)
STORE_FILES = ("corpus.json", "queries.json")


class ModelRules:
    def __init__(self, plan: Plan, data: DataRules) -> None:
        self.plan, self.data, self.config, self.root = plan, data, plan.config, plan.root

    def of_sizes(self, kind: str, dataset: str, sizes: Sequence[str], *names: str) -> list[str]:
        """Paths below ``results/{scale}/KIND`` of ``{family}`` and ``{seed}``, size by size: files in a folder, or files of their
        own (a name that begins with a dot), or without ``names`` the folders."""
        folders = [f"{self.root}/{kind}/{{family}}-{size}/{dataset}/seed{{seed}}" for size in sizes]
        ends = [name if name.startswith(".") else f"/{name}" for name in names]
        return [folder + end for folder in folders for end in ends or [""]]

    def pretraining_options(self, encoder: str) -> dict[str, Any]:
        return encoder_options(self.config, encoder).to_dict()

    def snapshot_files(self, names: Sequence[str], files: Sequence[str]) -> list[str]:
        """The files of an encoder and of its snapshots, with ``{encoder}`` and ``{seed}``; the encoder's first."""
        folders = [
            paths.encoder_dir(self.root, "{encoder}" + end, "{seed}") for end in ("", *(f"-{name}" for name in names))
        ]
        return [f"{folder}/{file}" for folder in folders for file in files]

    def snapshot_argument(self, encoder: str, seed: int | str) -> str:
        """The options of pretrain.py that name the directories of an encoder's snapshots, and their shares of the steps."""
        snapshots = self.config["encoders"][encoder].get("snapshots", {})
        if not snapshots:
            return ""
        places = [shlex.quote(paths.encoder_dir(self.root, f"{encoder}-{name}", seed)) for name in snapshots]
        return " ".join(["--snapshots", *places, "--at", *map(str, snapshots.values())])

    def pretraining_code(self, encoder: str) -> str:
        """The code that trains an encoder: of the objectives, its own only."""
        objective = encoder_options(self.config, encoder).objective
        return stage_code("pretrain.py", *objectives.modules_of(objective))

    def store_of(self, encoder: str) -> str:
        return f"{paths.corpus_dir(self.root, corpus_of(self.config, encoder))}/tokens"

    def store_files(self, encoder: str) -> str:
        return f"{self.store_of(encoder)}/meta.json"

    def outside(self, encoder: str) -> str | None:
        """The start of an encoder that is hub:OWNER/NAME, package:NAME or dir:PATH, or None."""
        start = self.config["encoders"][encoder].get("start", "")
        return start if from_outside(start) else None

    def start_of(self, encoder: str, seed: int | str) -> list[str]:
        """Files of what an encoder starts from; none for a fresh one."""
        if outside := self.outside(encoder):
            return hub.files_of(outside)
        start = started_from(self.config, encoder)
        return [f"{paths.encoder_dir(self.root, start, seed)}/{name}" for name in ENCODER_FILES] if start else []

    def start_argument(self, encoder: str, seed: int | str) -> str:
        """The option of pretrain.py that names the directory of an encoder's start; nothing for a fresh one."""
        outside, own = self.outside(encoder), started_from(self.config, encoder)
        directory = hub.place_of(outside) if outside else paths.encoder_dir(self.root, own, seed) if own else ""
        return f"--start {shlex.quote(directory)}" if directory else ""

    def checkpoints_of(self, encoder: str, seed: int | str) -> str:
        return f"{self.root}/checkpoints/encoders/{encoder}/seed{seed}"

    def base_of(self, family: str) -> str | None:
        """The published encoder that training began with, or None; also for a name that is no family, which has no files."""
        line = lineage(self.config, family.split(".")[0])
        return self.outside(line[-1]) if line else None

    def base_argument(self, family: str) -> str:
        """The option of export.py that names it; nothing where there is none."""
        base = self.base_of(family)
        return f"--base {shlex.quote(f'{base}={hub.place_of(base)}')}" if base else ""

    def base_card(self, family: str) -> list[str]:
        """Its model card where a package has it: training reads no card, and one of the hub is copied with the weights."""
        base = self.base_of(family)
        card = f"{hub.place_of(base)}/README.md" if base else ""
        return [card] if card in self.plan.source_at else []

    def encoder_of(self, wildcards: Any) -> str:
        """Directory of the encoder of ``{family}``, an encoder and a recipe."""
        return paths.encoder_dir(self.root, wildcards.family.split(".")[0], wildcards.seed)

    def encoder_weights(self, wildcards: Any) -> str:
        """Raises ConfigError for a family of an encoder or a recipe that is not there: a rule's pattern may let it pass."""
        for key, name in zip(("encoders", "recipes"), wildcards.family.split(".", 1), strict=True):
            check_names(f"family {wildcards.family}: {key}", [name], self.config[key])
        return f"{self.encoder_of(wildcards)}/model.safetensors"

    def watched_sizes(self, task: str, wildcards: Any) -> list[str]:
        """The training-set sizes of ``{family}`` that a figure shows steps of."""
        return sorted(self.plan.watched_sizes.get((wildcards.family, task), ()))

    def options_of(self, task: str, wildcards: Any) -> dict[str, Any]:
        """Options of the recipe of ``{family}`` on a task; ``curve`` only where a figure shows it."""
        options = recipe_options(self.config, wildcards.family.split(".", 1)[1], task)
        if options.get("curve") and not self.watched_sizes(task, wildcards):
            options["curve"] = 0
        return options

    def family_options(self, wildcards: Any) -> str:
        return as_argument(self.options_of(wildcards.dataset, wildcards))

    def finetuning_code(self, wildcards: Any) -> str:
        """The code that trains ``{family}`` on a task: of the trainers, its own only."""
        return stage_code("finetune.py", *trainers.modules_of(self.options_of(wildcards.dataset, wildcards)))

    def training_words(self, sizes: Sequence[str], follows: str, wildcards: Any) -> str:
        """The command line of finetune.py, without log and threads, and of what ``follows`` it (:meth:`Plan.trainings`)."""
        task = wildcards.dataset
        place = f"{self.root}/checkpoints/retrievers/{wildcards.family}/{task}/seed{wildcards.seed}"
        words = ["--encoder", self.encoder_of(wildcards), "--task", paths.task_dir(self.root, task)]
        words += ["--sizes", *sizes, "--watched", *self.watched_sizes(task, wildcards)]
        words += ["--out", *self._files("retrievers", task, sizes, wildcards)]
        words += ["--seed", str(wildcards.seed), "--checkpoints", place]
        made_of = {size: self.plan.made_of(wildcards.family, task, size, wildcards.seed) for size in sizes}
        said = f"{shlex.join(words)} --options {self.family_options(wildcards)} --made-of {as_argument(made_of)}"
        if not follows:
            return said
        return f"{said} {THEN} {self.scoring(task)} {self.scoring_words(sizes, follows == 'mined', wildcards)}"

    def length_arguments(self, family: str, dataset: str) -> str:
        """Tokens of a query and of a document of a family, as options."""
        options = recipe_options(self.config, family.split(".", 1)[1], dataset)
        return f"--query-length {options['query_length']} --passage-length {options['passage_length']}"

    def made_of_files(self, sizes: Sequence[str], wildcards: Any) -> list[str]:
        family, task, seed = wildcards.family, wildcards.dataset, wildcards.seed
        return list(dict.fromkeys(file for size in sizes for file in self.plan.made_of_files(family, task, size, seed)))

    def scoring(self, dataset: str) -> str:
        """The command that scores: ``retrieve``, or ``predict`` for tasks of examples."""
        return "predict" if self.plan.is_examples(dataset) else "retrieve"

    def scoring_code(self, dataset: str) -> str:
        return stage_code(f"{self.scoring(dataset)}.py")

    def scored_models(self, sizes: Sequence[str], wildcards: Any) -> list[str]:
        return self._files("retrievers", self.plan.trained_on(wildcards.dataset), sizes, wildcards, *RETRIEVER_FILES)

    def scores_of(self, job: Families) -> list[str]:
        """Files of scores."""
        return self.of_sizes("metrics", job.place, job.sizes, ".json")

    def behind_scores(self, job: Families) -> list[str]:
        """Files of negatives where they are mined, and of vectors and runs, or of predictions."""
        of_sizes, place, sizes = self.of_sizes, job.place, job.sizes
        if self.plan.is_examples(job.places[0]):
            return of_sizes("predictions", place, sizes, ".tsv.gz")
        files = [*of_sizes("runs", place, sizes, ".trec.gz"), *of_sizes("embeddings", place, sizes, *STORE_FILES)]
        return [*(of_sizes("negatives", place, sizes, ".jsonl.gz") if job.follows == "mined" else []), *files]

    def scoring_words(self, sizes: Sequence[str], mined: bool, wildcards: Any) -> str:
        """The command line behind the command's name, without log and threads: Snakemake records no param made of ``threads``."""
        dataset = wildcards.dataset
        task = self.plan.trained_on(dataset)
        options = json.dumps(self.options_of(task, wildcards), sort_keys=True, separators=(",", ":"))
        models = self._files("retrievers", task, sizes, wildcards)
        lists = {"--outputs": self._files("metrics", dataset, sizes, wildcards, ".json")}
        if self.plan.is_examples(dataset):
            words = ["--task", paths.task_dir(self.root, dataset), "--sizes", *sizes]
            words += ["--metrics", *self.plan.metrics_of(dataset), "--options", options]
            predictions = self._files("predictions", dataset, sizes, wildcards, ".tsv.gz")
            lists |= {"--models": models, "--predictions": predictions}
        else:
            words = [*shlex.split(self.data.score_arguments(dataset, sizes)), "--options", options]
            words += ["--search", json.dumps(self.plan.scale.get("search", {}), sort_keys=True)]
            words += ["--mining-depth", str(self.config["mining_depth"])]
            words += shlex.split(self.data.answers_argument(dataset)) if mined else []
            # Vectors are made again when this changes, and not for an edit of what searches or scores them.
            words += ["--vectors-code", stage_code("pretrieve.retrieval.embed_task")]
            lists |= {"--retrievers": models, "--stores": self._files("embeddings", dataset, sizes, wildcards)}
            lists |= {"--runs": self._files("runs", dataset, sizes, wildcards, ".trec.gz")}
            lists |= {"--candidates": self.data.candidate_runs(dataset, sizes)}
            lists |= {"--negatives": self._files("negatives", dataset, sizes, wildcards, ".jsonl.gz") if mined else []}
        words += [word for option, files in lists.items() if files for word in (option, *files)]
        return shlex.join(words)

    def mining_words(self, sizes: Sequence[str], wildcards: Any) -> str:
        """The same for ``mine.py``, which makes negatives alone."""
        task = wildcards.dataset
        words = ["--task", paths.task_dir(self.root, task), "--sizes", *sizes]
        words += ["--depth", str(self.config["mining_depth"]), *shlex.split(self.data.answers_argument(task))]
        for option, kind in (("--stores", "embeddings"), ("--retrievers", "retrievers")):
            words += [option, *self._files(kind, task, sizes, wildcards)]
        return f"{shlex.join(words)} --options {self.family_options(wildcards)}"

    def _files(self, kind: str, dataset: str, sizes: Sequence[str], wildcards: Any, *ending: str) -> list[str]:
        patterns = self.of_sizes(kind, dataset, sizes, *ending)
        return [pattern.format(family=wildcards.family, seed=wildcards.seed) for pattern in patterns]
