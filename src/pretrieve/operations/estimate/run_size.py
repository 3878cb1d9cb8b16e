"""Whether Snakemake can plan a run with this many seeds: one job takes it 4 ms and 60 kB (docs/faults.md, "Many seeds")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from pretrieve.base.errors import ConfigError
from pretrieve.base.sizes import FACTOR, factor
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.workflow.joined_jobs import MOST_JOBS as MOST_JOINED
from pretrieve.workflow.joined_jobs import Families, Seeds, in_tens
from pretrieve.workflow.plan import Plan

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
        return 3 * len(plan.config["encoders"])  # pre-training, fine-tuning, search
    return len(_of_a_seed(plan))


class SeedJobs:
    """Which rules of a run give a job several seeds (:mod:`pretrieve.workflow.joined_jobs`): those of jobs that plain
    ``snakemake`` makes. The others, of what is only made when it is named, are then left out: Snakemake compares each file with
    the patterns of all."""

    def __init__(self, plan: Plan) -> None:
        given = plan.config.get("seeds_per_job")
        maybe = given == 10 or (given is None and len(plan.seeds) > FEW_SEEDS)
        jobs = _of_a_seed(plan) if maybe and not plan.config.get("my_corpus") else []
        self._several = bool(jobs) and (given == 10 or len(jobs) * len(plan.seeds) > MOST_JOINED)
        self._asked = [(job.stage, job.subject, job.place) for job in jobs]
        self.groups = in_tens(plan.seeds) if self._several else [Seeds(tuple(map(str, plan.seeds)))]

    def of(self, stages: Collection[str], rules: Iterable[Families]) -> Iterator[Families]:
        """The rules, once for each group of seeds."""
        asked = [(subject, place) for stage, subject, place in self._asked if stage in stages]
        for rule in rules:
            if not self._several or any(family in rule.families and place in rule.places for family, place in asked):
                yield from (replace(rule, seeds=seeds) for seeds in self.groups)


def check_run_size(plan: Plan) -> None:
    """That a run has not more jobs than Snakemake can plan.

    Raises ConfigError when its seeds make more than :data:`MOST_JOBS`; it says how many seeds do not.
    """
    if len(plan.seeds) <= FEW_SEEDS:
        return
    each, most = jobs_of_a_seed(plan), MOST_JOBS * factor()
    jobs = each * len(plan.seeds)
    if jobs > most:
        raise ConfigError(
            f"config: seeds: {len(plan.seeds):,} seeds make {jobs:,} jobs, {each} each; expected at most {most:,.0f}, which "
            f"Snakemake plans in about {MINUTES * factor():.0f} min and {MEMORY_GB * factor():.1f} GB: run at most "
            f"{max(1, int(most // each)):,} seeds at a time, or one table at a time (tables=[PAPER/TABLE] figures=[]); or, where "
            f"there is time and memory, set {FACTOR}={jobs / MOST_JOBS:.1f}"
        )
