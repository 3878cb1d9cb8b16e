"""How a method looks: one colour, marker and dash for each, in every figure; learning curves have the same colours.

Colours are those of Okabe and Ito (2008, https://jfly.uni-koeln.de/color/) for encoders, and of Paul Tol's "muted" scheme
(https://personal.sron.nl/~pault/) for ways to share parameters: both can be told apart by colour-blind readers. In grey
print and where lines cross, markers and dashes tell methods apart; no two methods of one group have the same pair.

Standard library only: a figure's description is checked against the names.
"""

import re
from typing import NamedTuple
from zlib import crc32


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
    # what they are compared with: their start, BM25, guessing
    "start": Look("#000000", "*"),
    "bm25": Look("#5C4033", "", (8, 3)),
    "chance": Look("#A0A0A0", "", (1.5, 2.5)),
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
    # objectives that only learning curves show
    "none": Look("#A6761D", "X", (1.5, 1.5)),
    "mlm": Look("#AA3377", "s", (4, 2)),
    "bfs": Look("#EE3377", "v", (6, 2, 1.5, 2)),
    "wlp": Look("#CC3311", "^", (4, 2)),
    "ict-bfs-wlp": Look("#E69F00", "o"),
    "cocondenser": Look("#AA4499", "P", (4, 2)),
    "retromae": Look("#B8A100", "v", (6, 2, 1.5, 2)),
    "dupmae": Look("#117733", "h"),
    "t5": Look("#6B6ECF", "o"),
    "published": Look("#5F5F5F", "P", (1, 1.5)),
}
#: Names of encoders and recipes of the configuration, as far as the method goes by them → method. The first that fits.
_NAMES = tuple(
    (re.compile(pattern), method)
    for pattern, method in {
        r"dual-t5-(?P<own>sde|ade|ade-ste|ade-fte|ade-spl)": "",
        r"(transformer|bow-mlp)-none": "none",
        r"transformer-mlm": "mlm",
        r"(transformer|shallow|bow-mlp)-(?P<own>ict-bfs-wlp|ict|bfs|wlp)(-half|-quarter)?": "",
        r"base|bert": "bert",
        r"seed-mlm": "bert-ours",
        r"seed-3-2": "seed",
        r"seed-1-\w+": "decoder-1",
        r"seed-3-\w+": "decoder-3",
        r"seed-5-\w+": "decoder-5",
        r"dupmae(-\w+)?": "dupmae",
        r"t5-\w+": "t5",
        r"minilm": "published",
        r"(?P<own>condenser|cocondenser|retromae|optimus|ict)": "",
    }.items()
)
#: Colours for encoders of one's own: Paul Tol's "bright" scheme.
_OTHERS = ("#4477AA", "#EE6677", "#228833", "#66CCEE", "#AA3377", "#BBBBBB")


def look_of(*names: str) -> Look:
    """The look of what ``names`` (an encoder; or a recipe, then its encoder) are called: of the first name with a method.

    What has none gets a colour by the last name, the same wherever it is drawn.

    >>> look_of("dual-t5-sde", "t5-base") == METHODS["sde"], look_of("reqa", "shallow-ict") == METHODS["ict"]
    (True, True)
    """
    for name in names:
        for pattern, method in _NAMES:
            if found := pattern.fullmatch(name):
                return METHODS[method or found["own"]]
    return Look(_OTHERS[crc32(names[-1].encode()) % len(_OTHERS)], "o")
