"""Scores of systems as points: a value for each seed, its interval, and what guessing scores there.

Intervals are those of the claims' verdicts (:func:`pretrieve.evaluation.significance.crossed_estimate`): over queries and, with
several seeds, over seeds. The interval of a change is that of the ratio of two means, linearised (the delta method), query by
query and seed by seed. What guessing scores is that of all queries of a size, where a point is of the common ones, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from pretrieve.base import paths
from pretrieve.evaluation.significance import crossed_estimate
from pretrieve.references.figures import Measure, Panel, Series
from pretrieve.reporting.figures.points import Found, NotMeasured, cell_of, scores_beyond, there
from pretrieve.reporting.tables.results import ResultFiles, Setting


class Scores:
    """Reads the scores of one figure. ``bases``: encoder → the one whose weights it starts from, with which it shares the draws
    of a seed."""

    def __init__(self, tables: Setting, files: ResultFiles, bases: Mapping[str, str]) -> None:
        self._tables, self._files, self._bases = tables, files, bases

    def of_series(self, panel: Panel, series: Series) -> dict[str, Found]:
        """Every point of a series of ``panel``. Raises DataError when a file is damaged."""
        common = self._common_queries(panel) if series.common_queries else None
        return {x: self._found(series, measure, common) for x, measure in series.points.items()}

    def _found(self, series: Series, measure: Measure, common: Sequence[str] | None) -> Found:
        if reason := self._tables.why_not_run(cell_of(measure)):
            return Found((), measure, "not-run", reason)
        seeds = self._tables.seeds_of(cell_of(measure))
        try:
            values, rows = self._values(measure, seeds, common)
            if series.relative_to:
                found = self._change(measure, (values, rows), series.relative_to, common)
            else:
                found = Found(values, measure, interval=interval_of(values, rows, self._base(measure.system)))
                found = found._replace(chance=self._files.chance(self._file(measure, seeds[0]), measure.metric))
        except NotMeasured as why:
            return Found((), measure, *why.args)
        return found._replace(beyond=scores_beyond(self._tables, self._files, series, measure))

    def _change(
        self,
        measure: Measure,
        own: tuple[tuple[float, ...], list[dict[str, float]]],
        relative_to: str,
        common: Sequence[str] | None,
    ) -> Found:
        """(own − base) / base for each seed."""
        seeds = self._tables.seeds_of(cell_of(measure))
        base, base_rows = self._values(measure._replace(system=relative_to), seeds, common)
        if not all(base):
            raise NotMeasured("not-run", f"{relative_to} scores 0, to which nothing has a ratio")
        values = tuple((ours - theirs) / theirs for ours, theirs in zip(own[0], base, strict=True))
        blocks = [matrix_of(rows) for rows in (own[1], base_rows)]
        if any(block is None for block in blocks) or own[1][0].keys() != base_rows[0].keys():
            return Found(values, measure)
        a, b = fmean(own[0]), fmean(base)
        systems = (measure.system, relative_to)
        estimate = crossed_estimate(blocks, [1 / b, -a / b**2], [self._base(system) for system in systems])
        half = estimate.interval()[1] - estimate.effect
        return Found(values, measure, interval=(fmean(values) - half, fmean(values) + half))

    def _values(
        self, measure: Measure, seeds: Sequence[int], common: Sequence[str] | None
    ) -> tuple[tuple[float, ...], list[dict[str, float]]]:
        """For each seed the score, and the scores of its queries ([] where they are not known)."""
        files = [there(self._file(measure, seed)) for seed in seeds]
        rows = [self._files.per_query(file, measure.metric) for file in files]
        if common is None:
            values = tuple(self._files.number(file, "metrics", measure.metric) for file in files)
            return values, rows if all(rows) else []
        if not all(rows) or not common:
            raise NotMeasured("not-run", "its points share no test query with a per-query value")
        kept = [{query: row[query] for query in common} for row in rows]
        return tuple(fmean(row.values()) for row in kept), kept

    def _common_queries(self, panel: Panel) -> list[str]:
        """Queries with a value in every metrics file of the panel that is there, sorted."""
        shared: set[str] | None = None
        for series in panel.series:
            for measure in series.points.values():
                if not series.common_queries or self._tables.why_not_run(cell_of(measure)):
                    continue
                for seed in self._tables.seeds_of(cell_of(measure)):
                    path = self._file(measure, seed)
                    if Path(path).is_file():
                        queries = set(self._files.per_query(path, measure.metric) or ())
                        shared = queries if shared is None else shared & queries
        return sorted(shared or ())

    def _file(self, measure: Measure, seed: int) -> str:
        return paths.metrics_file(self._tables.root, measure.system, self._tables.roles.get(measure.role, ""), seed)

    def _base(self, system: str) -> str:
        encoder = paths.parse_system(system).encoder
        return self._bases.get(encoder, encoder)


def matrix_of(rows: Sequence[Mapping[str, float]]) -> np.ndarray | None:
    """(seeds, queries), queries by their id; None where seeds have different queries, or none are known."""
    if not rows or any(row.keys() != rows[0].keys() for row in rows):
        return None
    return np.array([[row[query] for query in sorted(row)] for row in rows])


def interval_of(
    values: Sequence[float], rows: Sequence[Mapping[str, float]], base: str = ""
) -> tuple[float, float] | None:
    """The 95 % interval of a score over its queries and seeds, within 0 and 1 as the score is.

    values: of each seed; rows: query → score of each seed. None where queries are not known, or the score is not their mean: a
    mean of data sets has weights.
    """
    scores = matrix_of(rows)
    if scores is None or np.abs(scores.mean(1) - values).max() > 1e-6:
        return None
    low, high = crossed_estimate([scores], [1.0], [base]).interval()
    return max(low, min(0.0, float(scores.min()))), min(high, max(1.0, float(scores.max())))
