"""A figure drawn as SVG (https://www.w3.org/TR/SVG11/) from the points of its CSV.

Equal points give equal bytes: matplotlib's ids come from a fixed salt and nothing says when it was made. Text stays text, so
that it can be searched and read aloud. Sizes are chosen so that the figure can be read at half its size.

What a reader must not overlook stands in the picture: what was measured in place of the paper's data, what guessing scores,
how far a value is uncertain, and what was not run. Values of the paper have axes of their own.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pretrieve.references.figures import OWN, Axis, Figure, Panel
from pretrieve.references.tables import titled
from pretrieve.reporting.figures.ground import CHANCE_LEVEL
from pretrieve.reporting.figures.marks import CHANCE, GREY, Legend, View, draw_view
from pretrieve.reporting.figures.points import AS_PUBLISHED, Point, is_measured
from pretrieve.reporting.figures.words import lines_above, lines_below, measured_here, reference_of, title_of
from pretrieve.reporting.tables.results import Setting

#: Inches. At half size the base font of 12 points is one of 6.
PANEL_WIDTH, PANEL_HEIGHT, SQUARE, MIN_WIDTH = 4.3, 3.3, 3.1, 6.4
#: Inches: of a line of text above the panels, and above the first.
_LINE, _MARGIN = 0.24, 0.12
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
    names the data that was measured, and so does an axis whose categories are data, where they are not the paper's.

    ``data-title`` of the root is the height of the title (SVG's user units), for pages that have it as text.
    """
    names: dict[tuple[str, str], str] = {}
    if setting:
        if figure.paper == OWN:  # nobody else has it, so its data stand in for nothing
            figure = replace(figure, panels=tuple(_on_data(panel, points, setting) for panel in figure.panels))
        caption = titled(figure.caption, measured_here(figure, points, setting), figure.paper == OWN)
        figure, names = replace(figure, caption=caption), tick_names(points, setting)
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": f"{figure.paper}/{figure.name}"}):
        canvas = draw(figure, points, scale, names)
        stream = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(stream, format="svg", metadata=nothing)
    height = 72 * (_LINE * len(title_of(figure, canvas.get_figwidth())) + _MARGIN)
    # A title and a description for readers who do not see it, and the height of its title.
    head, bracket, rest = stream.getvalue().decode().partition("<svg ")
    attributes, _, body = rest.partition(">")
    text = f"<title>{escape(f'{figure.name}: {figure.caption}')}</title><desc>{escape(figure.claim)}</desc>"
    return f'{head}{bracket}role="img" data-title="{height:.1f}" {attributes}>\n {text}{body}'.encode()


def _on_data(panel: Panel, points: Sequence[Point], setting: Setting) -> Panel:
    """The panel with the data that was measured as its title."""
    data = next((point.dataset for point in points if point.panel == panel.name and is_measured(point)), "")
    words = setting.described(data)
    return replace(panel, title=f"{words[0].upper()}{words[1:]}") if data else panel


def tick_names(points: Sequence[Point], setting: Setting) -> dict[tuple[str, str], str]:
    """(panel, x) → the data that was measured there, followed by the paper's name: of those x that are names of other data."""
    found = {}
    for panel in dict.fromkeys(point.panel for point in points):
        measured = [point for point in points if point.panel == panel and is_measured(point)]
        at = {point.x: point for point in measured}
        roles = {(point.x, point.role) for point in measured}
        if len({role for _, role in roles}) > 1 and len(roles) == len(at):  # each x has data of its own
            found |= {(panel, x): f"{p.dataset} (for {x})" for x, p in at.items() if p.role in setting.stand_ins}
    return found


def draw(
    figure: Figure, points: Sequence[Point], scale: str, names: Mapping[tuple[str, str], str] | None = None
) -> Canvas:
    """The figure on a canvas of matplotlib, without its global state. ``names``: (panel, x) → what its tick says, where it is not
    x."""
    axes_of = _views(figure, points, names or {})
    columns = min(figure.columns, len(axes_of))
    rows = math.ceil(len(axes_of) / columns)
    square = any(panel.draw == "scatter" for panel in figure.panels)
    width = max(columns * (SQUARE + 0.7 if square else PANEL_WIDTH), MIN_WIDTH)
    title = title_of(figure, width)
    above, below = lines_above(figure, points, scale, width), lines_below(figure, points, width)
    labels = [*dict.fromkeys(series.label for _, series in figure.all_series()), CHANCE_LEVEL, CHANCE]
    # A handle, the room between two entries, and the letters of the longest.
    beside = max(1, min(len(labels), int(width / 1.6), int(width / (0.75 + 0.085 * max(map(len, labels))))))
    more_rows = max(0, math.ceil(len(labels) / beside) - 2)
    top, bottom = 0.25 + _LINE * (len(title) + len(above)), 0.5 + 0.2 * len(below) + 0.22 * more_rows
    height = top + bottom + rows * (SQUARE + 0.35 if square else PANEL_HEIGHT)
    canvas = Canvas(figsize=(width, height))
    grid = canvas.subplots(rows, columns, squeeze=False)
    shown: Legend = {}
    for place, view in enumerate(axes_of):
        axes, panel = grid[place // columns, place % columns], view.panel
        series = {name for one in panel.series for name in (one.name, one.name + AS_PUBLISHED)}
        own = [point for point in points if point.panel == panel.name and point.series in series]
        draw_view(axes, view, own, shown, lettered=len(figure.panels) > 1)
    for axes in grid.flat[len(axes_of) :]:
        axes.set_visible(False)
    _share_y(grid.flat[: len(axes_of)], axes_of)
    canvas.tight_layout(rect=(0, bottom / height, 1, 1 - top / height), w_pad=2, h_pad=1.4)
    for i, line in enumerate([*title, *above]):
        look = {"fontweight": "bold", "gid": f"title-{i}"} if i < len(title) else {"color": GREY}
        canvas.text(0.12 / width, 1 - (_MARGIN + _LINE * i) / height, line, va="top", fontsize=12, **look)
    for i, line in enumerate(below):
        canvas.text(0.12 / width, (0.2 * (len(below) - i) - 0.08) / height, line, va="center", color=GREY, fontsize=10)
    if len(shown) > 1:
        for label in (CHANCE_LEVEL, CHANCE):  # after the methods, wherever it was met
            if label in shown:
                shown[label] = shown.pop(label)
        canvas.legend(
            shown.values(),
            shown.keys(),
            loc="lower center",
            bbox_to_anchor=(0.5, (0.2 * len(below) + 0.02) / height),
            ncols=min(len(shown), beside),
            frameon=False,
            handlelength=3.2,
            columnspacing=1.6,
        )
    return canvas


def _views(figure: Figure, points: Sequence[Point], names: Mapping[tuple[str, str], str]) -> list[View]:
    """What every axes shows. Published values have axes beside the measured ones, for they are of other data and other models.
    Changes and gains have the last axes: they are far smaller than what they are the difference of."""
    views, changes = [], []
    for panel in figure.panels:
        own = {x: name for (of, x), name in names.items() if of == panel.name}
        for kind in ("change", "gain"):
            some = tuple(series for series in panel.series if series.kind == kind)
            rest = tuple(series for series in panel.series if series.kind != kind)
            if some and rest:
                title, word = f"{panel.title}: change", "Absolute change"
                if kind == "gain":
                    title, word = panel.title, f"{panel.y.label} minus that of {reference_of(panel)}"
                changes.append(View(replace(panel, title=title, y=Axis(word, panel.y.unit), series=some)))
                panel = replace(panel, series=rest)
        views.append(View(panel, names=own))
        if any(point.published for point in points if point.panel == panel.name):
            views.append(View(panel, published=True))
    return views + changes


def _share_y(grid: Sequence[Axes], axes_of: Sequence[View]) -> None:
    """Panels of one figure with the same axis, measured alike, have the same range, so that they can be compared."""
    groups: dict[tuple, list[Axes]] = {}
    for axes, view in zip(grid, axes_of, strict=True):
        if view.panel.draw == "line" and axes.lines:
            groups.setdefault((view.panel.y, view.panel.x, view.published, axes.get_yscale()), []).append(axes)
    for group in groups.values():
        lows, highs = zip(*(axes.get_ylim() for axes in group), strict=True)
        for axes in group:
            axes.set_ylim(min(lows), max(highs))
