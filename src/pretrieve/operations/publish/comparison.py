"""Is a fresh run still the published one? Two questions, with two measures.

**Regression**: fresh against published, tightly. A cell is

* ``equal``: the same number, as printed
* ``within``: different, on another processor or with other packages, but within noise (below)
* ``off``: beyond noise. Where two runs have to be equal, one such cell makes the comparison fail: the code computes something
  else now. Elsewhere more than :data:`BY_CHANCE` of the cells do, or one that is further off than any is by chance
* ``changed``: not compared: the system's options, its data or its reference differ from the published configuration, or it is a
  case of an example table, whose query is chosen again
* ``absent``: not compared: the fresh run has made it with none of the published seeds

The tolerance is zero everywhere for BM25 and for counts, in which no matrix product is rounded. It is zero for all scores on the
processor and with the packages of the published run, for nothing is random there; except scores that a GPU made, or, of a joined
seed, another processor. Elsewhere it is twice the error of the difference of two means over S seeds, √(2 (q + s) / S):

* q: the variance of one run over its n test queries, p (1 − p) / n, where p is the mean of both runs. No score between 0 and 1
  with mean p has more (Bhatia & Davis 2000, *A better bound on the variance*).
* s: the published variance over seeds; two or three may lie close together by chance, so q is added. Of one seed it is unknown
  and taken to be q: another seed is up to 1.4 errors of queries alone away (√(2 q); root of the mean square,
  ``benchmarks/run_noise.py``). Another processor was 0.52, and 2.9 in the furthest of the demo's 542 trained cells.

**Reproduction**: fresh against the paper, loosely. At paper scale a cell is off when it is further than :data:`LOOSELY` times
its table's tolerance from the printed value. Below, nothing fails: it shows whether systems are in the paper's order (Spearman's
correlation of a column's cells, mean over columns).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml
from scipy.stats import norm, spearmanr

from pretrieve.base.code_folder import REFERENCES
from pretrieve.base.errors import ConfigError, DataError, PretrieveError
from pretrieve.base.paths import parse_system
from pretrieve.operations.bundle.contents import parts_of_mean
from pretrieve.operations.publish.pages import SCORES
from pretrieve.operations.publish.places import PUBLICATION, newest, read_manifest, scale_of
from pretrieve.operations.scores import made_elsewhere
from pretrieve.references.tables import STATISTICS, UNITS, Cell, Table, load_table, parse_number
from pretrieve.references.yaml_files import Loader
from pretrieve.reporting.tables.filling import MEASURED, Line, read_lines, values_of
from pretrieve.reporting.tables.manifest import cpu_model, installed_versions, total_cost
from pretrieve.reporting.tables.results import ResultFiles, Setting
from pretrieve.reporting.tables.rows import text_table
from pretrieve.workflow.config_files import with_numbers
from pretrieve.workflow.job_options import chain_of, encoder_options, lineage, recipe_options
from pretrieve.workflow.plan import Plan
from pretrieve.workflow.scales import at_scale, corpus_of, means_of, vocabulary_corpus, vocabulary_of

EQUAL, WITHIN, OFF, CHANGED, ABSENT = OUTCOMES = ("equal", "within", "off", "changed", "absent")
#: How many tolerances of a table a value of paper scale may be from the printed one.
LOOSELY = 5
#: Standard errors of a difference that another processor may make.
NOISE = 2
#: The share of cells that another processor may put off by chance, so none of fewer than a hundred; and the probability that one
#: of all cells is beyond :func:`furthest_by_chance`.
BY_CHANCE, FALSE_ALARM = 0.01, 0.05


class Compared(NamedTuple):
    """One cell. ``fresh`` and ``error`` are in the cell's unit; None where nothing is compared. ``error``: what :data:`NOISE`
    multiplies; None where two runs have to be equal."""

    line: Line
    outcome: str
    fresh: float | None = None
    error: float | None = None

    @property
    def tolerance(self) -> float:
        return NOISE * (self.error or 0.0)

    @property
    def errors(self) -> float | None:
        """The difference in standard errors, signed; None where two runs have to be equal, or neither has anything."""
        return (self.fresh - float(self.line.measured)) / self.error if self.error else None


@dataclass(frozen=True)
class Published:
    """A published run: its folder, scale, configuration, and the tables (PAPER/TABLE) in it."""

    folder: Path
    scale: str
    config: Mapping[str, Any]
    tables: tuple[str, ...]


def newest_published(folder: Path, scale: str) -> Published:
    """The newest run of a scale under ``results/published``, by its name. Raises DataError when there is none."""
    found = newest(folder, scale)
    if found is None:
        raise DataError(
            f"{folder}: no published run of the {scale} scale. Name one (make compare PUBLISHED=DIR), or publish: make publish"
        )
    return open_published(found, scale)


def open_published(folder: Path, scale: str) -> Published:
    """A published run in a folder. Raises ConfigError when it is of another scale, and DataError when it has no
    configuration or no tables."""
    if PUBLICATION.fullmatch(folder.name) and scale_of(folder) != scale:
        raise ConfigError(
            f"{folder}: is of the scale {scale_of(folder)}; expected {scale}: name another folder, or --scale "
            f"{scale_of(folder)} (make compare SCALE={scale_of(folder)})."
        )
    file = folder / "config.yaml"
    try:
        config = at_scale({**with_numbers(yaml.load(file.read_text(encoding="utf-8"), Loader)), "scale": scale})
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise DataError(f"{file}: not readable: {error}. Expected the configuration of a published run.") from None
    manifests = folder.glob("*/*.manifest.json")
    tables = sorted(str(path.relative_to(folder)).removesuffix(".manifest.json") for path in manifests)
    if not tables:
        raise DataError(f"{folder}: no table with a manifest; expected those of a published run.")
    return Published(folder, scale, config, tuple(tables))


def compare_run(published: Published, plan: Plan, references: Path = REFERENCES) -> dict[str, list[Compared]]:
    """Every measured cell of a published run with what ``plan.root`` has now; table → cells. The seeds are the published run's.
    Raises DataError when a file of either run is damaged."""
    here = (cpu_model(), installed_versions())
    elsewhere = made_elsewhere(published.folder / SCORES, Path(plan.root))
    compared: dict[str, list[Compared]] = {}
    files = ResultFiles()
    for name in published.tables:
        manifest = read_manifest(published.folder / f"{name}.manifest.json", "Publish the run again.")
        versions = {package: version for package, version in manifest["versions"].items() if package != "python"}
        paper = references / name.partition("/")[0]
        table = load_table(paper / "paper.yaml", references / f"{name}.csv")
        cells = {(cell.row, cell.column): cell for cell in table.cells}
        of_run = replace(Setting.of(plan.setting(table.paper)), seeds=tuple(manifest["seeds"]))
        on_gpus = manifest["gpu_h"] or total_cost(table, of_run)["gpu_h"]
        same_machine = (manifest["cpu"], versions) == here and not on_gpus
        compared[name] = []
        for line in read_lines(published.folder / f"{name}.csv"):
            if line.status in MEASURED:
                cell = cells.get((line.row, line.column))
                same_options = _made(published.config, line) == _made(plan.config, line)
                scores = of_run.files_of(table, cell) if cell else ()
                exact = same_machine and all(elsewhere.isdisjoint(parts_of_mean(file, plan)) for file in scores)
                compared[name].append(_compare(line, table, cell, of_run, files, same_options, exact))
    return compared


def _compare(
    line: Line, table: Table, cell: Cell | None, setting: Setting, files: ResultFiles, same_options: bool, exact: bool
) -> Compared:
    if cell is None or cell.is_case or (cell.system, cell.metric, cell.unit) != (line.system, line.metric, line.unit):
        return Compared(line, CHANGED)  # a case's text is of the query that is chosen now
    if setting.roles.get(cell.dataset) != line.dataset or not same_options:
        return Compared(line, CHANGED)
    wanted = setting.files_of(table, cell)
    paths = [path for path in wanted if Path(path).is_file()]
    if len(paths) < len(wanted):
        line = _of_seeds(line, [path in paths for path in wanted], UNITS[cell.unit])
    if not paths or not line.measured:
        return Compared(line, ABSENT)
    fresh = round(fmean(values_of(cell, paths, files)), UNITS[cell.unit])
    error = None
    if is_trained(cell) and not exact:
        of_queries = standard_error(cell, float(line.measured), paths, files)
        of_seeds = 2**0.5 * float(line.sd) if line.sd else of_queries
        error = math.hypot(of_queries, of_seeds) / len(paths) ** 0.5
    one, away = Compared(line, EQUAL, fresh, error), abs(fresh - float(line.measured))
    return one if not away else one._replace(outcome=WITHIN if away <= one.tolerance else OFF)


def _of_seeds(line: Line, wanted: Sequence[bool], digits: int) -> Line:
    """A published line as it is of some of its seeds; with nothing measured where it does not have their values."""
    values = [float(value) for value, want in zip(line.seed_values.split(), wanted, strict=False) if want]
    return line._replace(measured=f"{fmean(values):.{digits}f}" if values else "")


def is_trained(cell: Cell) -> bool:
    """Whether a cell depends on training; a count, a case's text and BM25 are the same on every machine."""
    return not cell.is_statistic and not cell.is_case and parse_system(cell.system).encoder != "bm25"


def _made(config: Mapping[str, Any], line: Line) -> Any:
    """What a cell's value follows from; or a value that equals nothing, where a configuration no longer says it."""
    try:
        return ingredients(config, line.system, line.dataset)
    except (PretrieveError, KeyError, TypeError, AttributeError):
        return object()


def ingredients(config: Mapping[str, Any], system: str, dataset: str) -> dict[str, Any]:
    """What the value of a cell follows from: every option of a system on a data set, on a mean, or on counts (``statistics``).
    config: of one scale (:func:`pretrieve.workflow.scales.at_scale`). Equal ingredients are the same computation; metrics, sizes
    and other encoders are not among them.

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
    kept = {key: value for key, value in own.items() if key not in ("metrics", "sizes")}
    return kept | {"size": own["sizes"][size] if size else None}


def standard_error(cell: Cell, published: float, paths: Sequence[str], files: ResultFiles) -> float:
    """Of the difference between two runs of a cell, in its unit, if the test queries were all that is random. published: the
    other run's value; paths: this run's files. Raises DataError when a file is damaged."""
    factor = 100 if cell.unit == "%" else 1
    n = files.number(paths[0], "n_queries")
    p = fmean([published, fmean(values_of(cell, paths, files))]) / factor
    # Of a rank correlation: without any relation, where it is largest.
    variance = 1 / max(1, n - 1) if cell.metric == "spearman" else max(0.0, p * (1 - p)) / n
    return factor * (2 * variance) ** 0.5


def order_as_published(cells: Sequence[Compared]) -> float | None:
    """Mean over a table's columns of Spearman's correlation between fresh and printed values; None where no column has three
    systems."""
    columns: dict[str, list[tuple[float, float]]] = {}
    for one in cells:
        if one.fresh is not None and one.line.published and one.line.system != STATISTICS:
            columns.setdefault(one.line.column, []).append((one.fresh, parse_number(one.line.published)))
    found = []
    for pairs in columns.values():
        fresh, printed = zip(*pairs, strict=True)
        if len(set(fresh)) > 1 and len(set(printed)) > 1 and len(pairs) > 2:
            found.append(float(spearmanr(fresh, printed).statistic))
    return fmean(found) if found else None


def off_the_paper(cells: Sequence[Compared], scale: str) -> list[Compared]:
    """At paper scale the cells that are further from the printed value than :data:`LOOSELY` tolerances; [] at any other."""
    if scale != "paper":
        return []
    judged = [one for one in cells if one.fresh is not None and one.line.published and one.line.tolerance]
    return [
        one for one in judged if abs(one.fresh - parse_number(one.line.published)) > LOOSELY * float(one.line.tolerance)
    ]


def format_comparison(compared: Mapping[str, Sequence[Compared]], published: Published) -> str:
    """A plain-text table, one line for each table of the paper, and below it a line for each cell that is off."""
    head = ["table", *OUTCOMES, "furthest, in standard errors", "order as the paper's"]
    rows, below = [head], []
    for name, cells in compared.items():
        counts = Counter(one.outcome for one in cells)
        order = order_as_published(cells)
        errors = [abs(one.errors) for one in cells if one.errors is not None]
        furthest = f"{max(errors):.1f}" if errors else ""
        rows.append(
            [name, *(str(counts[word]) for word in OUTCOMES), furthest, "" if order is None else f"{order:.2f}"]
        )
        below += [f"off: {_in_words(one)}" for one in cells if one.outcome == OFF]
        below += [
            f"off the paper: {_place(one)}: {one.line.published} printed, {one.fresh} measured; the table's tolerance is "
            f"{one.line.tolerance}, and {LOOSELY} times as much is tolerated"
            for one in off_the_paper(cells, published.scale)
        ]
    return "\n".join([f"against {published.folder}", *text_table(rows), *below]) + "\n"


def furthest_by_chance(cells: int) -> float:
    """Standard errors that none of so many independent differences exceeds with probability 1 − :data:`FALSE_ALARM` (Bonferroni).

    >>> [round(furthest_by_chance(cells), 1) for cells in (1, 75, 542)]
    [2.0, 3.4, 3.9]
    """
    return float(norm.isf(FALSE_ALARM / 2 / max(1, cells)))


def _place(one: Compared) -> str:
    return f"{one.line.paper}/{one.line.table}, row '{one.line.row}', column '{one.line.column}'"


def _in_words(one: Compared) -> str:
    allowed = f"within {one.tolerance:.{UNITS[one.line.unit]}f}" if one.tolerance else "the same number"
    return f"{_place(one)}: {one.line.measured} published, {one.fresh} now; expected {allowed}"


def check_comparison(compared: Mapping[str, Sequence[Compared]], published: Published, at_least: int = 1) -> None:
    """Fail where a cell is off, and where fewer than ``at_least`` were compared: an empty comparison finds nothing. Raises
    DataError."""
    cells = [one for some in compared.values() for one in some]
    seen = [one for one in cells if one.fresh is not None]
    if len(seen) < at_least:
        counts = Counter(one.outcome for one in cells)
        raise DataError(
            f"{published.folder}: {len(seen)} cells compared, expected at least {at_least}; {counts[CHANGED]} have other options "
            f"now and {counts[ABSENT]} were not made. Run snakemake first, or publish again: make publish"
        )
    off = [one for one in seen if one.outcome == OFF]
    noisy = [one for one in seen if one.error is not None]
    limit = furthest_by_chance(len(noisy))
    sure = [one for one in off if one.errors is None or abs(one.errors) > limit]
    if sure or len(off) > BY_CHANCE * len(noisy):
        raise DataError(
            f"{len(off)} of {len(seen)} cells are not the published ones, among them {_in_words((sure or off)[0])}. Find the "
            "change that did it; if it was meant, publish again: make publish"
        )
    wrong = [one for some in compared.values() for one in off_the_paper(some, published.scale)]
    if wrong:
        raise DataError(f"{len(wrong)} of {len(seen)} cells are far from the paper's, the first is {_place(wrong[0])}.")
