"""The jobs of tables and figures, and which of them need which: the workflow's graph, from its plan alone.

A file under ``results/`` names the job that makes it (:mod:`pretrieve.base.paths`): files of a table lead to their jobs, these
to what they read, and so on. A test compares this graph with Snakemake's. It also says whether Snakemake can plan a run of many
seeds: one job takes it 4 ms and 60 kB (docs/faults.md, "Many seeds").
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from pretrieve.analysis.plan import analyses, models
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError
from pretrieve.base.sizes import FACTOR, factor
from pretrieve.benchmarks.readers import READERS
from pretrieve.raw import hub
from pretrieve.workflow.figure_inputs import figure_inputs
from pretrieve.workflow.job_options import PUBLISHED, from_outside, started_from
from pretrieve.workflow.job_resources import STAGES
from pretrieve.workflow.joined_jobs import MOST_JOBS as MOST_JOINED
from pretrieve.workflow.joined_jobs import Families, Seeds, in_tens
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import articles_of, corpus_of, vocabulary_corpus, wants_corpus
from pretrieve.workflow.snapshots import trained_by

_SEED = re.compile(r"/seed(\d+)[/.]")
#: Stages that run on a GPU where there is one.
ON_GPU = tuple(stage for stage, needs in STAGES.items() if needs[0].gpus)


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
        """The job that writes a table. Raises ConfigError when there is no such table."""
        return Job("table", "", self.plan.check_table(name))

    def everything(self) -> list[Job]:
        """What plain ``snakemake`` asks for: the configuration's tables and figures, the claims, the league and the report."""
        tables = [self.table(name) for name in self.plan.config["tables"]]
        figures = [Job("figure", "", name) for name in self.plan.config.get("figures", ())]
        return [*tables, *figures, Job("claims"), Job("league"), Job("report")]

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
            return Job("pretrain", trained_by(self.plan.config["encoders"], rest[0]), "", seed)
        return self._of_system(kind, rest[0], rest[1], seed)

    def _of_system(self, kind: str, system: str, dataset: str, seed: int) -> Job:
        if dataset in self.plan.means:
            return Job("mean", system, dataset, seed)
        if system == PUBLISHED:
            return Job("published_negatives", "", dataset)
        if system == "bm25" or system.startswith("bm25."):
            return Job("bm25", "", dataset)
        family = paths.parse_system(system).family
        mined_alone = kind == "negatives" and (family, dataset) not in self.plan.mined
        if kind == "retrievers" or ((family, dataset) in self.plan.scored_at_once and not mined_alone):
            first, *_ = *self.plan.joined(family, dataset, trained=True), family
            return Job("finetune", first, dataset, seed, self.plan.trained_sizes[family, dataset])
        if mined_alone:
            return Job("mine", family, dataset, seed, self.plan.scored_sizes[dataset][family])
        first, *_ = *self.plan.joined(family, dataset, trained=False), family
        return Job(self._scoring(dataset), first, dataset, seed, self.plan.scored_sizes[dataset][family])

    def _scoring(self, dataset: str) -> str:
        return "predict" if self.plan.is_examples(dataset) else "retrieve"

    def parts(self, job: Job) -> tuple[Job, ...]:
        """What a job does, one after the other: fine-tunings, each with its scores on the same data set, or scores alone."""
        if job.stage not in ("finetune", "retrieve", "predict"):
            return (job,)
        joined = self.plan.joined(job.subject, job.place, job.stage == "finetune")
        alone = [replace(job, subject=family) for family in joined or (job.subject,)]
        if job.stage != "finetune" or (job.subject, job.place) not in self.plan.scored_at_once:
            return tuple(alone)
        return tuple(part for one in alone for part in (one, replace(one, stage=self._scoring(job.place))))

    def _inputs(self, job: Job) -> Iterator[str]:
        """The files that a job reads, of each other job at least one."""
        plan, config, root = self.plan, self.plan.config, self.plan.root
        match job.stage:
            case "table":
                name = job.place.split("/")
                yield from (*plan.table_inputs(*name), *plan.table_overlaps(*name), *plan.table_sources(*name))
            case "figure":
                yield from (*figure_inputs(plan, job.place), *plan.figure_sources(*job.place.split("/")))
            case "claims" | "league" | "report":
                yield from (*plan.table_files(), *plan.figure_files())
            case "corpus":
                for part in plan.corpus_parts(job.place):
                    yield from part.files.values()
                yield from plan.excluded(job.place)
            case "vocabulary":
                yield self._of_corpus(job.place, "articles.parquet")
                yield from plan.given_vocabulary(job.place)
            case "token_store":
                yield from (self._of_corpus(job.place, name) for name in ("articles.parquet", "tokenizer.json"))
            case "pair_statistics":
                yield self._of_corpus(job.place, "tokens/meta.json")
            case "overlap":
                yield from (self._of_corpus(job.subject, "articles.parquet"), self._task(job.place))
            case "collection":
                yield from plan.dataset_files(job.place).values()
            case "published_negatives":
                yield from (f"{root}/collections/{job.place}/stats.json", self._task(job.place))
            case "task":
                yield self._of_corpus(vocabulary_corpus(config, job.place), "tokenizer.json")
                if READERS[config["datasets"][job.place]["reader"]].collection:
                    yield f"{root}/collections/{job.place}/stats.json"
                    return
                yield from plan.dataset_files(job.place).values()
                if wants_corpus(config, job.place):
                    yield self._of_corpus(articles_of(config, job.place), "articles.parquet")
            case "pretrain":
                yield self._of_corpus(corpus_of(config, job.subject), "tokens/meta.json")
                start = config["encoders"][job.subject].get("start")
                if start is not None and from_outside(start):
                    yield from hub.files_of(start)
                elif own := started_from(config, job.subject):
                    yield f"{paths.encoder_dir(root, own, job.seed)}/config.json"
            case "finetune":
                encoder = job.subject.partition(".")[0]
                yield from (f"{paths.encoder_dir(root, encoder, job.seed)}/model.safetensors", self._task(job.place))
                parts = self.parts(job)
                for one in parts:
                    for size in job.sizes if one.stage == "finetune" else ():
                        yield from plan.made_of_files(one.subject, job.place, size, job.seed)
                if parts[-1].stage != "finetune":
                    yield from self._candidates(job)
            case "mine":
                yield self._task(job.place)
                yield from self._retrievers(job, job.place)
                for size in job.sizes:
                    yield f"{paths.embedding_dir(root, f'{job.subject}-{size}', job.place, job.seed)}/corpus.json"
            case "retrieve" | "predict":
                yield self._task(job.place)
                for one in self.parts(job):
                    yield from self._retrievers(one, plan.trained_on(job.place))
                yield from self._candidates(job)
            case "bm25":
                yield self._task(job.place)
            case "mean":
                for part in plan.means[job.place]:
                    yield paths.metrics_file(root, job.subject, part, job.seed)
            case "analyse" if job.subject in analyses(config):
                looked_at = models(config, job.subject, root)
                yield self._of_corpus(corpus_of(config, looked_at[0].encoder), "tokens/meta.json")
                yield from (f"{model.directory}/pretrieve.json" for model in looked_at)

    def _retrievers(self, job: Job, trained_on: str) -> Iterator[str]:
        for size in job.sizes:
            place = (f"{job.subject}-{size}", trained_on, job.seed)
            yield f"{paths.retriever_dir(self.plan.root, *place)}/pretrieve.json"

    def _candidates(self, job: Job) -> Iterator[str]:
        if self.plan.config["datasets"][job.place].get("rerank"):
            yield paths.run_file(self.plan.root, f"bm25.reqa-{job.sizes[0]}", job.place, 0)

    def _of_corpus(self, name: str, file: str) -> str:
        return f"{paths.corpus_dir(self.plan.root, name)}/{file}"

    def _task(self, dataset: str) -> str:
        return f"{paths.task_dir(self.plan.root, dataset)}/stats.json"


#: Jobs that are planned in :data:`MINUTES`, with :data:`MEMORY_GB` (benchmarks/plan_time.py).
MOST_JOBS = 20_000
MINUTES, MEMORY_GB = 1.5, 1.6
#: No run of so few seeds comes near it.
FEW_SEEDS = 20


def _of_a_seed(plan: Plan) -> list[Job]:
    graph = Graph(replace(plan, config={**plan.config, "seeds": [1]}))
    return [job for job in graph.behind(graph.everything()) if job.seed > 0]


def jobs_of_a_seed(plan: Plan) -> int:
    """Jobs that each further seed adds to what plain ``snakemake`` makes."""
    if plan.config.get("my_corpus"):
        chain = max(1, len(plan.config["recipes"]) - 2)  # two recipes are of rows of their own
        return (1 + 2 * chain) * len(plan.config["encoders"])  # pre-training; fine-tuning and search of each
    return len(_of_a_seed(plan))


class SeedJobs:
    """Which rules of a run give a job several seeds (:mod:`pretrieve.workflow.joined_jobs`): those of jobs that plain
    ``snakemake`` makes. Others are then left out, and each family has rules of its own: Snakemake compares each file with the
    patterns of all rules whose paths begin alike up to the first wildcard."""

    def __init__(self, plan: Plan) -> None:
        given = plan.config.get("seeds_per_job")
        maybe = given == 10 or (given is None and len(plan.seeds) > FEW_SEEDS)
        jobs = _of_a_seed(plan) if maybe and not plan.config.get("my_corpus") else []
        self._several = bool(jobs) and (given == 10 or len(jobs) * len(plan.seeds) > MOST_JOINED)
        self._asked = [(job.stage, job.subject, job.place) for job in jobs]
        self.groups = in_tens(plan.seeds) if self._several else [Seeds(tuple(map(str, plan.seeds)))]

    def of(self, stages: Collection[str], rules: Iterable[Families]) -> Iterator[Families]:
        """The rules, once for each group of seeds."""
        asked = {(subject, place) for stage, subject, place in self._asked if stage in stages}
        for rule in rules:
            parts = [rule]
            if self._several:
                ours = [one for one in rule.families if any((one, place) in asked for place in rule.places)]
                if not ours:
                    continue
                if not rule.together:
                    parts = [replace(rule, families=(family,), together=True) for family in ours]
            yield from (replace(part, seeds=seeds.alone()) for part in parts for seeds in self.groups)


def check_run_size(plan: Plan) -> None:
    """Raise ConfigError when a run's seeds make more than :data:`MOST_JOBS`; it says how many seeds do not."""
    if len(plan.seeds) <= FEW_SEEDS:
        return
    each, most = jobs_of_a_seed(plan), MOST_JOBS * factor()
    jobs = each * len(plan.seeds)
    if jobs > most:
        raise ConfigError(
            f"config: seeds: {len(plan.seeds):,} seeds make {jobs:,} jobs, {each} each; expected at most {most:,.0f}, which "
            f"Snakemake plans in about {MINUTES * factor():.0f} min and {MEMORY_GB * factor():.1f} GB: run at most "
            f"{max(1, int(most // each)):,} seeds at a time, or one table at a time (tables=[PAPER/TABLE] figures=[]); or, where "
            f"there is time and memory, set {FACTOR}={math.ceil(10 * jobs / MOST_JOBS) / 10}"
        )
