"""Values of the paper, drawn as stars. One far from everything measured stands at the edge of its axes with its number.

Stars at the edge that would lie on each other stand in rows, so that every number can be read: two models at one x, or two x
that are near each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from matplotlib.axes import Axes
from matplotlib.transforms import offset_copy

from pretrieve.references.palette import Look
from pretrieve.reporting.figures.points import Point, is_measured

#: The legend's word for points of the paper.
PUBLISHED = "published"
#: Points (1/72 inch): from the middle of a star to its number, and from a row of stars to the next.
_NUMBER, _ROW = 10, 34
#: Part of the axes' width that a star and its number take: a number is at most 40 points wide, axes are at least 240.
_WIDE = 0.17


def star(look: Look) -> dict:
    """How a star of a method looks, as options of matplotlib."""
    return {
        "linestyle": "none",
        "marker": "*",
        "markersize": 15,
        "markerfacecolor": "white",
        "markeredgecolor": look.colour,
        "markeredgewidth": 1.5,
        "zorder": 4,
    }


def draw_stars(axes: Axes, stars: Sequence[tuple[float, Point, Look]], points: Sequence[Point]) -> None:
    """Draw the published values of ``stars`` (x, point, look); ``points`` are all of the axes. The scale of x must be set."""
    measured = [float(point.y) for point in points if is_measured(point)]
    low, high = (min(measured), max(measured)) if measured else (float("-inf"), float("inf"))
    room = 2 * (high - low)
    edges: dict[str, list[tuple[float, float, Point, Look]]] = {"↑": [], "↓": []}
    for x, point, look in stars:
        y = float(point.published)
        if low - room <= y <= high + room:
            axes.plot([x], [y], **star(look))
        else:
            edges["↑" if y > high else "↓"].append((y, x, point, look))
            axes.update_datalim([(x, high)])  # the axes must reach so far before places on them are compared
    axes.autoscale_view()
    for arrow, some in edges.items():
        # The value furthest away stands nearest to the edge.
        _at_edge(axes, sorted(some, key=lambda one: one[0], reverse=arrow == "↑"), arrow)


def _at_edge(axes: Axes, stars: Sequence[tuple[float, float, Point, Look]], arrow: str) -> None:
    edge, inwards = (0.93, -1) if arrow == "↑" else (0.07, 1)
    taken: list[tuple[int, float]] = []
    for _, x, point, look in stars:
        place = _part(axes, x)
        row = next(row for row in count() if all(row != other or abs(place - there) >= _WIDE for other, there in taken))
        taken.append((row, place))
        up = inwards * _ROW * row
        across = offset_copy(axes.get_xaxis_transform(), axes.figure, y=up, units="points")
        axes.plot([x], [edge], **star(look), transform=across)
        axes.annotate(
            f"{point.published} {arrow}",
            (x, edge),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, up + inwards * _NUMBER),
            textcoords="offset points",
            ha="center",
            va="bottom" if inwards > 0 else "top",
            color=look.colour,
            fontsize=10,
        )


def _part(axes: Axes, x: float) -> float:
    """Where x lies on the axes, 0 to 1 from left to right."""
    return axes.transAxes.inverted().transform(axes.transData.transform((x, axes.get_ylim()[0])))[0]
