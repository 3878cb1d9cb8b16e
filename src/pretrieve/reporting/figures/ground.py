"""What the marks of a figure stand on: axes that begin at a zero with a meaning, and lines for what guessing scores.

An axis that is cut to its values makes half a query look like a result. So scores, counts and entropies begin at 0, a share of
neighbours ends at 1, and so does a cosine. Intervals widen an axis up to four times its values: with two seeds they can be
so wide that nothing else could be seen; such a bar runs out of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from pretrieve.references.figures import Panel
from pretrieve.references.palette import METHODS
from pretrieve.reporting.figures.points import Point, is_measured

#: The legend's word for what guessing scores.
CHANCE_LEVEL = "Chance"
#: Room above the values: for a marker, and for the numbers above bars.
_ROOM, _BAR_ROOM = 0.06, 0.3
#: Intervals widen an axis by at most so many times the range of its values.
_WIDEN = 3
#: A level so many times the range of the values away from them is not drawn to scale.
FAR = 2
#: An axis of relative changes is logarithmic beyond ± so many per cent where the largest is more than ``TOO_FAR`` and the
#: smallest less than a twentieth of it: on a linear one the small changes would all lie on 0.
LINEAR, TOO_FAR, FLATTENED = 10, 100, 20


def set_limits(axes: Axes, panel: Panel, points: Sequence[Point], published: bool) -> None:
    """Set the range of y for the ``points`` that are drawn, measured or ``published``."""
    if published:
        values, ends = [float(point.published) for point in points if point.published], []
    else:
        drawn = [point for point in points if is_measured(point)]
        values = [float(point.y) for point in drawn if point.x]
        values += [float(point.chance) for point in drawn if point.chance]
        values += [y for y in levels_of(panel, points).values() if not is_far(y, values)]
        ends = [float(end) for point in drawn for end in (point.low, point.high) if end]
        ends += [float(p.y) + sign * float(p.sd) for p in drawn if p.sd and not p.low for sign in (1, -1)]
    if not values:
        return
    if is_relative(panel) and not published and _spread(axes, values):
        return
    low, high = min([0.0, *values]), max([0.0, *values])
    wide = (high - low) or 1e-3
    signed = low < 0 or is_relative(panel) or any(series.kind == "gain" for series in panel.series)
    bottom = max(min([low, *ends]), low - _WIDEN * wide) if signed else 0.0
    top = min(max([high, *ends]), high + _WIDEN * wide)
    room = (_BAR_ROOM if panel.draw == "bar" else _ROOM) * (top - bottom or wide)
    bottom, top = bottom - (room if signed else 0), top + room
    if panel.y.unit == "cosine" or all(series.kind == "separation" for series in panel.series):
        top = 1.03
    axes.set_ylim(bottom, top)


def is_relative(panel: Panel) -> bool:
    """Whether the values are changes against another system, in %."""
    return any(series.relative_to for series in panel.series)


def levels_of(panel: Panel, points: Sequence[Point]) -> dict[str, float]:
    """Name of a series of a level → where it lies, of those that are measured."""
    names = {series.name for series in panel.series if series.kind == "level"}
    return {point.series: float(point.y) for point in points if point.series in names and is_measured(point)}


def is_far(level: float, values: Sequence[float]) -> bool:
    """Whether a level is so far above the values that its line would press them onto 0."""
    return bool(values) and level > max(values) + FAR * (max(values) - min([0.0, *values]))


def chance_lines(
    axes: Axes, panel: Panel, points: Sequence[Point], places: Mapping[str, float], shown: dict[str, object]
) -> None:
    """Draw what guessing scores at each x (``places``: x → where it lies), where it is known and the panel has no series for it,
    and note it in ``shown``, the legend."""
    levels = {point.x: float(point.chance) for point in points if point.chance and is_measured(point)}
    if not levels or any(series.value == "chance" for series in panel.series):
        return
    look = METHODS["chance"]
    line = {"color": "#6E6E6E", "linestyle": (0, look.dash), "linewidth": 1.6, "zorder": 1.5}
    if len(set(levels.values())) == 1:
        handle = axes.axhline(next(iter(levels.values())), **line)
    elif panel.x.is_names:
        for x, y in levels.items():
            (handle,) = axes.plot([places[x] - 0.45, places[x] + 0.45], [y, y], **line)
    else:
        xs = sorted(levels, key=places.__getitem__)
        (handle,) = axes.plot([places[x] for x in xs], [levels[x] for x in xs], **line)
    shown.setdefault(CHANCE_LEVEL, handle)


def _spread(axes: Axes, values: Sequence[float]) -> bool:
    """Make y logarithmic beyond ± ``LINEAR`` where few large values would flatten the rest, and say so."""
    sizes = [abs(value) for value in values if value]
    if not sizes or max(sizes) <= TOO_FAR or min(sizes) * FLATTENED >= max(sizes):
        return False
    axes.set_yscale("symlog", linthresh=LINEAR)
    powers = [10.0**n for n in range(1, len(f"{max(sizes):.0f}") + 1)]
    ticks = [*(-power for power in reversed(powers)), 0.0, *powers]
    axes.set_yticks(ticks, [f"{tick:,.0f}".replace("-", "−") for tick in ticks])
    axes.set_ylim(min([0.0, *values]) * 2 - LINEAR / 2, max([0.0, *values]) * 2 + LINEAR / 2)
    axes.set_ylabel(f"{axes.get_ylabel()},\nlogarithmic beyond ±{LINEAR}")
    return True
