"""From result files to the points of a figure: for each series and x one value per seed, then mean and deviation.

What a scale does not make is a point with the reason in its note; a file that should be there and is not makes the point
``failed`` and is named. A series whose x are only known from its data (an analysis, runs on the way) is then one point
without x.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pretrieve.analysis.plan import PRETRAINED
from pretrieve.base import paths
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.evaluation.metrics import Scores, evaluate, read_qrels
from pretrieve.references.figures import UNITS, Figure, Measure, Panel, Series
from pretrieve.references.tables import Cell, Table, parse_number
from pretrieve.reporting.claims.measured import bases_of
from pretrieve.reporting.figures import maps
from pretrieve.reporting.figures.found import Found, NotMeasured, there
from pretrieve.reporting.figures.guesses import cell_of, level_of_steps, scores_beyond, step_beyond
from pretrieve.reporting.figures.points import AS_PUBLISHED, Point
from pretrieve.reporting.figures.token_curves import TokenCurves
from pretrieve.reporting.tables.filling import judge
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.retrieval.trec_run import read_trec
from pretrieve.tasks.split_table import SplitTable


@dataclass(frozen=True)
class FigureSetting:
    """What a scale makes: as for tables, and its analyses (name → options of the configuration) of the corpus. ``starts``:
    encoder → the encoder that it goes on from."""

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
        raise NotMeasured("not-run", f"the analysis {series.analysis} of the {scale} scale is not of {series.encoder}")
    if series.stage != PRETRAINED and "finetuned" not in options:
        raise NotMeasured("not-run", f"the analysis {series.analysis} of the {scale} scale is of no fine-tuned encoder")
    return paths.analysis_file(setting.tables.root, series.analysis)


class _Measurer:
    def __init__(self, figure: Figure, setting: FigureSetting, published: Mapping[str, Table]) -> None:
        self._figure, self._setting, self._published = figure, setting, published
        self._tables, self._files = setting.tables, ResultFiles()
        self._maps: dict[tuple[Measure, int, str], tuple[Any, int]] = {}
        bases = bases_of(
            {name: {"start": setting.starts.get(name)} for name in {*setting.starts, *setting.starts.values()}}
        )
        self._curves = TokenCurves(setting.tables, setting.starts, bases)

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
            else:
                result += self._points(panel, series, found[series.name])
        return result

    def _series(self, panel: Panel, series: Series) -> dict[str, Found]:
        of_kind: Mapping[str, Callable[[Panel, Series], dict[str, Found]]] = {
            "scores": self._scores,
            "analysis": self._analysis,
            "steps": self._steps,
            "map": lambda panel, series: {"": self._try(series.points[""], lambda seed: 0.0)},
            "separation": self._separation,
            "tokens": lambda panel, series: self._curves.scores(series),
            "gain": lambda panel, series: self._curves.gains(*_named(panel, series.of)),
            "level": lambda panel, series: {"": self._curves.level(series)},
        }
        try:
            return of_kind[series.kind](panel, series)
        except NotMeasured as why:
            measure = series.points.get("", Measure("", "", ""))
            return {"": Found((), measure, *why.args)}

    # -- one value for each seed

    def _try(self, measure: Measure, of_seed: Callable[[int], float]) -> Found:
        """``of_seed`` for every seed of a system, or why there is no value."""
        cell = cell_of(measure)
        if reason := self._tables.why_not_run(cell):
            return Found((), measure, "not-run", reason)
        try:
            return Found(tuple(of_seed(seed) for seed in self._tables.seeds_of(cell)), measure)
        except NotMeasured as why:
            return Found((), measure, *why.args)

    def _metrics_file(self, measure: Measure, seed: int) -> str:
        return there(paths.metrics_file(self._tables.root, measure.system, self._dataset(measure), seed))

    def _dataset(self, measure: Measure) -> str:
        return self._tables.roles.get(measure.role, "")

    def _scores(self, panel: Panel, series: Series) -> dict[str, Found]:
        common = self._common_queries(panel) if series.common_queries else None

        def score(measure: Measure, seed: int) -> float:
            path = self._metrics_file(measure, seed)
            if common is None:
                return self._files.number(path, "metrics", measure.metric)
            values = self._files.per_query(path, measure.metric)
            if not values or not common:
                raise NotMeasured("not-run", "its points have no test query in common that has a value of its own")
            return fmean(values[query] for query in common)

        def value(measure: Measure, seed: int) -> float:
            own = score(measure, seed)
            if not series.relative_to:
                return own
            base = score(measure._replace(system=series.relative_to), seed)
            if base == 0:
                raise NotMeasured("not-run", f"{series.relative_to} scores 0, to which nothing has a ratio")
            return (own - base) / base

        found = {x: self._try(measure, lambda seed, m=measure: value(m, seed)) for x, measure in series.points.items()}
        beyond = {x: scores_beyond(self._tables, self._files, series, point.measure) for x, point in found.items()}
        return {x: point._replace(beyond=beyond[x]) for x, point in found.items()}

    def _common_queries(self, panel: Panel) -> list[str]:
        """Queries with a value in every metrics file of the panel that is there, sorted."""
        shared: set[str] | None = None
        for series in panel.series:
            for measure in series.points.values():
                if not series.common_queries or self._tables.why_not_run(cell_of(measure)):
                    continue
                for seed in self._tables.seeds_of(cell_of(measure)):
                    path = paths.metrics_file(self._tables.root, measure.system, self._dataset(measure), seed)
                    if Path(path).is_file():
                        queries = set(self._files.per_query(path, measure.metric) or ())
                        shared = queries if shared is None else shared & queries
        return sorted(shared or ())

    def _analysis(self, panel: Panel, series: Series) -> dict[str, Found]:
        path = there(analysis_file(series, self._setting))
        by_x: dict[str, dict[int, float]] = {}
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
        seeds = self._tables.seeds
        for x, values in by_x.items():
            if missing := [seed for seed in seeds if seed not in values]:
                raise DataError(f"{path}: {series.encoder} at {series.x} {x} has no seed {missing[0]}. Make it again.")
        if not by_x:
            raise DataError(f"{path}: no row of {series.encoder}, {series.stage}. Delete the file and make it again.")
        measure = Measure("", "", series.y)
        return {x: Found(tuple(values[seed] for seed in seeds), measure) for x, values in by_x.items()}

    def _steps(self, panel: Panel, series: Series) -> dict[str, Found]:
        """Scores of the runs in ``steps/`` of the retriever's directory, on the test queries of its size."""
        measure = series.points[""]
        if reason := self._tables.why_not_run(cell_of(measure)):
            raise NotMeasured("not-run", reason)
        dataset, system = self._dataset(measure), paths.parse_system(measure.system)
        if self._tables.trained_on.get(dataset, dataset) != dataset:
            raise NotMeasured("not-run", f"runs on the way are of the data that is trained on, not of {dataset}")
        task = Path(paths.task_dir(self._tables.root, dataset))
        queries, qrels = SplitTable(task / "splits.parquet").needed(system.size), read_qrels(task / "qrels.parquet")
        judged = {query: qrels.get(query, {}) for query in queries}
        by_step: dict[str, list[Scores]] = {}
        depth = 0
        for seed in self._tables.seeds:
            folder = Path(paths.retriever_dir(self._tables.root, measure.system, dataset, seed))
            there(str(folder / "pretrieve.json"))
            runs = {int(file.name.removesuffix(".trec.gz")): file for file in folder.glob("steps/*.trec.gz")}
            if not runs:
                raise NotMeasured("not-run", f"recipe {system.recipe} keeps no runs on the way: its option curve is 0")
            for step, file in sorted(runs.items()):
                run = read_trec(file)
                depth = max(depth, *map(len, run.doc_ids))
                by_step.setdefault(str(step), []).append(evaluate(run, judged, [measure.metric]))
        if len({len(values) for values in by_step.values()}) > 1:
            raise DataError(f"{measure.system} on {dataset}: its seeds have runs of different steps. Train it again.")
        level, points = level_of_steps(task, self._files, judged, measure.metric, depth), {}
        for step, found in by_step.items():
            beyond = step_beyond(measure.metric, found, level)
            points[step] = Found(tuple(scores.mean[measure.metric] for scores in found), measure, beyond=beyond)
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

    def _separation(self, panel: Panel, series: Series) -> dict[str, Found]:
        def of_seed(measure: Measure, seed: int) -> float:
            return maps.separation(*self._map(measure, seed, series.space))

        return {x: self._try(measure, lambda seed, m=measure: of_seed(m, seed)) for x, measure in series.points.items()}

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

    def _points(self, panel: Panel, series: Series, found: Mapping[str, Found]) -> list[Point]:
        points = [self._point(panel, series, x, value) for x, value in found.items()]
        for x in series.published:
            if x not in found:  # the paper's models read longer texts than these, say
                point = self._point(panel, series, x, Found((), status="quoted"))
                points.append(point._replace(series=series.name + AS_PUBLISHED, encoder=""))
        return points

    def _point(self, panel: Panel, series: Series, x: str, found: Found) -> Point:
        unit, measure = panel.y.unit, found.measure
        published, tolerance = self._published_at(panel, series, x)
        digits = UNITS[unit]
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
            encoder=series.encoder or (paths.parse_system(measure.system).encoder if measure.system else ""),
        )
        if not found.values:
            return point
        factor = 100 if unit == "%" else 1  # scores and ratios are kept as fractions
        values = [value * factor for value in found.values]
        y = round(fmean(values), digits)
        delta = round(y - parse_number(published), digits) if published else None
        low, high = ("", "") if found.interval is None else (f"{end * factor:.{digits}f}" for end in found.interval)
        return point._replace(
            low=low,
            high=high,
            ahead_from=found.ahead_from,
            y=f"{y + 0.0:.{digits}f}",
            sd=f"{stdev(values):.{digits}f}" if len(values) > 1 else "",
            n_seeds=str(len(values)),
            status=judge(delta, tolerance, self._tables.scale),
            beyond_chance=found.beyond,
        )

    def _published_at(self, panel: Panel, series: Series, x: str) -> tuple[str, float | None]:
        """(the number that the paper has at x, or '', largest difference of a match)."""
        if not series.published_in or not x:
            return series.published.get(x, ""), series.tolerance
        table, measure = self._published[series.published_in], series.points[x]
        cell = _cell(table, measure)
        if not series.relative_to:
            return cell.published, table.tolerance_of(cell)
        own, base = cell.published_value, _cell(table, measure._replace(system=series.relative_to)).published_value
        return ("" if own is None or not base else f"{100 * (own - base) / base:.{UNITS['%']}f}"), series.tolerance


def _named(panel: Panel, names: Sequence[str]) -> list[Series]:
    return [next(series for series in panel.series if series.name == name) for name in names]


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
