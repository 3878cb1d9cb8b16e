"""The league table as the report shows it: a board for each recipe and metric, and what a reader finds when picking two rows.

Everything is read from ``league.csv`` and ``league.pairs.csv`` (:mod:`pretrieve.reporting.report.league`); the page's script only
shows what is made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrieve.reporting.claims.outcomes import LEVEL
from pretrieve.reporting.report.league import BM25, Pair, Standing

#: What a difference is called: more, less, or neither beyond chance; nothing where no uncertainty is known.
AHEAD, BEHIND, UNDECIDED, UNKNOWN = "ahead", "behind", "within chance", "not tested"
_WORDS = {
    "none": "No pre-training",
    "mlm": "Masked words",
    "condenser": "Condenser",
    "cocondenser": "coCondenser",
    "retromae": "RetroMAE",
    "dupmae": "DupMAE",
    "seed-encoder": "SEED-Encoder",
    "optimus": "Optimus",
}
_METRICS = {"recall": "R", "mrr": "MRR", "ndcg": "nDCG", "hits": "Top", "precision": "P", "auc": "AUC"}


@dataclass(frozen=True)
class BoardCell:
    """``standing`` with ``anchor`` of its cell in the page; ``verdict`` of the difference to plain masked words, '' where there
    is none. ``left``, ``right`` and ``middle``: the interval and the effect on the board's axis, 0 to 100 with zero at 50."""

    standing: Standing
    anchor: str
    verdict: str
    left: float = 0.0
    right: float = 0.0
    middle: float = 0.0


@dataclass(frozen=True)
class BoardRow:
    """``cells``: one for each data set of the board, None where the encoder was not measured. ``wall_s``, ``gpu_h``: of the
    costliest cell."""

    encoder: str
    label: str
    cells: list[BoardCell | None]
    wall_s: str
    gpu_h: str


@dataclass(frozen=True)
class Board:
    """``datasets``: (name, in words). ``baseline``: rows that others are compared with. ``pairs``: ``A B`` → lines of
    [data set, effect, low, high, q, verdict, note], A minus B. ``axis``: half the width of the axis of differences."""

    anchor: str
    recipe: str
    metric: str
    unit: str
    datasets: list[tuple[str, str]]
    rows: list[BoardRow]
    baselines: list[str]
    pairs: dict[str, list[list[str]]]
    seeds: str
    axis: float

    @property
    def title(self) -> str:
        """``dpr-bm25, full training set: MRR@10``."""
        return f"{recipe_in_words(self.recipe)}: {metric_in_words(self.metric)}"

    @property
    def for_script(self) -> dict[str, Any]:
        """What the page shows of two picked rows, as JSON."""
        rows = {
            row.encoder: {
                "label": row.label,
                "scores": {cell.standing.dataset: cell.standing.score for cell in row.cells if cell},
                "cost": f"{row.wall_s or '?'} s, {row.gpu_h or '?'} GPU hours",
            }
            for row in self.rows
        }
        return {"unit": self.unit, "rows": rows, "pairs": self.pairs, "one_seed": self.seeds == "1"}


def verdict_of(effect: str, q: str) -> str:
    """What a difference with its adjusted p-value is called.

    >>> [verdict_of(*given) for given in (("1.20", "0.0100"), ("-1.20", "0.0499"), ("1.20", "0.0500"), ("1.20", ""))]
    ['ahead', 'behind', 'within chance', 'not tested']
    """
    if not q:
        return UNKNOWN
    if float(q) >= LEVEL:
        return UNDECIDED
    return BEHIND if effect.startswith("-") else AHEAD


def objective_in_words(encoder: str, encoders: Mapping[str, Mapping[str, Any]]) -> str:
    """``retromae`` → ``RetroMAE``; followed by its own name where that is another word.

    >>> bodies = {"bert": {"objective": "mlm"}, "x": {"objective": ["ict", "bfs"]}}
    >>> [objective_in_words(name, bodies) for name in ("bert", "x", "bm25")]
    ['Masked words (bert)', 'ICT+BFS (x)', 'BM25']
    """
    if encoder == BM25:
        return "BM25"
    objective = encoders.get(encoder, {}).get("objective", encoder)
    words = _WORDS.get(objective, objective) if isinstance(objective, str) else "+".join(objective).upper()
    return words if words.lower() == encoder else f"{words} ({encoder})"


def metric_in_words(metric: str) -> str:
    """``recall@100`` → ``R@100``, ``mrr@10`` → ``MRR@10``."""
    name, at, depth = metric.partition("@")
    return f"{_METRICS.get(name, name)}{at}{depth}"


def recipe_in_words(recipe: str) -> str:
    """``dpr-bm25-full`` → ``dpr-bm25, full training set``."""
    name, _, size = recipe.rpartition("-")
    return f"{name}, full training set" if size == "full" else f"{name}, training set {size}"


def boards_of(
    standings: Sequence[Standing],
    pairs: Sequence[Pair],
    encoders: Mapping[str, Mapping[str, Any]],
    datasets: Mapping[str, str],
    anchors: Mapping[str, str],
) -> list[Board]:
    """One board for each recipe and metric, those with the most differences to plain masked words that are not between two
    scores at the level of guessing first.

    ``datasets``: data set → in words; ``anchors``: ``{paper}/{table}: {row}, {column}`` → address of the cell in the page.
    """
    groups: dict[tuple[str, str], list[Standing]] = {}
    for one in standings:
        groups.setdefault((one.recipe, one.metric), []).append(one)
    boards = [
        _board(some, [p for p in pairs if (p.recipe, p.metric) == key], encoders, datasets, anchors)
        for key, some in groups.items()
    ]
    tested = lambda board: sum(bool(cell and cell.standing.q) for row in board.rows for cell in row.cells)
    return sorted(boards, key=tested, reverse=True)


def _board(
    standings: Sequence[Standing],
    pairs: Sequence[Pair],
    encoders: Mapping[str, Mapping[str, Any]],
    datasets: Mapping[str, str],
    anchors: Mapping[str, str],
) -> Board:
    first = standings[0]
    at = {(one.encoder, one.dataset): one for one in standings}
    per_dataset = Counter(one.dataset for one in standings)
    names = sorted((name for name, n in per_dataset.items() if n > 1), key=lambda name: -per_dataset[name])
    names = names or list(per_dataset)
    bounds = [abs(float(x)) for one in standings for x in (one.effect, one.effect_low, one.effect_high) if x]
    axis = max(bounds, default=1.0) or 1.0

    def by_score(encoder: str) -> tuple[float, ...]:
        return tuple(-float(at[encoder, name].score) if (encoder, name) in at else 1.0 for name in names)

    shown = dict.fromkeys(one.encoder for one in standings if one.dataset in names)
    rows = []
    for encoder in sorted(shown, key=by_score):
        mine = [at.get((encoder, name)) for name in names]
        cells = [one and _cell(one, anchors, axis) for one in mine]
        wall = gpu = ""
        if costs := [one for one in mine if one and one.wall_s]:
            largest = max(costs, key=lambda one: float(one.wall_s))
            wall, gpu = f"{float(largest.wall_s):,.0f}", f"{float(largest.gpu_h or 0):,.2f}"
        rows.append(BoardRow(encoder, objective_in_words(encoder, encoders), cells, wall, gpu))
    found: dict[str, list[list[str]]] = {}
    for pair in pairs:
        if pair.dataset in names:
            line = [pair.dataset, pair.effect, pair.low, pair.high, pair.q, verdict_of(pair.effect, pair.q), pair.note]
            found.setdefault(f"{pair.a} {pair.b}", []).append(line)
    return Board(
        anchor=f"league-{first.recipe}-{first.metric.replace('@', '-')}",
        recipe=first.recipe,
        metric=first.metric,
        unit="points" if first.unit == "%" else first.unit,
        datasets=[(name, datasets.get(name, name)) for name in names],
        rows=rows,
        baselines=sorted({one.baseline for one in standings if one.baseline}),
        pairs=found,
        seeds=" or ".join(sorted({one.n_seeds for one in standings if one.n_seeds})),
        axis=axis,
    )


def _cell(one: Standing, anchors: Mapping[str, str], axis: float) -> BoardCell:
    anchor = anchors.get(one.cell, "")
    if not one.effect:
        return BoardCell(one, anchor, "")
    low, middle, high = (
        round(50 + 48 * float(x or one.effect) / axis, 1) for x in (one.effect_low, one.effect, one.effect_high)
    )
    return BoardCell(one, anchor, verdict_of(one.effect, one.q), low, high, middle)
