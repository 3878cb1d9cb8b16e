"""How the losses went down: the learning curves of a run (``curve.csv`` beside encoders and retrievers) as small pictures.

Losses of different objectives are in different units, so every encoder has a picture of its own; retrievers of one recipe and
data set have the same loss and share one. Curves are drawn as the mean of neighbouring steps: a step's own loss is mostly the
luck of its batch.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrieve.errors import DataError

#: Points drawn of a curve; neighbouring steps are averaged to about so many.
POINTS = 40
#: Okabe & Ito's colours, which colour-blind readers tell apart; and dashes, for grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", ":", "-.")
#: (pictures in a row, width and height of one in inches): of single curves, and of several with a legend beside them.
_SINGLE, _SEVERAL = (4, 2.5, 1.75), (2, 5.0, 2.4)


@dataclass(frozen=True)
class Curve:
    """``x``: steps (n,); ``y``: the loss (n,)."""

    label: str
    x: np.ndarray
    y: np.ndarray


def read_curve(path: Path, label: str) -> Curve | None:
    """The loss of a ``curve.csv``; None where nothing was trained. Raises DataError for another form."""
    with open(path, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if not rows:
        return None
    try:
        steps = np.array([float(row["step"]) for row in rows])
        losses = np.array([float(row["loss"]) for row in rows])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{path}: expected the columns step and loss with numbers; found {list(rows[0])}.") from None
    return Curve(label, steps, losses)


def smoothed(curve: Curve, points: int = POINTS) -> Curve:
    """Means over runs of neighbouring steps, about ``points`` of them."""
    parts = np.array_split(np.arange(len(curve.x)), min(points, len(curve.x)))
    return Curve(curve.label, *(np.array([values[part].mean() for part in parts]) for values in (curve.x, curve.y)))


def draw_curves(panels: Sequence[tuple[str, Sequence[Curve]]], name: str) -> str:
    """An SVG of small pictures, one for each (title, curves); equal input gives equal bytes. ``name`` seeds the ids."""
    import matplotlib  # half a second that no other report needs

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    most, width, height = _SEVERAL if any(len(curves) > 1 for _, curves in panels) else _SINGLE
    n_rows, n_columns = -(-len(panels) // most), min(most, len(panels))
    style = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 8, "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
        axes = figure.subplots(n_rows, n_columns, squeeze=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        for axis, (title, curves) in zip(axes.flat, panels, strict=False):
            for i, curve in enumerate(curves):
                shown = smoothed(curve)
                colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
                axis.plot(shown.x, shown.y, dash, color=colour, linewidth=1.2, label=curve.label)
            axis.set_title(title, fontsize=8, loc="left")
            axis.set_xlabel("step")
            axis.set_ylabel("loss")
            axis.grid(color="#b0b0b0", alpha=0.35, linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
            if len(curves) > 1:
                axis.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.05))
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue().decode()
