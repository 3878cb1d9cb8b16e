"""What a cell of an HTML page shows beside its value, and heads that stand once above all columns that share them.

Seen to fail when: the published value or the cell's own interval decides on the shade; a cell at chance or without a baseline is
shaded; a step is missed by its own bound; the legend explains what the table has not; a group takes a word that one
of its columns needs; a head that a column has alone is not as deep as the others; data stands above a column of other data.
"""

from __future__ import annotations

import pytest

from pretrieve.reporting.tables.filling import Line
from pretrieve.reporting.tables.heads import head_rows
from pretrieve.reporting.tables.layout import interval_of, shade_of
from pretrieve.reporting.tables.legend import explain_cells

FIELDS = dict.fromkeys(Line._fields, "") | {"measured": "0.5000", "low": "0.2500", "high": "0.7500", "n_seeds": "1"}
#: What a paper printed is far off, and has no part in a shade.
PUBLISHED = {"published": "0.9", "delta": "-0.4000", "unit": "fraction", "metric": "mrr@10"}


def line(**fields: str) -> Line:
    return Line(**FIELDS | PUBLISHED | fields)


@pytest.mark.parametrize(
    ("effect", "shade"),
    [
        *(("0.0000", ""), ("0.2500", ""), ("-0.2500", "")),
        *(("0.2501", "above-1"), ("0.5001", "above-2"), ("1.0000", "above-2"), ("1.0001", "above-3")),
        *(("-0.2600", "below-1"), ("-0.5001", "below-2"), ("-1.5000", "below-3")),
    ],
)
def test_a_shade_is_the_difference_to_the_baseline_in_half_widths_of_its_interval(effect, shade):
    bounds = {"effect_low": f"{float(effect) - 0.25:.4f}", "effect_high": f"{float(effect) + 0.25:.4f}"}
    assert shade_of(line(effect=effect, **bounds)) == shade
    assert shade_of(line(effect=effect, **bounds, low="0.4999", high="0.5001")) == shade, (
        "not by the cell's own interval"
    )
    assert shade_of(line(effect=effect, **bounds, beyond_chance="no")) == "", "at chance"
    assert shade_of(line(effect=effect)) == "", "no interval"
    assert shade_of(line(effect="2.20", effect_low="0.00", effect_high="4.20")) == "", "0 is in it"
    assert shade_of(line(effect=effect, effect_low=effect, effect_high=effect)) == "", "all queries alike"


def test_an_interval_is_shown_where_there_is_one():
    assert (interval_of(line()), interval_of(line(low="", high=""))) == ("[0.2500, 0.7500]", "")


def test_a_legend_explains_what_the_table_has():
    def terms(*lines: Line, columns: tuple[str, ...] = ("R@1",)) -> list[str]:
        return [term for term, _ in explain_cells(lines, columns)]

    assert terms(line(effect="0.1", effect_low="0.0", effect_high="0.2")) == ["[low, high]", "Shade"]
    assert terms(line(), columns=("here questions; published: R@1",)) == ["here …", "[low, high]"]
    assert terms(line(low="", high="", metric="spearman")) == ["No interval"]
    assert terms(line(low="", high="", n_seeds="")) == [], "a count"
    assert (
        dict(explain_cells([line(effect="0.1", effect_low="0.0", effect_high="0.2")], ()))["Shade"].count(
            "1, 2 and 4 half widths"
        )
        == 1
    )


def heads(*columns: str, over: str = "") -> list[list[tuple]]:
    return [[(h.text, h.here, h.span, h.depth, h.column) for h in row] for row in head_rows(columns, over)]


def test_what_neighbours_share_stands_once_above_them():
    assert heads("R@1", "R@5") == [[("R@1", "", 1, 1, 0), ("R@5", "", 1, 1, 1)]]
    assert heads("Dev MRR@10", "Dev R@50", "DL19 NDCG@10", "Dev", "Dev") == [
        [("Dev", "", 2, 1, None), ("DL19 NDCG@10", "", 1, 2, 2), ("Dev", "", 1, 2, 3), ("Dev", "", 1, 2, 4)],
        [("MRR@10", "", 1, 1, 0), ("R@50", "", 1, 1, 1)],
    ]
    assert heads("Dev A", "Dev A B")[1] == [("A", "", 1, 1, 0), ("A B", "", 1, 1, 1)], "a word is left for each"
    three = heads("NQ Top-20 1K", "NQ Top-20 FULL", "NQ Top-100 1K", "NQ Top-100 FULL", over="Hits")
    assert [[head[0] for head in row] for row in three] == [["Hits"], ["NQ"], ["Top-20", "Top-100"], ["1K", "FULL"] * 2]
    assert [head[4] for head in three[-1]] == [0, 1, 2, 3] and three[0][0][2] == three[1][0][2] == 4


def test_data_stands_as_high_as_it_is_true():
    columns = ("here a, trained on 10; published: Dev 1K", "here a, trained on 20; published: Dev FULL", "DL19")
    assert heads(*columns) == [
        [("Dev", "here a", 2, 1, None), ("DL19", "", 1, 2, 2)],
        [("1K", "trained on 10", 1, 1, 0), ("FULL", "trained on 20", 1, 1, 1)],
    ]
    assert heads("R@1: here a", "R@5: here a")[0] == [("", "here a", 2, 1, None)]
    mixed = heads("here a; published: Dev X", "here b; published: Dev Y")
    assert mixed[0] == [("Dev", "", 2, 1, None)] and [head[1] for head in mixed[1]] == ["here a", "here b"]
