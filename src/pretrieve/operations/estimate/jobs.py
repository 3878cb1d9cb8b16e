"""The jobs of tables and figures, and which of them need which: the workflow's graph, from its plan alone.

A file under ``results/`` names the job that makes it (:mod:`pretrieve.base.paths`): files of a table lead to their jobs, these
to what they read, and so on. A test compares this graph with Snakemake's. It also says whether Snakemake can plan a run of many
seeds: one job takes it 4 ms and 60 kB (docs/faults.md, "Many seeds").
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace

from pretrieve.analysis.plan import analyses, models
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError
from pretrieve.base.sizes import FACTOR, factor
from pretrieve.raw import hub
from pretrieve.workflow.figure_inputs import figure_inputs
from pretrieve.workflow.job_options import PUBLISHED, trained_by
from pretrieve.workflow.job_resources import STAGES
from pretrieve.workflow.joined_jobs import MOST_JOBS as MOST_JOINED
from pretrieve.workflow.joined_jobs import Families, Seeds, in_tens
from pretrieve.workflow.my_corpus_recipes import AS_IS, RERANKER
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.rule_data import DataRules
from pretrieve.workflow.rule_models import ModelRules

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
        self._data = DataRules(plan)
        self._models = ModelRules(plan, self._data)
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
        if kind == "documents":  # of one's own corpus: they are converted before any job
            return None
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
        return Job(self._models.scoring(dataset), first, dataset, seed, self.plan.scored_sizes[dataset][family])

    def parts(self, job: Job) -> tuple[Job, ...]:
        """What a job does, one after the other: fine-tunings, each with its scores on the same data set, or scores alone."""
        if job.stage not in ("finetune", "retrieve", "predict"):
            return (job,)
        joined = self.plan.joined(job.subject, job.place, job.stage == "finetune")
        alone = [replace(job, subject=family) for family in joined or (job.subject,)]
        if job.stage != "finetune" or (job.subject, job.place) not in self.plan.scored_at_once:
            return tuple(alone)
        return tuple(part for one in alone for part in (one, replace(one, stage=self._models.scoring(job.place))))

    def _inputs(self, job: Job) -> Iterable[str]:
        """The files that a job reads, of each other job at least one, as its rule says (rules/*.smk)."""
        plan, data, place = self.plan, self._data, job.place
        corpus = paths.corpus_dir(plan.root, place)
        match job.stage:
            case "table":
                name = place.split("/")
                return [*plan.table_inputs(*name), *plan.table_overlaps(*name), *plan.table_sources(*name)]
            case "figure":
                return [*figure_inputs(plan, place), *plan.figure_sources(*place.split("/"))]
            case "claims" | "league" | "report":
                return [*plan.table_files(), *plan.figure_files()]
            case "corpus":
                return [*data.corpus_raw_files(place), *plan.excluded(place)]
            case "vocabulary":
                return [*data.corpus_files(place, "articles"), *plan.given_vocabulary(place)]
            case "token_store":
                return [*data.corpus_files(place, "articles"), f"{corpus}/tokenizer.json"]
            case "pair_statistics":
                return [f"{corpus}/tokens/meta.json"]
            case "overlap":
                return [*data.corpus_files(job.subject, "articles"), *plan.overlapping_files(place)]
            case "collection":
                return data.collection_inputs(place)
            case "published_negatives":
                return [f"{plan.root}/collections/{place}/stats.json", *data.task_files(place)]
            case "task":
                return [data.tokenizer_of(place), *data.task_inputs(place), *data.corpus_of_task(place)]
            case "pretrain":
                return [self._models.store_files(job.subject), *self._models.start_of(job.subject, job.seed)]
            case "finetune" | "mine" | "retrieve" | "predict":
                return self._of_families(job)
            case "bm25":
                return data.task_files(place)
            case "mean":
                return data.metrics_of_parts(job.subject, place, job.seed)
            case "analyse" if job.subject in analyses(plan.config):
                looked_at = models(plan.config, job.subject, plan.root)
                store = self._models.store_files(looked_at[0].encoder)
                return [store, *(f"{model.directory}/pretrieve.json" for model in looked_at)]
        return []

    def _of_families(self, job: Job) -> list[str]:
        data, rules, sizes = self._data, self._models, job.sizes
        every = [SimpleNamespace(family=one.subject, dataset=job.place, seed=job.seed) for one in self.parts(job)]
        task, candidates = data.task_files(job.place), data.candidate_runs(job.place, sizes)
        if job.stage == "finetune":
            made_of = [file for one in every for file in rules.made_of_files(sizes, one)]
            scored = (job.subject, job.place) in self.plan.scored_at_once
            return [rules.encoder_weights(every[0]), *task, *made_of, *(candidates if scored else [])]
        found = [*task, *(file for one in every for file in rules.scored_models(sizes, one))]
        if job.stage != "mine":
            return found + candidates
        stores = (paths.embedding_dir(self.plan.root, f"{job.subject}-{size}", job.place, job.seed) for size in sizes)
        return [*found, *(f"{store}/corpus.json" for store in stores)]


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
        chain = plan.config["recipes"].keys() - {AS_IS, RERANKER}  # those are of rows of their own
        return (1 + 2 * len(chain)) * len(plan.config["encoders"])  # pre-training; fine-tuning and search of each
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
