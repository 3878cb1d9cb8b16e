"""What the workflow asks about the configuration: tables, cells, data sets, settings. Families are in ``plan_families.py``, files
in ``plan_files.py``. Imported by rules/common.smk, so it must load fast: standard library, yaml and jsonschema only."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.base.code_folder import REFERENCES, code_file
from pretrieve.base.errors import ConfigError, check_names, nearest
from pretrieve.benchmarks.readers import READERS
from pretrieve.corpora.readers import is_path, parts_of
from pretrieve.references.cases import is_case, scored_by
from pretrieve.references.figures import Figure, load_figures
from pretrieve.references.tables import COLUMNS, cell_lines, load_paper, load_table
from pretrieve.workflow import rehearsal as overrides
from pretrieve.workflow.commands import REHEARSAL
from pretrieve.workflow.configuration import check_config
from pretrieve.workflow.figure_inputs import cells_of
from pretrieve.workflow.job_options import EXAMPLE_READERS, fits, recipe_kind, with_snapshots
from pretrieve.workflow.plan_families import PlanFamilies
from pretrieve.workflow.plan_files import PlanFiles
from pretrieve.workflow.scales import (
    at_scale,
    chosen_scale,
    corpus_of,
    datasets_behind,
    is_original,
    means_of,
    raw_files_of,
    reads,
    roles_of,
    vocabulary_corpus,
    vocabulary_of,
)

SOURCES = code_file("resources/sources.tsv")


@dataclass(frozen=True)
class Plan(PlanFamilies, PlanFiles):
    """The checked configuration, and every name and path that follows from it and from ``references/``."""

    config: Mapping[str, Any]
    all_tables: tuple[str, ...]
    cells: Mapping[str, list[dict[str, str]]]
    sources: Mapping[str, dict[str, str]]
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        config: Mapping[str, Any],
        references: Path = REFERENCES,
        sources: Path = SOURCES,
    ) -> Plan:
        """Check the configuration and read the tables' cells, the figures and the list of sources. Tables that are to be built,
        or are in figures that are, are read as a whole.

        Raises ConfigError or DataError in one line, for the first thing that is wrong.
        """
        config = with_snapshots(overrides.rehearsed(at_scale(config)))
        files = sorted(references.glob("*/*.csv"))
        names = {f"{file.parent.name}/{file.stem}": file for file in files}
        check_config(config, names)
        cells = {
            name: [
                dict(zip((*COLUMNS, "paper"), (*fields, file.parent.name), strict=True))
                for _, fields in cell_lines(file)
            ]
            for name, file in names.items()
        }
        entries = {row["name"]: row for row in _read_rows(sources)}
        plan = cls(config, tuple(names), cells, entries, load_figures(sorted(references.glob("*/figure*.yaml"))))
        asked = config.get("figures", ())
        check_names("figures", asked, plan.figures)
        behind = (f"{name.split('/')[0]}/{table}" for name in asked for table in plan.figures[name].published_tables())
        read = cache(load_paper)
        for name in dict.fromkeys([*config["tables"], *behind]):
            load_table(references / name.split("/")[0] / "paper.yaml", references / f"{name}.csv", read)
        for corpus, options in config["corpora"].items():
            parts_of(config["corpora"], corpus)
            for key, file in raw_files_of(options).items():
                if file not in entries and not is_path(file):
                    raise ConfigError(
                        f"config: corpora.{corpus}.{key}: {file!r} is neither a file nor a name in {sources}"
                        f"{nearest(file, entries)}"
                    )
        every = [cell for rows in (*cells.values(), *map(cells_of, plan.figures.values())) for cell in rows]
        roles = {cell["dataset"] for cell in every if cell["dataset"]}
        of_paper = {f"{cell['paper']}/{cell['dataset']}" for cell in every}
        for role in plan.scale["roles"]:
            if role not in roles | of_paper:
                raise ConfigError(
                    f"config: scales.{config['scale']}.roles: {role!r} is not a role of any table or figure; allowed: "
                    f"{', '.join(sorted(roles))}{nearest(role, roles)}"
                )
        return plan

    @property
    def scale(self) -> Mapping[str, Any]:
        return chosen_scale(self.config)

    @property
    def root(self) -> str:
        own = "/my_corpus" if self.config.get("my_corpus") else ""
        return f"results/{self.scale_name}{own}"

    @property
    def scale_name(self) -> str:
        """The scale's name; a rehearsal has a name of its own, for its numbers belong to no scale."""
        return f"{self.config['scale']}{REHEARSAL if self.config.get('rehearsal') else ''}"

    @property
    def seeds(self) -> list[int]:
        return list(self.config["seeds"])

    def family_pattern(self, families: Iterable[str]) -> str:
        """A regular expression that tells these families from all others in front of ``-SIZE/``."""
        return family_pattern(frozenset(families), *(frozenset(self.config[key]) for key in ("encoders", "recipes")))

    def dataset_of(self, role: str, paper: str | None = None) -> str | None:
        """The data set, or mean of data sets, that has a role at this scale in the tables of a paper, or None."""
        if paper not in self._roles:
            self._roles[paper] = roles_of(self.config, paper)
        return self._roles[paper].get(role)

    @cached_property
    def _roles(self) -> dict[str | None, Mapping[str, str]]:
        """Paper, or None → its roles, as they are asked for."""
        return {}

    @property
    def means(self) -> Mapping[str, list[str]]:
        """Mean → its parts: data sets, or other means."""
        return means_of(self.config)

    def parts(self, name: str) -> tuple[str, ...]:
        """The data sets behind what has a role: itself, or those of a mean. They have training data, sizes, metrics and
        vocabulary in common, so that the first stands for all."""
        return datasets_behind(self.config, name)

    def trained_on(self, dataset: str) -> str:
        """The task whose training questions the retrievers of a data set, or of a mean, are fine-tuned on."""
        first = self.parts(dataset)[0]
        return self.config["datasets"][first].get("trained_on", first)

    def seeds_of(self, system: str) -> list[int]:
        """Seeds that a system is run with; BM25 draws nothing and has one run."""
        return [0] if paths.parse_system(system).encoder == "bm25" else self.seeds

    def left_out(self, family: str) -> bool:
        """Whether ``only``, with names of encoders and of families (``ENCODER.RECIPE``), leaves a family out of this run."""
        return {family, family.partition(".")[0]}.isdisjoint(self.config.get("only", (family,)))

    def measured(self, cell: Mapping[str, str]) -> str | None:
        """The data set or mean that a cell is measured on, or None when it is quoted, this scale cannot measure it, or its
        rows are not part of this run."""
        of_encoder = cell["system"] and cell["system"] != "statistics"
        if of_encoder and self.left_out(paths.parse_system(cell["system"]).family):
            return None
        return self.measurable(cell)

    def measurable(self, cell: Mapping[str, str]) -> str | None:
        """The same without ``only``: what a job makes must not depend on which others are asked for."""
        if not cell["system"]:
            return None
        dataset = self.dataset_of(cell["dataset"], cell.get("paper"))
        if dataset is None:
            return None
        if dataset in self.means and (cell["system"] == "statistics" or not cell["metric"] or is_case(cell["metric"])):
            return None  # it has scores, and no counts, vectors or runs of its own
        if cell["system"] == "statistics":
            return dataset
        system = paths.parse_system(cell["system"])
        part = self.parts(dataset)[0]
        known = system.encoder == "bm25" or system.encoder in self.config["encoders"]
        sized = system.size in self.config["datasets"].get(part, {}).get("sizes", {})
        if not known or not sized or system.recipe not in self.config["recipes"]:
            return None
        if cell["metric"] and scored_by(cell["metric"]) not in self.metrics_of(dataset):  # vectors have no metric
            return None
        if system.encoder != "bm25" and not reads(self.config, system.encoder, part):
            return None
        return dataset if fits(self.config, system.recipe, self.trained_on(dataset)) else None

    def setting(self, paper: str | None = None) -> dict[str, Any]:
        """What the scale makes, as JSON: the fields of :class:`pretrieve.reporting.tables.results.Setting`, with the roles as
        they are played in the tables of a paper."""
        datasets = self.config["datasets"]
        first_of = {name: self.parts(name)[0] for name in (*datasets, *self.means)}
        return {
            "root": self.root,
            "scale": self.scale_name,
            "seeds": self.seeds,
            "roles": roles_of(self.config, paper),
            "stand_ins": [role for role in roles_of(self.config, paper) if not is_original(self.config, role)],
            "descriptions": self.config.get("descriptions", {}),
            "bodies": {
                name: ", ".join(str(options.get(key)) for key in ("body", "layers", "layers_of_start"))
                for name, options in self.config["encoders"].items()
            },
            "starts": {
                name: [start, options.get("layers_of_start", 0)]
                for name, options in self.config["encoders"].items()
                if (start := self.published_start(name))
            },
            "mirror": bool(self.config.get("mirror")),
            "encoders": sorted(self.config["encoders"]),
            "recipes": sorted(self.config["recipes"]),
            "only": self.config.get("only"),
            "own_seeds": self.seeds == self.scale.get("seeds", self.seeds),
            "trained_on": {name: self.trained_on(name) for name in first_of},
            "sizes": {name: list(datasets[first]["sizes"]) for name, first in first_of.items()},
            "metrics": {name: self.metrics_of(name) for name in first_of},
            "parts": {name: list(self.parts(name)) for name in self.means},
            "kinds": self.kinds,
            "reranked": [name for name, options in datasets.items() if options.get("rerank")],
            "overlaps": self.overlaps(),
            "vocabularies": self._other_vocabularies(),
        }

    def _other_vocabularies(self) -> dict[str, str]:
        """Encoders, data sets and means (``encoders.NAME``, ``datasets.NAME``) whose vocabulary is not the scale's, and
        its name."""
        corpora = {f"encoders.{name}": corpus_of(self.config, name) for name in self.config["encoders"]}
        for name in (*self.config["datasets"], *self.means):
            corpora[f"datasets.{name}"] = vocabulary_corpus(self.config, self.parts(name)[0])
        usual = vocabulary_of(self.config, self.scale["corpus"]).name
        names = {key: vocabulary_of(self.config, corpus).name for key, corpus in corpora.items()}
        return {key: name for key, name in names.items() if name != usual}

    def is_examples(self, dataset: str) -> bool:
        """Whether a data set is a task of examples, with no retrieval in it."""
        return self.config["datasets"][dataset]["reader"] in EXAMPLE_READERS

    @property
    def ranked(self) -> list[str]:
        """The data sets of retrieval: all others."""
        return [name for name in self.config["datasets"] if not self.is_examples(name)]

    @property
    def kinds(self) -> dict[str, str]:
        """What recipes train, and what data sets of examples are for, where it is no retriever."""
        kinds = {name: recipe_kind(self.config, name) for name in self.config["recipes"]}
        kinds |= {name: READERS[options["reader"]].kind for name, options in self.config["datasets"].items()}
        return {name: kind for name, kind in kinds.items() if kind != "ranking"}

    def metrics_of(self, dataset: str) -> list[str]:
        """What is measured on a data set, or on the parts of a mean."""
        return list(self.config["datasets"][self.parts(dataset)[0]].get("metrics", self.config["metrics"]))


def _read_rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        lines = (line for line in stream if not line.startswith("#"))
        return list(csv.DictReader(lines, delimiter="\t"))


def as_argument(value: Any) -> str:
    """A JSON value as one shell word; equal values give equal words, so that parameters compare by content."""
    return shlex.quote(json.dumps(value, sort_keys=True, separators=(",", ":")))


#: A pattern of more names is written as a tree: it is compiled for every output of a rule.
MANY = 50


def alternation(names: Iterable[str]) -> str:
    """A regular expression that matches exactly these names; of many, common beginnings stand in it once."""
    unique = sorted(set(names), key=lambda name: (-len(name), name))
    return (_tree(unique) if len(unique) > MANY else "|".join(map(_literal, unique))) or "$^"


def _literal(name: str) -> str:
    """Hyphens mean nothing outside of ``[…]`` and stay as they are: escaped ones take Python a fifth longer."""
    return re.escape(name).replace(r"\-", "-")


def _tree(names: Iterable[str]) -> str:
    branches: dict[str, list[str]] = {}
    for name in names:
        branches.setdefault(name[:1], []).append(name)
    parts = []
    for first in sorted(branches, reverse=True):  # the end of a name is its last choice
        same = branches[first]
        start = os.path.commonprefix(same)  # noqa: RUF071 - letters are meant
        rest = f"(?:{_tree(name[len(start) :] for name in same)})" if same[1:] else ""
        parts.append(_literal(start) + rest)
    return "|".join(parts)


@cache
def family_pattern(families: frozenset[str], encoders: frozenset[str], recipes: frozenset[str]) -> str:
    """A regular expression that matches, of all families of ``encoders`` and ``recipes``, exactly these in front of ``-SIZE/``.
    Where it is shorter, the others are excluded instead: Python compiles a letter in a microsecond, and a run has a thousand
    patterns. Then unknown names pass, and :meth:`ModelRules.encoder_weights` refuses them."""
    others = _every(encoders, recipes) - families
    excluding = rf"(?!(?:{_by_recipe(others, encoders)})-[a-z0-9]+/)[^/.]+\.[^/]+"
    return min(_by_recipe(families, encoders), excluding, key=len)


@cache
def _every(encoders: frozenset[str], recipes: frozenset[str]) -> frozenset[str]:
    return frozenset(f"{encoder}.{recipe}" for encoder in encoders for recipe in recipes)


def _by_recipe(families: Iterable[str], every: frozenset[str]) -> str:
    """``(?:encoders)\\.(?:recipes)`` for each set of recipes that the same encoders have; ``every`` encoder is any name."""
    encoders: dict[str, set[str]] = {}
    for family in families:
        encoder, _, recipe = family.partition(".")
        encoders.setdefault(recipe, set()).add(encoder)
    recipes: dict[frozenset[str], list[str]] = {}
    for recipe, names in encoders.items():
        recipes.setdefault(frozenset(names), []).append(recipe)
    parts = [
        rf"{'[^/.]+' if names == every else f'(?:{alternation(names)})'}\.(?:{alternation(some)})"
        for names, some in recipes.items()
    ]
    return "|".join(sorted(parts)) or "$^"
