"""Figures as SVG: what stands in the picture, that it hides nothing, and that equal points give equal bytes.

Seen to fail when: the hash salt or the date is left to matplotlib; text is drawn as paths; the warning of the scale, a unit
or the reasons are left out; error bars are drawn for one seed, or for none; a category that was not run is left blank; the
title is not escaped; stars at the edge have one row; a star is not kept clear of a bar's number; changes share the axes
of what they are changes of; relative changes are always on a linear axis; the number of drawn texts is not said.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tiny_figure import FIGURE, write_figure, write_run

from pretrieve.references.figures import load_figure
from pretrieve.references.palette import METHODS
from pretrieve.reporting.figures.draw import _renamed, draw, to_svg
from pretrieve.reporting.figures.measure import measure_figure
from pretrieve.reporting.figures.points import Point

SVG = "{http://www.w3.org/2000/svg}"
REFERENCES = Path(__file__).parents[2] / "references"


@pytest.fixture
def figure(tmp_path):
    return load_figure(write_figure(tmp_path))


@pytest.fixture
def points(figure, tmp_path):
    return measure_figure(figure, write_run(tmp_path), {})


def words_of(svg: bytes) -> str:
    """All text of a picture, in its order."""
    root = ElementTree.fromstring(svg)
    return "\n".join("".join(node.itertext()).strip() for node in root.iter(f"{SVG}text"))


def test_equal_points_give_equal_bytes(figure, points):
    one = to_svg(figure, points, "demo")
    assert one == to_svg(figure, points, "demo")
    assert one != to_svg(replace(figure, caption="Other."), points, "demo")
    assert not re.search(rb"20\d\d-\d\d-\d\d|<metadata|[Mm]atplotlib v", one)


def test_the_picture_says_what_it_shows(figure, points):
    words = words_of(to_svg(figure, points, "demo"))
    flat = " ".join(words.split())
    for expected in (
        "Figure 1 (tiny). Scores & <what> they rest on.",
        "Measured at the demo scale (scale-differs): less data, smaller models.",
        "Mean of 2 seeds",
        "(a) Scores",
        "(b) Relative",
        "Labels (share)",
        "Change (%)",
        "Entropy (nats)",
        "published",
        "not-run, the demo scale has no data set for the role trivia",
        "not-run, the analysis attention_entropy of the demo scale is not of nobody",
    ):
        assert expected in flat, expected
    assert {"Ours", "Other", "before", "after", "change", "10%", "50%", "100%"} <= set(words.split("\n"))
    assert "MRR" in words.split("\n"), "a fraction has no unit"


def test_the_title_names_what_was_measured_and_values_at_chance_are_marked(figure, points, tmp_path):
    """Other data than the paper's is named first; a point that guessing has too is grey, and the legend says so."""
    tables = write_run(tmp_path).tables
    role = next(point.role for point in points if point.y and point.role)
    tables = replace(tables, stand_ins=frozenset([role]), descriptions={tables.roles[role]: "questions of a test"})
    assert "Here questions of a test, in place of" in " ".join(words_of(to_svg(figure, points, "demo", tables)).split())
    assert "≈ chance" not in words_of(to_svg(figure, points, "demo"))
    guessed = [point._replace(beyond_chance="no") if point.panel == "a" else point for point in points]
    assert "≈ chance" in words_of(to_svg(figure, guessed, "demo"))
    assert b"#888888" in to_svg(figure, guessed, "demo")


def test_an_axis_of_data_names_the_data(figure, points, tmp_path):
    one, two = [point for point in points if point.panel == "a" and point.y][:2]
    tables = replace(write_run(tmp_path).tables, stand_ins=frozenset(["nq"]))
    shown = [one._replace(x="NQ", role="nq", dataset="mine"), two._replace(x="SQuAD", role="squad", dataset="theirs")]
    assert [_renamed(point, shown, tables).x for point in shown] == ["mine (for NQ)", "SQuAD"]


def test_at_paper_scale_nothing_warns(figure, tmp_path):
    points = measure_figure(figure, write_run(tmp_path, scale="paper", seeds=(1,)), {})
    words = words_of(to_svg(figure, points, "paper"))
    assert "scale-differs" not in words and "One seed, so no error bars." in words


def test_it_can_be_read_aloud(figure, points):
    root = ElementTree.fromstring(to_svg(figure, points, "demo"))
    assert root.get("role") == "img" and root.find(f"{SVG}title").text == "figure1: Scores & <what> they rest on."
    assert root.find(f"{SVG}desc").text == figure.claim


def test_error_bars_are_there_with_several_seeds_and_not_with_one(figure, points, tmp_path):
    one = measure_figure(figure, write_run(tmp_path, seeds=(1,)), {})
    bars = [len(re.findall(rb'id="LineCollection_\d+"', to_svg(figure, some, "demo"))) for some in (points, one)]
    assert bars[1] == 0 and bars[0] >= 4  # ours, other, gain, and the lines of panel c


def test_a_method_is_drawn_in_its_colour_and_marker(figure, points):
    text = to_svg(figure, points, "demo").decode().lower()
    for method in ("seed", "bert"):
        assert METHODS[method].colour.lower() in text
    assert METHODS["optimus"].colour.lower() not in text


def test_a_category_that_nothing_was_run_for_says_so(figure, tmp_path):
    points = measure_figure(figure, write_run(tmp_path, recipes=frozenset({"reqa"}), roles={}), {})
    assert all(point.status in ("not-run", "quoted", "scale-differs") for point in points)
    words = words_of(to_svg(figure, points, "demo"))
    assert words.count("not run at this scale") >= 1  # panel b has nothing at all
    some = [point for point in points if point.panel != "a"] + [
        point
        for point in measure_figure(figure, write_run(tmp_path), {})
        if point.panel == "a" and (point.series, point.x) != ("ours", "100%")
    ]
    assert "not-run" in words_of(to_svg(figure, some, "demo")).split("\n")


def test_nothing_measured_is_still_a_picture(figure, points):
    nothing = [point._replace(y="", sd="", n_seeds="", status="not-run", note="no reason") for point in points]
    words = words_of(to_svg(figure, nothing, "demo"))
    assert "not run at this scale" in words and "Measured at" not in words and "no reason" in words


def test_published_points_have_axes_of_their_own_where_asked(tmp_path):
    text = FIGURE.replace("    draw: line\n", "    draw: line\n    published_panel: true\n", 1)
    figure = load_figure(write_figure(tmp_path, text))
    points = measure_figure(figure, write_run(tmp_path), {})
    words = words_of(to_svg(figure, points, "demo")).split("\n")
    assert "As published" in words and "published" not in words


def test_a_published_point_far_from_all_others_does_not_flatten_them(figure, points, tmp_path):
    near = words_of(to_svg(figure, points, "demo"))
    assert "↑" not in near
    text = FIGURE.replace('"50%": "0.35"', '"50%": "9.5"')
    far = load_figure(write_figure(tmp_path, text))
    svg = to_svg(far, measure_figure(far, write_run(tmp_path), {}), "demo")
    assert "9.5 ↑" in words_of(svg).split("\n")
    ticks = [float(word) for word in words_of(svg).split("\n") if re.fullmatch(r"\d+\.\d+", word)]
    bar = float(f"{float(next(point.y for point in points if point.panel == 'b')):.3g}")
    assert max(tick for tick in ticks if tick not in (9.5, bar)) < 5, "the axis ends near what was measured"


def test_empty_axes_say_whether_something_is_missing(figure, points):
    broken = [point._replace(y="", sd="", n_seeds="", status="failed", note="missing: file") for point in points]
    words = words_of(to_svg(figure, broken, "demo")).split("\n")
    assert "failed" in words and "not run at this scale" not in words


def boxes_of(axes, wanted: str) -> list:
    """Where the words of axes that fit a pattern stand, in pixels."""
    axes.figure.canvas.draw()
    return [text.get_window_extent() for text in axes.texts if re.search(wanted, text.get_text())]


@pytest.mark.parametrize(
    ("published", "n"),
    [
        ('"50%": "9.5", "100%": "9.6"', 2),
        ('"10%": "9.5", "50%": "-9", "100%": "-9.5"', 3),
        ('"10%": "9.5", "50%": "9.6", "100%": "9.7"', 3),
    ],
)
def test_stars_at_the_edge_and_their_numbers_lie_apart(tmp_path, published, n):
    """Both series have the same published values: two stars for each x, at one edge."""
    text = FIGURE.replace('published: {"10%": "0.30", "50%": "0.35"}', f"published: {{{published}}}")
    text = text.replace(
        '        points: {"10%": other',
        f'        published: {{{published}}}\n        tolerance: 1\n        points: {{"10%": other',
    )
    figure = load_figure(write_figure(tmp_path, text))
    canvas = draw(figure, measure_figure(figure, write_run(tmp_path), {}), "demo")
    axes = canvas.axes[0]
    boxes = boxes_of(axes, "[↑↓]")
    assert len(boxes) == 2 * n
    assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)]
    places = [
        tuple(line.get_transform().transform(line.get_xydata()[0]).round())
        for line in axes.lines
        if line.get_marker() == "*"
    ]
    assert len(places) == len(set(places)) == 2 * n
    assert not [1 for x, y in places for box in boxes if box.contains(x, y)]


@pytest.mark.parametrize("published", ["", "17", "40", "0"])
def test_a_bar_has_its_value_above_it_and_clear_of_stars(figure, points, published):
    points = [point._replace(published=published) if point.panel == "b" else point for point in points]
    axes = draw(figure, points, "demo").axes[1]
    (bar,) = [point.y for point in points if point.panel == "b"]
    (box,) = boxes_of(axes, rf"^{float(bar):.3g}$")
    assert box.y0 > axes.transData.transform((0, float(bar)))[1]
    if published:
        star = axes.transData.transform((0, float(published)))[1]
        assert not box.y0 - 5 < star < box.y1 + 5


def test_a_bar_near_zero_has_all_its_digits(figure, points):
    small = [point._replace(y="0.0022") if point.panel == "b" else point for point in points]
    assert "0.0022" in words_of(to_svg(figure, small, "demo")).split("\n")


def test_changes_have_axes_of_their_own(figure, points):
    axes = draw(figure, points, "demo").axes
    titles = {one.get_title(loc="left"): one for one in axes}
    assert list(titles)[:4] == ["(a) Scores", "(b) Relative", "(c) Entropy", "(c) Entropy: change"]
    change = titles["(c) Entropy: change"]
    drawn = [[line.get_marker() == "x" for line in one.lines].count(True) for one in (change, titles["(c) Entropy"])]
    assert drawn == [1, 0] and change.get_ylabel() == "Absolute change (nats)"
    assert titles["(c) Entropy"].get_ylim()[0] > 0.5, "not down to the change"


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (("1770", "-1.72"), "symlog"),
        (("22", "-1.38"), "linear"),
        (("1770", "1400"), "linear"),
        (("-400", "3"), "symlog"),
    ],
)
def test_few_large_changes_do_not_press_the_others_onto_zero(figure, points, values, scale):
    (gain,) = [point for point in points if point.panel == "b"]
    figure = replace(figure, panels=(figure.panels[0], replace(figure.panels[1], draw="line"), *figure.panels[2:]))
    some = [gain._replace(x=f"task {i}", y=value, sd="") for i, value in enumerate(values)]
    axes = draw(figure, [point for point in points if point != gain] + some, "demo").axes[1]
    assert axes.get_yscale() == scale
    assert ("logarithmic beyond ±10" in axes.get_ylabel()) == (scale == "symlog")
    low, high = axes.get_ylim()
    assert low < min(map(float, values)) and high > max(map(float, values))
    if scale == "symlog":
        heights = [
            axes.transAxes.inverted().transform(axes.transData.transform((0, y)))[1] for y in (0, *map(float, values))
        ]
        assert all(abs(one - other) > 0.03 for one, other in combinations(heights, 2))


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (274, "Drawn: 274 questions and 274 answers, for the data set has no more to test; the paper has 400 of each."),
        (400, "Drawn: 400 questions and 400 answers."),
        (0, ""),
    ],
)
def test_maps_say_how_many_texts_they_show(points, drawn, words):
    figure = load_figure(REFERENCES / "dual_encoders/figure2.yaml")
    figure = replace(figure, panels=figure.panels[:-1])
    one = points[0]._replace(panel="SDE", x="0.1", y="0.2", status="scale-differs", n_seeds="1", sd="", published="")
    some = [one._replace(series=series) for series in ("questions", "answers") for _ in range(drawn)]
    flat = " ".join(words_of(to_svg(figure, some, "demo")).split())
    assert words in flat and ("Drawn" in flat) == bool(words)


def test_places_that_captions_name_are_where_the_panels_are():
    """(top) and (bottom) of dual_encoders/figure4: each panel's published values stand on its right."""
    figure = load_figure(REFERENCES / "dual_encoders/figure4.yaml")
    point = {
        "figure": "figure4",
        "x": "base",
        "y": "1",
        "sd": "",
        "n_seeds": "1",
        "published": "2",
        "note": "",
        "unit": "%",
    }
    point |= {"system": "s", "dataset": "d", "metric": "m", "status": "scale-differs", "role": "r", "encoder": "e"}
    points = [Point(panel=panel, series="SDE", **point) for panel in ("left", "right")]
    at = {axes.get_title(loc="left"): axes.get_position() for axes in draw(figure, points, "demo").axes}
    assert "MS MARCO question answering (top) and open-domain Natural Questions (bottom)" in figure.caption
    assert at["Question answering"].y0 > at["Open domain"].y1 and at["As published"].x0 > at["Question answering"].x1
