"""How many seeds are one job.

Snakemake takes milliseconds to plan a job, so a run of a thousand seeds would take a minute before it begins. Where the seeds
of a run make more than :data:`MOST_JOBS` jobs, ten of them (10 to 19, not 7 to 16) are one: one process runs the commands of a
job for one seed after the other, with the same words and files as alone, and after a kill goes on with the one that it was at.
The wildcard ``{seed}`` is then what is in front of the last digit: a rule for each ten would give Snakemake as many patterns to
compile. Loaded by every call of Snakemake: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pretrieve.base.program import FOR_SEEDS, SEED

#: Jobs of a run that its seeds make. No run without many seeds comes near it.
MOST_JOBS = 1_500


@dataclass(frozen=True)
class Seeds:
    """The seeds of one rule: each a job, or ten. values: of the wildcard ``{seed}``."""

    values: tuple[str, ...] = ()
    ten: bool = False

    @property
    def label(self) -> str:
        """The job in names of files."""
        return "seeds{seed}0-9" if self.ten else "seed{seed}"

    @property
    def message(self) -> str:
        return "seeds {wildcards.seed}0 to {wildcards.seed}9" if self.ten else "seed {wildcards.seed}"

    @property
    def suffix(self) -> str:
        """The end of the rule's name."""
        return "_ten_seeds" if self.ten else ""

    @property
    def number(self) -> int:
        return 10 if self.ten else 1

    @property
    def option(self) -> str:
        """The seed as an option in the rule's ``shell``."""
        return f" --seed '{{{SEED}}}'" if self.ten else " --seed {wildcards.seed}"

    def repeat(self, program: str, value: str = "{wildcards.seed}") -> str:
        """The end of the command line, before ``--each``; value: of the wildcard, or what stands for it in a rule's ``shell``.

        >>> Seeds(("1",), ten=True).repeat("mean", "1")
        ' --for-seeds mean 10 11 12 13 14 15 16 17 18 19'
        """
        return " ".join(["", FOR_SEEDS, program, *(f"{value}{digit}" for digit in range(10))]) if self.ten else ""

    def files(self, patterns: Iterable[str]) -> list[str]:
        """Paths with ``{seed}``, of all seeds of a job; of ten what tables ask for first, where Snakemake finds it soonest."""
        patterns = list(patterns)
        if not self.ten:
            return patterns
        patterns.sort(key=lambda pattern: "/metrics/" not in pattern)
        return [pattern.replace(SEED, f"{SEED}{digit}") for pattern in patterns for digit in range(10)]

    def of(self, wildcards: Any) -> Sequence[str]:
        return [f"{wildcards.seed}{digit}" for digit in range(10)] if self.ten else [wildcards.seed]

    def in_words(self, wildcards: Any) -> str:
        """What stands for the seed in the words of a command."""
        return SEED if self.ten else wildcards.seed

    def inputs(self, function: Callable[..., list[str]], name: str) -> Callable[[Any], list[str]]:
        """An input of the rule: ``function`` of the wildcard ``name`` and the seed."""
        return lambda wildcards: [
            file for seed in self.of(wildcards) for file in function(getattr(wildcards, name), seed)
        ]

    def words(self, function: Callable[..., str], name: str) -> Callable[[Any], str]:
        """A parameter of the rule: the same as words of a command."""
        return lambda wildcards: function(getattr(wildcards, name), self.in_words(wildcards))


def in_tens(seeds: Iterable[int]) -> list[Seeds]:
    """The seeds of each rule, where ten are one job.

    >>> in_tens([7, *range(20, 31)])
    [Seeds(values=('2',), ten=True), Seeds(values=('7', '30'), ten=False)]
    """
    tens: dict[int, list[int]] = {}
    for seed in seeds:
        tens.setdefault(seed // 10, []).append(seed)
    whole = tuple(str(first) for first, some in tens.items() if first and len(some) == 10)
    alone = tuple(str(seed) for first, some in tens.items() if str(first) not in whole for seed in some)
    return [one for one in (Seeds(whole, ten=True), Seeds(alone)) if one.values]
