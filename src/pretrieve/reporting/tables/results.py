"""Read what a run left under ``results/{scale}``: metrics, statistics and costs, each file once (:class:`ResultFiles`); and what
a retriever was trained on: its examples, and the queries for which no list has a negative."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pretrieve.base import paths
from pretrieve.base.errors import DataError
from pretrieve.evaluation.chance import beyond_chance
from pretrieve.references.cases import case_files, scored_by
from pretrieve.references.tables import STATISTICS, Cell, Table, role_in_words
from pretrieve.tasks.split_table import SplitTable
from pretrieve.workflow.commands import command, make_it

#: Metrics that are better when lower.
LOWER_IS_BETTER = ("contrastive_entropy",)
#: How far a metric may be from the mean of its values per query: files have ten decimals.
ROUNDED = 1e-6
#: Splits whose labels a recipe uses: it learns from the first, and chooses snapshots or epochs by the second.
LABELLED = ("train", "valid")


class Cost(NamedTuple):
    """Wall seconds and GPU hours, added up over stages; ``peak_gb`` of the largest stage (1 GB = 1e9 bytes)."""

    wall_s: float
    gpu_h: float
    peak_gb: float


@dataclass(frozen=True)
class Setting:
    """What a scale makes: which data set plays which role, and which systems exist.

    ``root`` is ``results/{scale}``; ``roles`` maps a role to a data set or a mean, ``parts`` a mean to its data sets;
    ``trained_on`` maps a data set or a mean to the data set its retrievers are fine-tuned on (itself when absent), ``sizes``
    to its training-set sizes and ``metrics`` to what is measured on it (any when absent). ``kinds`` maps a recipe to what it
    trains, and a data set of examples to the kind of recipe that it is for; what is not in it is of retrieval. ``reranked``
    are the data sets on which only BM25's hits are ranked. ``overlaps`` maps a data set to the file with what its test texts
    share with the pre-training corpus, where the scale measures that. ``vocabularies`` has those encoders
    (``encoders.NAME``), data sets and means (``datasets.NAME``) whose vocabulary is not the scale's. ``stand_ins`` are the
    roles that other data than the papers' play, and ``descriptions`` say in words what a data set is. ``bodies`` has encoders
    with their body and number of layers, ``starts`` those that go back to a published checkpoint: its name, and n where they
    have every n-th layer of it (0: all). ``mirror``: whether files came from a mirror. ``only`` has the encoders whose rows
    this run measures (None: all), and ``own_seeds`` is False where this run was given other seeds than the scale has.
    """

    root: str
    scale: str
    seeds: tuple[int, ...]
    roles: Mapping[str, str]
    encoders: frozenset[str]
    recipes: frozenset[str]
    trained_on: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Collection[str]] = field(default_factory=dict)
    metrics: Mapping[str, Collection[str]] = field(default_factory=dict)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    reranked: frozenset[str] = frozenset()
    overlaps: Mapping[str, str] = field(default_factory=dict)
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    stand_ins: frozenset[str] = frozenset()
    descriptions: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    mirror: bool = False
    only: frozenset[str] | None = None
    own_seeds: bool = True

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Setting:
        """From the fields as JSON holds them (``Plan.setting``): lists for tuples and sets."""
        named = [key for key in ("encoders", "recipes", "stand_ins", "only", "reranked") if fields.get(key) is not None]
        sets = {"seeds": tuple(fields["seeds"]), **{key: frozenset(fields[key]) for key in named}}
        return cls(**{**fields, **sets})

    def in_place_of(self, roles: Iterable[str]) -> str:
        """What was measured in place of the papers' data, in words; '' where nothing was.

        >>> more = {"stand_ins": frozenset(["nq-open"]), "descriptions": {"questions": "questions of this project"}}
        >>> setting = Setting("", "demo", (1,), {"nq-open": "questions"}, frozenset(), frozenset(), **more)
        >>> setting.in_place_of(["nq-open", "squad"])
        'questions of this project, in place of Natural Questions open'
        """
        found: dict[str, list[str]] = {}
        for role in dict.fromkeys(roles):
            if role in self.stand_ins and role in self.roles:
                found.setdefault(self.described(self.roles[role]), []).append(role_in_words(role))
        return "; ".join(f"{data}, in place of {' and '.join(played)}" for data, played in found.items())

    def described(self, name: str) -> str:
        """A data set or a published checkpoint in words, or its name."""
        return self.descriptions.get(name, name)

    def starts_of(self, systems: Iterable[str]) -> dict[str, list[str]]:
        """Published checkpoint, in words → the encoders of these systems that go back to it; an encoder with its share of layers.

        >>> more = {"starts": {"bert": ["hub:a/b", 0], "small": ["hub:a/b", 3]}, "descriptions": {"hub:a/b": "a model"}}
        >>> setting = Setting("", "demo", (1,), {}, frozenset(), frozenset(), **more)
        >>> setting.starts_of(["bert.reqa-full", "small.reqa-full", "bm25.reqa-full", "statistics"])
        {'a model': ['bert', 'small (1 of 3 layers)']}
        """
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(paths.parse_system(system).encoder for system in systems if "." in system):
            if name in self.starts:
                start, every = self.starts[name]
                found.setdefault(self.described(start), []).append(name + (f" (1 of {every} layers)" if every else ""))
        return found

    def bodies_in_place(self, systems: Iterable[str]) -> str:
        """What encoders of other depths were made of, in place of the paper's models; '' where nothing was."""
        names = {paths.parse_system(system).encoder for system in systems if "." in system}
        starts = dict.fromkeys(self.starts[name][0] for name in sorted(names & {*self.starts}) if self.starts[name][1])
        return "; ".join(f"layers of {start.rpartition(':')[2]}, in place of the paper's models" for start in starts)

    def body_of(self, system: str) -> str:
        """Body and layers of a system's encoder; '' of BM25, and where nothing is known of any encoder."""
        return self.bodies.get(paths.parse_system(system).encoder, "")

    def why_not_run(self, cell: Cell) -> str:
        """The reason why this scale does not measure ``cell``; empty when it does."""
        if cell.dataset not in self.roles:
            return f"the {self.scale} scale has no data set for the role {cell.dataset}"
        if self.roles[cell.dataset] in self.parts and (cell.is_statistic or not cell.metric or cell.is_case):
            return f"{self.roles[cell.dataset]} is a mean of data sets: it has scores, and no counts, vectors or runs of its own"
        if cell.is_statistic:
            return ""
        system = paths.parse_system(cell.system)
        if system.encoder != "bm25" and system.encoder not in self.encoders:  # BM25 has nothing to pre-train
            return f"encoder {system.encoder} is not configured at the {self.scale} scale"
        if system.recipe not in self.recipes:
            return f"recipe {system.recipe} is not configured at the {self.scale} scale"
        dataset = self.roles[cell.dataset]
        if system.size not in self.sizes.get(dataset, (system.size,)):
            return f"size {system.size} is not configured for the data set {dataset}"
        trained, wanted = (self.kinds.get(name, "ranking") for name in (system.recipe, dataset))
        if trained != wanted:
            return f"recipe {system.recipe} trains for {trained}, the data set {dataset} is for {wanted}"
        usual = f"the vocabulary of the {self.scale} scale"
        words, theirs = (self.vocabularies.get(n, usual) for n in (f"encoders.{system.encoder}", f"datasets.{dataset}"))
        if system.encoder != "bm25" and words != theirs:
            return f"encoder {system.encoder} reads {words}, the data set {dataset} is made with {theirs}"
        metric = scored_by(cell.metric)
        if metric and metric not in self.metrics.get(dataset, (metric,)):  # vectors have no metric
            return f"{metric} is not measured on the data set {dataset}"
        if self.only is not None and self.only.isdisjoint({system.encoder, system.family}):
            partly = any(name.startswith(f"{system.encoder}.") for name in self.only)
            what = system.family if partly else f"encoder {system.encoder}"
            return f"{what} is not among those that this run makes (only)"
        return "a text, not a number: metrics files have none" if cell.is_text and not cell.is_case else ""

    def why_not_measured(self, table: Table, cell: Cell) -> str:
        """The same of a cell of ``table``: a case is a comparison, so its cells need both of the table's systems."""
        cells = [other for other in table.cells if other.is_case] if cell.is_case else []
        return next(filter(None, map(self.why_not_run, [cell, *cells])), "")

    def command(self, *files: str) -> str:
        """The command that makes some of this scale's files, for a checkout as it comes.

        >>> Setting("results/small", "small", (1,), {}, frozenset(), frozenset(), only=frozenset(["bm25"])).command("a.csv")
        "snakemake a.csv --config scale=small 'only=[bm25]'"
        """
        return command(files, self.scale, () if self.own_seeds else self.seeds, self.only, self.mirror)

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        """The seeds of a cell's system: none for statistics and quoted cells; BM25 draws nothing, so it has one run."""
        if not cell.system or cell.is_statistic:
            return ()
        return (0,) if paths.parse_system(cell.system).encoder == "bm25" else self.seeds

    def files_of(self, table: Table, cell: Cell) -> list[str]:
        """The files ``cell`` is measured from: metrics, one for each seed, or one statistics file; [] if not run. Of a case
        study, all that the table is made from."""
        if not cell.system or self.why_not_measured(table, cell):
            return []
        dataset = self.roles[cell.dataset]
        if cell.is_case:
            return case_files(self.root, self.case_seeds(table), dataset)
        if cell.is_statistic:
            return [f"{self.root}/{table.statistics}/{dataset}/stats.json"]
        return [paths.metrics_file(self.root, cell.system, dataset, seed) for seed in self.seeds_of(cell)]

    def case_seeds(self, table: Table) -> dict[str, tuple[int, ...]]:
        """The two systems of a table of case studies → their seeds, the one that wins first."""
        cells = {cell.system: cell for cell in table.cells if cell.is_case}
        return {system: self.seeds_of(cells[system]) for system in table.case_systems}

    def cost_files_of(self, cell: Cell, seed: int) -> list[str]:
        """The cost files of the stages behind one run of a cell's system, on a mean of those of all its data sets, each once; []
        for a cell that is not run."""
        if self.why_not_run(cell):
            return []
        dataset, files = self.roles[cell.dataset], []
        trained_on, examples = self.trained_on.get(dataset, dataset), dataset in self.kinds
        for part in self.parts.get(dataset, (dataset,)):
            files += paths.cost_files(self.root, cell.system, part, trained_on, seed, examples).values()
            if part in self.reranked:  # BM25's first pass, which is the whole cost of BM25's own row
                first = f"bm25.reqa-{paths.parse_system(cell.system).size}"
                files.append(paths.cost_beside(paths.run_file(self.root, first, part, 0)))
        return list(dict.fromkeys(files))


class ResultFiles:
    """Reads result files and keeps what it read, for tables share files between cells."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, Any]] = {}

    def read(self, path: str) -> dict[str, Any]:
        """A JSON object. Raises DataError when the file is missing, damaged or something else."""
        if path not in self._read:
            try:
                value = json.loads(Path(path).read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise DataError(f"{path}: no such file. {make_it(path)}") from None
            except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
                raise DataError(f"{path}: not readable as JSON: {error}. Delete it and run snakemake again.") from None
            if not isinstance(value, dict):
                raise DataError(f"{path}: a JSON {type(value).__name__}; expected an object. Delete it and run again.")
            self._read[path] = value
        return self._read[path]

    def number(self, path: str, *keys: str) -> float:
        """The finite number under nested ``keys``. Raises DataError naming file, key, what is there and expected."""
        value: Any = self.read(path)
        for depth, key in enumerate(keys):
            if not isinstance(value, dict) or key not in value:
                above = f"under {'.'.join(keys[:depth])} " if depth else ""
                found = f"keys {', '.join(sorted(value))}" if isinstance(value, dict) else f"the value {value!r}"
                raise DataError(
                    f"{path}: key {'.'.join(keys)} is missing; {above}there is {found}. Run its stage again."
                )
            value = value[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise DataError(f"{path}: key {'.'.join(keys)} is {value!r}; expected a number. Run its stage again.")
        return value

    def per_query(self, path: str, metric: str) -> dict[str, float] | None:
        """Query id → value 0..1, or None when the file keeps no values per query for this metric.

        Raises DataError when the metric is not their mean: one of the two is of another run.
        """
        values = self._part(path, "per_query").get(metric)
        if values is None:
            return None
        number = self.number(path, "metrics", metric)
        try:
            mean = fmean(values.values())
        except (AttributeError, TypeError, ValueError):  # no object, no numbers, nothing
            mean = math.nan
        if not abs(mean - number) <= ROUNDED:
            raise DataError(
                f"{path}: key metrics.{metric} is {number:.10g}, and the mean of its values per query {mean:.10g}; expected "
                "the same number. Delete the file and run snakemake again."
            )
        return values

    def _part(self, path: str, key: str) -> dict[str, Any]:
        """An object of the file, empty where it has none. Raises DataError when it is something else."""
        part = self.read(path).get(key, {})
        if not isinstance(part, dict):
            raise DataError(
                f"{path}: key {key} is {part!r}; expected an object. Delete the file and run snakemake again."
            )
        return part

    def by_query(self, paths: Sequence[str], metric: str) -> dict[str, list[float]] | None:
        """Query id → its value with each seed, a file for each; None when a file keeps no values per query for this metric.

        Raises DataError when seeds have different queries.
        """
        seeds = [self.per_query(path, metric) for path in paths]
        if not seeds or None in seeds:
            return None
        for path, seed in zip(paths, seeds, strict=True):
            if seed.keys() != seeds[0].keys():
                raise DataError(
                    f"{path}: {len(seed)} queries have {metric}, and {len(seeds[0])} in {paths[0]}; expected the same: "
                    f"its queries are not those of {paths[0]}. Evaluate both again."
                )
        return {query: [seed[query] for seed in seeds] for query in seeds[0]}

    def chance(self, path: str, metric: str) -> float | None:
        """What guessing scores, 0..1; None when the file does not say (:mod:`pretrieve.evaluation.chance`)."""
        return self.number(path, "chance", metric) if metric in self._part(path, "chance") else None

    def guessed(self, paths: Sequence[str], metric: str) -> bool:
        """Whether a mean over seeds, a file for each, is known not to be beyond what guessing scores."""
        level = self.chance(paths[0], metric) if paths else None
        if level is None:
            return False
        sign = -1 if metric in LOWER_IS_BETTER else 1
        by_query = self.by_query(paths, metric)
        scores = None if by_query is None else [sign * fmean(values) for values in by_query.values()]
        mean = sign * fmean(self.number(path, "metrics", metric) for path in paths)
        return not beyond_chance(sign * level, mean, scores, round(self.number(paths[0], "n_queries")))

    def stages(self, files: Iterable[str]) -> list[str]:
        """The cost files of some stages and of all that stands behind them, each once. Raises DataError when one is missing."""
        every, waiting = set(), list(files)
        while waiting:
            path = waiting.pop()
            if path not in every:
                every.add(path)
                waiting += self.read(path).get("behind", [])
        return sorted(every)

    def cost(self, files: Iterable[str]) -> Cost:
        """The sum over :meth:`stages`. Raises DataError when a file is missing or lacks a key."""
        every = self.stages(files)
        wall, gpu, peak = ([self.number(path, key) for path in every] for key in Cost._fields)
        return Cost(sum(wall, 0.0), sum(gpu, 0.0), max(peak, default=0.0))


def training_examples(root: str, trained_on: str, system: str) -> int | None:
    """Labelled examples that a system was given, those for validation with them: ``1k`` of a small data set may be a hundred.

    None for what is not trained, and where the splits of the data set that it was trained on are not there.

    Raises DataError when those splits are damaged, or have no such size.
    """
    path = Path(paths.task_dir(root, trained_on)) / "splits.parquet"
    if system in ("", STATISTICS) or system.startswith("bm25.") or not path.is_file():
        return None
    splits = SplitTable(path)
    return sum(len(splits.ids(paths.parse_system(system).size, split)) for split in LABELLED)


def negatives_note(root: str, trained_on: str, system: str, seeds: Iterable[int], files: ResultFiles) -> str:
    """How many training queries had no negative of the recipe's lists, and what became of them; '' for none, and where the
    retrievers of these seeds are not there (:mod:`pretrieve.finetuning.groups`)."""
    places = [Path(paths.retriever_dir(root, system, trained_on, seed)) / "pretrieve.json" for seed in seeds]
    about = [files.read(str(place)) for place in places if place.is_file()]
    keys = ("random_negatives", "left_out_without_negatives")
    random, left = (max((one.get(key, 0) for one in about), default=0) for key in keys)
    if not random + left:
        return ""
    told = ((random, f"{random:,} got random documents"), (left, f"for {left:,} all documents are relevant"))
    became = ", ".join(words for n, words in told if n)
    asked = max(one["training_questions"] for one in about)
    return f"{random + left:,} of {asked:,} training queries without a negative of the lists ({became})"
