"""Which fine-tunings, which searches, and which seeds are one job.

A job's start (an interpreter, torch, the task's texts) takes as long as a small training. So one job serves all training-set
sizes of a family. Where a scale says ``together: true``, it also serves the families of one encoder that the same tables and
figures ask for; and what only scores families on a data set, all families that the same ones ask for. A job that runs again for
one of its families trains that one only (:mod:`pretrieve.finetuning.finetune`). Scales whose trainings take hours leave it out.

Snakemake takes milliseconds to plan a job. So where the seeds of a run make more than :data:`MOST_JOBS` jobs, ten of them (10
to 19, not 7 to 16) are one: a process runs the commands of a job for one seed after the other, with the same words and files as
alone, and after a kill goes on with the one that it was at. The wildcard ``{seed}`` is then what is in front of the last digit:
a rule for each ten would give Snakemake as many patterns to compile. Standard library only: every call of Snakemake loads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pretrieve.base import paths
from pretrieve.base.program import FOR_SEEDS, SEED, THEN
from pretrieve.finetuning import trainers
from pretrieve.workflow.figure_inputs import cells_of
from pretrieve.workflow.job_options import recipe_options

if TYPE_CHECKING:
    from pretrieve.workflow.plan import Plan

#: Jobs of a run that its seeds make. No run without many seeds comes near it.
MOST_JOBS = 1_500
#: As many data sets whose jobs write the same files share their rules, so that a thousand of them are no thousand rules.
MANY = 50


@dataclass(frozen=True)
class Seeds:
    """The seeds of one rule: each a job, or ten. values: of the wildcard ``{seed}``; only: a seed that stands in its place."""

    values: tuple[str, ...] = ()
    ten: bool = False
    only: str = field(default="", repr=False)

    def alone(self) -> Seeds:
        """A run's one seed, in paths, for Snakemake tries the patterns of every rule that has what is before a file's wildcards
        and behind them. Not for a rule with the seed in its ``shell``: a second seed would change that, and run all again."""
        return replace(self, only=self.values[0]) if len(self.values) == 1 and not self.ten else self

    @property
    def label(self) -> str:
        """The job in names of files."""
        return f"seeds{SEED}0-9" if self.ten else f"seed{self.only or SEED}"

    @property
    def message(self) -> str:
        return "seeds {wildcards.seed}0 to {wildcards.seed}9" if self.ten else f"seed {self.only or '{wildcards.seed}'}"

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
            return [pattern.replace(SEED, self.only or SEED) for pattern in patterns]
        patterns.sort(key=lambda pattern: "/metrics/" not in pattern)
        return [pattern.replace(SEED, f"{SEED}{digit}") for pattern in patterns for digit in range(10)]

    def of(self, wildcards: Any) -> Sequence[str]:
        return [f"{wildcards.seed}{digit}" for digit in range(10)] if self.ten else [self.only or wildcards.seed]

    def in_words(self, wildcards: Any) -> str:
        """What stands for the seed in the words of a command."""
        return SEED if self.ten else self.of(wildcards)[0]

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


@dataclass(frozen=True)
class Places:
    """The data sets of one rule: one, which is in its name, or :data:`MANY`; then it is a wildcard."""

    places: tuple[str, ...]

    @property
    def place(self) -> str:
        """The data set in paths."""
        return self.places[0] if len(self.places) == 1 else "{dataset}"

    @property
    def others(self) -> str:
        """The end of the rule's name."""
        return f"_and_{len(self.places) - 1}_more" if len(self.places) > 1 else ""

    def place_of(self, wildcards: Any) -> str:
        return self.places[0] if len(self.places) == 1 else wildcards.dataset

    def of(self, function: Callable[..., Any], *arguments: Any) -> Callable[[Any], Any]:
        """An input or a parameter of the rule: ``function`` of the data set and ``arguments``."""
        return lambda wildcards: function(self.place_of(wildcards), *arguments)


@dataclass(frozen=True)
class Families(Places):
    """The families of one rule: each a job of its own, or all ``together`` and named in paths, also one alone. follows: what else
    a training's job does: ``""``, ``scored``, or ``mined``, which is scored and negatives."""

    sizes: tuple[str, ...]
    families: tuple[str, ...]
    together: bool = False
    follows: str = ""
    seeds: Seeds = field(default=Seeds())

    @property
    def _named(self) -> bool:
        """Whether paths have the families' names and no wildcard, which a rule of one family does not need."""
        return self.together or len(self.families) == 1

    @property
    def label(self) -> str:
        """The job in names of files; where each of several families has one, the wildcard.

        >>> Families(("nq",), ("full",), ("t5.ade", "t5.sde"), together=True).label
        't5.ade+1'
        """
        first, *others = self.families
        if not self._named:
            return "{family}"
        return f"{first}+{len(others)}" if others else first

    @property
    def message(self) -> str:
        """The job for people, as a rule's ``message``."""
        return f"{self.label} on {self.place}, ".replace("{", "{wildcards.") + self.seeds.message

    @property
    def suffix(self) -> str:
        """The end of the rule's name, where families are together, or data sets."""
        several = "_together" if len(self.families) > 1 else ""
        together = re.sub(r"\W", "_", f"{several}_{self.families[0]}") if self.together else ""
        return together + self.others + self.seeds.suffix

    def files(self, patterns: Iterable[str]) -> list[str]:
        """Paths with ``{family}`` and ``{seed}``, of all families and seeds of a job."""
        families, patterns = self.families if self._named else ("{family}",), list(patterns)
        return self.seeds.files(pattern.replace("{family}", family) for family in families for pattern in patterns)

    def each(self, function: Callable[[Any], Any]) -> Callable[[Any], list[str]]:
        """An input or a parameter of the rule: ``function`` of ``family``, ``dataset`` and ``seed``, for all of a job."""
        return lambda wildcards: self._said(function, wildcards, self.seeds.of(wildcards))

    def _said(self, function: Callable[[Any], Any], wildcards: Any, seeds: Iterable[str]) -> list[str]:
        found: list[str] = []
        for seed in seeds:
            for family in self.families if self._named else (wildcards.family,):
                said = function(SimpleNamespace(family=family, dataset=self.place_of(wildcards), seed=seed))
                found += said if isinstance(said, list) else [said]
        return list(dict.fromkeys(found))

    def commands(self, program: str, words: Callable[[Any], str]) -> Callable[[Any], str]:
        """A parameter: the words of ``program`` for each family of a job, as one process runs them."""

        def of_job(wildcards: Any) -> str:
            calls = self._said(words, wildcards, [self.seeds.in_words(wildcards)])
            again = self.seeds.repeat(program, wildcards.seed) if self.seeds.ten else ""
            return f" {THEN} {program} ".join(calls) + again

        return of_job


def rules_of(
    names: Iterable[str], families_on: Callable[[str], list[Families]], kind_of: Callable[[str], Any]
) -> list[Families]:
    """The rules of all data sets: those with the same families, sizes and kind share theirs."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name in names:
        for one in families_on(name):
            groups.setdefault((kind_of(name), replace(one, places=())), []).append(name)
    return [replace(one, places=some) for (_, one), places in groups.items() for some in _together(places)]


def alike(names: Iterable[str], words_of: Callable[[str], list[str]]) -> list[tuple[tuple[str, ...], Places]]:
    """Words, and data sets that have them, by rule."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(tuple(words_of(name)), []).append(name)
    return [(words, Places(some)) for words, places in groups.items() for some in _together(places)]


def _together(places: list[str]) -> list[tuple[str, ...]]:
    return [tuple(places)] if len(places) >= MANY else [(place,) for place in places]


Trained = tuple[tuple[str, tuple[str, ...]], ...]


@cache
def by_sizes(
    trained: Trained, sizes: tuple[str, ...], left_out: frozenset[str]
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Sizes → the families of :func:`sizes_here` that have these."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for family, some in sizes_here(trained, sizes, left_out).items():
        groups.setdefault(some, []).append(family)
    return {some: tuple(families) for some, families in groups.items()}


@cache
def sizes_here(trained: Trained, sizes: tuple[str, ...], left_out: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Family → those of its trained sizes that a data set has, where there are any; without the recipes ``left_out``."""
    common = {
        family: tuple(size for size in sizes if size in own)
        for family, own in trained
        if family.partition(".")[2] not in left_out
    }
    return {family: some for family, some in common.items() if some}


Joined = dict[tuple[str, str], tuple[str, ...]]


def joined_families(plan: Plan) -> tuple[Joined, Joined]:
    """(family, data set) → the families of one job, where these are several: of one that trains them on it, and of one that
    only scores them on it. What is left out of a run has a job of its own, and so has what another family is made of: no job
    waits for itself."""
    if not plan.scale.get("together"):
        return {}, {}
    trained: dict[tuple[Any, ...], list[str]] = {}
    scored: dict[tuple[Any, ...], list[str]] = {}
    needed = plan.mined | {
        (f"{encoder}.{step}", task)
        for (family, task) in plan.asked_sizes
        for encoder, _, recipe in [family.partition(".")]
        for step in plan.chain(recipe, task)
    }
    for (family, place), pages in _asked_by(plan).items():
        encoder, _, recipe = family.partition(".")
        sizes = plan.scored_sizes[place].get(family)
        if plan.left_out(family) or sizes is None:
            continue
        if plan.trained_on(place) != place:
            scored.setdefault((place, sizes, pages), []).append(family)
        elif (family, place) in plan.scored_at_once - needed:
            code = trainers.modules_of(recipe_options(plan.config, recipe, place))
            trained.setdefault((place, encoder, sizes, pages, code), []).append(family)
    return _by_family(trained), _by_family(scored)


def _by_family(groups: dict[tuple[Any, ...], list[str]]) -> Joined:
    several = {key: families for key, families in groups.items() if len(families) > 1}
    return {(family, key[0]): tuple(families) for key, families in several.items() for family in families}


def _asked_by(plan: Plan) -> dict[tuple[str, str], frozenset[str]]:
    """(family, data set) → the tables and figures that score the family on it, or train it there for another one."""
    found: dict[tuple[str, str], set[str]] = {}
    for name, rows in {**plan.cells, **{name: cells_of(figure) for name, figure in plan.figures.items()}}.items():
        for cell in rows:
            dataset = plan.measurable(cell)
            if dataset is not None and cell["system"] != "statistics":
                family = paths.parse_system(cell["system"]).family
                for place in {*plan.parts(dataset), plan.trained_on(dataset)}:
                    found.setdefault((family, place), set()).add(name)
    return {key: frozenset(found[key]) for key in sorted(found)}
