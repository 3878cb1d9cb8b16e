"""Marks on the axes of a figure: lines and points with their intervals, bars, the dots of maps.

A method looks the same everywhere (:mod:`pretrieve.references.palette`). Lines join numbers, and names that have an order; names
without one have points side by side. What has no value is said and not left blank; bars have their value above them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pretrieve.references.figures import Panel, Series
from pretrieve.references.palette import METHODS, Look
from pretrieve.reporting.figures.ground import chance_lines, is_far, is_relative, levels_of, set_limits
from pretrieve.reporting.figures.points import AS_PUBLISHED, Point, is_measured

#: From so many points on a line has few markers.
MANY_POINTS = 20
#: Up to so many points each x has a tick.
FEW_POINTS = 8
GREY = "#555555"
#: The legend's word for values that guessing has too; they are grey and hollow.
CHANCE, AT_CHANCE = "≈ chance", {"linestyle": "none", "marker": "o", "markersize": 9, "zorder": 5, "clip_on": False}
AT_CHANCE |= {"markerfacecolor": "#DDDDDD", "markeredgecolor": "#888888"}
#: Up to so many bars with so many letters there is room for a number across each.
FEW_BARS, FEW_LETTERS = 6, 5
#: Room for what stands side by side at a name, at most this much for each series, less where lines join it, and for all.
BESIDE, JOINED_BESIDE, ALL_BESIDE = 0.12, 0.07, 0.7
#: Handles by label, in the order in which series are met: one entry for a look, however many panels show it.
Legend = dict[str, object]


@dataclass(frozen=True)
class View:
    """What one pair of axes shows: the series of ``panel``, measured or as ``published``. ``names``: x of a category → what its
    tick says, where that is not x."""

    panel: Panel
    published: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


def draw_view(axes: Axes, view: View, points: Sequence[Point], shown: Legend, lettered: bool) -> None:
    """Draw the ``points`` of a panel, and note in ``shown`` what a legend needs. ``lettered``: the panel's letter stands in its
    title."""
    panel, published = view.panel, view.published
    letter = f"({panel.name}) " if lettered and len(panel.name) == 1 else ""
    title = f"{letter}{panel.title}{', as published' if published else ''}"
    axes.set_title(textwrap.fill(title, 30), loc="left")
    axes.set_xlabel(panel.x.text)
    axes.set_ylabel(textwrap.fill(panel.y.text, 26))
    if panel.draw == "scatter":
        _scatter(axes, panel, points, shown)
        return
    axes.grid(axis="y")
    places = _places(view, points)
    if is_relative(panel) and not published:
        points = _without_chance(axes, points, places)
    set_limits(axes, panel, points, published)
    if panel.draw == "bar":
        _bars(axes, view, points, places, shown)
    else:
        _lines(axes, view, points, places, shown)
    _name_x(axes, view, points, places)
    if not any(_has_value(point, published) for point in points):
        axes.set_yticks([])
        _say_empty(axes, points)


def _places(view: View, points: Sequence[Point]) -> dict[str, float]:
    """x → where it lies: of every name, and of numbers that have a value."""
    names = view.panel.x.is_names
    xs = dict.fromkeys(point.x for point in points if point.x and (names or _has_value(point, view.published)))
    return {x: float(i if names else x) for i, x in enumerate(xs)}


def _name_x(axes: Axes, view: View, points: Sequence[Point], places: Mapping[str, float]) -> None:
    """Ticks of the axis of x."""
    panel = view.panel
    if panel.x.is_names:
        words = [view.names.get(x, x) for x in places]
        leaning = {"rotation": 28, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, words)) > 24 else {}
        axes.set_xticks(list(places.values()), words, **leaning)
        axes.set_xlim(-0.5, len(places) - 0.5)
        _mark_missing(axes, points, places, view.published)
        return
    ticks = sorted(set(places.values()))
    if panel.x.scale == "log2":
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    counted = any(series.kind in ("tokens", "gain", "steps") for series in panel.series)  # at no round numbers
    if panel.x.scale == "log2" or (len(ticks) <= FEW_POINTS and not counted):
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.margins(x=0.08)


def _say_empty(axes: Axes, points: Sequence[Point]) -> None:
    said = "failed" if any(point.status == "failed" for point in points) else "not run at this scale"
    axes.text(0.5, 0.5, said, transform=axes.transAxes, ha="center", va="center", color=GREY)


def _has_value(point: Point, published: bool) -> bool:
    return bool(point.published) if published else is_measured(point)


def _of(series: Series, points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.series in (series.name, series.name + AS_PUBLISHED)]


def _without_chance(axes: Axes, points: Sequence[Point], places: Mapping[str, float]) -> list[Point]:
    """The points without those that are relative to a score that guessing has, which a word stands for: such a ratio says
    nothing, however large it is."""
    guessed = []
    for x, place in places.items():
        there = [point for point in points if point.x == x and is_measured(point)]
        if there and all(point.beyond_chance == "no" for point in there):
            guessed += there
            _say(axes, place, CHANCE)
    return [point for point in points if point not in guessed]


def _say(axes: Axes, place: float, word: str) -> None:
    """A word in place of the values of a category."""
    across = axes.get_xaxis_transform()
    axes.text(place, 0.04, word, transform=across, rotation=90, ha="center", va="bottom", color=GREY, fontsize=10)


def _lines(axes: Axes, view: View, points: Sequence[Point], places: Mapping[str, float], shown: Legend) -> None:
    panel = view.panel
    if is_relative(panel) or any(series.kind == "gain" for series in panel.series):
        axes.axhline(0, color=GREY, linewidth=1)
    plain = [series for series in panel.series if series.kind != "level"]
    step = {"category": min(BESIDE, ALL_BESIDE / len(plain)), "ordered": JOINED_BESIDE}.get(panel.x.scale, 0.0)
    for order, series in enumerate(plain):
        there = [point for point in _of(series, points) if _has_value(point, view.published) and point.x]
        there.sort(key=lambda point: places[point.x])
        if not there:
            continue
        shift = step * (order - (len(plain) - 1) / 2)
        xs = [places[point.x] + shift for point in there]
        line = _style(series, METHODS[series.method])
        if panel.x.scale == "category":  # nothing lies between two tasks
            line |= {"linestyle": "none"}
        if view.published:
            ys = [float(point.published) for point in there]
            line |= {"markerfacecolor": "white", "markeredgewidth": 1.8}
        else:
            ys = [float(point.y) for point in there]
            _intervals(axes, panel, xs, there, line["color"])
        if len(there) > MANY_POINTS:
            line |= {"markevery": max(1, len(there) // 8)}
        shown.setdefault(series.label, axes.plot(xs, ys, **line, clip_on=False)[0])
        if not view.published:
            _at_chance(axes, xs, there, shown)
    if not view.published:
        _levels(axes, panel, points, shown)
        chance_lines(axes, panel, points, places, shown)


def _ends(point: Point) -> tuple[float, float] | None:
    """The interval of a point; where none is known, ± its deviation over seeds."""
    if point.low:
        return float(point.low), float(point.high)
    return (float(point.y) - float(point.sd), float(point.y) + float(point.sd)) if point.sd else None


def _intervals(axes: Axes, panel: Panel, xs: Sequence[float], points: Sequence[Point], colour: str) -> None:
    """A band along numbers, a bar at each name."""
    with_ends = [(x, float(point.y), *ends) for x, point in zip(xs, points, strict=True) if (ends := _ends(point))]
    if not with_ends:
        return
    xs, ys, lows, highs = map(np.array, zip(*with_ends, strict=True))
    if panel.x.is_names:
        sizes = np.maximum(0.0, [ys - lows, highs - ys])  # the rounded value may lie a last digit outside
        axes.errorbar(xs, ys, sizes, fmt="none", ecolor=colour, elinewidth=1.2, capsize=3)
    else:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.14, linewidth=0)


def _levels(axes: Axes, panel: Panel, points: Sequence[Point], shown: Legend) -> None:
    """Lines across the axes; one far from all values is a number at their edge, for it would press these together."""
    drawn = [float(point.y) for point in points if point.x and is_measured(point)]
    levels = levels_of(panel, points)
    for series in (series for series in panel.series if series.name in levels):
        look, y = METHODS[series.method], levels[series.name]
        if is_far(y, drawn):
            place = {"xy": (0.98, 0.95), "ha": "right", "va": "top", "xycoords": "axes fraction"}
            axes.annotate(f"{series.label} {y:.3g} ↑", color=look.colour, fontsize=10, **place)
        else:
            shown.setdefault(series.label, axes.axhline(y, color=look.colour, linestyle=(0, look.dash), linewidth=1.5))


def _at_chance(axes: Axes, xs: Sequence[float], points: Sequence[Point], shown: Legend) -> None:
    """Grey signs on the points that are not beyond what guessing scores."""
    guessed = [(x, float(point.y)) for x, point in zip(xs, points, strict=True) if point.beyond_chance == "no"]
    if guessed:
        shown.setdefault(CHANCE, axes.plot(*zip(*guessed, strict=True), **AT_CHANCE)[0])


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


def _bars(axes: Axes, view: View, points: Sequence[Point], places: Mapping[str, float], shown: Legend) -> None:
    panel = view.panel
    wide = 0.88 / len(panel.series)
    tops: list[tuple[float, float, str]] = []  # place, height with its interval, number
    for order, series in enumerate(panel.series):
        look = METHODS[series.method]
        there = [point for point in _of(series, points) if _has_value(point, view.published)]
        if not there:
            continue
        xs = [places[point.x] + wide * (order - (len(panel.series) - 1) / 2) for point in there]
        numbers = [point.published if view.published else point.y for point in there]
        fill = {"facecolor": "white", "edgecolor": look.colour, "linewidth": 1.4} if view.published else {}
        fill = fill or {"color": look.colour, "edgecolor": "white", "linewidth": 0}
        bars = axes.bar(xs, list(map(float, numbers)), wide * 0.92, hatch=look.hatch, **fill)
        shown.setdefault(series.label, bars)
        if not view.published:
            _intervals(axes, panel, xs, there, "black")
            _at_chance(axes, xs, there, shown)
        for x, point, number in zip(xs, there, numbers, strict=True):
            ends = None if view.published else _ends(point)
            tops.append((x, max(0.0, float(number), *(ends or ())), number))
    if not view.published:
        chance_lines(axes, panel, points, places, shown)
    _numbers(axes, tops)


def _numbers(axes: Axes, tops: Sequence[tuple[float, float, str]]) -> None:
    """The value of each bar above it and its interval."""
    texts = [number if abs(float(number)) < 0.1 else f"{float(number):.3g}" for *_, number in tops]
    upright = len(tops) > FEW_BARS or any(len(text) > FEW_LETTERS for text in texts)
    top = axes.get_ylim()[1]
    for (x, y, _), text in zip(tops, texts, strict=True):
        axes.annotate(
            text.replace("-", "−"),
            (x, min(y, 0.82 * top)),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            va="bottom",
            rotation=90 if upright else 0,
            fontsize=9,
        )


def _mark_missing(axes: Axes, points: Sequence[Point], places: Mapping[str, float], published: bool) -> None:
    """Say at a category for which nothing was run that it was not forgotten."""
    if published or not any(is_measured(point) for point in points):
        return
    for x, place in places.items():
        words = {point.status for point in points if point.x == x}
        if words and words <= {"not-run", "failed"}:
            _say(axes, place, " and ".join(sorted(words)))


def _scatter(axes: Axes, panel: Panel, points: Sequence[Point], shown: Legend) -> None:
    axes.set_xticks([])  # the axes of a t-SNE map have no meaning but nearness
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(True)
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
            shown.setdefault(series.label, Line2D([], [], **legend, fillstyle="none" if hollow else "full"))
    if not any(is_measured(point) for point in points):
        _say_empty(axes, points)
