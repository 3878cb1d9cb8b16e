"""Marks on the axes of a figure: lines with error bars, bars, the dots of maps, and what the paper published.

A method looks the same everywhere (:mod:`pretrieve.references.palette`). What has no value is said and not left
blank; bars have their value beside them, for one near 0 cannot be seen beside what the paper published.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pretrieve.references.figures import Panel, Series
from pretrieve.references.palette import METHODS, Look
from pretrieve.reporting.figures.points import AS_PUBLISHED, Point, is_measured
from pretrieve.reporting.figures.stars import PUBLISHED, draw_stars, star

#: From so many points on a line has no markers, and a band in place of error bars.
MANY_POINTS = 20
#: Up to so many points each x has a tick.
FEW_POINTS = 8
GREY = "#555555"
#: A level so many times the range of the lines away from them is not drawn to scale.
FAR = 2
#: The legend's word for values that guessing has too; they are grey and hollow.
CHANCE, AT_CHANCE = "≈ chance", {"linestyle": "none", "marker": "o", "markersize": 9, "zorder": 5}
AT_CHANCE |= {"markerfacecolor": "#DDDDDD", "markeredgecolor": "#888888"}
#: An axis of relative changes is logarithmic beyond ± so many per cent where the largest is more than ``TOO_FAR`` and the
#: smallest less than a twentieth of it: on a linear one the small changes would all lie on 0.
LINEAR, TOO_FAR, FLATTENED = 10, 100, 20
#: Up to so many bars there is room for a number across each.
FEW_BARS = 6


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
    axes.set_title(textwrap.fill("As published" if published else f"{letter}{panel.title}", 46), loc="left")
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
        stars = _lines(axes, panel, points, names, published, shown)
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
        ticks = sorted({float(point.x) for point in points if point.x})  # of a level there is none
        if panel.x.scale == "log2":
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
        counted = any(series.kind in ("tokens", "gain") for series in panel.series)  # at no round numbers
        if panel.x.scale == "log2" or (len(ticks) <= FEW_POINTS and not counted):
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.margins(x=0.08)
    if panel.draw == "line" and stars:
        draw_stars(axes, stars, points)  # at the edge by where x lies on the axes, so these are ready
        shown.add(PUBLISHED, Line2D([], [], **star(Look(GREY, "*"))))
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
) -> list[tuple[float, Point, Look]]:
    """Draw the lines. Returns the published values that are to stand among them."""
    if panel.y.unit == "%" and any(series.relative_to for series in panel.series):
        axes.axhline(0, color=GREY, linewidth=1)
        if not published:
            _spread(axes, [float(point.y) for point in points if is_measured(point)])
    if any(series.kind == "gain" for series in panel.series):
        axes.axhline(0, color=GREY, linewidth=1)
    stars: list[tuple[float, Point, Look]] = []
    for order, series in enumerate(panel.series):
        look, own = METHODS[series.method], _of(series, points)
        stated = [(_at(point.x, names), float(point.published)) for point in own if point.published]
        line = _style(series, look)
        if series.kind == "level":
            _level(axes, series, [float(point.y) for point in own if is_measured(point)], points, shown)
            continue
        if published:
            if stated:
                shown.add(series.label, axes.plot(*zip(*stated, strict=True), **line)[0])
            continue
        there = sorted((point for point in own if is_measured(point)), key=lambda point: _at(point.x, names))
        if there:
            xs, ys = [_at(point.x, names) for point in there], [float(point.y) for point in there]
            sds = [float(point.sd or 0) for point in there]
            if all(point.low for point in there):
                ends = ([float(getattr(point, end)) for point in there] for end in ("low", "high"))
                axes.fill_between(xs, *ends, color=line["color"], alpha=0.12, linewidth=0)
                sds = []
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
            _at_chance(axes, xs, there, shown)
        if not panel.published_panel:
            stars += [(_at(point.x, names), point, look) for point in own if point.published]
    return stars


def _level(axes: Axes, series: Series, levels: Sequence[float], points: Sequence[Point], shown: Legend) -> None:
    """A line across the axes; one far from all lines is a number at their edge, for it would press these together."""
    look = METHODS[series.method]
    drawn = [float(point.y) for point in points if point.x and is_measured(point)]
    for y in levels:
        room = FAR * (max(drawn) - min(drawn)) if drawn else math.inf
        if drawn and not min(drawn) - room <= y <= max(drawn) + room:
            up = y > max(drawn)
            place = {"xy": (0.98, 0.95 if up else 0.05), "ha": "right", "va": "top" if up else "bottom"}
            text = f"{series.label} {y:.3g} {'↑' if up else '↓'}"
            axes.annotate(text, xycoords="axes fraction", color=look.colour, fontsize=10, **place)
        else:
            line = axes.axhline(y, color=look.colour, linestyle=(0, look.dash), linewidth=1.5)
            shown.add(series.label, line)


def _at_chance(axes: Axes, xs: Sequence[float], points: Sequence[Point], shown: Legend) -> None:
    """Grey signs on the points that are not beyond what guessing scores."""
    guessed = [(x, float(point.y)) for x, point in zip(xs, points, strict=True) if point.beyond_chance == "no"]
    if guessed:
        shown.add(CHANCE, axes.plot(*zip(*guessed, strict=True), **AT_CHANCE)[0])


def _spread(axes: Axes, values: Sequence[float]) -> None:
    """Make y logarithmic beyond ± ``LINEAR`` where few large values would flatten the rest, and say so."""
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) <= TOO_FAR or min(sizes) * FLATTENED >= max(sizes):
        return
    axes.set_yscale("symlog", linthresh=LINEAR)
    powers = [10.0**n for n in range(1, len(f"{max(sizes):.0f}") + 1)]
    ticks = [*(-power for power in reversed(powers)), 0.0, *powers]
    axes.set_yticks(ticks, [f"{tick:,.0f}".replace("-", "−") for tick in ticks])
    axes.set_ylim(min([0.0, *values]) * 2 - LINEAR / 2, max([0.0, *values]) * 2 + LINEAR / 2)
    axes.set_ylabel(f"{axes.get_ylabel()},\nlogarithmic beyond ±{LINEAR}")


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


def _bars(axes: Axes, panel: Panel, points: Sequence[Point], names: Sequence[str], shown: Legend) -> None:
    wide = 0.88 / len(panel.series)
    tops: list[tuple[float, Point, list[float]]] = []  # place, point, what must not lie under its number
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
            _at_chance(axes, xs, there, shown)
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
            for x, point in zip(xs, there, strict=True):
                tops.append((x, point, [float(point.published)] if point.published else []))
        stated = [(_at(point.x, names) + shift, float(point.published)) for point in own if point.published]
        if stated:
            axes.plot(*zip(*stated, strict=True), **(star(look) | {"markersize": 12}))
            shown.add(PUBLISHED, Line2D([], [], **star(Look(GREY, "*"))))
    _numbers(axes, tops)


def _numbers(axes: Axes, tops: Sequence[tuple[float, Point, list[float]]]) -> None:
    """The value of each bar above it, or above the star that would lie on it. ``tops``: place, point, its stars."""
    axes.margins(y=0.2)
    low, high = axes.get_ylim()
    upright = len(tops) > FEW_BARS
    need = (0.26 if upright else 0.13) * (high - low)
    for x, point, stars in tops:
        y = max(0.0, float(point.y) + float(point.sd or 0))
        for at in stars:
            y = at + 0.03 * (high - low) if y - 0.05 * (high - low) < at < y + need else y
        text = point.y if abs(float(point.y)) < 0.1 else f"{float(point.y):.3g}"
        axes.annotate(
            text.replace("-", "−"),
            (x, y),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            rotation=90 if upright else 0,
            fontsize=9,
        )


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
