"""Points of a figure: what there is for one, or why there is nothing, and its line of the figure's CSV.

The levels in the metrics files say whether a point is better than guessing, as in tables; for a step of training a formula does.
"""

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
from pretrieve.reporting.tables.filling import MEASURED
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.reporting.tables.rows import read_rows, text_tuple

#: Behind the name of a series: points that the paper states at an x that was not measured.
AS_PUBLISHED = " (published)"
#: ``ahead_from`` of a gain that is not ahead at the end.
NOT_AHEAD = "not within the budget"


class Point(
    text_tuple(
        "Point",
        "figure panel series x y sd n_seeds published system dataset metric status note role unit encoder",
        later="beyond_chance low high ahead_from chance",
    )
):
    """A line of the CSV, every field as text, empty where there is nothing to say.

    ``y``, ``sd`` (over seeds) and ``published`` are in ``unit``; ``x`` as the axis has it, '' for a series that was not run and
    whose x are therefore unknown. ``encoder`` is the encoder of ``system``, or the one that an analysis looked at; ``dataset``
    played the part of ``role``. ``status`` as in tables. ``beyond_chance``: ``no`` of a score that guessing has too (of a change,
    when one of its two scores is), ``yes`` of a better one, '' where no level is known. ``low``, ``high``: 95 % interval over
    queries (of an analysis, over texts) and seeds, '' where it is not known. ``ahead_from``, of a gain: the x from which on all
    its intervals are above 0, or :data:`NOT_AHEAD`. ``chance``: what guessing scores, in ``unit``.
    """


def is_measured(point: Point) -> bool:
    return point.status in MEASURED


def read_points(path: Path | str) -> list[Point]:
    """Read a figure's CSV. Raises DataError when it has other columns or a broken line."""
    return read_rows(path, Point, "figure")


class Found(NamedTuple):
    """What there is for one x: a value for each seed, or the reason (``status`` not-run or failed) why there is none.

    ``beyond``, ``ahead_from``: as :class:`Point` has them; ``interval``: low and high, and ``chance``: what guessing scores, as
    fractions like the values.
    """

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


def seeds_to_run(tables: Setting, measure: Measure) -> tuple[int, ...]:
    """The seeds of a measure's system. Raises NotMeasured when this scale does not run it."""
    if reason := tables.why_not_run(cell_of(measure)):
        raise NotMeasured("not-run", reason)
    return tables.seeds_of(cell_of(measure))


def metrics_of(tables: Setting, measure: Measure) -> list[str]:
    """The metrics files of a measure, one for each seed. Raises NotMeasured for one that is not run or missing."""
    seeds, dataset = seeds_to_run(tables, measure), tables.roles.get(measure.role, "")
    return [there(paths.metrics_file(tables.root, measure.system, dataset, seed)) for seed in seeds]


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
    candidates = files.read(str(task / "stats.json")).get("candidates") if (task / "stats.json").is_file() else None
    return chance_levels(judged, candidates, [metric], depth).get(metric) if candidates else None
