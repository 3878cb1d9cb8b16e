"""Which fine-tunings, and which searches, are one job.

A job's start (an interpreter, torch, the task's texts) takes as long as a small training. So one job serves all training-set
sizes of a family. Where a scale says ``together: true``, it also serves the families of one encoder that the same tables and
figures ask for; and what only scores families on a data set, all families that the same ones ask for. So nothing is trained
that no table has asked for, and a job that runs again for one of its families trains that one only
(:mod:`pretrieve.finetuning.finetune`). Scales whose trainings take hours leave it out: there each family is a job, and they run
side by side. Loaded by every call of Snakemake: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pretrieve.base import paths
from pretrieve.base.program import THEN
from pretrieve.finetuning import trainers
from pretrieve.workflow.figure_inputs import cells_of
from pretrieve.workflow.job_options import recipe_options

if TYPE_CHECKING:
    from pretrieve.workflow.plan import Plan


@dataclass(frozen=True)
class Families:
    """The families of one rule: each a job of its own, or all ``together``. follows: what else a training's job does: ``""``,
    ``scored``, or ``mined``, which is scored and negatives."""

    sizes: tuple[str, ...]
    families: tuple[str, ...]
    together: bool = False
    follows: str = ""

    @property
    def label(self) -> str:
        """The job in names of files; of one family the wildcard.

        >>> Families(("full",), ("t5.ade", "t5.sde"), together=True).label
        't5.ade+1'
        """
        return f"{self.families[0]}+{len(self.families) - 1}" if self.together else "{family}"

    @property
    def suffix(self) -> str:
        """The end of the rule's name, where families are together."""
        return re.sub(r"\W", "_", f"_together_{self.families[0]}") if self.together else ""

    def files(self, patterns: Iterable[str]) -> list[str]:
        """Paths with ``{family}``, of all families of a job."""
        families = self.families if self.together else ("{family}",)
        return [pattern.replace("{family}", family) for family in families for pattern in patterns]

    def each(self, function: Callable[[Any], Any]) -> Callable[[Any], list[str]]:
        """An input or a parameter of the rule: what ``function`` says of ``family`` and ``seed``, of all families of a job."""

        def of_job(wildcards: Any) -> list[str]:
            found: list[str] = []
            for family in self.families if self.together else (wildcards.family,):
                said = function(SimpleNamespace(family=family, seed=wildcards.seed))
                found += said if isinstance(said, list) else [said]
            return list(dict.fromkeys(found))

        return of_job

    def commands(self, program: str, words: Callable[[Any], str]) -> Callable[[Any], str]:
        """A parameter: the words of ``program`` for each family of a job, as one process runs them."""
        calls = self.each(words)
        return lambda wildcards: f" {THEN} {program} ".join(calls(wildcards))


Joined = dict[tuple[str, str], tuple[str, ...]]


def joined_families(plan: Plan) -> tuple[Joined, Joined]:
    """(family, data set) → the families of one job, where these are several: of a job that trains them on it, and of one that
    scores them on it and does not train there. What is left out of a run has a job of its own. So has what another family is made
    of: no job waits for itself."""
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
