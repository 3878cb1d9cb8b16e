"""The headlines: one claim of each paper, as a table for README.md and as a picture (``docs/headlines.svg``).

The claims are chosen once, for every run: what a paper's method adds to what the paper first compares it with. Each is shown
from the largest scale that measured it. Effects, intervals and verdicts are those of the claims ledger
(:mod:`pretrieve.reporting.claims.ledger`).
"""

import io
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure as Canvas

from pretrieve.base.errors import DataError
from pretrieve.operations.publish.places import table_of, tables_of
from pretrieve.references.tables import ROW_SEPARATOR
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.figures.draw import STYLE
from pretrieve.reporting.tables.filling import Line, read_lines
from pretrieve.reporting.tables.rows import read_rows
from pretrieve.workflow.commands import make_it

#: Claims of ``references/claims.yaml``, one for each paper.
HEADLINES = (
    "each-task-beats-mlm",
    "seed-beats-bert-passages",
    "condenser-beats-bert-web-with-little-data",
    "sde-beats-ade",
    "dupmae-beats-retromae-hard",
)
#: Percentage points in one of a ledger's unit.
_POINTS = {"%": 1, "fraction": 100}


class Headline(NamedTuple):
    """A claim's ``finding``, and of its middle comparison the cells and their ``values`` in the ledger's unit; [] where
    nothing was measured. ``folder``: of the publication, from the repository's root. ``bm25``: BM25's score on the same test, in
    percent, or with ``is_bound`` a lower bound of it; None where the run has none."""

    finding: Finding
    folder: str
    cells: list[Line]
    values: list[float]
    bm25: float | None = None
    is_bound: bool = False

    @property
    def points(self) -> tuple[float, float, float] | None:
        """Effect and its 95 % interval in percentage points; None where nothing was measured."""
        if not self.cells:
            return None
        factor = _POINTS[self.finding.unit]
        return tuple(factor * float(number) for number in (self.finding.effect, self.finding.low, self.finding.high))

    @property
    def scores(self) -> str:
        """What is compared, in percent."""
        return _against(_POINTS[self.finding.unit] * value for value in self.values)

    @property
    def published(self) -> str:
        """The paper's scores in the same cells, in percent."""
        known = [cell for cell in self.cells if cell.published_value and cell.published_unit in _POINTS]
        if len(known) < len(self.cells):
            return "–"
        return _against(_POINTS[cell.published_unit] * float(cell.published_value) for cell in known)

    @property
    def verdict(self) -> str:
        """The ledger's with its q, and how many of the compared values are no better than guessing."""
        words, q = [self.finding.verdict], self.finding.q
        if q:
            words.append(f"q {float(q):.2g}" if float(q) >= 0.001 else "q < 0.001")
        if chance := sum(cell.beyond_chance == "no" for cell in self.cells):
            words.append(f"{chance} of {len(self.cells)} values ≈ chance")
        return "; ".join(words)


def _against(scores: Iterable[float]) -> str:
    return " against ".join(f"{score:.1f}" for score in scores) or "–"


def best_headlines(runs: Sequence[tuple[Path, str]], claims: Sequence[str] = HEADLINES) -> list[Headline]:
    """Of each claim the headline of the first of ``runs`` (root and folder of each) that measured it, or else of the last. A
    publication of some tables may have the ledger of more: then another one has to have the claim's."""
    best: dict[str, Headline] = {}
    for root, folder in runs:
        findings = read_rows(root / "claims.csv", Finding)
        known = {one.id for one in findings if table_of(root, f"{one.paper}/{one.table}").is_file()}
        last = (root, folder) == runs[-1]
        open_claims = [name for name in claims if name not in best and (last or name in known)]
        found = read_headlines(root, open_claims, folder)
        best |= {one.finding.id: one for one in found if one.cells or last}
    return [best[name] for name in claims]


def read_headlines(root: Path, claims: Sequence[str] = HEADLINES, folder: str = "") -> list[Headline]:
    """The headlines of the run ``root`` (``results/{scale}``, or a publication), in the order of ``claims``. Raises DataError
    when a claim is not in the run's ledger, or a file is missing or damaged."""
    findings = {finding.id: finding for finding in read_rows(root / "claims.csv", Finding)}
    comparisons = read_rows(root / "claims.groups.csv", Comparison)
    lines = [line for table in tables_of(root) for line in read_lines(table)]
    lexical = [one for one in lines if one.system.startswith("bm25.") and one.measured and one.unit in _POINTS]
    headlines = []
    for name in claims:
        if name not in findings:
            file = root / "claims.csv"
            raise DataError(f"{file}: no claim {name}, which README.md shows. {make_it(file)}")
        finding = findings[name]
        effect = (finding.effect, finding.low, finding.high)
        middle = [one for one in comparisons if one.id == name and (one.effect, one.low, one.high) == effect]
        headline = Headline(finding, folder, [], [])
        if all(effect) and middle:
            values = [float(value) for value in middle[0].values.split("; ")]
            cells = _cells_of(root, middle[0])
            headline = Headline(finding, folder, cells, values, *_bm25(cells[0], lexical))
        headlines.append(headline)
    return headlines


def _cells_of(root: Path, comparison: Comparison) -> list[Line]:
    cells = []
    for name in json.loads(comparison.cells):
        table, _, place = name.partition(": ")
        if not (file := table_of(root, table)).is_file():
            raise DataError(
                f"{file}: no such table, and README.md shows cells of it. Publish it too, or leave README.md unchanged: "
                "pretrieve publish --no-readme"
            )
        found = [line for line in read_lines(file) if f"{line.row}, {line.column}" == place]
        if not found:
            groups = root / "claims.groups.csv"
            raise DataError(f"{groups}: {table} has no cell '{place}'. {make_it(root / 'claims.csv')}")
        cells += found
    return cells


def _bm25(cell: Line, lexical: Sequence[Line]) -> tuple[float | None, bool]:
    """BM25's score on the cell's test queries by its metric, and whether it is a lower bound: MRR at a greater depth is at least
    MRR at a smaller one."""
    same = [line for line in lexical if (line.dataset, line.queries) == (cell.dataset, cell.queries)]
    scores = {line.metric: _POINTS[line.unit] * float(line.measured) for line in same}
    if cell.metric in scores:
        return scores[cell.metric], False
    depth = _depth(cell.metric)
    bounds = {_depth(metric): score for metric, score in scores.items() if 0 < _depth(metric) < depth}
    return (bounds[max(bounds)], True) if bounds else (None, False)


def _depth(metric: str) -> float:
    """The depth of a mean reciprocal rank, infinite where it has none; 0 of other metrics.

    >>> _depth("mrr@10"), _depth("mrr"), _depth("recall@5")
    (10.0, inf, 0.0)
    """
    found = re.fullmatch(r"mrr(?:@(\d+))?", metric)
    return float(found[1] or "inf") if found else 0.0


def headline_table(headlines: Sequence[Headline]) -> str:
    """A Markdown table with one row for each headline."""
    lines = [
        "| Paper | What is compared | Scale | Here, % | BM25 here, % | In the paper, %"
        " | Difference here, points [95 % interval] | Test set here, metric | Seeds | Verdict | Table |",
        "|:--|:--|:--|--:|--:|--:|--:|:--|--:|:--|:--|",
    ]
    for headline in headlines:
        finding, points, effect, data, place = headline.finding, headline.points, "–", "–", ""
        if points:
            effect = "{:+z.1f} [{:z.1f}, {:z.1f}]".format(*points).replace("-", "−")
            cell = headline.cells[0]
            data = f"{cell.queries} queries of `{cell.dataset}`, {cell.metric}"
            place = f": {cell.row.replace(ROW_SEPARATOR, ', ')}, {cell.column}"
        bm25 = "–" if headline.bm25 is None else f"{'≥ ' if headline.is_bound else ''}{headline.bm25:.1f}"
        table = f"[{finding.table}]({headline.folder}/{finding.paper}/{finding.table}.md){place}"
        row = [finding.paper, finding.estimand, finding.scale, headline.scores, bm25, headline.published, effect, data]
        row += [finding.seeds or "–", headline.verdict, table]
        lines.append("| " + " | ".join(field.replace("|", "\\|") for field in row) + " |")
    return "\n".join(lines)


def in_a_sentence(headlines: Sequence[Headline]) -> str:
    """What the table says in sum: where the method is ahead, and where BM25 is."""
    measured = [headline for headline in headlines if headline.points]
    ahead = sum(headline.points[1] > 0 for headline in measured)
    behind = sum(headline.points[2] < 0 for headline in measured)
    said = (
        f"The table has a row for each paper. In {ahead} of {len(measured)} rows the method is ahead of its baseline, in "
        f"{behind} it is behind, and in {len(measured) - ahead - behind} the 95 % interval includes 0."
    )
    known = [headline for headline in measured if headline.bm25 is not None]
    above = sum(headline.bm25 > _POINTS[headline.finding.unit] * max(headline.values) for headline in known)
    if known:
        said += f" BM25 scores higher than both in {above} of the {len(known)} rows where it was measured (no significance test)."
    return said


def headline_picture(headlines: Sequence[Headline]) -> str:
    """The same as SVG: a point with its interval for each headline that was measured. Equal headlines give equal text."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "headlines"}):
        canvas = Canvas(figsize=(10, 1.3 + 0.75 * len(headlines)), layout="constrained")
        axes = canvas.subplots()
        for i, headline in enumerate(headlines):
            said = headline.verdict.replace("; ", "\n")
            if points := headline.points:
                effect, low, high = points
                error = [[effect - low], [high - effect]]
                axes.errorbar(effect, i, xerr=error, fmt="o", color="#1F4E9C", capsize=4, linewidth=2)
                said = f"{effect:+z.1f}, {said}".replace("-", "−")
            axes.annotate(said, (1.01, i), xycoords=("axes fraction", "data"), va="center", fontsize=11)
        axes.axvline(0, color="#555555", linewidth=1)
        said = (f"{one.finding.estimand} ({one.finding.scale})".replace(" %", "\u00a0%") for one in headlines)
        labels = [textwrap.fill(text, 44) for text in said]
        axes.set_yticks(range(len(headlines)), labels)
        axes.set_ylim(len(headlines) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.set_xlabel("difference in percentage points, with its 95 % interval")
        axes.set_title("What each paper's method adds (in brackets: scale)", loc="left")
        stream = io.BytesIO()
        canvas.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return stream.getvalue().decode()
