"""How the losses went down: the learning curves of a run (``curve.csv`` beside encoders and retrievers) as small pictures.

Losses of different objectives are in different units, so every encoder has a picture of its own; retrievers of one recipe and
data set have the same loss and share one. Curves are drawn as the mean of neighbouring steps: a step's own loss is mostly the
luck of its batch.

A method has the colour that it has in the figures; curves of one method in one picture (its sizes, its seeds) differ by dashes.

**An SVG file as a part of a page** has no prolog, no metadata, no style that reaches out, and ids of its own. Matplotlib's
files stand alone: inside a page their ``<style>*{...}</style>`` would apply to the whole page, and equal ids of two figures
would mix them up (a clip path of the first would cut the second). SVG 2: https://www.w3.org/TR/SVG2/.
"""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrieve.base.errors import DataError
from pretrieve.references.palette import Look

#: Points drawn of a curve; neighbouring steps are averaged to about so many.
POINTS = 40
#: Dashes (on/off lengths in points, () solid) of the second, third, … curve of a method.
DASHES = ((), (4, 2), (1.5, 1.5), (6, 2, 1.5, 2), (8, 2), (3, 4), (1, 3), (6, 2, 1, 2, 1, 2))
#: (pictures in a row, width and height of one in inches): of single curves, and of several with a legend beside them.
_SINGLE, _SEVERAL = (3, 3.3, 2.1), (2, 5.0, 2.5)


@dataclass(frozen=True)
class Curve:
    """``x``: steps (n,); ``y``: the loss (n,); ``look``: of the method."""

    label: str
    x: np.ndarray
    y: np.ndarray
    look: Look


def read_curve(path: Path, label: str, look: Look) -> Curve | None:
    """The loss of a ``curve.csv``; None where nothing was trained or there is no file. Raises DataError for another form."""
    if not path.is_file():
        return None
    with open(path, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    try:
        steps, losses = (np.array([float(row[key]) for row in rows]) for key in ("step", "loss"))
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{path}: expected the columns step and loss with numbers; found {list(rows[0])}.") from None
    return Curve(label, steps, losses, look) if rows else None


def smoothed(curve: Curve, points: int = POINTS) -> Curve:
    """Means over runs of neighbouring steps, about ``points`` of them."""
    parts = np.array_split(np.arange(len(curve.x)), min(points, len(curve.x)))
    x, y = (np.array([values[part].mean() for part in parts]) for values in (curve.x, curve.y))
    return Curve(curve.label, x, y, curve.look)


def dashes_of(curves: Sequence[Curve]) -> list[tuple[float, ...]]:
    """The dash of each: that of its method, and of further curves of one colour the next that this colour has not."""
    taken: dict[str, list[tuple[float, ...]]] = {}
    result = []
    for curve in curves:
        own = taken.setdefault(curve.look.colour, [])
        free = [dash for dash in (curve.look.dash, *DASHES) if dash not in own]
        own.append((free or DASHES)[0])
        result.append(own[-1])
    return result


def draw_curves(panels: Sequence[tuple[str, Sequence[Curve]]], name: str) -> str:
    """An SVG of small pictures, one for each (title, curves); equal input gives equal bytes. ``name`` seeds the ids."""
    import matplotlib  # half a second that no other report needs

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    most, width, height = _SEVERAL if any(len(curves) > 1 for _, curves in panels) else _SINGLE
    n_rows, n_columns = -(-len(panels) // most), min(most, len(panels))
    style = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10, "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        for axis, (title, curves) in zip(axes.flat, panels, strict=False):
            for curve, dash in zip(curves, dashes_of(curves), strict=True):
                shown = smoothed(curve)
                line = {"color": curve.look.colour, "linestyle": (0, dash) if dash else "-", "linewidth": 1.4}
                axis.plot(shown.x, shown.y, **line, label=curve.label)
            axis.set_title(title, fontsize=10, loc="left")
            axis.set_xlabel("step")
            axis.set_ylabel("loss")
            axis.grid(color="#b0b0b0", alpha=0.35, linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
            if most == _SEVERAL[0]:
                axis.legend(fontsize=9, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.05))
            else:  # above the curve
                low, high = axis.get_ylim()
                axis.set_ylim(low, high + 0.25 * (high - low))
                axis.legend(fontsize=9, frameon=False, loc="upper right", borderaxespad=0)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue().decode()


_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
#: Part of its own width below which a picture does not shrink: words of 10 points would be smaller than 10 pixels.
_LEAST = 0.75
_DROPPED = {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}
_DANGEROUS = {"script", "foreignObject", "iframe", "object", "embed"}


def inline_svg(text: str, prefix: str, label: str) -> str:
    """The ``<svg>`` element of an SVG file. ``prefix`` goes before every id, ``label`` is read out for the picture.

    On a narrow screen it keeps a least width, so what it stands in has to scroll sideways. The title of a figure is left out
    (``data-title``: its height), for the page has it as text.

    Raises DataError when the text is no SVG, or has a script or an address outside of itself in it.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise DataError(f"figure {prefix}: not readable as SVG: {error}. Make it again.") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise DataError(f"figure {prefix}: the root is {root.tag}; expected svg. Make it again.")
    title = root.attrib.pop("data-title", "")
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _DROPPED or (title and child.get("id", "").startswith("title-")):
                parent.remove(child)
    if title:
        left, top, across, down = map(float, root.get("viewBox").split())
        root.set("viewBox", f"{left:g} {top + float(title):g} {across:g} {down - float(title):g}")
    for element in root.iter():
        if element.tag.partition("}")[2] in _DANGEROUS:
            raise DataError(
                f"figure {prefix}: has the element {element.tag.partition('}')[2]}; expected shapes and text only."
            )
        for name, value in list(element.attrib.items()):
            del element.attrib[name]
            name = name.replace(f"{{{_XLINK}}}", "")
            element.set(name, _attribute(name, value, prefix))
    # The view box and the page's style decide on the size between these two widths.
    width = root.attrib.pop("width", "100%")
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", label)
    least = f"; min-width: calc({_LEAST} * {width})" if not width.endswith("%") else ""
    root.set("style", f"stroke-linejoin: round; stroke-linecap: butt; max-width: {width}{least}")
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name == "href":
        if value.startswith("#"):
            return f"#{prefix}-{value[1:]}"
        if not value.startswith("data:image/"):
            raise DataError(f"figure {prefix}: refers to {value}; expected nothing outside of the figure.")
    if name.startswith("on"):
        raise DataError(f"figure {prefix}: has the attribute {name}; expected no script.")
    return re.sub(r"url\(#", f"url(#{prefix}-", value)
