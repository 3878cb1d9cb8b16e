"""Your own corpus within the minutes that its user sets: which rows, how many steps and seeds.

A run has rungs, from the fewest rows that give an answer to all of them: BM25, the published encoder as it is and fine-tuned;
then the objectives of ``my_corpus_options`` in their order; the cross-encoder; further seeds. The highest rung that fits is
chosen, rows with :data:`SHORTEST` of the configuration's steps, seeds with all of them, and the remaining time multiplies all
steps by one factor, at most :data:`LONGEST`. Times are estimates at this machine's measured rates, of tasks that are counted.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pretrieve.base import paths
from pretrieve.operations.estimate.jobs import Graph, Job
from pretrieve.operations.estimate.machines import Machines, wall_seconds
from pretrieve.operations.estimate.report import cost_files
from pretrieve.operations.estimate.sizes import Sizes, body_of
from pretrieve.operations.estimate.training import pair_texts, score_pairs
from pretrieve.operations.estimate.work import Work, Workload
from pretrieve.workflow.my_corpus import NAME, SIZE
from pretrieve.workflow.my_corpus_rows import DENSE, rows_of
from pretrieve.workflow.plan import Plan

#: Steps are made shorter by this factor at most, for more rows, and longer by this one.
SHORTEST, LONGEST = 0.6, 8.0
#: Share of the minutes that is planned: estimates are not exact.
PLANNED = 0.95
#: Stages that are finished when a plan is made.
BUILT = ("fetch", "fetch_checkpoint", "corpus", "vocabulary", "token_store", "collection", "task", "bm25")
#: Seconds that are no job's own: two starts of Snakemake; a hybrid's seed, its fusion and weights; table and export.
STARTS, FUSION, ENDING = 8.0, 1.0, 12.0


@dataclass(frozen=True)
class Amount:
    """objectives, seeds: how many of the configuration's; rerank: whether there is a cross-encoder; factor: of all steps."""

    objectives: int
    seeds: int
    rerank: bool
    factor: float = 1.0

    def of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """``my_corpus_options`` reduced to these."""
        made = copy.deepcopy(dict(options))
        made |= {"objectives": options["objectives"][: self.objectives], "seeds": options["seeds"][: self.seeds]}
        made["rerank"] = options["rerank"] if self.rerank else 0
        for part in (*made["budgets"].values(), made["finetuning"], made["reranker"]):
            for key in {"steps", "heads_steps"} & part.keys():
                part[key] = max(1, round(part[key] * self.factor))
            if "heads_steps" in part and "steps" in part:
                part["heads_steps"] = min(part["heads_steps"], part["steps"] - 1)  # the body has to learn too
        return made


@dataclass(frozen=True)
class Forecast:
    """seconds: by the clock; rows: (label, what is trained, seconds of one core or GPU); jobs: file that a job leaves → its
    seconds."""

    seconds: float
    rows: tuple[tuple[str, float], ...] = ()
    jobs: Mapping[str, float] = field(default_factory=dict)


def rungs(options: Mapping[str, Any], objectives: int, rerank: bool) -> list[Amount]:
    """From the least to the most. objectives: that the corpus has something for.

    >>> [(one.objectives, one.seeds, one.rerank) for one in rungs({"seeds": [1, 2]}, 1, True)]
    [(0, 1, False), (1, 1, False), (1, 1, True), (1, 2, True)]
    """
    found = [Amount(number, 1, False) for number in range(objectives + 1)]
    found += [Amount(objectives, 1, True)] if rerank else []
    return found + [Amount(objectives, seeds, rerank) for seeds in range(2, len(options["seeds"]) + 1)]


def choose(ladder: list[Amount], forecast: Callable[[Amount], Forecast], seconds: float) -> tuple[Amount, Forecast]:
    """The highest rung that takes at most ``seconds``, made longer to fill them; the lowest one where none does."""
    ladder = [replace(amount, factor=SHORTEST if amount.seeds == 1 else 1.0) for amount in ladder]
    chosen, found = ladder[0], forecast(ladder[0])
    if found.seconds > seconds:
        return chosen, found
    for amount in ladder[1:]:
        if (expected := forecast(amount)).seconds > seconds:
            break
        chosen, found = amount, expected
    longest = replace(chosen, factor=LONGEST)
    if (expected := forecast(longest)).seconds <= seconds:
        return longest, expected
    low, high = chosen.factor, LONGEST
    for _ in range(6):
        amount = replace(chosen, factor=round((low * high) ** 0.5, 2))
        if (expected := forecast(amount)).seconds <= seconds:
            low, chosen, found = amount.factor, amount, expected
        else:
            high = amount.factor
    return chosen, found


def forecast_of(plan: Plan, machines: Machines) -> Forecast:
    """How long the rest of a run takes, once its data is built."""
    graph, config = Graph(plan), plan.config
    workload = Workload(graph, Sizes(plan, {}, {}, plan.root), *machines.budgets)
    rows, trained_on = rows_of(config), plan.trained_on(NAME)
    targets, of_row, jobs = dict[Job, None](), dict[str, float](), dict[str, float]()
    beside = FUSION * sum(len(row["seeds"]) for row in rows if row["kind"] == "hybrid")
    seconds = lambda job: machines.timing(job.stage, workload.of(job)).seconds
    seen = set[Job]()
    for row in rows:
        systems = [row["system"]] if row["kind"] in DENSE else [row["cross"]] if row["kind"] == "rerank" else []
        for system, seed in ((system, seed) for system in systems for seed in row["seeds"]):
            file = paths.metrics_file(plan.root, system, NAME, seed)
            if row["kind"] == "rerank":
                file = f"{paths.retriever_dir(plan.root, system, trained_on, seed)}/pretrieve.json"
                # A job of its own for each seed: they run at the same time only as far as there are seeds and places.
                at_a_time = min(len(row["seeds"]), machines.gpus or machines.cores)
                beside += (
                    machines.timing("retrieve", _reranking(plan, workload, row, machines.budgets[1])).seconds
                    / at_a_time
                )
            target = graph.making(file)
            new = [job for job in graph.behind([target]) if job.stage not in BUILT and job not in seen]
            seen.update(new)
            targets[target] = None
            of_row[row["label"]] = of_row.get(row["label"], 0.0) + sum(map(seconds, new))
            own = (job for job in new if job.stage in ("pretrain", "finetune", "retrieve"))
            jobs |= {str(cost_files(plan, job, plan.root)[0]): seconds(job) for job in own}
    left = [job for job in graph.behind(targets) if job.stage not in BUILT]
    timings = {job: machines.timing(job.stage, workload.of(job)) for job in left}
    wall = wall_seconds(left, graph, timings, machines.gpus, machines.cores) + beside + STARTS + ENDING
    return Forecast(wall, tuple(of_row.items()), jobs)


def _reranking(plan: Plan, workload: Workload, row: Mapping[str, Any], budget: int) -> Work:
    size = workload.sizes.task(NAME)
    scale, body = plan.scale, body_of(plan, paths.parse_system(row["cross"]).encoder)
    texts = pair_texts(scale, body, size.lengths, size.test[SIZE] * plan.config["my_corpus_options"]["rerank"])
    passes = texts.tokens / budget
    return Work(encode=score_pairs(body, texts), encode_passes=passes, tokens=texts.tokens, runs=1.0)


def said(amount: Amount, found: Forecast, options: Mapping[str, Any]) -> str:
    """One line: rows, seeds and steps."""
    names, made = options["objectives"][: amount.objectives], amount.of(options)
    steps = [f"fine-tuning at most {made['finetuning'].get('steps', '-')} steps"]  # of few pairs its epochs end before
    if names:
        of_budget = {name: made["budgets"][name].get("steps", "-") for name in ("continued", "pairs")}
        steps.append(f"objectives {of_budget['continued']} steps (pairs {of_budget['pairs']})")
    return (
        f"{len(names)} objectives{' (' + ', '.join(names) + ')' if names else ''}, {amount.seeds} "
        f"seed{'s' if amount.seeds > 1 else ''}, {'a' if amount.rerank else 'no'} cross-encoder, {', '.join(steps)}: about "
        f"{found.seconds / 60:.0f} min"
    )
