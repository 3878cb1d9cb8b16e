"""Whether Snakemake can plan a run with this many seeds: one job takes it 4 to 5 ms and 70 kB (docs/faults.md, "Many seeds")."""

from __future__ import annotations

from dataclasses import replace

from pretrieve.base.errors import ConfigError
from pretrieve.base.sizes import FACTOR, factor
from pretrieve.operations.estimate.jobs import Graph
from pretrieve.workflow.plan import Plan

#: Jobs that are planned in :data:`MINUTES`, with :data:`MEMORY_GB` (benchmarks/plan_time.py).
MOST_JOBS = 20_000
MINUTES, MEMORY_GB = 1.5, 1.6
#: No run of so few seeds comes near it.
FEW_SEEDS = 20


def jobs_of_a_seed(plan: Plan) -> int:
    """Jobs that each further seed adds to what plain ``snakemake`` makes."""
    if plan.config.get("my_corpus"):
        return 3 * len(plan.config["encoders"])  # pre-training, fine-tuning, search
    graph = Graph(replace(plan, config={**plan.config, "seeds": [1]}))
    return sum(job.seed > 0 for job in graph.behind(graph.everything()))


def check_run_size(plan: Plan) -> None:
    """That a run has not more jobs than Snakemake can plan.

    Raises
    ------
    ConfigError
        when its seeds make more than :data:`MOST_JOBS`; it says how many seeds do not.
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
