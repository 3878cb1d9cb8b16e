"""What the workflow asks about the configuration: tables, cells, systems, files. Imported by rules/common.smk, so it must
load fast: standard library, yaml and jsonschema only."""

from __future__ import annotations

import ast
import csv
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from pretrieve import paths
from pretrieve.configuration import check_config
from pretrieve.errors import ConfigError, nearest

SOURCE_ROOT = Path("src")
#: The module that imports every objective's module, and what else it imports from there.
OBJECTIVES_FILE = SOURCE_ROOT / "pretrieve/pretraining/objectives.py"
SHARED_BY_OBJECTIVES = ("setting.py", "__init__.py")
#: Objectives whose module has another name.
OBJECTIVE_MODULES = {"pairs": "contrastive"}


@dataclass(frozen=True)
class Plan:
    """The checked configuration, and every name and path that follows from it and from ``references/``."""

    config: Mapping[str, Any]
    all_tables: tuple[str, ...]
    cells: Mapping[str, list[dict[str, str]]]
    sources: Mapping[str, dict[str, str]]
    TASK_FILES: tuple[str, ...] = field(
        default=(
            "corpus.parquet",
            "queries.parquet",
            "qrels.parquet",
            "splits.parquet",
            "stats.json",
            "passages/meta.json",
            "queries/meta.json",
        ),
        init=False,
    )

    @classmethod
    def load(
        cls,
        config: Mapping[str, Any],
        references: Path = Path("references"),
        schema: Path = Path("schemas/config.schema.yaml"),
        sources: Path = Path("resources/sources.tsv"),
    ) -> Plan:
        """Check the configuration and read the tables' cells and the list of sources.

        Raises
        ------
        ConfigError
            in one line, for the first thing that is wrong.
        """
        files = sorted(references.glob("*/*.csv"))
        names = {f"{file.parent.name}/{file.stem}": file for file in files}
        check_config(config, schema, names)
        cells = {name: _read_rows(file, ",") for name, file in names.items()}
        entries = {row["name"]: row for row in _read_rows(sources, "\t")}
        plan = cls(config, tuple(names), cells, entries)
        for corpus, options in config["corpora"].items():
            for key in ("dump", "leads"):
                if options.get(key) and options[key] not in entries:
                    raise ConfigError(
                        f"config: corpora.{corpus}.{key}: {options[key]!r} is not in {sources}; it has {', '.join(entries)}"
                        f"{nearest(options[key], entries)}"
                    )
        roles = {cell["dataset"] for rows in cells.values() for cell in rows}
        for role in plan.scale["roles"]:
            if role not in roles:
                raise ConfigError(
                    f"config: scales.{config['scale']}.roles: {role!r} is a role of no table; allowed: "
                    f"{', '.join(sorted(roles))}{nearest(role, roles)}"
                )
        return plan

    @property
    def scale(self) -> Mapping[str, Any]:
        return self.config["scales"][self.config["scale"]]

    @property
    def root(self) -> str:
        return f"results/{self.config['scale']}"

    @property
    def seeds(self) -> list[int]:
        return list(self.config["seeds"])

    @staticmethod
    def alternation(names: Iterable[str]) -> str:
        """A regular expression that matches exactly these names."""
        unique = sorted(set(names), key=lambda name: (-len(name), name))
        return "|".join(re.escape(name) for name in unique) or "$^"

    def table_files(self) -> list[str]:
        """CSV of every table that is to be built."""
        return [paths.table_file(self.root, *name.split("/")) for name in self.config["tables"]]

    def check_targets(self, words: Iterable[str]) -> None:
        """Check the names of table files among the words of a command line.

        Raises
        ------
        ConfigError
            for a file that looks like a table's and is none; it names the nearest one that exists.
        """
        extensions = ("csv", "md", "html", "manifest.json")
        known = [paths.table_file(self.root, *name.split("/"), kind) for name in self.all_tables for kind in extensions]
        for word in words:
            if re.match(r"results/[^/]+/tables/", word) and word not in known:
                folder = paths.table_file(self.root, "PAPER", "TABLE")
                raise ConfigError(
                    f"target {word}: no such table; {folder} with PAPER/TABLE one of {', '.join(self.all_tables)}"
                    f"{nearest(word, known)}"
                )

    def dataset_of(self, role: str) -> str | None:
        """The data set that plays a role at this scale, or None."""
        return self.scale["roles"].get(role)

    def trained_on(self, dataset: str) -> str:
        """The task whose training questions a data set's retrievers are fine-tuned on."""
        return self.config["datasets"][dataset].get("trained_on", dataset)

    def seeds_of(self, system: str) -> list[int]:
        """Seeds a system is run with; BM25 draws nothing, so one run is all there is."""
        return [0] if paths.parse_system(system).encoder == "bm25" else self.seeds

    def measured(self, cell: Mapping[str, str]) -> str | None:
        """The data set that a cell is measured on, or None when it is quoted, or this scale cannot measure it."""
        dataset = self.dataset_of(cell["dataset"])
        if not cell["system"] or dataset is None:
            return None
        if cell["system"] == "statistics":
            return dataset
        system = paths.parse_system(cell["system"])
        known = system.encoder == "bm25" or system.encoder in self.config["encoders"]
        sized = system.size in self.config["datasets"].get(dataset, {}).get("sizes", {})
        return dataset if known and sized and system.recipe in self.config["recipes"] else None

    def table_inputs(self, paper: str, table: str) -> list[str]:
        """Metrics and statistics files behind a table."""
        files: dict[str, None] = {}
        for cell in self.cells[f"{paper}/{table}"]:
            dataset = self.measured(cell)
            if dataset is None:
                continue
            if cell["system"] == "statistics":
                kind = "pairs" if dataset in self.config["corpora"] else "tasks"
                files[f"{self.root}/{kind}/{dataset}/stats.json"] = None
                continue
            for seed in self.seeds_of(cell["system"]):
                files[paths.metrics_file(self.root, cell["system"], dataset, seed)] = None
        return list(files)

    def table_sources(self, paper: str, table: str) -> list[str]:
        """The raw files behind a table, for its manifest."""
        names, files = set(), set()
        for cell in self.cells[f"{paper}/{table}"]:
            dataset = self.measured(cell)
            options = self.config["datasets"].get(dataset, {})
            if dataset is not None:  # every system's vocabulary, and every pair, comes from the corpus
                corpus = self.config["corpora"][self.scale["corpus"]]
                names.update(corpus[key] for key in ("dump", "leads") if corpus.get(key))
            files.update(options.get("files", {}).values())
            if options.get("reader") == "fanoutqa":
                names.add("fanoutqa-dev")
        return sorted([*files, *map(self.source_file, names)])

    def source_file(self, name: str) -> str:
        """Where a raw file stands once it is checked."""
        return f"data/sources/{self.sources[name]['file']}"


def release_dead_lock(directory: Path = Path(".snakemake")) -> BinaryIO | None:
    """Remove the lock that a killed run left in Snakemake's directory, so that the same command works again.

    Snakemake's own lock is files, which outlive a ``kill -9``. Beside it, every run holds a shared lock of the system on one
    file, which ends with the process whatever way it dies: who gets that file exclusively knows that nobody else is alive.

    Returns
    -------
    file or None
        to be kept open as long as the run lives; None where the system has no such locks, and nothing is removed.
    """
    try:
        import fcntl

        directory.mkdir(exist_ok=True)
        # The file stays open, which keeps its lock, until the process ends.
        stream = open(directory / "alive", "wb")  # noqa: SIM115
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another run is alive, and its lock stands
        else:
            if any((directory / "locks").glob("*.lock")):
                shutil.rmtree(directory / "locks")
                print("A run was killed here; its lock is removed, and its finished jobs are kept.", file=sys.stderr)
        fcntl.flock(stream, fcntl.LOCK_SH)
    except (ImportError, OSError):
        return None
    return stream


def _read_rows(path: Path, delimiter: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        lines = (line for line in stream if not line.startswith("#"))
        return list(csv.DictReader(lines, delimiter=delimiter))


def as_argument(value: Any) -> str:
    """A JSON value as one shell word; equal values give equal words, so that parameters compare by content."""
    return shlex.quote(json.dumps(value, sort_keys=True, separators=(",", ":")))


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    """The project's own modules that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pretrieve":
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.split(".")[0] == "pretrieve")
    found = []
    for name in sorted(names):
        base = SOURCE_ROOT / Path(*name.split("."))
        found += [file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()]
    return tuple(found)


def stage_sources(script: str, objective: str | None = None) -> list[str]:
    """The source files that a program uses, directly or through others: the code a stage's results depend on.

    Snakemake compares their content, so an edit reruns exactly the stages that use the file, and a touch reruns nothing.
    ``objective``: of the list of pre-training objectives only this one's file is followed ('' for none), so that an edit of one
    method leaves the encoders of all others alone.
    """
    seen: set[Path] = set()
    waiting = [Path("workflow_scripts") / script]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path == OBJECTIVES_FILE and objective is not None:
            wanted = OBJECTIVES_FILE.with_name(f"{OBJECTIVE_MODULES.get(objective, objective).replace('-', '_')}.py")
            kept = (wanted.name, *SHARED_BY_OBJECTIVES)
            waiting += [file for file in _imports(path) if file.parent != wanted.parent or file.name in kept]
        else:
            waiting += _imports(path)
    return sorted(str(path) for path in seen if path.stat().st_size)
