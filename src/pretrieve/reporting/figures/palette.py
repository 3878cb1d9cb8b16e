"""How a method looks: one colour, marker and dash for each, in every figure.

Colours are those of Okabe and Ito (2008, https://jfly.uni-koeln.de/color/) for encoders, and of Paul Tol's "muted" scheme
(https://personal.sron.nl/~pault/) for ways to share parameters: both can be told apart by colour-blind readers. In grey
print and where lines cross, markers and dashes tell methods apart; no two methods of one group have the same pair.

Standard library only: a figure's description is checked against the names.
"""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """``colour`` as #RRGGBB; ``marker`` and ``dash`` as matplotlib names them (dash: on/off lengths in points, () solid);
    ``hatch`` of its bars."""

    colour: str
    marker: str
    dash: tuple[float, ...] = ()
    hatch: str = ""


#: Method → its look. The order is that of a legend nowhere: series keep the order of their figure.
METHODS: dict[str, Look] = {
    # encoders
    "bert": Look("#8C8C8C", "X", (6, 2, 1.5, 2), "//"),
    "bert-ours": Look("#333333", "s", (4, 2), ".."),
    "optimus": Look("#D55E00", "^", (1.5, 1.5), "xx"),
    "seed": Look("#0072B2", "o"),
    "seed-full": Look("#56B4E9", "v", (6, 2, 1.5, 2)),
    "ict": Look("#009E73", "D", (1.5, 1.5)),
    "condenser": Look("#CC79A7", "P"),
    # SEED-Encoder by decoder: the darker, the stronger
    "decoder-1": Look("#7FC8EE", "^", (1.5, 1.5)),
    "decoder-3": Look("#0072B2", "o"),
    "decoder-5": Look("#00304D", "s", (4, 2)),
    # ways to share parameters between two T5 encoders
    "sde": Look("#332288", "o"),
    "ade": Look("#999933", "s", (4, 2)),
    "ade-ste": Look("#44AA99", "^", (1.5, 1.5)),
    "ade-fte": Look("#CC6677", "v", (6, 2, 1.5, 2)),
    "ade-spl": Look("#882255", "D", (8, 2)),
    # what a map shows
    "questions": Look("#4477AA", "o"),
    "answers": Look("#EE7733", "^"),
    "separation": Look("#222222", "o"),
    "separation-vectors": Look("#888888", "D", (1.5, 1.5)),
}
