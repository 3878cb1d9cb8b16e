"""Points of a figure that are no better than guessing: the levels are those of the metrics files, as in tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pretrieve.base import paths
from pretrieve.evaluation.chance import beyond_chance, chance_levels
from pretrieve.evaluation.metrics import Scores
from pretrieve.references.figures import Measure, Series
from pretrieve.references.tables import Cell
from pretrieve.reporting.tables.results import ResultFiles, Setting


def cell_of(measure: Measure) -> Cell:
    """The table cell that would be measured the same way."""
    return Cell("figure", "point", measure.system, measure.role, measure.metric, "", "fraction", "", "")


def scores_beyond(tables: Setting, files: ResultFiles, series: Series, measure: Measure) -> str:
    """``yes`` when a score, and the one it is relative to, is beyond guessing on all of its queries; ``no``, or '' when no level
    is known."""
    words = []
    for system in filter(None, (measure.system, series.relative_to)):
        found = _files(tables, measure._replace(system=system))
        if not found or files.chance(found[0], measure.metric) is None:
            return ""
        words.append("no" if files.guessed(found, measure.metric) else "yes")
    return min(words)


def step_beyond(metric: str, found: Sequence[Scores], level: float | None) -> str:
    """The same of one step of training, ``found`` for each seed; ``level``: what guessing scores."""
    if level is None:
        return ""
    seeds = [scores.per_query[metric] for scores in found]
    means = [fmean(seed[query] for seed in seeds) for query in seeds[0]]
    return "yes" if beyond_chance(level, fmean(means), means, len(means)) else "no"


def level_of_steps(
    task: Path, files: ResultFiles, judged: Mapping[str, Mapping[str, int]], metric: str, depth: int
) -> float | None:
    """What guessing scores in runs that were kept on the way, of ``depth`` hits: by formula, for they have no metrics file."""
    documents = files.read(str(task / "stats.json")).get("documents") if (task / "stats.json").is_file() else None
    return chance_levels(judged, documents, [metric], depth).get(metric) if documents else None


def _files(tables: Setting, measure: Measure) -> list[str]:
    """The metrics files of a measure, one for each seed; [] when one is not there."""
    if tables.why_not_run(cell_of(measure)):
        return []
    dataset, seeds = tables.roles[measure.role], tables.seeds_of(cell_of(measure))
    found = [paths.metrics_file(tables.root, measure.system, dataset, seed) for seed in seeds]
    return found if all(map(os.path.isfile, found)) else []
