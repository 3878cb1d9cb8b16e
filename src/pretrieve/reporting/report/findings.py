"""What a run found, in five to seven sentences made from its measured values by fixed rules; nothing is written by hand.

Each rule looks at one question and says the largest answer of all that were measured, with its interval, queries, seeds, cost and
its cells. It says so when nothing is beyond chance. A rule without data gives no sentence.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pretrieve.references.tables import ROW_SEPARATOR
from pretrieve.reporting.claims import verdicts
from pretrieve.reporting.claims.ledger import Comparison, Finding
from pretrieve.reporting.claims.outcomes import LEVEL
from pretrieve.reporting.report.boards import (
    AHEAD,
    BEHIND,
    UNDECIDED,
    Board,
    metric_in_words,
    objective_in_words,
    recipe_in_words,
    verdict_of,
)
from pretrieve.reporting.report.league import BM25, Pair, Standing, turned
from pretrieve.reporting.report.paper_order import Rank
from pretrieve.reporting.tables.filling import MEASURED, Line

#: How the verdicts on claims are put together in the small picture: (its word, verdicts, the one that says less last).
GROUPS = (
    ("supported", (verdicts.SUPPORTED, verdicts.HOLDS)),
    ("contradicted", (verdicts.CONTRADICTED, verdicts.FAILS)),
    ("undecided", (verdicts.INCONCLUSIVE,)),
    ("not tested", (verdicts.NOT_TESTABLE, verdicts.NOT_TESTED)),
)
_LESS = dict.fromkeys((verdicts.HOLDS, verdicts.FAILS), "for this seed only")
_LESS |= {verdicts.NOT_TESTED: "not measured in this run"}


class Sentence(NamedTuple):
    """``effect`` with its interval and unit, ``queries``, ``seeds`` and ``cost`` as text, '' where there is none; ``links``:
    (text, address)."""

    text: str
    effect: str = ""
    queries: str = ""
    seeds: str = ""
    cost: str = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Found:
    """All that the rules read. ``boards``: the one that most is compared on comes first. ``lines``: of every table, by place;
    ``anchors``: place → address in the page; ``encoders``: of the configuration; ``datasets``: name → in words."""

    standings: Sequence[Standing]
    pairs: Sequence[Pair]
    boards: Sequence[Board]
    findings: Sequence[Finding]
    comparisons: Sequence[Comparison]
    ranks: Sequence[Rank]
    lines: Mapping[str, Line]
    anchors: Mapping[str, str]
    encoders: Mapping[str, Mapping[str, Any]]
    datasets: Mapping[str, str]


def sentences(found: Found) -> list[Sentence]:
    """What was found, the most general first."""
    said = (
        _objectives(found),
        _bm25(found),
        _pretraining(found),
        _claim(found, GROUPS[0][1], "Best supported of the papers' claims"),
        _claim(found, GROUPS[1][1], "Most clearly contradicted of the papers' claims"),
        _order(found),
        _chance(found),
    )
    return list(filter(None, said))


def claim_counts(findings: Sequence[Finding]) -> list[tuple[str, int, str]]:
    """(word, claims, how many of them for one seed only, or not measured at all) of each group, in the order of the picture."""
    counts = Counter(finding.verdict for finding in findings)
    rows = []
    for word, (sure, *others) in GROUPS:
        n = sum(counts[name] for name in (sure, *others))
        less = sum(counts[name] for name in others)
        rows.append((word, n, f"{'all' if less == n else less} {_LESS[others[0]]}" if less else ""))
    return rows


def _objectives(found: Found) -> Sentence | None:
    """Which objective gains most on plain masked words, on the first board."""
    cells = [cell for board in found.boards[:1] for row in board.rows for cell in row.cells if cell and cell.verdict]
    tested = [cell for cell in cells if cell.standing.q]
    if not cells or not (tested or all(cell.standing.beyond_chance == "no" for cell in cells)):
        return None
    if not tested:
        text = f"No objective can be compared with plain masked words: of {len(cells)} pairs none has a score beyond guessing."
        return Sentence(text, links=(("league table", "#league"),))
    best = max(tested, key=lambda cell: (cell.verdict == AHEAD, float(cell.standing.effect)))
    one, counts = best.standing, Counter(cell.verdict for cell in tested)
    name, base = (objective_in_words(encoder, found.encoders) for encoder in (one.encoder, one.baseline))
    beyond = "No objective is ahead of plain masked words beyond chance; the largest difference is that of"
    if best.verdict == AHEAD:
        beyond = "The largest gain over plain masked words that is beyond chance is that of"
    text = (
        f"{beyond} {name}: {_scores(found, one, one.baseline)} of {base} on {_data(found, one.dataset)}. "
        f"Of {_differences(len(tested))}, {counts[AHEAD]} {_are(counts[AHEAD])} ahead, {counts[BEHIND]} behind, "
        f"{counts[UNDECIDED]} within chance."
    )
    pair = f"#league?recipe={one.recipe}&metric={one.metric}&a={one.encoder}&b={one.baseline}"
    return _of_pair(found, text, _pair(found, one, one.baseline), (("compare", pair),))


def _bm25(found: Found) -> Sentence | None:
    """BM25 against the best encoder of the first board that has both; another recipe's may be better."""
    for board in found.boards:
        here = [one for one in found.standings if (one.recipe, one.metric) == (board.recipe, board.metric)]
        lexical = next((one for one in here if one.encoder == BM25), None)
        trained = [one for one in here if lexical and one.encoder != BM25 and one.dataset == lexical.dataset]
        if trained:
            best = max(trained, key=lambda one: float(one.score))
            pair = _pair(found, lexical, best.encoder)
            if not pair.q:
                continue
            encoder = f"the best encoder of the recipe {recipe_in_words(board.recipe)}"
            said = {AHEAD: f"is ahead of {encoder}", BEHIND: f"is behind {encoder}"}
            text = (
                f"BM25 {said.get(verdict_of(pair.effect, pair.q), f'and {encoder} do not differ beyond chance')}: "
                f"{_scores(found, lexical, best.encoder)} of {objective_in_words(best.encoder, found.encoders)} on "
                f"{_data(found, lexical.dataset)}."
            )
            return _of_pair(found, text, pair)
    return None


def _pretraining(found: Found) -> Sentence | None:
    """The largest difference between an encoder and the same body from random weights."""
    encoders = found.encoders.items()
    bare = {name for name, own in encoders if own.get("objective") == "none" and "start" not in own}
    bodies = {name: (own.get("body"), own.get("layers")) for name, own in encoders}
    pairs = [
        one
        for pair in found.pairs
        for one in (pair, turned(pair))
        if one.b in bare and one.a not in bare and one.q and bodies.get(one.a) == bodies[one.b]
    ]
    if not pairs:
        return None
    best = max(pairs, key=lambda pair: (verdict_of(pair.effect, pair.q) == AHEAD, float(pair.effect)))
    counts = Counter(verdict_of(pair.effect, pair.q) for pair in pairs)
    text = (
        f"Against random weights, {objective_in_words(best.a, found.encoders)} gains the most: "
        f"{_scores(found, _standing(found, best, best.a), best.b)} on {_data(found, best.dataset)} "
        f"({recipe_in_words(best.recipe)}). Of {_differences(len(pairs), 'such ')} {counts[AHEAD]} {_are(counts[AHEAD])} ahead "
        f"and {counts[BEHIND]} behind."
    )
    return _of_pair(found, text, best)


def _claim(found: Found, wanted: tuple[str, str], what: str) -> Sentence | None:
    """The claim with such a verdict whose effect is the largest in units of its interval. One whose interval is on the verdict's
    side of zero goes before one whose effect is only too small, one for all seeds before one for this seed, and, of
    contradicted ones, the one that fewer of its comparisons support."""
    side = 1 if wanted[0] == verdicts.SUPPORTED else -1

    def clear(finding: Finding) -> tuple[bool, bool, float, float]:
        shown, measured, _ = map(int, finding.groups.split("/"))
        low, high = sorted(side * float(bound) for bound in (finding.low, finding.high))
        ratio = abs(float(finding.effect)) / max(high - low, 1e-9)
        return low > 0, finding.verdict == wanted[0], min(0, side * shown / measured), ratio if low > 0 else -ratio

    best = max((f for f in found.findings if f.verdict in wanted and f.low and f.high), key=clear, default=None)
    if best is None:
        return None
    asked = "" if clear(best)[0] else f" Asked for: {best.check}."
    places = [place for c in found.comparisons if c.id == best.id and c.values for place in json.loads(c.cells)]
    lines = [line for place in places if (line := found.lines.get(place))]
    only = " (for this seed only)" if best.verdict == wanted[1] else ""
    return Sentence(
        text=f"{what}{only}: “{best.claim}”{asked}",
        effect=_effect(best.effect, best.low, best.high, best.unit),
        queries=_range(line.queries for line in lines),
        seeds=best.seeds,
        cost=_range((line.wall_s for line in lines), " s a row"),
        links=((f"claim, {best.groups.replace('/', ' / ')} comparisons", f"#claim-{best.id}"), *_links(found, places)),
    )


def _order(found: Found) -> Sentence | None:
    """How far the rows that the papers measured, too, stand in their order."""
    columns = {(r.paper, r.table, r.column, r.metric, r.size): r for r in found.ranks if r.rho and r.low}
    if not columns:
        return None
    low, middle, high = (f"{x:.2f}" for x in np.quantile([float(r.rho) for r in columns.values()], (0.25, 0.5, 0.75)))
    kept = sum(float(r.low) > 0 and float(r.p) < LEVEL for r in columns.values())
    counts = ((int(r.pairs), int(r.flips), int(r.flips_shown)) for r in columns.values())
    pairs, flips, shown = map(sum, zip(*counts, strict=True))
    text = (
        f"In {kept} of {len(columns)} columns the rows stand nearer to the paper's order than {100 * (1 - LEVEL):g} % of random "
        f"orders do. Of {pairs:,} pairs of rows {flips:,} are the other way round here, {shown} of them beyond chance."
    )
    return Sentence(
        text,
        f"Spearman's rho {middle} in the middle column, {low} to {high} in the middle half of them".replace("-", "−"),
        links=(("both orders", "#order"),),
    )


def _chance(found: Found) -> Sentence | None:
    """How many scores say nothing."""
    known = [line for line in found.lines.values() if line.status in MEASURED and line.beyond_chance]
    scores = {(line.system, line.dataset, line.metric): line for line in known}
    guessed = [line for line in scores.values() if line.beyond_chance == "no"]
    if not guessed:
        return None
    text = (
        f"{len(guessed)} of {len(scores)} scores are no better than guessing. They are marked ≈ chance, and two of them are "
        "never compared with each other."
    )
    seeds = sorted({line.n_seeds for line in guessed if line.n_seeds})
    queries = _range(line.queries for line in guessed)
    return Sentence(text, queries=queries, seeds=" or ".join(seeds), links=(("tables", "#build"),))


def _of_pair(found: Found, text: str, pair: Pair, links: tuple[tuple[str, str], ...] = ()) -> Sentence:
    """A sentence about a difference of two encoders, with the facts of both."""
    both = [_standing(found, pair, encoder) for encoder in (pair.a, pair.b)]
    return Sentence(
        text=text,
        effect=_effect(pair.effect, pair.low, pair.high, pair.unit),
        queries=_range([pair.queries]),
        seeds=pair.n_seeds,
        cost=" against ".join(f"{float(one.wall_s):,.0f} s" for one in both if one.wall_s),
        links=(*links, *_links(found, [one.cell for one in both])),
    )


def _pair(found: Found, one: Standing, other: str) -> Pair:
    """The difference of a standing to another encoder on the same data."""
    for pair in found.pairs:
        if _key(pair) == _key(one) and {pair.a, pair.b} == {one.encoder, other}:
            return pair if pair.a == one.encoder else turned(pair)
    raise KeyError((*_key(one), one.encoder, other))


def _key(of: Pair | Standing) -> tuple[str, str, str]:
    return of.recipe, of.dataset, of.metric


def _standing(found: Found, of: Pair | Standing, encoder: str) -> Standing:
    """The standing of an encoder at the same recipe, data set and metric."""
    return next(one for one in found.standings if _key(one) == _key(of) and one.encoder == encoder)


def _scores(found: Found, one: Standing, other: str) -> str:
    """``R@100 35.1 against 30.2``."""
    both = (one, _standing(found, one, other))
    mine, theirs = (f"{s.score}{' (≈ chance)' if s.beyond_chance == 'no' else ''}" for s in both)
    return f"{metric_in_words(one.metric)} {mine} against {theirs}"


def _data(found: Found, dataset: str) -> str:
    return found.datasets.get(dataset, dataset)


def _differences(n: int, such: str = "") -> str:
    return f"{n} {such}difference{'s' * (n != 1)}"


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


def _effect(effect: str, low: str, high: str, unit: str) -> str:
    """``+1.2 [0.3, 2.1] points``, with two decimals of percentages and three of others."""
    digits = 2 if unit == "%" else 3
    numbers = [f"{float(x):.{digits}f}" for x in (effect, low, high) if x]
    interval = f" [{numbers[1]}, {numbers[2]}]" if len(numbers) == 3 else ""
    sign = "+" if float(effect) > 0 else ""
    return f"{sign}{numbers[0]}{interval} {'points' if unit == '%' else unit}".strip().replace("-", "−")


def _range(texts: Iterable[str], unit: str = "") -> str:
    """``8 to 1,200``: the smallest and the largest of some numbers, whole, with their unit; '' of none."""
    numbers = sorted({round(float(text)) for text in texts if text})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((numbers[0], numbers[-1]))) + unit if numbers else ""


def _links(found: Found, places: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The first two cells that have an address: ``pretraining_tasks table3: 1%/99%, Transformer, MLM``."""
    there = [place for place in dict.fromkeys(places) if found.anchors.get(place)]
    return tuple((_row_of(place), f"#{found.anchors[place]}") for place in there[:2])


def _row_of(place: str) -> str:
    table, _, where = place.partition(": ")
    return f"{table.replace('/', ' ')}: {where.rpartition(', ')[0].replace(ROW_SEPARATOR, ', ')}"
