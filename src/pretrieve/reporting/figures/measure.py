"""From result files to the points of a figure: for each series and x one value per seed, then mean and deviation.

What a scale does not make is a point with the reason in its note; a file that should be there and is not makes the point
``failed`` and is named. A series whose x are only known from its data (an analysis, runs on the way) is then one point
without x.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pretrieve.analysis.plan import PRETRAINED
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.evaluation.metrics import Scores as StepScores
from pretrieve.evaluation.metrics import evaluate, read_qrels
from pretrieve.evaluation.significance import Estimate
from pretrieve.references.figures import UNITS, Figure, Measure, Panel, Series
from pretrieve.references.tables import Cell, Table, parse_number
from pretrieve.reporting.claims.measured import bases_of
from pretrieve.reporting.figures import maps
from pretrieve.reporting.figures.points import (
    AS_PUBLISHED,
    Found,
    NotMeasured,
    Point,
    level_of_steps,
    seeds_to_run,
    step_beyond,
    there,
)
from pretrieve.reporting.figures.scores import Scores, interval_of
from pretrieve.reporting.tables.filling import judge
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.retrieval.trec_run import read_trec
from pretrieve.tasks.split_table import SplitTable


@dataclass(frozen=True)
class FigureSetting:
    """What a scale makes: as for tables, and its analyses (name → options of the configuration) of the corpus. ``starts``:
    encoder → the encoder that it is continued from."""

    tables: Setting
    analyses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    corpus: str = ""
    starts: Mapping[str, str] = field(default_factory=dict)


def measure_figure(figure: Figure, setting: FigureSetting, published: Mapping[str, Table]) -> list[Point]:
    """Every point of ``figure``, panel by panel. ``published``: table name → table, for ``published_in``.

    Raises DataError when a file that exists is damaged or lacks what is wanted from it, and ConfigError when a published
    table has no cell for a point.
    """
    measurer = _Measurer(figure, setting, published)  # one for all panels: they share maps
    return [point for panel in figure.panels for point in measurer.panel(panel)]


def analysis_file(series: Series, setting: FigureSetting) -> str:
    """The CSV behind a series. Raises NotMeasured when the scale has no such analysis of this encoder and stage."""
    options, scale = setting.analyses.get(series.analysis), setting.tables.scale
    if options is None:
        raise NotMeasured("not-run", f"the {scale} scale has no analysis {series.analysis}")
    if series.encoder not in options["encoders"]:
        raise NotMeasured("not-run", f"the analysis {series.analysis} of the {scale} scale excludes {series.encoder}")
    if series.stage != PRETRAINED and "finetuned" not in options:
        raise NotMeasured(
            "not-run", f"the analysis {series.analysis} of the {scale} scale covers no fine-tuned encoder"
        )
    return paths.analysis_file(setting.tables.root, series.analysis)


class _Measurer:
    def __init__(self, figure: Figure, setting: FigureSetting, published: Mapping[str, Table]) -> None:
        self._figure, self._setting, self._published = figure, setting, published
        self._tables, self._files = setting.tables, ResultFiles()
        self._maps: dict[tuple[Measure, int, str], tuple[Any, int]] = {}
        encoders = {*setting.starts, *setting.starts.values()}
        bases = bases_of({name: {"start": setting.starts.get(name)} for name in encoders})
        self._scores = Scores(setting.tables, self._files, setting.starts, bases)

    def panel(self, panel: Panel) -> list[Point]:
        found: dict[str, dict[str, Found]] = {}
        for series in sorted(panel.series, key=lambda series: series.kind == "change"):  # these are made of others
            if series.kind == "change":
                found[series.name] = _change(*(found[name] for name in series.of))
            else:
                found[series.name] = self._series(panel, series)
        result = []
        for series in panel.series:
            if series.kind == "map":
                result += self._map_points(panel, series, found[series.name][""])
                continue
            result += [self._point(panel, series, x, value) for x, value in found[series.name].items()]
            for x in series.published:
                if x not in found[series.name]:  # the paper's models read longer texts than these, say
                    point = self._point(panel, series, x, Found((), status="quoted"))
                    result.append(point._replace(series=series.name + AS_PUBLISHED, encoder=""))
        return result

    def _series(self, panel: Panel, series: Series) -> dict[str, Found]:
        of_kind: Mapping[str, Callable[[], dict[str, Found]]] = {
            "scores": lambda: self._scores.of_series(panel, series),
            "analysis": lambda: self._analysis(series),
            "steps": lambda: self._steps(series),
            "map": lambda: {"": self._try(series.points[""], lambda seed: 0.0)},
            "separation": lambda: self._separation(series),
            "tokens": lambda: self._scores.by_tokens(series),
            "gain": lambda: self._scores.gains(
                *(one for name in series.of for one in panel.series if one.name == name)
            ),
            "level": lambda: {"": self._scores.level(series)},
        }
        try:
            return of_kind[series.kind]()
        except NotMeasured as why:
            measure = series.points.get("", Measure("", "", ""))
            return {"": Found((), measure, *why.args)}

    # -- one value for each seed

    def _try(self, measure: Measure, of_seed: Callable[[int], float]) -> Found:
        """``of_seed`` for every seed of a system, or why there is no value."""
        try:
            return Found(tuple(of_seed(seed) for seed in seeds_to_run(self._tables, measure)), measure)
        except NotMeasured as why:
            return Found((), measure, *why.args)

    def _dataset(self, measure: Measure) -> str:
        return self._tables.roles.get(measure.role, "")

    def _analysis(self, series: Series) -> dict[str, Found]:
        path = there(analysis_file(series, self._setting))
        by_x: dict[str, dict[int, float]] = {}
        spread: dict[str, list[tuple[float, float]]] = {}  # x → (variance of the mean over texts, degrees of freedom)
        with open(path, newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            wanted = ("encoder", "seed", "stage", series.x, series.y)
            if missing := [name for name in wanted if name not in (reader.fieldnames or ())]:
                found = ", ".join(reader.fieldnames or ["nothing"])
                raise DataError(f"{path}, line 1: no column {', '.join(missing)}; found {found}. Make it again.")
            for row in reader:
                finetuned = row["stage"] != PRETRAINED
                if row["encoder"] == series.encoder and finetuned == (series.stage != PRETRAINED):
                    by_x.setdefault(row[series.x], {})[int(row["seed"])] = float(row[series.y])
                    if row.get("sd"):
                        n = int(row["n"])
                        spread.setdefault(row[series.x], []).append((float(row["sd"]) ** 2 / n, n - 1))
        seeds = self._tables.seeds
        for x, values in by_x.items():
            if missing := [seed for seed in seeds if seed not in values]:
                raise DataError(f"{path}: {series.encoder} at {series.x} {x} has no seed {missing[0]}. Make it again.")
        if not by_x:
            raise DataError(f"{path}: no row of {series.encoder}, {series.stage}. Delete the file and make it again.")
        ordered = {x: tuple(values[seed] for seed in seeds) for x, values in by_x.items()}
        measure = Measure("", "", series.y)
        return {x: Found(v, measure, interval=_of_texts(v, spread.get(x, []))) for x, v in ordered.items()}

    def _steps(self, series: Series) -> dict[str, Found]:
        """Scores of the runs in ``steps/`` of the retriever's directory, on the test queries of its size."""
        measure = series.points[""]
        seeds = seeds_to_run(self._tables, measure)
        dataset, system = self._dataset(measure), paths.parse_system(measure.system)
        if self._tables.trained_on.get(dataset, dataset) != dataset:
            raise NotMeasured("not-run", f"runs during training are on the training data set, not on {dataset}")
        task = Path(paths.task_dir(self._tables.root, dataset))
        queries, qrels = SplitTable(task / "splits.parquet").needed(system.size), read_qrels(task / "qrels.parquet")
        judged = {query: qrels.get(query, {}) for query in queries}
        by_step: dict[str, list[StepScores]] = {}
        depth = 0
        for seed in seeds:
            folder = Path(paths.retriever_dir(self._tables.root, measure.system, dataset, seed))
            there(str(folder / "pretrieve.json"))
            runs = {int(file.name.removesuffix(".trec.gz")): file for file in folder.glob("steps/*.trec.gz")}
            if not runs:
                why = f"recipe {system.recipe} keeps no intermediate runs: its option curve is 0"
                raise NotMeasured("not-run", why)
            for step, file in sorted(runs.items()):
                run = read_trec(file)
                depth = max(depth, *map(len, run.doc_ids))
                by_step.setdefault(str(step), []).append(evaluate(run, judged, [measure.metric]))
        if len({len(values) for values in by_step.values()}) > 1:
            raise DataError(f"{measure.system} on {dataset}: its seeds have runs of different steps. Train it again.")
        level, points = level_of_steps(task, self._files, judged, measure.metric, depth), {}
        for step, found in by_step.items():
            values = tuple(scores.mean[measure.metric] for scores in found)
            interval = interval_of(values, [scores.per_query[measure.metric] for scores in found])
            beyond = step_beyond(measure.metric, found, level)
            points[step] = Found(values, measure, beyond=beyond, interval=interval, chance=level)
        return points

    # -- maps

    def _map(self, measure: Measure, seed: int, space: str) -> tuple[Any, int]:
        """(points (n, d), how many of them are questions) of a system's vectors, or of their t-SNE map."""
        key = (measure, seed, space)
        if key not in self._maps:
            options, dataset = self._figure.map, self._dataset(measure)
            store = paths.embedding_dir(self._tables.root, measure.system, dataset, seed)
            for name in ("queries", "corpus"):
                there(f"{store}/{name}.json")
            if space == "vectors":
                size = paths.parse_system(measure.system).size
                task = Path(paths.task_dir(self._tables.root, dataset))
                texts = maps.draw_texts(task, size, options["texts"], options["seed"])
                self._maps[key] = maps.read_vectors(Path(store), texts), len(texts.questions)
            else:
                vectors, questions = self._map(measure, seed, "vectors")
                self._maps[key] = maps.project(vectors, options["seed"], options["perplexity"]), questions
        return self._maps[key]

    def _separation(self, series: Series) -> dict[str, Found]:
        def of(measure: Measure) -> Found:
            return self._try(measure, lambda seed: maps.separation(*self._map(measure, seed, series.space)))

        # With as many answers as questions, half of the neighbours of a point that lies anywhere are of its kind.
        return {x: of(measure)._replace(chance=0.5) for x, measure in series.points.items()}

    def _map_points(self, panel: Panel, series: Series, found: Found) -> list[Point]:
        if not found.values:
            return [self._point(panel, series, "", found)]
        seed = self._tables.seeds[0]
        try:
            points, questions = self._map(found.measure, seed, "map")
        except NotMeasured as why:
            return [self._point(panel, series, "", Found((), found.measure, *why.args))]
        own = points[:questions] if series.part == "questions" else points[questions:]
        line = self._point(panel, series, "", Found((0.0,), found.measure))
        digits = UNITS[panel.y.unit]
        return [line._replace(x=f"{x:.{digits}f}", y=f"{y:.{digits}f}", note=f"seed {seed}") for x, y in own]

    # -- lines of the CSV

    def _point(self, panel: Panel, series: Series, x: str, found: Found) -> Point:
        unit, measure = panel.y.unit, found.measure
        published, tolerance = self._published_at(series, x)
        digits = UNITS[unit]
        # A change is that of its parts' encoder.
        encoder = next((one for one in panel.series if one.name in series.of), series).encoder
        point = Point(
            figure=self._figure.name,
            panel=panel.name,
            series=series.name,
            x=x,
            y="",
            sd="",
            n_seeds="",
            published=published,
            system=measure.system,
            dataset=self._setting.corpus if series.analysis and found.values else self._dataset(measure),
            metric=measure.metric,
            status=found.status,
            note="; ".join(filter(None, (series.note, found.reason))),
            role=measure.role,
            unit=unit,
            encoder=encoder or (paths.parse_system(measure.system).encoder if measure.system else ""),
        )
        if not found.values:
            return point
        factor = 100 if unit == "%" else 1  # scores and ratios are kept as fractions
        values = [value * factor for value in found.values]
        y = round(fmean(values), digits)
        delta = round(y - parse_number(published), digits) if published else None
        known = found.interval is not None and math.isfinite(found.interval[0])
        low, high = (f"{end * factor:.{digits}f}" for end in found.interval) if known else ("", "")
        return point._replace(
            low=low,
            high=high,
            ahead_from=found.ahead_from,
            y=f"{y + 0.0:.{digits}f}",
            sd=f"{stdev(values):.{digits}f}" if len(values) > 1 else "",
            n_seeds=str(len(values)),
            status=judge(delta, tolerance, self._tables.scale),
            beyond_chance=found.beyond,
            chance="" if found.chance is None else f"{found.chance * factor:.{digits}f}",
        )

    def _published_at(self, series: Series, x: str) -> tuple[str, float | None]:
        """(the number that the paper has at x, or '', largest difference of a match)."""
        if not series.published_in or not x:
            return series.published.get(x, ""), series.tolerance
        table, measure = self._published[series.published_in], series.points[x]
        cell = _cell(table, measure)
        if not series.relative_to:
            return cell.published, table.tolerance_of(cell)
        own, base = cell.published_value, _cell(table, measure._replace(system=series.relative_to)).published_value
        return ("" if own is None or not base else f"{100 * (own - base) / base:.{UNITS['%']}f}"), series.tolerance


def _of_texts(values: Sequence[float], spread: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The 95 % interval of a mean over texts; ``spread`` for each seed: variance of its mean, degrees of freedom."""
    if len(spread) < len(values):
        return None
    parts = [(fmean(variance for variance, _ in spread), spread[0][1])]  # seeds see the same texts
    if len(values) > 1:
        parts.append((stdev(values) ** 2 / len(values), len(values) - 1))
    return Estimate(fmean(values), tuple(parts)).interval()


def _change(first: Mapping[str, Found], second: Mapping[str, Found]) -> dict[str, Found]:
    """|a − b| for every x that both have, seed by seed; where one has no values, its reason."""
    if without := [found for series in (first, second) for found in series.values() if not found.values]:
        return {"": without[0]}
    return {
        x: Found(tuple(abs(a - b) for a, b in zip(found.values, second[x].values, strict=True)), found.measure)
        for x, found in first.items()
        if x in second
    }


def _cell(table: Table, measure: Measure) -> Cell:
    wanted = (measure.system, measure.role, measure.metric)
    for cell in table.cells:
        if (cell.system, cell.dataset, cell.metric) == wanted:
            return cell
    raise ConfigError(
        f"references/{table.paper}: a figure takes its published points from {table.name}, which has no cell of "
        f"{', '.join(wanted)}; name another table under published_in."
    )
