"""Which families are trained on a task, and scored on a data set, with which training-set sizes, and how jobs share rules. A
family is an encoder and a recipe (``ENCODER.RECIPE``). The part of :class:`pretrieve.workflow.plan.Plan` behind
``rules/finetune.smk`` and ``rules/retrieve.smk``."""

from collections.abc import Mapping
from functools import cached_property
from itertools import product
from typing import Any

from pretrieve.analysis.plan import analyses
from pretrieve.base import paths
from pretrieve.benchmarks.readers import READERS
from pretrieve.references.figures import Figure
from pretrieve.workflow.figure_inputs import cell_of, cells_of
from pretrieve.workflow.job_options import chain_of, fits, recipe_kind, recipe_options
from pretrieve.workflow.joined_jobs import Families, Joined, Trained, by_sizes, joined_families, sizes_here


class PlanFamilies:
    """Families by task and data set. The names are those of :class:`pretrieve.workflow.plan.Plan`, the one class made from
    this."""

    config: Mapping[str, Any]
    cells: Mapping[str, list[dict[str, str]]]
    figures: Mapping[str, Figure]

    def chain(self, recipe: str, task: str) -> list[str]:
        """The recipes whose retrievers (of the same encoder) a recipe needs on a task."""
        return chain_of(recipe_options(self.config, recipe, task))

    @cached_property
    def tasks(self) -> list[str]:
        """Data sets that retrievers are trained on."""
        return sorted({self.trained_on(name) for name in self.config["datasets"]})

    @cached_property
    def _scored_cells(self) -> list[tuple[Mapping[str, str], str]]:
        """Cells of all tables and figures that this scale measures, counts apart, and the data set or mean of each."""
        every = (*self.cells.values(), *map(cells_of, self.figures.values()))
        found = ((cell, self.measurable(cell)) for rows in every for cell in rows if cell["system"] != "statistics")
        return [(cell, dataset) for cell, dataset in found if dataset is not None]

    @cached_property
    def asked_sizes(self) -> dict[tuple[str, str], set[str]]:
        """(family, task) → the training-set sizes that tables, figures and analyses ask for, and those of what a retriever is
        made from. All of ``references/`` counts, so that one more table trains nothing again."""
        asked: dict[tuple[str, str], set[str]] = {}

        def ask(encoder: str, recipe: str, task: str, sizes: set[str]) -> None:
            asked.setdefault((f"{encoder}.{recipe}", task), set()).update(sizes)
            for step in self.chain(recipe, task):
                ask(encoder, step, task, sizes)

        for cell, dataset in self._scored_cells:
            system = paths.parse_system(cell["system"])
            if system.encoder != "bm25":
                ask(system.encoder, system.recipe, self.trained_on(dataset), {system.size})
        for entry in analyses(self.config).values():
            if chosen := entry.get("finetuned"):
                for encoder in entry["encoders"]:
                    ask(encoder, chosen["recipe"], self.trained_on(chosen["dataset"]), {chosen["size"]})
        return asked

    @cached_property
    def watched_sizes(self) -> dict[tuple[str, str], set[str]]:
        """(family, task) → the training-set sizes whose scores during training a figure shows. Scoring a step embeds the
        whole corpus, so no other is scored, whatever ``curve`` its recipe has."""
        watched: dict[tuple[str, str], set[str]] = {}
        for figure in self.figures.values():
            for _, series in figure.all_series():
                for measure in series.measures() if series.kind == "steps" else ():
                    dataset = self.measurable(cell_of(figure.paper, measure))
                    if dataset is not None and self.trained_on(dataset) == dataset:
                        system = paths.parse_system(measure.system)
                        watched.setdefault((system.family, dataset), set()).add(system.size)
        return watched

    @cached_property
    def trained_sizes(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """(family, task) → the training-set sizes that one job trains: those that are asked for, and for a family that nothing
        asks for every size of the task that what it is made from has."""
        return {(family, task): sizes for task, pairs in self._trained_on.items() for family, sizes in pairs}

    @cached_property
    def _trained_on(self) -> dict[str, Trained]:
        """Task → the families and sizes of :attr:`trained_sizes`. Tasks that nothing asks for and that are alike share theirs."""
        asked: dict[str, dict[str, set[str]]] = {}
        for (family, task), sizes in self.asked_sizes.items():
            asked.setdefault(task, {})[family] = sizes
        shared: dict[tuple[Any, ...], Trained] = {}
        found = {}
        for task in self.tasks:
            options = self.config["datasets"][task]
            like = (READERS[options["reader"]].kind, *options["sizes"])
            if task in asked:
                found[task] = self._sizes_on(task, asked[task])
            else:
                found[task] = shared[like] = shared.get(like) or self._sizes_on(task, {})
        return found

    def _sizes_on(self, task: str, asked: Mapping[str, set[str]]) -> Trained:
        sizes_of, own = dict(asked), self.config["datasets"][task]["sizes"]
        whole = set(own)
        steps = {name: self._steps(name, task) for name in self.config["recipes"] if fits(self.config, name, task)}
        for encoder, recipe in product(self.config["encoders"], steps):
            if f"{encoder}.{recipe}" not in asked:
                made_from = [asked.get(f"{encoder}.{step}", whole) for step in steps[recipe]]
                sizes_of[f"{encoder}.{recipe}"] = whole.intersection(*made_from) or whole
        return tuple((family, tuple(size for size in own if size in sizes)) for family, sizes in sizes_of.items())

    def _steps(self, recipe: str, task: str) -> list[str]:
        """A recipe's chain to its end."""
        return [name for step in self.chain(recipe, task) for name in (step, *self._steps(step, task))]

    def families(self, dataset: str, scored: bool = True) -> dict[tuple[str, ...], tuple[str, ...]]:
        """Sizes → the families whose retrievers are ``scored`` on a data set with exactly these sizes, or else trained on it.
        A family that shares no size with the data set is skipped; teachers are trained and not scored."""
        return by_sizes(*self._trained_here(dataset, scored))

    def _trained_here(self, dataset: str, scored: bool) -> tuple[Any, ...]:
        pairs = self._trained_on.get(self.trained_on(dataset), ())
        return pairs, tuple(self.config["datasets"][dataset]["sizes"]), self._teachers if scored else frozenset()

    @cached_property
    def _teachers(self) -> frozenset[str]:
        return frozenset(name for name in self.config["recipes"] if recipe_kind(self.config, name) == "cross-encoder")

    @cached_property
    def mined(self) -> set[tuple[str, str]]:
        """(family, task) whose negatives something that is asked for is trained with: they come with the family's search."""
        mined = set()
        for family, task in self.asked_sizes:
            encoder, _, recipe = family.partition(".")
            for source in recipe_options(self.config, recipe, task).get("negatives", []):
                if source.startswith("mined:"):
                    mined.add((f"{encoder}.{source.removeprefix('mined:')}", task))
        return mined

    @cached_property
    def scored_at_once(self) -> set[tuple[str, str]]:
        """(family, task) that one job trains and scores: what a table or a figure measures on the task that it is trained on,
        and what negatives are mined with."""
        measured = {
            (paths.parse_system(cell["system"]).family, part)
            for cell, dataset in self._scored_cells
            if cell["metric"]  # vectors have none
            for part in self.parts(dataset)
            if self.trained_on(part) == part
        }
        return {(family, task) for family, task in measured | self.mined if family in self.scored_sizes.get(task, ())}

    @cached_property
    def _joined(self) -> tuple[Joined, Joined]:
        return joined_families(self)

    def joined(self, family: str, dataset: str, trained: bool) -> tuple[str, ...]:
        """The families that one job trains on a data set, or only scores on it, with this one; () where it is alone."""
        return self._joined[0 if trained else 1].get((family, dataset), ())

    @cached_property
    def _singled_out(self) -> set[str]:
        """The data sets on which not all families of the same sizes have jobs of the same kind."""
        return {place for pairs in (self.scored_at_once, *self._joined) for _, place in pairs}

    def trainings(self, task: str) -> list[Families]:
        """The fine-tunings on a task, by rule."""
        return self._by_rule(task, trained=True)

    def searches(self, dataset: str) -> list[Families]:
        """The families that jobs of their own score on a data set, by rule."""
        return self._by_rule(dataset, trained=False)

    def _by_rule(self, dataset: str, trained: bool) -> list[Families]:
        groups: dict[tuple[Any, ...], list[str]] = {}
        for sizes, families in self.families(dataset, scored=not trained).items():
            if dataset not in self._singled_out:
                groups[sizes, "", ()] = list(families)
                continue
            for family in families:
                follows = self._follows(family, dataset)
                if trained or not follows:
                    groups.setdefault((sizes, follows, self.joined(family, dataset, trained)), []).append(family)
        return [Families((dataset,), key[0], tuple(some), bool(key[2]), key[1]) for key, some in groups.items()]

    def _follows(self, family: str, task: str) -> str:
        if (family, task) not in self.scored_at_once:
            return ""
        return "mined" if (family, task) in self.mined else "scored"

    def minings(self, dataset: str) -> list[Families]:
        """The families that no training of this run uses negatives of, by rule: mined only if they are named."""
        mined = {family for family, task in self.mined if task == dataset}
        groups = {
            sizes: [one for one in families if one not in mined] for sizes, families in self.families(dataset).items()
        }
        return [Families((dataset,), sizes, tuple(families)) for sizes, families in groups.items() if families]

    @cached_property
    def scored_sizes(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Data set → family → the training-set sizes that it is scored with there."""
        return {dataset: sizes_here(*self._trained_here(dataset, scored=True)) for dataset in self.config["datasets"]}

    @cached_property
    def _bm25_rows(self) -> dict[str, list[str]]:
        """Data set → BM25's rows in tables and figures on it, and on means that it is a part of."""
        rows_on: dict[str, list[str]] = {}
        for cell, name in self._scored_cells:
            for dataset in self.parts(name) if cell["system"].startswith("bm25.") else ():
                rows_on.setdefault(dataset, []).append(cell["system"])
        return rows_on

    def bm25_systems(self, dataset: str) -> list[str]:
        """BM25's rows on a data set: those of tables and figures, and of means that it is a part of. Where its hits are ranked
        again, and where none has it, one row for each training-set size."""
        systems, options = list(self._bm25_rows.get(dataset, ())), self.config["datasets"][dataset]
        if options.get("rerank") or not systems:
            systems += [f"bm25.reqa-{size}" for size in options["sizes"]]
        return sorted(dict.fromkeys(systems))
