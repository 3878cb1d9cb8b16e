"""A figure drawn as SVG (https://www.w3.org/TR/SVG11/) from the points of its CSV.

Equal points give equal bytes: matplotlib's ids come from a fixed salt and nothing says when it was made. Text stays text, so
that it can be searched and read aloud. Sizes are chosen so that the figure can be read at half its size.

What a reader must not overlook stands in the picture: below paper scale a line in the caption says so, axes name their
unit, a series that was not run is named with its reason, and points of the paper are stars without a line, or have axes of
their own.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pretrieve.references.figures import OWN, Axis, Figure, Panel
from pretrieve.references.tables import titled
from pretrieve.reporting.figures.marks import GREY, Legend, draw_panel
from pretrieve.reporting.figures.points import AS_PUBLISHED, NOT_AHEAD, Point, is_measured
from pretrieve.reporting.figures.stars import PUBLISHED
from pretrieve.reporting.tables.results import Setting

#: Inches. At half size the base font of 12 points is one of 6.
PANEL_WIDTH, PANEL_HEIGHT, SQUARE, MIN_WIDTH = 4.3, 3.3, 3.1, 6.4
STYLE = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.labelsize": 12,
    "legend.fontsize": 11,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "white",
}


def to_svg(figure: Figure, points: Sequence[Point], scale: str, setting: Setting | None = None) -> bytes:
    """The figure as an SVG file. ``points`` are those of its CSV, ``scale`` is where they were measured. ``setting``: the title
    names the data that was measured, and so does an axis whose categories are data, where they are not the paper's."""
    if setting:
        if figure.paper == OWN:  # nobody else has it, so its data stand in for nothing
            figure = replace(figure, panels=tuple(_on_data(panel, points, setting) for panel in figure.panels))
        else:
            here = setting.in_place_of(point.role for point in points if is_measured(point))
            figure = replace(figure, caption=titled(figure.caption, here))
        points = [_renamed(point, points, setting) for point in points]
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": f"{figure.paper}/{figure.name}"}):
        canvas = draw(figure, points, scale)
        stream = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(stream, format="svg", metadata=nothing)
    return _named(stream.getvalue(), f"{figure.name}: {figure.caption}", figure.claim)


def _on_data(panel: Panel, points: Sequence[Point], setting: Setting) -> Panel:
    """The panel with the data that was measured as its title."""
    data = next((point.dataset for point in points if point.panel == panel.name and is_measured(point)), "")
    words = setting.described(data)
    return replace(panel, title=f"{words[0].upper()}{words[1:]}") if data else panel


def _renamed(point: Point, points: Sequence[Point], setting: Setting) -> Point:
    """A point whose x is the paper's name of other data has that data as x, and the paper's name behind it."""
    panel = [other for other in points if other.panel == point.panel]
    roles = {other.role for other in panel if is_measured(other)}
    own = {(other.x, other.role) for other in panel if is_measured(other)}
    by_x = len(roles) > 1 and len({x for x, _ in own}) == len(own)
    dataset = next((other.dataset for other in panel if other.x == point.x and is_measured(other)), "")
    if not by_x or not dataset or next(role for x, role in own if x == point.x) not in setting.stand_ins:
        return point
    return point._replace(x=f"{dataset} (for {point.x})")


def _named(svg: bytes, title: str, description: str) -> bytes:
    """The same with a title and a description for readers who do not see it."""
    head, bracket, rest = svg.decode().partition("<svg ")
    attributes, end, body = rest.partition(">")
    text = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'{head}{bracket}role="img" {attributes}{end}\n {text}{body}'.encode()


def draw(figure: Figure, points: Sequence[Point], scale: str) -> Canvas:
    """The figure on a canvas of matplotlib, without its global state."""
    axes_of = _views(figure, points)
    columns = min(figure.columns, len(axes_of))
    rows = math.ceil(len(axes_of) / columns)
    square = any(panel.draw == "scatter" for panel in figure.panels)
    width = max(columns * (SQUARE + 0.7 if square else PANEL_WIDTH), MIN_WIDTH)
    above, below = _texts(figure, points, scale, width)
    labels = list(dict.fromkeys(series.label for _, series in figure.all_series()))
    # A handle, the room between two entries, and the letters of the longest.
    beside = max(1, min(len(labels), int(width / 1.6), int(width / (0.75 + 0.085 * max(map(len, labels))))))
    more_rows = max(0, math.ceil(len(labels) / beside) - 2)
    top, bottom = 0.25 + 0.24 * len(above), 0.5 + 0.2 * len(below) + 0.22 * more_rows
    height = top + bottom + rows * (SQUARE + 0.35 if square else PANEL_HEIGHT)
    canvas = Canvas(figsize=(width, height))
    grid = canvas.subplots(rows, columns, squeeze=False)
    shown = Legend()
    for place, (panel, published) in enumerate(axes_of):
        axes = grid[place // columns, place % columns]
        names = {name for series in panel.series for name in (series.name, series.name + AS_PUBLISHED)}
        own = [point for point in points if point.panel == panel.name and point.series in names]
        draw_panel(axes, panel, own, published, shown, lettered=len(figure.panels) > 1)
    for axes in grid.flat[len(axes_of) :]:
        axes.set_visible(False)
    _share_y(figure, grid.flat[: len(axes_of)], axes_of)
    canvas.tight_layout(rect=(0, bottom / height, 1, 1 - top / height), w_pad=2, h_pad=1.4)
    for i, (line, bold) in enumerate(above):
        weight, colour = ("bold", "black") if bold else ("normal", GREY)
        canvas.text(
            0.12 / width, 1 - (0.12 + 0.24 * i) / height, line, va="top", fontweight=weight, color=colour, fontsize=12
        )
    for i, line in enumerate(below):
        canvas.text(0.12 / width, (0.2 * (len(below) - i) - 0.08) / height, line, va="center", color=GREY, fontsize=10)
    if len(shown.handles) > 1:
        if PUBLISHED in shown.handles:  # behind the methods, wherever it was met
            shown.handles[PUBLISHED] = shown.handles.pop(PUBLISHED)
        canvas.legend(
            shown.handles.values(),
            shown.handles.keys(),
            loc="lower center",
            bbox_to_anchor=(0.5, (0.2 * len(below) + 0.02) / height),
            ncols=min(len(shown.handles), beside),
            frameon=False,
            handlelength=3.2,
            columnspacing=1.6,
        )
    return canvas


def _views(figure: Figure, points: Sequence[Point]) -> list[tuple[Panel, bool]]:
    """What every axes shows: (panel with the series of these axes, whether as published).

    Published values may have axes beside the measured ones. Changes and gains have axes behind all others: they are far smaller
    than what they are the difference of, and would press it together.
    """
    views, changes = [], []
    for panel in figure.panels:
        for kind in ("change", "gain"):
            some = tuple(series for series in panel.series if series.kind == kind)
            rest = tuple(series for series in panel.series if series.kind != kind)
            if some and rest:
                title = f"{panel.title}: change" if kind == "change" else panel.title
                word = "Absolute change" if kind == "change" else f"{panel.y.label} minus that of {_reference(panel)}"
                changes.append((replace(panel, title=title, y=Axis(word, panel.y.unit), series=some), False))
                panel = replace(panel, series=rest)
        views.append((panel, False))
        if panel.published_panel and any(point.published for point in points if point.panel == panel.name):
            views.append((panel, True))
    return views + changes


def _reference(panel: Panel) -> str:
    """What the gains of a panel are taken over."""
    name = next(series.of[1] for series in panel.series if series.kind == "gain")
    label = next(series.label for series in panel.series if series.name == name)
    return f"{label[0].lower()}{label[1:]}"


def _ahead(figure: Figure, points: Sequence[Point]) -> list[str]:
    """For each panel with gains, from where on each is above 0, in a sentence."""
    lines = []
    for panel in figure.panels:
        words = []
        for series in (series for series in panel.series if series.kind == "gain"):
            own = [p for p in points if (p.panel, p.series) == (panel.name, series.name) and p.ahead_from]
            if own:
                at = own[0].ahead_from
                words.append(f"{series.label} {at if at == NOT_AHEAD else f'from {at} {panel.x.unit} on'}")
        if words:
            lines.append(f"({panel.name}) Ahead of {_reference(panel)}, the whole interval: {'; '.join(words)}.")
    return lines


def _drawn(figure: Figure, points: Sequence[Point]) -> str:
    """How many texts the maps show, in a sentence: of a small data set fewer than the paper's."""
    maps = [(panel, series) for panel, series in figure.all_series() if series.kind == "map"]
    counts: dict[str, int] = {}
    for panel, series in maps:
        own = [p for p in points if (p.panel, p.series) == (panel.name, series.name) and is_measured(p)]
        counts[series.label] = max(counts.get(series.label, 0), len(own))
    if not any(counts.values()):
        return ""
    words = f"Drawn: {' and '.join(f'{n} {label}' for label, n in counts.items())}"
    wanted = figure.map["texts"]
    if min(counts.values()) < wanted:
        words += f", for the data set has no more to test; the paper has {wanted} of each"
    return f"{words}."


def _texts(
    figure: Figure, points: Sequence[Point], scale: str, width: float
) -> tuple[list[tuple[str, bool]], list[str]]:
    """Lines (text, bold) above the panels, and lines below them."""
    number = figure.name.removeprefix("figure")
    characters = int(width * 10.6)
    title = textwrap.wrap(
        f"Figure {number} ({figure.paper}). {figure.caption[0].upper()}{figure.caption[1:]}", int(width * 9.6)
    )
    above = [(line, True) for line in title]
    measured = [point for point in points if is_measured(point)]
    if measured:
        seeds = max(int(point.n_seeds) for point in measured)
        words = "One seed, so no error bars." if seeds == 1 else f"Mean of {seeds} seeds; bars and bands are ± sd."
        if any(point.low for point in measured):
            of = "queries, of one seed" if seeds == 1 else f"queries and {seeds} seeds"
            words = f"Bands are 95 % intervals over {of}."
        if scale != "paper":
            words = (
                f"Measured at the {scale} scale (scale-differs): less data, smaller models. Compare methods with each other. "
                + words
            )
        words = " ".join(filter(None, (words, _drawn(figure, points))))
        above += [(line, False) for line in textwrap.wrap(words, characters)]
    below = [line for text in _ahead(figure, points) for line in textwrap.wrap(text, int(width * 13))]
    said = len(below)
    for reason, places in _missing(figure, points).items():
        some = ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")
        below += textwrap.wrap(f"{some}: {reason}.", int(width * 13), break_on_hyphens=False)
    if len(below) > said + 6:
        below = [*below[: said + 5], "… the rest stands in the CSV."]
    return above, below


def _missing(figure: Figure, points: Sequence[Point]) -> dict[str, list[str]]:
    """Why something is missing → what, in few words: an x that no series of its panel has is named once."""
    missing: dict[str, list[str]] = {}
    for point in points:
        if point.status in ("not-run", "failed"):
            alike = [other for other in points if (other.panel, other.x) == (point.panel, point.x)]
            whole = point.x and all((other.status, other.role) == (point.status, point.role) for other in alike)
            what = point.x if whole else f"{point.series} {point.x}".strip()
            what = what if len(figure.panels) == 1 else f"({point.panel}) {what}"
            places = missing.setdefault(f"{point.status}, {_reason(point, figure)}", [])
            if what not in places:
                places.append(what)
    return missing


def _reason(point: Point, figure: Figure) -> str:
    """Why there is no value, without the reference's own note."""
    own = next(
        (
            series.note
            for panel, series in figure.all_series()
            if (panel.name, series.name) == (point.panel, point.series)
        ),
        "",
    )
    return point.note.removeprefix(own).removeprefix("; ")


def _share_y(figure: Figure, grid: Sequence[Axes], axes_of: Sequence[tuple[Panel, bool]]) -> None:
    """Panels of one figure with the same axis, measured alike, have the same range, so that they can be compared."""
    groups: dict[tuple, list[Axes]] = {}
    for axes, (panel, published) in zip(grid, axes_of, strict=True):
        if panel.draw == "line" and axes.lines:
            groups.setdefault((panel.y, panel.x, published, axes.get_yscale()), []).append(axes)
    for group in groups.values():
        low, high = min(axes.get_ylim()[0] for axes in group), max(axes.get_ylim()[1] for axes in group)
        if len(group) > 1 and group[0].get_yscale() == "linear":
            # A margin of the range that they share, for the markers.
            low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
        for axes in group:
            axes.set_ylim(low, high)
