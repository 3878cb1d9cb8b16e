"""Figures of papers as data: ``references/{paper}/{figure}.yaml``, loaded and checked (``schemas/figures.schema.yaml``).

A figure has panels, a panel has axes and series, a series has points. A series says with ``from`` what it is made of:

==============  ================================================================================================
``scores``      metrics of systems, one for each x; ``relative_to`` takes the change against another system
``analysis``    two columns of an analysis's CSV, for one encoder before or after fine-tuning
``change``      the absolute difference of two series of the panel
``steps``       runs that were kept while a system was trained (:mod:`pretrieve.finetuning.train_curve`)
``map``         t-SNE of a system's vectors
``separation``  share of points whose nearest neighbour is of the same kind
``tokens``      metrics of systems by the tokens that their encoders were trained on, with intervals
``gain``        one series of tokens minus another one, at the same tokens, with intervals of the difference
``level``       a line across: the score of a system, or of guessing
==============  ================================================================================================

Read by the workflow for every job, so it must load fast: standard library, yaml and jsonschema only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pretrieve.base.errors import ConfigError, nearest
from pretrieve.references.palette import METHODS
from pretrieve.references.yaml_files import check, read_yaml

#: The project's own tables and figures, which no paper has: a folder of ``references/``.
OWN = "pretrieve"
#: Unit of a y axis → digits behind the decimal point of a measured value.
UNITS = {"fraction": 4, "%": 2, "cosine": 4, "nats": 4, "coordinate": 3}


class Measure(NamedTuple):
    """What a point is measured on: a system, a data role and a metric ('' where runs are not scored)."""

    system: str
    role: str
    metric: str


@dataclass(frozen=True)
class Axis:
    """``scale``: ``category`` (each x is a name), ``ordered`` (names that have an order), ``linear`` or ``log2``; a y axis is
    linear."""

    label: str
    unit: str = ""
    scale: str = "linear"

    @property
    def is_names(self) -> bool:
        return self.scale in ("category", "ordered")

    @property
    def text(self) -> str:
        """Label with its unit: ``Text length (tokens)``."""
        plain = self.unit in ("", "fraction", "cosine", "coordinate")  # numbers without a unit
        return self.label if plain else f"{self.label} ({self.unit})"


@dataclass(frozen=True)
class Series:
    """One series. Fields that its ``kind`` (the key ``from``) does not have are empty.

    ``points`` maps x, in reading order, to what is measured there; ``steps`` and ``map`` have one under ''. ``published``
    maps x to the number as the text prints it.
    """

    name: str
    label: str
    method: str
    kind: str
    variant: str = "after"
    points: Mapping[str, Measure] = field(default_factory=dict)
    relative_to: str = ""
    common_queries: bool = False
    analysis: str = ""
    encoder: str = ""
    stage: str = ""
    x: str = ""
    y: str = ""
    of: tuple[str, ...] = ()
    part: str = ""
    space: str = ""
    value: str = ""
    published: Mapping[str, str] = field(default_factory=dict)
    published_in: str = ""
    tolerance: float | None = None
    note: str = ""

    def measures(self) -> Iterator[Measure]:
        """Everything that must be measured for this series, what it is relative to included."""
        for measure in self.points.values():
            yield measure
            if self.relative_to:
                yield measure._replace(system=self.relative_to)


@dataclass(frozen=True)
class Panel:
    name: str
    title: str
    draw: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper. ``map`` has the options of t-SNE: ``texts``, ``seed``, ``perplexity``."""

    paper: str
    name: str
    caption: str
    source: str
    claim: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    columns: int = 2
    map: Mapping[str, Any] = field(default_factory=dict)

    def all_series(self) -> Iterator[tuple[Panel, Series]]:
        for panel in self.panels:
            for series in panel.series:
                yield panel, series

    def measures(self) -> list[Measure]:
        """Everything that this figure needs measured, each once."""
        return list(dict.fromkeys(measure for _, series in self.all_series() for measure in series.measures()))

    def published_tables(self) -> list[str]:
        """Tables of the paper whose cells are published points of this figure."""
        return sorted({series.published_in for _, series in self.all_series() if series.published_in})


def load_figure(path: Path | str) -> Figure:
    """Read and check ``references/{paper}/{figure}.yaml``.

    Raises ConfigError for a missing file, text that is not YAML, a key or value that is not allowed, a series whose point
    lacks system, role or metric, or two series of one name in a panel; it names the key, what was found and what is allowed.
    """
    path = Path(path)
    content = _text_keys(read_yaml(path, "the description of a figure"))
    check(content, str(path), "figures")
    # Which keys a series has depends on its `from`: checked one by one, so that the message is about that one's keys.
    for name, panel in content["panels"].items():
        for number, entry in enumerate(panel["series"]):
            check(entry, str(path), "figures", entry["from"], f"panels.{name}.series.{number}")
    if (path.parent.name, path.stem) != (content["paper"], content["figure"]):
        raise ConfigError(
            f"{path}: it says paper {content['paper']}, {content['figure']}; expected those of its path: "
            f"paper {path.parent.name}, {path.stem}."
        )
    panels = tuple(_panel(name, entry, path) for name, entry in content["panels"].items())
    notes = tuple(content.get("notes", ()))
    figure = Figure(name=content.pop("figure"), **content | {"panels": panels, "notes": notes})
    if not figure.map and any(series.kind in ("map", "separation") for _, series in figure.all_series()):
        raise ConfigError(f"{path}: key map is missing; a figure with maps needs map: {{texts, seed, perplexity}}.")
    return figure


def _text_keys(value: Any) -> Any:
    """The same with every key as text: YAML reads the x ``512:`` as a number."""
    if isinstance(value, Mapping):
        return {str(key): _text_keys(part) for key, part in value.items()}
    return [_text_keys(part) for part in value] if isinstance(value, list) else value


def _panel(name: str, entry: Mapping[str, Any], path: Path) -> Panel:
    series = tuple(_series(part, path, f"panels.{name}.series.{number}") for number, part in enumerate(entry["series"]))
    names = [one.name for one in series]
    for one in series:
        if names.count(one.name) > 1:
            raise ConfigError(f"{path}: key panels.{name}.series: two series are called {one.name!r}; rename one.")
        for other in one.of:
            if other not in names or other == one.name:
                raise ConfigError(
                    f"{path}: key panels.{name}.series: {one.name!r} is the change of {other!r}, which is no other "
                    f"series of the panel; it has {', '.join(names)}."
                )
    return Panel(name, entry["title"], entry["draw"], Axis(**entry["x"]), Axis(**entry["y"]), series)


def _series(entry: Mapping[str, Any], path: Path, where: str) -> Series:
    kind = entry["from"]
    if entry["method"] not in METHODS:
        raise ConfigError(
            f"{path}: key {where}.method is {entry['method']!r}; allowed: {', '.join(sorted(METHODS))}"
            f"{nearest(entry['method'], METHODS)}"
        )
    shared = {key: entry.get(key, "") for key in ("system", "role", "metric")}
    given = entry.get("points", {"": {}} if "system" in entry else {})
    points = {}
    for x, own in given.items():
        measure = Measure(**(shared | ({"system": own} if isinstance(own, str) else own)))
        # Vectors are not scored, so a map has no metric.
        needed = ("system", "role") if kind in ("map", "separation") else Measure._fields
        if missing := [key for key in needed if not getattr(measure, key)]:
            raise ConfigError(
                f"{path}: key {where}.points.{x}: no {' and no '.join(missing)}; expected it there or in the series."
            )
        points[x] = measure
    fixed = {"from", "system", "role", "metric", "points", "of"}
    own = {key: value for key, value in entry.items() if key not in fixed}
    own.setdefault("label", entry["name"])
    return Series(kind=kind, points=points, of=tuple(entry.get("of", ())), **own)


def load_figures(files: Iterable[Path]) -> dict[str, Figure]:
    """``{paper}/{figure}`` → figure, of every file."""
    return {f"{file.parent.name}/{file.stem}": load_figure(file) for file in files}
