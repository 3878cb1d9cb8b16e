"""The jobs behind tables and figures, and which of them need which: the workflow's graph, from its plan alone.

A file under ``results/`` names the job that makes it (:mod:`pretrieve.base.paths`). So the files that a table is made from
lead to their jobs, these to what they read, and so on. A job that several tables need is one job. That this graph is
Snakemake's, a test asks Snakemake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pretrieve.analysis.plan import analyses, models
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.benchmarks.readers import READERS
from pretrieve.raw import hub
from pretrieve.workflow.figure_inputs import figure_inputs
from pretrieve.workflow.job_options import PUBLISHED, from_outside, started_from
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import articles_of, corpus_of, vocabulary_corpus, vocabulary_of, wants_corpus

_SEED = re.compile(r"/seed(\d+)[/.]")
#: Stages that run on a GPU where there is one.
ON_GPU = ("pretrain", "finetune", "retrieve", "predict", "analyse")


@dataclass(frozen=True)
class Job:
    """stage: the rule's name without the data set; subject: an encoder, a family, a source; place: a data set, a corpus, a table;
    sizes: the training-set sizes that it serves."""

    stage: str
    subject: str = ""
    place: str = ""
    seed: int = 0
    sizes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people.

        >>> Job("finetune", "bert.dpr-bm25", "questions", 1, ("full",)).name
        'finetune bert.dpr-bm25 on questions, seed 1'
        """
        about = " on ".join(part for part in (self.subject, self.place) if part)
        return f"{self.stage} {about}" + (f", seed {self.seed}" if self.seed else "")


class Graph:
    """The jobs of a plan; :meth:`needs` of a job are those that it waits for."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self._prefix = plan, f"{plan.root}/"
        self._needs: dict[Job, tuple[Job, ...]] = {}
        self._scored: dict[str, dict[str, tuple[str, ...]]] = {}

    def needs(self, job: Job) -> tuple[Job, ...]:
        """The jobs whose files a job reads."""
        if job not in self._needs:
            made = (self.making(file) for file in self._inputs(job))
            self._needs[job] = tuple(dict.fromkeys(one for one in made if one is not None))
        return self._needs[job]

    def behind(self, targets: Iterable[Job]) -> list[Job]:
        """The targets and all that they need, each once, and after what it needs."""
        found: dict[Job, None] = {}

        def visit(job: Job) -> None:
            if job not in found:
                for one in self.needs(job):
                    visit(one)
                found[job] = None

        for job in targets:
            visit(job)
        return list(found)

    def table(self, name: str) -> Job:
        """The job that writes a table.

        Raises
        ------
        ConfigError
            when there is no such table; it names the nearest.
        """
        if name not in self.plan.cells:
            raise ConfigError(
                f"table {name!r}: no such table; allowed: {', '.join(self.plan.cells)}{nearest(name, self.plan.cells)}"
            )
        return Job("table", "", name)

    def everything(self) -> list[Job]:
        """What plain ``snakemake`` asks for: the configuration's tables and figures, the claims and the report."""
        tables = [self.table(name) for name in self.plan.config["tables"]]
        figures = [Job("figure", "", name) for name in self.plan.config.get("figures", ())]
        return [*tables, *figures, Job("claims"), Job("report")]

    def making(self, file: str) -> Job | None:
        """The job that makes a file; None for a file that is there from the start."""
        if file in self.plan.source_at:
            return Job("fetch", self.plan.source_at[file])
        if file.startswith(f"{hub.HUB}/"):
            return Job("fetch_checkpoint", file.split("/")[2])
        if not file.startswith(self._prefix):
            return None
        kind, *rest = file.removeprefix(self._prefix).split("/")
        if kind in ("tables", "figures"):
            return Job(kind[:-1], "", f"{rest[0]}/{rest[1].partition('.')[0]}")
        if kind == "corpora":
            made = {"tokenizer.json": "vocabulary", "tokens": "token_store"}
            return Job(made.get(rest[1], "corpus"), "", rest[0])
        if kind in ("tasks", "collections"):
            return Job(kind[:-1], "", rest[0])
        if kind == "pairs":
            return Job("pair_statistics", "", rest[0])
        if kind == "overlap":
            return Job("overlap", rest[0], rest[1])
        if kind == "analyses":
            return Job("analyse", rest[0].removesuffix(".csv"))
        seed = int(_SEED.search(file)[1])
        if kind == "encoders":
            return Job("pretrain", rest[0], "", seed)
        return self._of_system(kind, rest[0], rest[1], seed)

    def _of_system(self, kind: str, system: str, dataset: str, seed: int) -> Job:
        if dataset in self.plan.means:
            return Job("mean", system, dataset, seed)
        if system == PUBLISHED:
            return Job("published_negatives", "", dataset)
        if system == "bm25" or system.startswith("bm25."):
            return Job("bm25", "", dataset)
        family = paths.parse_system(system).family
        if kind == "retrievers":
            return Job("finetune", family, dataset, seed, self.plan.trained_sizes[family, dataset])
        stage = "predict" if self.plan.is_examples(dataset) else "retrieve"
        if kind == "negatives" and (family, dataset) not in self.plan.mined:
            stage = "mine"
        return Job(stage, family, dataset, seed, self._scored_sizes(dataset)[family])

    def _scored_sizes(self, dataset: str) -> dict[str, tuple[str, ...]]:
        if dataset not in self._scored:
            groups = self.plan.families(dataset)
            self._scored[dataset] = {family: sizes for sizes, families in groups.items() for family in families}
        return self._scored[dataset]

    def _inputs(self, job: Job) -> Iterator[str]:
        """The files that a job reads, of each other job at least one."""
        return getattr(self, f"_of_{job.stage}", lambda job: iter(()))(job)

    def _of_table(self, job: Job) -> Iterator[str]:
        yield from self.plan.table_inputs(*job.place.split("/"))
        yield from self.plan.table_overlaps(*job.place.split("/"))
        yield from self.plan.table_sources(*job.place.split("/"))

    def _of_figure(self, job: Job) -> Iterator[str]:
        yield from figure_inputs(self.plan, job.place)
        yield from self.plan.figure_sources(*job.place.split("/"))

    def _of_claims(self, job: Job) -> Iterator[str]:
        yield from (*self.plan.table_files(), *self.plan.figure_files())

    def _of_report(self, job: Job) -> Iterator[str]:
        yield from (*self.plan.table_files(), *self.plan.figure_files())

    def _of_corpora(self, name: str, file: str) -> str:
        return f"{paths.corpus_dir(self.plan.root, name)}/{file}"

    def _task(self, dataset: str) -> str:
        return f"{paths.task_dir(self.plan.root, dataset)}/stats.json"

    def _of_corpus(self, job: Job) -> Iterator[str]:
        for part in self.plan.corpus_parts(job.place):
            yield from part.files.values()
        exclude = self.plan.config["corpora"][job.place].get("exclude")
        if exclude:
            yield from ([exclude] if isinstance(exclude, str) else exclude)

    def _of_vocabulary(self, job: Job) -> Iterator[str]:
        yield self._of_corpora(job.place, "articles.parquet")
        if given := vocabulary_of(self.plan.config, job.place).file:
            yield from hub.files_of(given) if given.startswith("hub:") else [self.plan.raw_file(given)]

    def _of_token_store(self, job: Job) -> Iterator[str]:
        yield from (self._of_corpora(job.place, name) for name in ("articles.parquet", "tokenizer.json"))

    def _of_pair_statistics(self, job: Job) -> Iterator[str]:
        yield self._of_corpora(job.place, "tokens/meta.json")

    def _of_overlap(self, job: Job) -> Iterator[str]:
        yield from (self._of_corpora(job.subject, "articles.parquet"), self._task(job.place))

    def _of_collection(self, job: Job) -> Iterator[str]:
        yield from self.plan.dataset_files(job.place).values()

    def _of_published_negatives(self, job: Job) -> Iterator[str]:
        yield from (f"{self.plan.root}/collections/{job.place}/stats.json", self._task(job.place))

    def _of_task(self, job: Job) -> Iterator[str]:
        options = self.plan.config["datasets"][job.place]
        yield self._of_corpora(vocabulary_corpus(self.plan.config, job.place), "tokenizer.json")
        if READERS[options["reader"]].collection:
            yield f"{self.plan.root}/collections/{job.place}/stats.json"
            return
        yield from self.plan.dataset_files(job.place).values()
        if wants_corpus(self.plan.config, job.place):
            yield self._of_corpora(articles_of(self.plan.config, job.place), "articles.parquet")

    def _of_pretrain(self, job: Job) -> Iterator[str]:
        yield self._of_corpora(corpus_of(self.plan.config, job.subject), "tokens/meta.json")
        start = self.plan.config["encoders"][job.subject].get("start")
        if start is not None and from_outside(start):
            yield from hub.files_of(start)
        elif own := started_from(self.plan.config, job.subject):
            yield f"{paths.encoder_dir(self.plan.root, own, job.seed)}/config.json"

    def _encoder(self, job: Job) -> str:
        encoder = job.subject.partition(".")[0]
        return f"{paths.encoder_dir(self.plan.root, encoder, job.seed)}/model.safetensors"

    def _retrievers(self, job: Job, trained_on: str) -> Iterator[str]:
        for size in job.sizes:
            system = f"{job.subject}-{size}"
            yield f"{paths.retriever_dir(self.plan.root, system, trained_on, job.seed)}/pretrieve.json"

    def _embeddings(self, job: Job) -> Iterator[str]:
        for size in job.sizes:
            yield f"{paths.embedding_dir(self.plan.root, f'{job.subject}-{size}', job.place, job.seed)}/corpus.json"

    def _of_finetune(self, job: Job) -> Iterator[str]:
        yield from (self._encoder(job), self._task(job.place))
        for size in job.sizes:
            yield from self.plan.made_of_files(job.subject, job.place, size, job.seed)

    def _of_mine(self, job: Job) -> Iterator[str]:
        yield self._task(job.place)
        yield from self._retrievers(job, job.place)
        yield from self._embeddings(job)

    def _of_retrieve(self, job: Job) -> Iterator[str]:
        yield from self._of_predict(job)
        if self.plan.config["datasets"][job.place].get("rerank"):
            yield paths.run_file(self.plan.root, f"bm25.reqa-{job.sizes[0]}", job.place, 0)

    def _of_predict(self, job: Job) -> Iterator[str]:
        yield self._task(job.place)
        yield from self._retrievers(job, self.plan.trained_on(job.place))

    def _of_bm25(self, job: Job) -> Iterator[str]:
        yield self._task(job.place)

    def _of_mean(self, job: Job) -> Iterator[str]:
        for part in self.plan.means[job.place]:
            yield paths.metrics_file(self.plan.root, job.subject, part, job.seed)

    def _of_analyse(self, job: Job) -> Iterator[str]:
        if job.subject in analyses(self.plan.config):
            looked_at = models(self.plan.config, job.subject, self.plan.root)
            yield self._of_corpora(corpus_of(self.plan.config, looked_at[0].encoder), "tokens/meta.json")
            yield from (f"{model.directory}/pretrieve.json" for model in looked_at)
