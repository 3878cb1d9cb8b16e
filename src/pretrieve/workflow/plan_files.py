"""Which files belong to what the configuration and the tables name: what a retriever is made of, what a table is made from,
and the raw files behind all of it. The half of :class:`pretrieve.workflow.plan.Plan` that knows paths."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

from pretrieve.base import paths
from pretrieve.base.code_folder import given_or_code_file
from pretrieve.base.errors import ConfigError, nearest
from pretrieve.benchmarks.readers import READERS, ships_negatives
from pretrieve.corpora.readers import Part, parts_of
from pretrieve.raw import hub
from pretrieve.references.cases import case_files, is_case
from pretrieve.references.figures import Figure
from pretrieve.workflow import rehearsal as overrides
from pretrieve.workflow.commands import REHEARSAL, command
from pretrieve.workflow.figure_inputs import cells_of
from pretrieve.workflow.job_options import PUBLISHED, lineage, recipe_options
from pretrieve.workflow.scales import (
    articles_of,
    corpus_of,
    raw_files_of,
    used_corpora,
    vocabulary_corpus,
    vocabulary_of,
    wants_corpus,
)


class PlanFiles:
    """Files by name. The names are those of :class:`pretrieve.workflow.plan.Plan`, the one class made from this."""

    config: Mapping[str, Any]
    cells: Mapping[str, list[dict[str, str]]]
    sources: Mapping[str, dict[str, str]]
    figures: Mapping[str, Figure]

    def table_files(self) -> list[str]:
        """CSV of every table that is to be built."""
        return [paths.table_file(self.root, *name.split("/")) for name in self.config["tables"]]

    def figure_files(self) -> list[str]:
        """SVG of every figure that is to be built."""
        return [paths.figure_file(self.root, *name.split("/")) for name in self.config.get("figures", ())]

    def retrievers(self) -> list[str]:
        """Directories of everything that tables, figures and analyses have fine-tuned at this scale, and of what that is made
        from."""
        return [
            paths.retriever_dir(self.root, f"{family}-{size}", task, seed)
            for family, task in self.asked_sizes
            if not self.left_out(family)
            for size in self.trained_sizes[family, task]
            for seed in self.seeds
        ]

    @property
    def page_files(self) -> list[str]:
        """Every file of every table and figure, whether it is to be built or not."""
        pages = [(paths.table_file, name, ("csv", "md", "html", "tex", "manifest.json")) for name in self.all_tables]
        pages += [(paths.figure_file, name, ("svg", "csv", "manifest.json")) for name in self.figures]
        return [file_of(self.root, *name.split("/"), kind) for file_of, name, kinds in pages for kind in kinds]

    def check_table(self, name: str) -> str:
        """The name of a table, PAPER/TABLE. Raises ConfigError when there is none of this name."""
        if name not in self.cells:
            raise ConfigError(
                f"table {name!r}: no such table; allowed: {', '.join(self.cells)}{nearest(name, self.cells)}"
            )
        return name

    def sizes_on_datasets(self) -> list[str]:
        """``SIZE/DATASET`` of every data set and every mean, as they stand in paths of metrics."""
        every = (
            (name, self.config["datasets"][self.parts(name)[0]]) for name in (*self.config["datasets"], *self.means)
        )
        return [f"{size}/{name}" for name, options in every for size in options["sizes"]]

    def refuse_page(self, target: str) -> NoReturn:
        """Raises ConfigError for a target that looks like a file of a table or figure, or like metrics, and is none."""
        if not target.startswith(f"{self.root}/"):
            scale, scales = target.split("/")[1], sorted(self.config["scales"])
            hint = f"no scale {scale!r}; the scales are {', '.join(scales)}{nearest(scale, scales)}"
            if scale.removesuffix(REHEARSAL) in scales:
                hint = f"to make it: {command([target], scale)}"
            raise ConfigError(f"target {target}: this run makes {self.root}/…; {hint}")
        if "/metrics/" in target:
            raise ConfigError(f"target {target}: {self._wrong_in(target)}")
        what, names = ("figure", self.figures) if "/figures/" in target else ("table", self.all_tables)
        raise ConfigError(
            f"target {target}: no such {what}; {self.root}/{what}s/PAPER/{what.upper()} with PAPER/{what.upper()} one of "
            f"{', '.join(names)}{nearest(target, self.page_files)}"
        )

    def _wrong_in(self, target: str) -> str:
        """What this run does not have: of ``results/{scale}/metrics/{system}/{dataset}/seed{seed}.json``."""
        system, dataset, file = target.split("/")[3:]
        encoder, _, rest = system.partition(".")
        recipe, _, size = rest.rpartition("-")
        for what, name, known in (
            ("encoder", encoder, ["bm25", *self.config["encoders"]]),
            ("recipe", recipe, self.config["recipes"]),
            ("data set", dataset, [*self.config["datasets"], *self.means]),
        ):
            if name not in known:
                return f"no {what} {name!r}; expected one of {', '.join(known)}{nearest(name, known)}"
        sizes = self.config["datasets"][self.parts(dataset)[0]]["sizes"]
        if size not in sizes:
            return (
                f"the data set {dataset} has no size {size!r}; expected one of {', '.join(sizes)}{nearest(size, sizes)}"
            )
        if encoder == "bm25":
            return f"no {file}; BM25 has seed0.json alone"
        seeds = ", ".join(map(str, self.seeds))
        return f"no {file}; this run has the seeds {seeds}: for more, --config 'seeds=[{seeds}, …]' after the target"

    def made_of(self, family: str, task: str, size: str, seed: int | str) -> dict[str, Any]:
        """What a retriever is made of besides its encoder, as finetune.py takes it: the directories of its start and of its
        teacher (or None), and negatives, source → file."""
        encoder, _, recipe = family.partition(".")
        options = recipe_options(self.config, recipe, task)

        def directory(name: str) -> str:
            return paths.retriever_dir(self.root, f"{encoder}.{name}-{size}", task, seed)

        negatives = {}
        for source in options.get("negatives", []):
            system, number = source, 0
            if source == PUBLISHED and not ships_negatives(self.config["datasets"][task]):
                raise ConfigError(
                    f"config: recipes.{recipe}.negatives: {PUBLISHED!r}, but the data set {task} ships none; take bm25 or "
                    "mined:RECIPE, or name its file of negatives in datasets."
                )
            if source.startswith("mined:"):
                system, number = f"{encoder}.{source.removeprefix('mined:')}-{size}", seed
            negatives[source] = paths.negatives_file(self.root, system, task, number)
        start, teacher = options.get("start", "encoder"), options.get("teacher", "")
        return {
            "start": None if start == "encoder" else directory(start),
            "teacher": directory(teacher) if teacher else None,
            "negatives": negatives,
        }

    def made_of_files(self, family: str, task: str, size: str, seed: int | str) -> list[str]:
        made = self.made_of(family, task, size, seed)
        places = [made[key] for key in ("start", "teacher") if made[key]]
        return [*made["negatives"].values(), *(f"{place}/pretrieve.json" for place in places)]

    def table_inputs(self, paper: str, table: str) -> list[str]:
        """Metrics and statistics files behind a table; of case studies, the runs and texts too."""
        files: list[str] = []
        cells = self.cells[f"{paper}/{table}"]
        cases = [cell for cell in cells if cell["system"] and is_case(cell["metric"])]
        for cell in cells:
            system, dataset = cell["system"], self.measured(cell)
            if dataset is None:
                continue
            if cell in cases:
                if None not in map(self.measured, cases):  # a case compares two systems
                    systems = {case["system"]: self.seeds_of(case["system"]) for case in cases}
                    files += case_files(self.root, systems, dataset)
            elif system == "statistics":
                kind = "pairs" if dataset in self.config["corpora"] else "tasks"
                files.append(f"{self.root}/{kind}/{dataset}/stats.json")
            else:
                files += [paths.metrics_file(self.root, system, dataset, seed) for seed in self.seeds_of(system)]
        return list(dict.fromkeys(files))

    def overlaps(self) -> dict[str, str]:
        """Data set → the file with what its test texts share with the pre-training corpus, of every data set that has a role
        or is part of a mean that has one; none unless the scale asks for it (``overlap: true``)."""
        if not self.scale.get("overlap"):
            return {}
        parts = (part for name in self.scale["roles"].values() for part in self.parts(name))
        played = dict.fromkeys(part for part in parts if part in self.config["datasets"])
        return {name: paths.overlap_file(self.root, self.scale["corpus"], name) for name in played}

    def overlapping_files(self, dataset: str) -> list[str]:
        """The tables of a task that have its test texts."""
        names = ("texts", "examples", "splits") if self.is_examples(dataset) else ("corpus", "qrels", "splits")
        return [f"{paths.task_dir(self.root, dataset)}/{name}.parquet" for name in names]

    def table_overlaps(self, paper: str, table: str) -> list[str]:
        """Those of the data sets that a table measures scores on."""
        overlaps = self.overlaps()
        scored = (cell for cell in self.cells[f"{paper}/{table}"] if cell["system"] != "statistics")
        parts = (part for name in map(self.measured, scored) if name is not None for part in self.parts(name))
        return sorted({overlaps[part] for part in parts if part in overlaps})

    def table_sources(self, paper: str, table: str) -> list[str]:
        """The raw files behind a table, for its manifest."""
        return self.raw_files(self.cells[f"{paper}/{table}"])

    def figure_sources(self, paper: str, figure: str) -> list[str]:
        """The raw files behind a figure; every encoder comes from the corpus."""
        return self.raw_files(cells_of(self.figures[f"{paper}/{figure}"]), corpus=True)

    def raw_files(self, cells: Iterable[Mapping[str, str]], corpus: bool = False) -> list[str]:
        """The raw files that some cells are measured from, and with ``corpus`` its own in any case."""
        names: set[str] = set()
        corpora = {self.scale["corpus"]} if corpus else set[str]()
        for cell in cells:
            dataset = self.measured(cell)
            if dataset is None:
                continue
            # Every system's vocabulary, and every pair, comes from a corpus.
            corpora |= self.corpora_behind(cell["system"], dataset)
            if cell["system"] != "statistics":
                names.update(self._packed(self.published_start(paths.parse_system(cell["system"]).encoder)))
            tested = [part for part in self.parts(dataset) if part in self.config["datasets"]]
            tasks = {*tested, *map(self.trained_on, tested)}
            for options in (self.config["datasets"][task] for task in tasks):
                names.update({**READERS[options["reader"]].sources, **options.get("files", {})}.values())
        return sorted(map(self.raw_file, names.union(*map(self._corpus_sources, corpora))))

    def corpora_behind(self, system: str, dataset: str) -> set[str]:
        """The corpora behind a cell: those of its data set's vocabulary and texts, and those that its encoder, and every
        encoder that it starts from, are pre-trained on. Of statistics of pairs, the corpus that is counted."""
        if dataset in self.config["corpora"]:
            return {dataset}
        parts = self.parts(dataset)
        names = {vocabulary_corpus(self.config, part) for part in parts}
        names.update(articles_of(self.config, part) for part in parts if wants_corpus(self.config, part))
        if system != "statistics":
            line = lineage(self.config, paths.parse_system(system).encoder)
            names.update(corpus_of(self.config, encoder) for encoder in line)
        return names

    def published_start(self, encoder: str) -> str:
        """The published checkpoint that an encoder starts from, directly or through other encoders; '' for none."""
        starts = ["", *(self.config["encoders"][one].get("start") or "" for one in lineage(self.config, encoder))]
        return starts[-1] if hub.is_published(starts[-1]) else ""

    def _packed(self, start: str) -> list[str]:
        """The sources that a checkpoint of a package consists of; none of another one."""
        return [self.source_at[file] for file in hub.files_of(start)] if start.startswith("package:") else []

    def _corpus_sources(self, name: str) -> list[str]:
        """The raw files of a corpus and of its parts, with a vocabulary that is given as a file: names of sources, or paths."""
        corpus = self.config["corpora"][name]
        given = vocabulary_of(self.config, name).file
        vocabulary = self._packed(given)[-1:] if hub.is_published(given) else [given] if given else []
        parts = (file for part in corpus.get("parts") or () for file in self._corpus_sources(part))
        return [*raw_files_of(corpus).values(), *vocabulary, *parts]

    @cached_property
    def checkpoints(self) -> dict[str, str]:
        """Folder below ``data/hub`` → the published checkpoint (``hub:OWNER/NAME``) that is copied there: every one that an
        encoder starts from or a vocabulary is taken from."""
        named = [entry.get("start", "") for entry in self.config["encoders"].values()]
        named += [vocabulary_of(self.config, corpus).file for corpus in used_corpora(self.config)]
        starts = sorted({start for start in named if start.startswith("hub:")})
        return {hub.place_of(start).rpartition("/")[2]: start for start in starts}

    def corpus_parts(self, name: str) -> list[Part]:
        """The parts of a corpus, with the paths of their files."""
        parts = parts_of(self.config["corpora"], name)
        return [replace(part, files={key: self.raw_file(file) for key, file in part.files.items()}) for part in parts]

    def excluded(self, corpus: str) -> list[str]:
        """The list of titles whose articles a corpus leaves out, or none."""
        file = self.config["corpora"][corpus].get("exclude")
        return [given_or_code_file(file)] if file else []

    def given_vocabulary(self, corpus: str) -> list[str]:
        """The file that stands for the given vocabulary of a corpus, or none: of a checkpoint of the hub, what says that it is
        there."""
        given = vocabulary_of(self.config, corpus).file
        if not given:
            return []
        return hub.vocabulary_files(given) if hub.is_published(given) else [self.raw_file(given)]

    def licences(self, task: str) -> list[str]:
        """Where the texts that a retriever was trained on come from, and their licences."""
        corpora = [self.scale["corpus"], *([articles_of(self.config, task)] if wants_corpus(self.config, task) else [])]
        names = [file for corpus in corpora for file in self._corpus_sources(corpus)]
        names = list(dict.fromkeys([*names, *self.config["datasets"][task].get("files", {}).values()]))
        named = [f"{name}: {self.sources[name]['licence']}" for name in names if name in self.sources]
        return named + [f"{task}: {name}" for name in names if name not in self.sources]

    def dataset_files(self, dataset: str) -> dict[str, str]:
        """Name → path of a data set's files. A collection that asks questions of a corpus gets its tables."""
        options = self.config["datasets"][dataset]
        reader = READERS[options["reader"]]
        directory = paths.corpus_dir(self.root, articles_of(self.config, dataset))
        files = {name: f"{directory}/{name}.parquet" for name in (reader.tables if reader.collection else ())}
        named = {**reader.sources, **options.get("files", {})}
        return files | {name: self.raw_file(value) for name, value in named.items()}

    def raw_file(self, value: str) -> str:
        """A file of the configuration: the name of a source, or a path (of the working directory, or else of the code)."""
        return self.source_file(value) if value in self.sources else given_or_code_file(value)

    @property
    def source_folder(self) -> str:
        return f"{overrides.FOLDER}/sources" if self.config.get("rehearsal") else "data/sources"

    def source_file(self, name: str) -> str:
        return f"{self.source_folder}/{self.sources[name]['file']}"

    @cached_property
    def source_at(self) -> dict[str, str]:
        """Path of a raw file → the source's name."""
        return {self.source_file(name): name for name in self.sources}
