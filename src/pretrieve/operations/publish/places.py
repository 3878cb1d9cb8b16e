"""What two runs are compared by: where each has its tables (in ``results/{scale}/tables``, or beside everything else in a
published copy), and what a cell's value follows from, as far as the configuration says it: its :func:`ingredients`.

Two configurations with equal ingredients ask for the same computation. What only adds other computations (other metrics,
other training-set sizes, other encoders) does not belong to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrieve.base.paths import parse_system, table_file
from pretrieve.references.tables import STATISTICS
from pretrieve.reporting.report.timing import split_name
from pretrieve.workflow.job_options import chain_of, encoder_options, lineage, recipe_options
from pretrieve.workflow.scales import corpus_of, means_of, vocabulary_corpus, vocabulary_of

#: The name of a publication: date, number from the second of a day and scale on, scale, commit.
PUBLICATION = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.(\d+))?-(.+)-([0-9a-f]{7})")

#: The configuration's scales, the largest first.
SCALES = ("paper", "small", "demo")


def scale_of(root: Path) -> str:
    """Of ``results/{scale}`` or of a publication.

    >>> scale_of(Path("results/demo")), scale_of(Path("results/published/2026-01-02.2-small-0123abc"))
    ('demo', 'small')
    """
    found = PUBLICATION.fullmatch(root.name)
    return found[3] if found else root.name


def table_of(root: Path, name: str, extension: str = "csv") -> Path:
    """The file of a table (PAPER/TABLE)."""
    paper, table = split_name(name)
    if PUBLICATION.fullmatch(root.name):
        return root / paper / f"{table}.{extension}"
    return Path(table_file(str(root), paper, table, extension))


def tables_of(root: Path) -> list[Path]:
    """The CSV files of all tables that are there."""
    return sorted(file.with_suffix(".csv") for file in table_of(root, "*/*").parents[1].glob("*/*.tex"))


def new_place(published: Path, date: str, scale: str, commit: str) -> Path:
    """The folder of a new publication (``commit``: seven digits), in the order of the day's."""
    others = [_age(one)[1] for one in publications(published, scale) if one.name.startswith(date)]
    place = published / f"{date}-{scale}-{commit}"
    return place if not others or place.exists() else published / f"{date}.{max(others) + 1}-{scale}-{commit}"


def newest(published: Path, scale: str) -> Path | None:
    """The newest publication of a scale, by its name."""
    return next(iter(publications(published, scale)), None)


def publications(published: Path, scale: str) -> list[Path]:
    """All publications of a scale, the newest first."""
    found = [one for one in published.glob(f"*-{scale}-*") if PUBLICATION.fullmatch(one.name)]
    return sorted((one for one in found if scale_of(one) == scale), key=_age, reverse=True)


def _age(publication: Path) -> tuple[str, int, str]:
    date, number, _, commit = PUBLICATION.fullmatch(publication.name).groups()
    return date, int(number or 1), commit


def ingredients(config: Mapping[str, Any], system: str, dataset: str) -> dict[str, Any]:
    """Every option of one system on one data set or mean, or of counts of it (``statistics``). ``config``: of one scale
    (:func:`pretrieve.workflow.scales.at_scale`).

    Raises KeyError when the configuration lacks one of them, and ConfigError when an option is not allowed any more.
    """
    scale = config["scales"][config["scale"]]
    if dataset in config["corpora"]:  # of pairs
        options = scale["pretraining"]["options"].get("pairs")
        return {"pairs": _corpus(config, dataset), "words": list(vocabulary_of(config, dataset)), "options": options}
    if dataset in means_of(config):
        return {"mean": {part: ingredients(config, system, part) for part in means_of(config)[dataset]}}
    words = vocabulary_corpus(config, dataset)
    made: dict[str, Any] = {"words": [_corpus(config, words), list(vocabulary_of(config, words))]}
    if system == STATISTICS:
        return made | {"data": [_data(config, dataset, None)]}
    encoder, recipe, size = parse_system(system)
    task = config["datasets"][dataset].get("trained_on", dataset)
    made["data"] = [_data(config, name, size) for name in (dataset, task)]
    if encoder == "bm25":
        return made | {"bm25": config["datasets"][dataset].get("bm25", config["bm25"])}
    made |= {"search": scale.get("search"), "mining_depth": config["mining_depth"], "bm25": config["bm25"]}
    made["encoders"] = [
        [encoder_options(config, one).to_dict(), _corpus(config, corpus_of(config, one))]
        for one in lineage(config, encoder)
    ]
    waiting, made["recipes"] = [recipe], {}
    while waiting:
        name = waiting.pop()
        if name not in made["recipes"]:
            made["recipes"][name] = recipe_options(config, name, task)
            waiting += chain_of(made["recipes"][name])
    return made


def _corpus(config: Mapping[str, Any], name: str) -> list[Any]:
    """A corpus and its parts, without the counts that are only checked."""
    own = {key: value for key, value in config["corpora"][name].items() if key != "expect"}
    return [own, *(_corpus(config, part) for part in own.get("parts", ()))]


def _data(config: Mapping[str, Any], name: str, size: str | None) -> dict[str, Any]:
    """A data set, with one of its training-set sizes."""
    own = config["datasets"][name]
    return {key: value for key, value in own.items() if key not in ("metrics", "sizes")} | {
        "size": own["sizes"][size] if size else None
    }
