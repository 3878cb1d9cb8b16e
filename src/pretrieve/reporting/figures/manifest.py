"""A figure's manifest: what made it, as for tables (:mod:`pretrieve.reporting.tables.manifest`), with a command for each
series."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pretrieve.base import paths
from pretrieve.references.figures import Figure, Measure, Series
from pretrieve.reporting.figures.measure import FigureSetting, analysis_file
from pretrieve.reporting.figures.points import NotMeasured, Point, cell_of, seeds_to_run
from pretrieve.reporting.tables.filling import count_statuses
from pretrieve.reporting.tables.manifest import cost_of, made_with, measured_with


def make_manifest(
    figure: Figure,
    points: Sequence[Point],
    setting: FigureSetting,
    config_hash: str,
    lock: Path | None = None,
    sources: Sequence[Path] = (),
) -> dict[str, Any]:
    """Everything needed to make ``figure`` again, as a JSON object; keys as in a table's manifest.

    ``cost`` is of the stages behind the systems and encoders of the figure, each counted once; drawing is not in it.

    Raises DataError when ``lock`` or one of ``sources`` does not exist.
    """
    tables = setting.tables
    return {
        "paper": figure.paper,
        "figure": figure.name,
        **measured_with(tables, {measure.role for measure in figure.measures()}),
        "points": count_statuses(points),
        **made_with(config_hash, lock, sources),
        "cost": _cost(figure, setting),
        "commands": {
            "figure": tables.command(paths.figure_file(tables.root, figure.paper, figure.name)),
            "series": series_commands(figure, setting),
        },
    }


def series_commands(figure: Figure, setting: FigureSetting) -> dict[str, str]:
    """``{panel}: {series}`` → the command that makes its measurements; a series that is not run is left out."""
    commands = {}
    for panel, series in figure.all_series():
        parts = [other for other in panel.series if other.name in series.of] or [series]
        files = [file for part in parts for file in _files_of(part, setting)]
        if files:
            commands[f"{panel.name}: {series.name}"] = setting.tables.command(*dict.fromkeys(files))
    return commands


def _files_of(series: Series, setting: FigureSetting) -> list[str]:
    root, files = setting.tables.root, []
    if series.analysis:
        with suppress(NotMeasured):
            files.append(analysis_file(series, setting))
    for measure, seed in _runs(series, setting):
        dataset = setting.tables.roles[measure.role]
        if series.kind in ("scores", "tokens", "level"):
            files.append(paths.metrics_file(root, measure.system, dataset, seed))
        elif series.kind == "steps":
            files.append(f"{paths.retriever_dir(root, measure.system, dataset, seed)}/pretrieve.json")
        else:
            files.append(f"{paths.embedding_dir(root, measure.system, dataset, seed)}/corpus.json")
    return files


def _runs(series: Series, setting: FigureSetting) -> list[tuple[Measure, int]]:
    """(what is measured, seed) of everything of a series that this scale runs."""
    runs = []
    for measure in series.measures():
        with suppress(NotMeasured):
            runs += [(measure, seed) for seed in seeds_to_run(setting.tables, measure)]
    return runs


def _cost(figure: Figure, setting: FigureSetting) -> dict[str, Any]:
    wanted: set[str] = set()
    for _, series in figure.all_series():
        for measure, seed in _runs(series, setting):
            wanted.update(setting.tables.cost_files_of(cell_of(measure), seed))
        if series.analysis and _files_of(series, setting):
            for seed in setting.tables.seeds:
                wanted.add(f"{paths.encoder_dir(setting.tables.root, series.encoder, seed)}/cost.json")
    return cost_of(wanted)
