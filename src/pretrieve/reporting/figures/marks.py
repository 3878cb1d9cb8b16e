"""Marks on the axes of a figure: lines with error bars, bars, the dots of maps, and what the paper published.

A method looks the same everywhere (:mod:`pretrieve.reporting.figures.palette`). What has no value is said and not left
blank; a published value far from everything measured stands at the edge, for it would flatten the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pretrieve.reporting.figures.palette import METHODS, Look
from pretrieve.reporting.figures.points import AS_PUBLISHED, Point, is_measured
from pretrieve.reporting.figures.reference import Panel, Series

#: From so many points on a line has no markers, and a band in place of error bars.
MANY_POINTS = 20
#: Up to so many points each x has a tick.
FEW_POINTS = 8
GREY = "#555555"
#: The legend's word for points of the paper.
PUBLISHED = "published"


@dataclass
class Legend:
    """Handles by label, in the order in which series are met: one entry for a look, however many panels show it."""

    handles: dict[str, object] = field(default_factory=dict)

    def add(self, label: str, handle: object) -> None:
        self.handles.setdefault(label, handle)


def draw_panel(
    axes: Axes, panel: Panel, points: Sequence[Point], published: bool, shown: Legend, lettered: bool
) -> None:
    """Draw the ``points`` of a panel, measured or (``published``) as the paper has them, and note in ``shown`` what a legend
    needs. ``lettered``: the panel's letter stands in its title."""
    letter = f"({panel.name}) " if lettered and len(panel.name) == 1 else ""
    # The published values stand beside the measured ones, so their axes need not say again of what.
    axes.set_title("As published" if published else f"{letter}{panel.title}", loc="left")
    axes.set_xlabel(panel.x.text)
    axes.set_ylabel(textwrap.fill(panel.y.text, 26))
    if panel.draw == "scatter":
        _scatter(axes, panel, points, shown)
        return
    axes.grid(axis="y")
    names = _categories(panel, points)
    if panel.draw == "bar":
        _bars(axes, panel, points, names, shown)
    else:
        _lines(axes, panel, points, names, published, shown)
    if panel.x.scale == "category":
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        if sum(map(len, names)) > 24:
            axes.tick_params(axis="x", rotation=28)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
        _mark_missing(axes, panel, points, names, published)
    else:
        ticks = sorted({float(point.x) for point in points if point.x})
        if panel.x.scale == "log2":
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
        if panel.x.scale == "log2" or len(ticks) <= FEW_POINTS:
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.margins(x=0.08)
    if not any(_shown(point, published) for point in points):
        axes.set_yticks([])
        axes.text(0.5, 0.5, _instead(points), transform=axes.transAxes, ha="center", va="center", color=GREY)


def _instead(points: Sequence[Point]) -> str:
    """What stands in empty axes."""
    return "failed" if any(point.status == "failed" for point in points) else "not run at this scale"


def _shown(point: Point, published: bool) -> bool:
    return bool(point.published) if published else is_measured(point) or bool(point.published)


def _categories(panel: Panel, points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.x for point in points if point.x)) if panel.x.scale == "category" else []


def _at(x: str, names: Sequence[str]) -> float:
    return float(names.index(x)) if names else float(x)


def _of(series: Series, points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.series in (series.name, series.name + AS_PUBLISHED)]


def _lines(
    axes: Axes, panel: Panel, points: Sequence[Point], names: Sequence[str], published: bool, shown: Legend
) -> None:
    if panel.y.unit == "%" and any(series.relative_to for series in panel.series):
        axes.axhline(0, color=GREY, linewidth=1)
    stars: list[tuple[float, Point, Look]] = []
    for order, series in enumerate(panel.series):
        look, own = METHODS[series.method], _of(series, points)
        stated = [(_at(point.x, names), float(point.published)) for point in own if point.published]
        line = _style(series, look)
        if published:
            if stated:
                shown.add(series.label, axes.plot(*zip(*stated, strict=True), **line)[0])
            continue
        there = sorted((point for point in own if is_measured(point)), key=lambda point: _at(point.x, names))
        if there:
            xs, ys = [_at(point.x, names) for point in there], [float(point.y) for point in there]
            sds = [float(point.sd or 0) for point in there]
            if len(there) > MANY_POINTS:
                line |= {"markevery": max(1, len(there) // 8)}
            if any(sds) and len(there) > MANY_POINTS:
                low, high = ([y + sign * sd for y, sd in zip(ys, sds, strict=True)] for sign in (-1, 1))
                axes.fill_between(xs, low, high, color=line["color"], alpha=0.2, linewidth=0)
            elif any(sds):
                # Bars of neighbours stand side by side, or they would be read as one.
                shift = 0.0 if not names else 0.06 * (order - (len(panel.series) - 1) / 2)
                xs = [x + shift for x in xs]
                axes.errorbar(xs, ys, sds, fmt="none", ecolor=line["color"], elinewidth=1.2, capsize=3)
            shown.add(series.label, axes.plot(xs, ys, **line)[0])
        if not panel.published_panel:
            stars += [(_at(point.x, names), point, look) for point in own if point.published]
    if stars:
        _draw_stars(axes, stars, points)
        shown.add(PUBLISHED, Line2D([], [], **_star(Look(GREY, "*"))))


def _draw_stars(axes: Axes, stars: Sequence[tuple[float, Point, Look]], points: Sequence[Point]) -> None:
    """Published points. One far from everything measured stands at the edge with its number: it would flatten the rest."""
    measured = [float(point.y) for point in points if is_measured(point)]
    low, high = (min(measured), max(measured)) if measured else (float("-inf"), float("inf"))
    room = 2 * (high - low)
    for x, point, look in stars:
        y = float(point.published)
        if low - room <= y <= high + room:
            axes.plot([x], [y], **_star(look))
            continue
        edge, arrow = (0.93, "↑") if y > high else (0.07, "↓")
        axes.plot([x], [edge], **_star(look), transform=axes.get_xaxis_transform())
        axes.annotate(
            f"{point.published} {arrow}",
            (x, edge),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, -19 if y > high else 12),
            textcoords="offset points",
            ha="center",
            color=look.colour,
            fontsize=10,
        )


def _style(series: Series, look: Look) -> dict:
    """How a line of a series looks; before fine-tuning it is hollow and dashed, and a difference is dotted and thin."""
    line = {"color": look.colour, "marker": look.marker, "markersize": 7, "linewidth": 2}
    line["linestyle"] = (0, look.dash) if look.dash else "-"
    if series.variant == "before":
        line |= {"markerfacecolor": "white", "markeredgewidth": 1.8, "linestyle": (0, (4, 2))}
    elif series.variant == "difference":
        line |= {"marker": "x", "linewidth": 1.2, "markeredgewidth": 1.5, "linestyle": (0, (1, 1.5))}
    elif series.stage == "finetuned":
        line |= {"linestyle": "-"}
    return line


def _star(look: Look) -> dict:
    return {
        "linestyle": "none",
        "marker": "*",
        "markersize": 15,
        "markerfacecolor": "white",
        "markeredgecolor": look.colour,
        "markeredgewidth": 1.5,
        "zorder": 4,
    }


def _bars(axes: Axes, panel: Panel, points: Sequence[Point], names: Sequence[str], shown: Legend) -> None:
    wide = 0.8 / len(panel.series)
    for order, series in enumerate(panel.series):
        look, own = METHODS[series.method], _of(series, points)
        shift = wide * (order - (len(panel.series) - 1) / 2)
        there = [point for point in own if is_measured(point)]
        if there:
            xs = [_at(point.x, names) + shift for point in there]
            bars = axes.bar(
                xs,
                [float(point.y) for point in there],
                wide * 0.92,
                color=look.colour,
                hatch=look.hatch,
                edgecolor="white",
                linewidth=0,
            )
            shown.add(series.label, bars)
            sds = [float(point.sd or 0) for point in there]
            if any(sds):
                axes.errorbar(
                    xs,
                    [float(p.y) for p in there],
                    sds,
                    fmt="none",
                    ecolor="black",
                    elinewidth=1.2,
                    capsize=4,
                )
        stated = [(_at(point.x, names) + shift, float(point.published)) for point in own if point.published]
        if stated:
            axes.plot(*zip(*stated, strict=True), **(_star(look) | {"markersize": 12}))
            shown.add(PUBLISHED, Line2D([], [], **_star(Look(GREY, "*"))))


def _mark_missing(axes: Axes, panel: Panel, points: Sequence[Point], names: Sequence[str], published: bool) -> None:
    """Say at a category for which nothing was run that it was not forgotten."""
    if published or not any(is_measured(point) for point in points):
        return
    for place, name in enumerate(names):
        words = {point.status for point in points if point.x == name}
        if words and words <= {"not-run", "failed"}:
            transform = axes.get_xaxis_transform()
            word = " and ".join(sorted(words))
            axes.text(
                place, 0.04, word, transform=transform, rotation=90, ha="center", va="bottom", color=GREY, fontsize=10
            )


def _scatter(axes: Axes, panel: Panel, points: Sequence[Point], shown: Legend) -> None:
    axes.set_xticks([])  # the axes of a t-SNE map have no meaning but nearness
    axes.set_yticks([])
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    for series in panel.series:
        there = [point for point in _of(series, points) if is_measured(point)]
        look = METHODS[series.method]
        xs, ys = ([float(getattr(point, key)) for point in there] for key in ("x", "y"))
        hollow = look.marker != "o"
        axes.scatter(
            xs,
            ys,
            s=16 if hollow else 7,
            marker=look.marker,
            facecolors="none" if hollow else look.colour,
            edgecolors=look.colour,
            linewidths=0.9 if hollow else 0,
            zorder=1 if hollow else 2,  # the small dots lie on the hollow signs, so that neither hides the other
        )
        if there:
            legend = {"marker": look.marker, "color": look.colour, "linestyle": "none", "markersize": 7}
            shown.add(series.label, Line2D([], [], **legend, fillstyle="none" if hollow else "full"))
    if not any(is_measured(point) for point in points):
        axes.text(0.5, 0.5, _instead(points), transform=axes.transAxes, ha="center", va="center", color=GREY)
