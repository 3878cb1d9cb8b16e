"""The headlines of a publication: one claim of each paper, as a table for README.md and as a picture (``headlines.svg``).

The claims are chosen once, for every run: what a paper's method adds to what the paper first compares it with. Effects,
intervals and verdicts are those of the claims ledger (:mod:`pretrieve.reporting.claims.ledger`).
"""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure as Canvas

from pretrieve.base.errors import DataError
from pretrieve.base.paths import table_file
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.figures.draw import STYLE
from pretrieve.reporting.report.status import split_name
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
    nothing was measured."""

    finding: Finding
    cells: list[Line]
    values: list[float]

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
        factor = _POINTS[self.finding.unit] if self.values else 1
        return " against ".join(f"{factor * value:.1f}" for value in self.values) or "–"

    @property
    def verdict(self) -> str:
        """The ledger's, and how many of the compared values are no better than guessing."""
        chance = sum(cell.beyond_chance == "no" for cell in self.cells)
        return self.finding.verdict + (f"; {chance} of {len(self.cells)} values ≈ chance" if chance else "")


def read_headlines(root: Path, claims: Sequence[str] = HEADLINES) -> list[Headline]:
    """The headlines of the run ``root`` (``results/{scale}``), in the order of ``claims``.

    Raises DataError when a claim is not in the run's ledger, or a file is missing or damaged.
    """
    findings = {finding.id: finding for finding in read_rows(root / "claims.csv", Finding)}
    comparisons = read_rows(root / "claims.groups.csv", Comparison)
    headlines = []
    for name in claims:
        if name not in findings:
            raise DataError(
                f"{root / 'claims.csv'}: no claim {name}, which README.md shows. {make_it(root / 'claims.csv')}"
            )
        finding = findings[name]
        effect = (finding.effect, finding.low, finding.high)
        middle = [one for one in comparisons if one.id == name and (one.effect, one.low, one.high) == effect]
        if all(effect) and middle:
            values = [float(value) for value in middle[0].values.split("; ")]
            headlines.append(Headline(finding, _cells_of(root, middle[0]), values))
        else:
            headlines.append(Headline(finding, [], []))
    return headlines


def _cells_of(root: Path, comparison: Comparison) -> list[Line]:
    cells = []
    for name in json.loads(comparison.cells):
        table, _, place = name.partition(": ")
        lines = read_lines(table_file(str(root), *split_name(table)))
        found = [line for line in lines if f"{line.row}, {line.column}" == place]
        if not found:
            raise DataError(
                f"{root / 'claims.groups.csv'}: {table} has no cell '{place}'. {make_it(root / 'claims.csv')}"
            )
        cells += found
    return cells


def headline_table(headlines: Sequence[Headline], folder: str) -> str:
    """A Markdown table with one row for each headline. ``folder``: of the publication, from the page that shows the table."""
    rows = ["| Paper | Difference | Scores, % | Points [95 % interval] | Test queries | Seeds | Verdict | Cells |"]
    rows.append("|:--|:--|--:|--:|:--|--:|:--|:--|")
    for headline in headlines:
        finding, points, effect, data = headline.finding, headline.points, "–", "–"
        if points:
            effect = "{:+.1f} [{:.1f}, {:.1f}]".format(*points).replace("-", "−")
            cell = headline.cells[0]
            data = f"{cell.queries} of `{cell.dataset}`, {cell.metric}"
        link = f"[{finding.table}]({folder}/{finding.paper}/{finding.table}.md)"
        fields = (
            finding.paper,
            finding.estimand,
            headline.scores,
            effect,
            data,
            finding.seeds or "–",
            headline.verdict,
            link,
        )
        rows.append("| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |")
    return "\n".join(rows)


def headline_picture(headlines: Sequence[Headline], scale: str) -> bytes:
    """The same as SVG: a point with its interval for each headline that was measured. Equal headlines give equal bytes."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "headlines"}):
        canvas = Canvas(figsize=(10, 1.3 + 0.75 * len(headlines)), layout="constrained")
        axes = canvas.subplots()
        for i, headline in enumerate(headlines):
            said = headline.verdict.replace("; ", "\n")
            if points := headline.points:
                effect, low, high = points
                error = [[effect - low], [high - effect]]
                axes.errorbar(effect, i, xerr=error, fmt="o", color="#1F4E9C", capsize=4, linewidth=2)
                said = f"{effect:+.1f}, {said}".replace("-", "−")
            axes.annotate(said, (1.01, i), xycoords=("axes fraction", "data"), va="center", fontsize=11)
        axes.axvline(0, color="#555555", linewidth=1)
        axes.set_yticks(range(len(headlines)), [textwrap.fill(one.finding.estimand, 44) for one in headlines])
        axes.set_ylim(len(headlines) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.set_xlabel("difference in percentage points, with its 95 % interval")
        axes.set_title(f"What each paper's method adds, measured at the {scale} scale", loc="left")
        stream = io.BytesIO()
        canvas.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return stream.getvalue()
