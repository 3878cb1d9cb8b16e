"""What a job asks for: threads, memory, time and GPUs, as functions of stage, scale and attempt.

A laptop ignores these numbers; a cluster kills a job that exceeds them, and one that asks for too much waits longer. So they
are about twice what was measured, and a job that failed asks for more on its next attempt: half as much memory again, as much
time again. Training then continues from its last checkpoint. No number here changes what is computed, and another one runs
nothing again, for resources are no parameters of a job.

==========  =====================================================================================================
scale       where the numbers come from
==========  =====================================================================================================
demo        peak memory and seconds of every stage, from ``results/demo/benchmarks`` (largest, in float32: pre-training, 978 MB
            and 153 s); +257 MB for the two Snakemakes inside a cluster's job, then rounded up
small       written from the demo's, by the number of tokens and the size of the models; the published run stays below
            (largest: fine-tuning of t5-large, 3.9 GB; longest: ``base``, 1,096 s)
paper       not measured: 8.8 million passages of 768 dimensions are 27 GB, 21 million 65 GB; Wikipedia has 4 · 10⁹ tokens
==========  =====================================================================================================

A scale of another name has the column whose models are nearest in size. The workflow reads this file: standard library only.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pretrieve.base.errors import nearest
from pretrieve.workflow.cluster import Site, site_error

COLUMNS = ("demo", "small", "paper")
#: No job asks for less: the two Snakemakes inside a cluster's job take 257 MB before the program starts.
LEAST_MB = 500
#: How much more memory each further attempt asks for.
MORE_MEMORY = 1.5


class Need(NamedTuple):
    """Of one job: processor threads, MB of memory on a node, minutes, GPUs."""

    threads: int
    mem_mb: int
    minutes: int
    gpus: int = 0


#: Stage → what a job of it needs at the scales of :data:`COLUMNS`. BM25 has Java's heap in it (six tenths).
STAGES: dict[str, tuple[Need, Need, Need]] = {
    "fetch": (Need(1, 1_000, 30), Need(1, 1_000, 120), Need(1, 2_000, 1_440)),
    "corpus": (Need(1, 1_000, 15), Need(1, 4_000, 120), Need(1, 64_000, 1_440)),
    "vocabulary": (Need(1, 1_000, 15), Need(1, 4_000, 60), Need(1, 32_000, 720)),
    "token_store": (Need(1, 1_000, 15), Need(1, 4_000, 120), Need(4, 32_000, 1_440)),
    "pair_statistics": (Need(1, 1_000, 15), Need(1, 2_000, 60), Need(1, 16_000, 480)),
    "overlap": (Need(1, 1_000, 15), Need(1, 4_000, 60), Need(1, 32_000, 480)),
    "collection": (Need(1, 1_000, 15), Need(1, 4_000, 60), Need(1, 32_000, 480)),
    "task": (Need(1, 1_000, 15), Need(1, 4_000, 60), Need(4, 32_000, 480)),
    "pretrain": (Need(1, 2_000, 30, 1), Need(1, 6_000, 480, 1), Need(32, 128_000, 2_880, 8)),
    # With the scores that follow in the same job: the minutes of both.
    "finetune": (Need(1, 2_000, 50, 1), Need(1, 6_000, 780, 1), Need(16, 96_000, 2_880, 4)),
    "retrieve": (Need(1, 1_500, 30, 1), Need(1, 4_000, 300, 1), Need(16, 96_000, 1_440, 4)),
    "predict": (Need(1, 1_500, 15, 1), Need(1, 4_000, 120, 1), Need(4, 16_000, 240, 1)),
    "analyse": (Need(1, 2_000, 20, 1), Need(1, 4_000, 120, 1), Need(4, 16_000, 240, 1)),
    "bm25": (Need(1, 2_000, 20), Need(1, 6_000, 120), Need(16, 48_000, 720)),
    "mean": (Need(1, 1_000, 15), Need(1, 1_000, 15), Need(1, 2_000, 15)),
    "mine": (Need(1, 1_500, 15, 1), Need(1, 4_000, 120, 1), Need(16, 96_000, 1_440, 1)),
    "export": (Need(1, 1_500, 15), Need(1, 3_000, 30), Need(1, 8_000, 60)),
    "figure": (Need(1, 1_500, 15), Need(1, 3_000, 60), Need(1, 16_000, 120)),
    "table": (Need(1, 1_000, 15), Need(1, 2_000, 30), Need(1, 4_000, 60)),
    "report": (Need(1, 1_000, 15), Need(1, 2_000, 30), Need(1, 4_000, 60)),
}
#: Stages whose programs share their work among several GPUs, and among several nodes.
SHARED_BY_GPUS = ("pretrain", "finetune", "retrieve")
#: Most GPUs of one node that a job takes.
MOST_GPUS = 8
#: Widths of models up to which a scale of another name counts as demo, and as small.
_WIDTHS = (128, 384)


def column_of(config: Mapping[str, Any]) -> str:
    """Which of :data:`COLUMNS` a configuration takes. A rehearsal has the paper's jobs and the demo's sizes."""
    name = config["scale"]
    if config.get("rehearsal"):
        return "demo"
    if name in COLUMNS:
        return name
    width = config["scales"][name]["body"]["hidden"]
    return next((column for column, most in zip(COLUMNS, _WIDTHS, strict=False) if width <= most), COLUMNS[-1])


@dataclass(frozen=True)
class Asking:
    """What the rules of one stage state. ``resources``: name → a number, a word, or a function of (wildcards, attempt)."""

    threads: int
    resources: Mapping[str, int | str | Callable[..., int]]


class Needs:
    """What every stage asks for at a scale and a place: ``Needs(config, site)["bm25"]``."""

    def __init__(self, config: Mapping[str, Any], site: Site | None = None) -> None:
        self.column, self.site = column_of(config), site or Site()
        _check_stages(self.site)

    def __getitem__(self, stage: str) -> Asking:
        return self.of_seeds(stage, 1)

    def of_seeds(self, stage: str, seeds: int) -> Asking:
        """The same of a job that does a stage for several seeds, one after the other."""
        need, site = STAGES[stage][COLUMNS.index(self.column)], self.site
        gpus, nodes = (site.gpus.get(stage, need.gpus), site.nodes.get(stage, 1)) if need.gpus else (0, 1)
        threads = need.threads if gpus == need.gpus else max(1, need.threads * gpus // need.gpus)
        if gpus and site.cpus_per_gpu:
            threads = site.cpus_per_gpu * gpus

        def mem_mb(wildcards: Any, attempt: int) -> int:
            wanted = math.ceil(need.mem_mb * MORE_MEMORY ** (attempt - 1) / 100) * 100
            return max(LEAST_MB, min(wanted, site.max_mem_mb or wanted))

        def runtime(wildcards: Any, attempt: int) -> int:
            wanted = need.minutes * seeds * attempt
            return min(wanted, site.max_minutes or wanted)

        return Asking(threads, {"mem_mb": mem_mb, "runtime": runtime, **site.resources(gpus, nodes)})


def _check_stages(site: Site) -> None:
    allowed = [name for name, needs in STAGES.items() if needs[0].gpus]
    for key, values in (("gpus", site.gpus), ("nodes", site.nodes)):
        for stage, number in values.items():
            if stage not in allowed:
                raise site_error(
                    f"{key}.{stage}: not a stage that uses a GPU; allowed: {', '.join(allowed)}{nearest(stage, allowed)}"
                )
            if stage not in SHARED_BY_GPUS and number > 1:
                several = ", ".join(SHARED_BY_GPUS)
                raise site_error(
                    f"{key}.{stage}: {number}, but {stage} runs on one GPU; only {several} share their work."
                )
            if key == "gpus" and number > MOST_GPUS:
                fault = f"{number} is more than {MOST_GPUS} GPUs of one node; set nodes.{stage} as well."
                raise site_error(f"gpus.{stage}: {fault}")
