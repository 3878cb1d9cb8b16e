"""Figures as SVG: what stands in the picture, that it hides nothing, and that equal points give equal bytes.

Seen to fail when: the hash salt or the date is left to matplotlib; text is drawn as paths; the warning of the scale, a unit
or the reasons are left out; error bars are drawn for one seed, or for none; a category that was not run is left blank; the
title is not escaped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from tiny_figure import FIGURE, write_figure, write_run

from pretrieve.reporting.figures.draw import to_svg
from pretrieve.reporting.figures.measure import measure_figure
from pretrieve.reporting.figures.palette import METHODS
from pretrieve.reporting.figures.reference import load_figure

SVG = "{http://www.w3.org/2000/svg}"


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
    assert max(tick for tick in ticks if tick != 9.5) < 5, "the axis ends near what was measured"


def test_empty_axes_say_whether_something_is_missing(figure, points):
    broken = [point._replace(y="", sd="", n_seeds="", status="failed", note="missing: file") for point in points]
    words = words_of(to_svg(figure, broken, "demo")).split("\n")
    assert "failed" in words and "not run at this scale" not in words
