"""What there is for the points of a figure before they are lines of its CSV: values, or why there is none, and whether they are
better than guessing, by the levels of the metrics files, as in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from pretrieve.base import paths
from pretrieve.evaluation.chance import beyond_chance, chance_levels
from pretrieve.evaluation.metrics import Scores
from pretrieve.references.figures import Measure, Series
from pretrieve.references.tables import Cell
from pretrieve.reporting.tables.results import ResultFiles, Setting


class Found(NamedTuple):
    """What there is for one x: a value for each seed, or the reason (``status`` not-run or failed) why there is none.
    ``beyond``, ``ahead_from``: as :class:`~pretrieve.reporting.figures.points.Point` has them; ``interval``: low and high, and
    ``chance``: what guessing scores, as fractions like the values."""

    values: tuple[float, ...]
    measure: Measure = Measure("", "", "")
    status: str = ""
    reason: str = ""
    beyond: str = ""
    interval: tuple[float, float] | None = None
    ahead_from: str = ""
    chance: float | None = None


class NotMeasured(Exception):
    """Carries the status and the reason of a point or series without a value."""


def there(path: str) -> str:
    """The path of a file that is there. Raises NotMeasured when it is not."""
    if not Path(path).is_file():
        raise NotMeasured("failed", f"missing: {path}")
    return path


def cell_of(measure: Measure) -> Cell:
    """The table cell that would be measured the same way."""
    return Cell("figure", "point", measure.system, measure.role, measure.metric, "", "fraction", "", "")


def metrics_of(tables: Setting, measure: Measure) -> list[str]:
    """The metrics files of a measure, one for each seed. Raises NotMeasured for one that is not run or missing."""
    cell = cell_of(measure)
    if reason := tables.why_not_run(cell):
        raise NotMeasured("not-run", reason)
    dataset = tables.roles[measure.role]
    return [there(paths.metrics_file(tables.root, measure.system, dataset, seed)) for seed in tables.seeds_of(cell)]


def scores_beyond(tables: Setting, files: ResultFiles, series: Series, measure: Measure) -> str:
    """``yes`` when a score, and the one it is relative to, is beyond guessing on all of its queries; ``no``, or '' when no level
    is known."""
    words = []
    for system in filter(None, (measure.system, series.relative_to)):
        try:
            found = metrics_of(tables, measure._replace(system=system))
        except NotMeasured:
            return ""
        if files.chance(found[0], measure.metric) is None:
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
