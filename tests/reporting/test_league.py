"""The league table: paired differences with their errors, and the encoder of plain masked words that each is compared with.

Seen to fail when: a difference is not turned round with its bounds; q is p; two values at the level of guessing are compared; a
fraction stays one; an encoder of another budget is the baseline; a recipe of one encoder has a board; the interval is that of
unpaired scores.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pretrieve.base.files import write_json
from pretrieve.reporting.claims.measured import Facts, bases_of
from pretrieve.reporting.report.boards import AHEAD, UNDECIDED, boards_of
from pretrieve.reporting.report.league import Kept, Pair, Standing, baseline_of, entries_of, league, turned
from pretrieve.reporting.tables.filling import Line, write_lines

ROOT = Path("results/demo")
CONTINUED = {"body": "transformer", "start": "base", "budget": "continued"}
ENCODERS = {
    "base": {"body": "transformer", "objective": "mlm", "budget": "base"},
    "bert": CONTINUED | {"objective": "mlm"},
    "condenser": CONTINUED | {"objective": "condenser"},
    "retromae": CONTINUED | {"objective": "retromae"},
}


def hits(share: float, seed: int, n: int = 300) -> np.ndarray:
    """(n,) hits, most of them on the same queries for every encoder."""
    shared, own = np.random.default_rng(0).normal(size=n), np.random.default_rng(seed).normal(size=n)
    return (shared + 0.5 * own < np.quantile(shared + 0.5 * own, share)).astype(float)


def row(system: str, seeds: list[np.ndarray], unit: str = "%", chance: float = 0.01, table: str = "table1") -> Line:
    """A line of a table, with the metrics files behind it."""
    numbers = [0] if system.startswith("bm25") else range(1, len(seeds) + 1)
    for number, values in zip(numbers, seeds, strict=True):
        record = {
            "n_queries": len(values),
            "metrics": {"recall@10": float(values.mean())},
            "per_query": {"recall@10": {f"q{i}": float(x) for i, x in enumerate(values)}},
            "chance": {"recall@10": chance},
        }
        write_json(ROOT / f"metrics/{system}/qa/seed{number}.json", record)
    means = np.array([values.mean() for values in seeds]) * (100 if unit == "%" else 1)
    digits = 2 if unit == "%" else 4
    return Line(**dict.fromkeys(Line._fields, ""))._replace(
        paper="tiny",
        table=table,
        row=system.partition(".")[0],
        column="R@10",
        system=system,
        dataset="qa",
        metric="recall@10",
        measured=f"{means.mean():.{digits}f}",
        sd=f"{means.std(ddof=1):.{digits}f}" if len(seeds) > 1 else "",
        n_seeds=str(len(seeds)),
        status="scale-differs",
        queries=str(len(seeds[0])),
        wall_s="12.0",
        gpu_h="0.5",
        role="qa",
        unit=unit,
        beyond_chance="yes" if means.mean() > 3 * chance * (100 if unit == "%" else 1) else "no",
    )


def made(*lines: Line, seeds: tuple[int, ...] = (1,), **tables: list[Line]) -> tuple[list[Standing], list[Pair]]:
    tables = {"tiny/table1": list(lines)} | {f"tiny/{name}": some for name, some in tables.items()}
    for name, some in tables.items():
        write_lines(ROOT / f"tables/{name}.csv", some)
    measurements = Kept(ROOT, seeds, Facts(bases=bases_of(ENCODERS)))
    return league(entries_of(tables, measurements), ENCODERS, measurements)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_difference_is_that_of_the_same_queries():
    a, b = hits(0.5, 1), hits(0.3, 2)
    standings, pairs = made(row("bert.r-full", [b]), row("condenser.r-full", [a]))
    assert len(pairs) == 1 and (pairs[0].a, pairs[0].b) == ("bert", "condenser"), "the order of the configuration"
    test = stats.ttest_rel(a, b)
    low, high = (100 * bound for bound in test.confidence_interval())
    condenser = next(one for one in standings if one.encoder == "condenser")
    assert float(condenser.effect) == pytest.approx(100 * (a.mean() - b.mean()), abs=0.01)
    # A few per cent wider: the degrees of freedom are fewer where most differences are 0.
    assert float(condenser.effect_low) == pytest.approx(low, rel=0.05)
    assert float(condenser.effect_high) == pytest.approx(high, rel=0.05)
    assert (condenser.baseline, condenser.wall_s, condenser.queries) == ("bert", "12.0", "300")
    assert condenser.cell == "tiny/table1: condenser, R@10"
    unpaired = stats.ttest_ind(a, b).confidence_interval()
    assert 100 * unpaired.low < float(condenser.effect_low) - 1, "the queries are shared, so the error is smaller"


def test_other_seeds_count_as_other_queries_do():
    """Equal means over queries, and seeds that lie far apart: the interval grows."""
    near = made(
        row("bert.r-full", [hits(0.3, s) for s in (1, 2, 3)]),
        row("condenser.r-full", [hits(0.4, s) for s in (4, 5, 6)]),
        seeds=(1, 2, 3),
    )[1][0]
    far = made(
        row("bert.r-full", [hits(0.3, s) for s in (1, 2, 3)]),
        row("condenser.r-full", [hits(share, s) for share, s in ((0.2, 4), (0.4, 5), (0.6, 6))]),
        seeds=(1, 2, 3),
    )[1][0]
    assert float(near.effect) == pytest.approx(float(far.effect), abs=0.5) and near.n_seeds == "3"
    assert float(far.high) - float(far.low) > 3 * (float(near.high) - float(near.low))
    assert float(near.p) < 0.05 < float(far.p)


def test_a_pair_turned_round_is_the_other_difference():
    pair = made(row("bert.r-full", [hits(0.3, 2)]), row("condenser.r-full", [hits(0.5, 1)]))[1][0]
    other = turned(pair)
    assert (other.a, other.b, other.p) == ("condenser", "bert", pair.p)
    assert float(other.effect) == -float(pair.effect) > 0
    assert (float(other.low), float(other.high)) == (-float(pair.high), -float(pair.low))
    assert float(other.low) < float(other.effect) < float(other.high) and turned(other) == pair


def test_q_is_adjusted_over_all_pairs_of_a_board():
    lines = [row("bm25.r-full", [hits(0.6, 9)]), row("bert.r-full", [hits(0.3, 2)])]
    lines += [row("condenser.r-full", [hits(0.33, 1)]), row("retromae.r-full", [hits(0.37, 3)])]
    standings, pairs = made(*lines)
    assert len(pairs) == 6 and len(standings) == 4
    expected = stats.false_discovery_control([float(pair.p) for pair in pairs])
    assert [float(pair.q) for pair in pairs] == pytest.approx(expected, abs=2e-4)
    assert any(pair.q != pair.p for pair in pairs) and all(float(pair.p) > 0 for pair in pairs)
    lexical = standings[0]
    assert (lexical.encoder, lexical.n_seeds, lexical.baseline) == ("bm25", "", "")


def test_two_guesses_are_not_compared():
    standings, pairs = made(
        row("bert.r-full", [hits(0.01, 2)], chance=0.02),
        row("condenser.r-full", [hits(0.02, 1)], chance=0.02),
        row("retromae.r-full", [hits(0.5, 3)], chance=0.02),
    )
    by_names = {(pair.a, pair.b): pair for pair in pairs}
    guesses = by_names["bert", "condenser"]
    assert (guesses.p, guesses.q) == ("", "") and "level of guessing" in guesses.note
    assert float(by_names["bert", "retromae"].q) < 0.01, "one has learnt"
    board = boards_of(standings, pairs, ENCODERS, {}, {})[0]
    assert {row.encoder: row.cells[0].verdict for row in board.rows} == {
        "retromae": AHEAD,
        "condenser": "not tested",
        "bert": "",
    }


def test_a_score_of_two_tables_counts_once_and_fractions_are_percentages():
    values = [hits(0.3, 2)]
    fraction = [row("bert.r-full", values, unit="fraction", table="table2")]
    per_cent = [row("bert.r-full", values, table="table3")]
    standings, pairs = made(row("condenser.r-full", [hits(0.4, 1)]), table2=fraction, table3=per_cent)
    assert [one.encoder for one in standings] == ["bert", "condenser"] and len(pairs) == 1
    assert (standings[0].score, standings[0].unit) == (f"{100 * values[0].mean():.2f}", "%")


def test_a_recipe_of_one_encoder_is_not_in_the_league():
    assert made(row("bm25.r-full", [hits(0.5, 1)]), row("bert.r-full", [hits(0.5, 1)])) == ([], [])


def test_what_differs_in_more_than_the_objective_has_no_baseline():
    others = {"bert": CONTINUED | {"objective": "mlm"}}
    assert baseline_of("x", others, others | {"x": CONTINUED | {"objective": "retromae"}}) == "bert"
    for key in ("body", "start", "budget", "layers"):
        assert baseline_of("x", others, others | {"x": CONTINUED | {"objective": "retromae", key: "other"}}) == ""


def test_a_board_begins_with_the_best_and_has_the_differences_of_every_two():
    lines = [row("bert.r-full", [hits(0.3, 2)]), row("condenser.r-full", [hits(0.32, 1)])]
    standings, pairs = made(*lines, row("retromae.r-full", [hits(0.6, 3)]))
    board = boards_of(standings, pairs, ENCODERS, {"qa": "questions"}, {"tiny/table1: retromae, R@10": "there"})[0]
    assert [one.encoder for one in board.rows] == ["retromae", "condenser", "bert"]
    assert (board.title, board.datasets, board.baselines) == (
        "r, full training set: R@10",
        [("qa", "questions")],
        ["bert"],
    )
    best, second = board.rows[0].cells[0], board.rows[1].cells[0]
    assert (best.anchor, best.verdict, second.verdict) == ("there", AHEAD, UNDECIDED)
    assert 50 < best.left < best.middle < best.right <= 98 and second.left < 50 < second.right
    assert {name: len(some) for name, some in board.for_script["pairs"].items()} == {
        "bert condenser": 1,
        "bert retromae": 1,
        "condenser retromae": 1,
    }
