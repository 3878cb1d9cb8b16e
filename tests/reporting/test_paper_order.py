"""The papers' order beside ours: ranks, rho and flips on columns worked out by hand.

Seen to fail when: ranks count from the worst; a flip counts once for each of its rows; a small flip is beyond chance; rows of two
training-set sizes or metrics share a column; quoted rows have ranks.
"""

from __future__ import annotations

import pytest
from test_league import ROOT, hits, row

from pretrieve.reporting.report.league import Kept
from pretrieve.reporting.report.paper_order import Rank, columns_of, orders
from pretrieve.reporting.tables.filling import Line, write_lines


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ranked(*lines: Line) -> list[Rank]:
    write_lines(ROOT / "tables/tiny/table1.csv", lines)
    return orders({"tiny/table1": lines}, Kept(ROOT, [1]))


def printed(system: str, published: str, share: float, seed: int, **more) -> Line:
    return row(system, [hits(share, seed)], **more)._replace(published=published, published_value=published)


def test_ranks_rho_and_flips_by_hand():
    """The paper: a, b, c, d. Here: a, c, b, d, where b and c differ by little. One flip of 6 pairs, rho 1 - 6·2/(4·15) = 0.8."""
    ranks = ranked(
        printed("d.r-full", "10", 0.1, 1),
        printed("b.r-full", "30", 0.30, 2),
        printed("a.r-full", "40", 0.6, 3),
        printed("c.r-full", "20", 0.32, 4),
        row("quoted.r-full", [hits(0.5, 5)])._replace(published="50", published_value="50", system="", status="quoted"),
    )
    found = {rank.row: rank for rank in ranks}
    assert {name: (rank.rank_published, rank.rank_here) for name, rank in found.items()} == {
        "a": ("1", "1"),
        "b": ("2", "3"),
        "c": ("3", "2"),
        "d": ("4", "4"),
    }
    one = ranks[0]
    assert (one.rho, one.pairs, one.flips, one.flips_shown) == ("0.80", "6", "1", "0")
    assert -1 <= float(one.low) <= 0.8 <= float(one.high) <= 1
    # Of the 24 orders of four rows, that of the paper and three with one exchange of neighbours have rho 0.8 or more.
    assert float(one.p) == pytest.approx(4 / 24, abs=0.02)
    assert (found["b"].flipped, found["c"].flipped, found["a"].flipped) == ("c", "b", "")
    column = columns_of(ranks)[0]
    assert [rank.row for rank in column.left] == ["a", "b", "c", "d"]
    assert column.lines == [(0, 0, ""), (1, 2, "flip"), (2, 1, "flip"), (3, 3, "")]
    assert column.title == "R@10" and column.whisker["middle"] == pytest.approx(50 + 48 * 0.8)


def test_a_flip_beyond_chance_is_marked():
    ranks = ranked(
        printed("a.r-full", "40", 0.1, 3), printed("b.r-full", "30", 0.6, 2), printed("c.r-full", "20", 0.05, 4)
    )
    assert {rank.row: rank.flipped for rank in ranks} == {"a": "b*", "b": "a*", "c": ""}
    assert (ranks[0].flips, ranks[0].flips_shown, ranks[0].rho) == ("1", "1", "0.50")
    assert [word for *_, word in columns_of(ranks)[0].lines] == ["shown", "shown", ""]


def test_guesses_flip_but_show_nothing():
    ranks = ranked(
        printed("a.r-full", "40", 0.01, 3, chance=0.02),
        printed("b.r-full", "30", 0.02, 2, chance=0.02),
        printed("c.r-full", "20", 0.0, 4, chance=0.02),
    )
    assert (ranks[0].guessed, ranks[0].flips, ranks[0].flips_shown) == ("3", "1", "0")


def test_only_rows_that_can_be_compared_share_a_column():
    few = [printed("a.r-1k", "40", 0.5, 3), printed("b.r-1k", "30", 0.4, 2), printed("c.r-1k", "20", 0.3, 4)]
    more = (("a", "40", 0.5), ("b", "30", 0.6), ("c", "20", 0.3))
    all_of_it = [printed(f"{name}.r-full", *rest, 7)._replace(row=f"{name}, all") for name, *rest in more]
    columns = columns_of(ranked(*few, *all_of_it))
    assert [(column.title, column.left[0].rho) for column in columns] == [("R@10, 1k", "1.00"), ("R@10, full", "0.50")]
    ranks = ranked(*few)
    columns = columns_of([*ranks, *(rank._replace(metric="mrr@10") for rank in ranks)])
    assert [(column.title, len(column.left)) for column in columns] == [("R@10, recall@10", 3), ("R@10, mrr@10", 3)]
    assert ranked(*few[:2]) == [], "two rows have no order"
    assert ranked(*(line._replace(published_value="") for line in few)) == [], "no paper has them"


def test_names_leave_out_what_all_rows_share():
    lines = [printed(f"{name}.r-full", published, 0.3, 1) for name, published in (("a", "3"), ("b", "2"), ("c", "1"))]
    ranks = ranked(*(line._replace(row=f"Transformer | {line.row}") for line in lines))
    assert columns_of(ranks)[0].names == {f"Transformer | {name}": name for name in "abc"}
    assert ranks[0].rho == ranks[0].p == "" and ranks[0].flips == "0", "equal values have no order"
