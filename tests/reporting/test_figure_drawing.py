"""Figures as SVG: what stands in the picture, that it hides nothing, and that equal points give equal bytes.

Seen to fail when: the hash salt or the date is left to matplotlib; text is drawn as paths; the warning of the scale, a unit
or the reasons are left out; error bars are drawn for one seed, or for none; a category that was not run is left blank; the
title is not escaped; changes share the axes of what they are changes of; relative changes are always on a linear axis; the number
of drawn texts is not said; an axis begins at its lowest value; a line joins tasks; published values share the measured axes; a
ratio to a score at chance is drawn; the sentence on values at chance is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from tiny_figure import write_figure, write_run

from pretrieve.references.figures import load_figure
from pretrieve.references.palette import METHODS
from pretrieve.reporting.figures.draw import STYLE, draw, tick_names, to_svg
from pretrieve.reporting.figures.measure import measure_figure
from pretrieve.reporting.figures.points import Point, read_points
from pretrieve.reporting.figures.words import lines_above

SVG = "{http://www.w3.org/2000/svg}"
REFERENCES = Path(__file__).parents[2] / "references"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def figure(folder):
    return load_figure(write_figure(folder))


@pytest.fixture(scope="module")
def points(figure, folder):
    return measure_figure(figure, write_run(folder), {})


@pytest.fixture(scope="module")
def picture(figure, points) -> bytes:
    """A drawing takes most of a second, so the points as they are have one for all tests."""
    return to_svg(figure, points, "demo")


def words_of(svg: bytes) -> str:
    """All text of a picture, in its order."""
    root = ElementTree.fromstring(svg)
    return "\n".join("".join(node.itertext()).strip() for node in root.iter(f"{SVG}text"))


def test_equal_points_give_equal_bytes(figure, points, picture):
    assert picture == to_svg(figure, points, "demo")
    assert picture != to_svg(replace(figure, caption="Other."), points, "demo")
    assert not re.search(rb"20\d\d-\d\d-\d\d|<metadata|[Mm]atplotlib v", picture)


def test_the_picture_says_what_it_shows(picture):
    words = words_of(picture)
    flat = " ".join(words.split())
    for expected in (
        "Figure 1 (tiny). Scores & <what> they rest on.",
        "Measured at the demo scale (scale-differs): less data, smaller models.",
        "Bars and bands are 95 % intervals over queries or texts and 2 seeds; where none is known, ± sd over seeds.",
        "(a) Scores",
        "(b) Relative",
        "Labels (share)",
        "Change (%)",
        "Entropy (nats)",
        "(a) Scores, as published",
        "not-run, the demo scale has no data set for the role trivia",
        "not-run, the analysis attention_entropy of the demo scale excludes nobody",
    ):
        assert expected in flat, expected
    assert {"Ours", "Other", "before", "after", "change", "10%", "50%", "100%"} <= set(words.split("\n"))
    assert "MRR" in words.split("\n"), "a fraction has no unit"


def test_the_title_names_what_was_measured_and_values_at_chance_are_marked(figure, points, picture, tmp_path):
    """Other data than the paper's is named first; a point that guessing has too is grey, and the legend says so."""
    tables = write_run(tmp_path).tables
    role = next(point.role for point in points if point.y and point.role)
    tables = replace(tables, stand_ins=frozenset([role]), descriptions={tables.roles[role]: "questions of a test"})
    assert "Measured on questions of a test, in place of" in " ".join(
        words_of(to_svg(figure, points, "demo", tables)).split()
    )
    assert "≈ chance" not in words_of(picture)
    guessed = [point._replace(beyond_chance="no") if point.panel == "a" else point for point in points]
    marked = to_svg(figure, guessed, "demo")
    assert "≈ chance" in words_of(marked) and b"#888888" in marked


def test_an_axis_of_data_names_the_data(figure, points, tmp_path):
    one, two = [point for point in points if point.panel == "a" and point.y][:2]
    tables = replace(write_run(tmp_path).tables, stand_ins=frozenset(["nq"]))
    shown = [one._replace(x="NQ", role="nq", dataset="mine"), two._replace(x="SQuAD", role="squad", dataset="theirs")]
    assert tick_names(shown, tables) == {("a", "NQ"): "mine (for NQ)"}


def test_at_paper_scale_nothing_warns(figure, tmp_path):
    points = measure_figure(figure, write_run(tmp_path, scale="paper", seeds=(1,)), {})
    words = words_of(to_svg(figure, points, "paper"))
    assert "scale-differs" not in words and "intervals over queries or texts, of one seed." in " ".join(words.split())


def test_it_can_be_read_aloud(figure, picture):
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img" and root.find(f"{SVG}title").text == "figure1: Scores & <what> they rest on."
    assert root.find(f"{SVG}desc").text == figure.claim


def test_error_bars_are_there_where_an_interval_or_a_deviation_is_known(figure, points, picture):
    none = [point._replace(low="", high="", sd="") for point in points]
    spread = [point._replace(low="", high="") for point in points]
    drawn = [picture, *(to_svg(figure, some, "demo") for some in (spread, none))]
    bars = [len(re.findall(rb'id="LineCollection_\d+"', svg)) for svg in drawn]
    assert bars[2] == 0 and bars[0] == bars[1] == 3  # at names: ours, other, gain
    bands = [svg.count(b'id="FillBetweenPolyCollection_') for svg in (drawn[0], drawn[2])]
    assert bands == [3, 0]  # along layers: before, after, change
    assert "One seed, so no error bars." in words_of(
        to_svg(figure, [p._replace(n_seeds=p.n_seeds and "1") for p in none], "demo")
    )


def test_a_method_is_drawn_in_its_colour_and_marker(picture):
    text = picture.decode().lower()
    for method in ("seed", "bert"):
        assert METHODS[method].colour.lower() in text
    assert METHODS["optimus"].colour.lower() not in text


def test_a_category_that_nothing_was_run_for_says_so(figure, points, tmp_path):
    without = measure_figure(figure, write_run(tmp_path, recipes=frozenset({"reqa"}), roles={}), {})
    assert all(point.status in ("not-run", "quoted", "scale-differs") for point in without)
    words = words_of(to_svg(figure, without, "demo"))
    assert words.count("not run at this scale") >= 1  # panel b has nothing at all
    some = [point for point in without if point.panel != "a"] + [
        point for point in points if point.panel == "a" and (point.series, point.x) != ("ours", "100%")
    ]
    assert "not-run" in words_of(to_svg(figure, some, "demo")).split("\n")


def test_nothing_measured_is_still_a_picture(figure, points):
    nothing = [point._replace(y="", sd="", n_seeds="", status="not-run", note="no reason") for point in points]
    words = words_of(to_svg(figure, nothing, "demo"))
    assert "not run at this scale" in words and "Measured at" not in words and "no reason" in words


def test_published_points_have_axes_of_their_own(figure, points):
    axes = {one.get_title(loc="left"): one for one in draw(figure, points, "demo").axes}
    assert "(b) Relative, as published" not in axes, "the paper has no value of it"
    drawn = {tuple(xy) for line in axes["(a) Scores, as published"].lines for xy in line.get_xydata()}
    assert {round(y, 2) for _, y in drawn} == {0.30, 0.35}
    assert not any(0.30 in line.get_ydata() for line in axes["(a) Scores"].lines)


def lines_of(axes) -> list:
    """The values of series."""
    return [
        line for line in axes.lines if line.get_marker() in {look.marker for look in METHODS.values() if look.marker}
    ]


@pytest.mark.parametrize(("scale", "joined"), [("category", False), ("ordered", True)])
def test_a_line_joins_names_only_where_they_have_an_order(figure, points, scale, joined):
    first = replace(figure.panels[0], x=replace(figure.panels[0].x, scale=scale))
    axes = draw(replace(figure, panels=(first, *figure.panels[1:])), points, "demo").axes[0]
    assert {line.get_linestyle() != "None" for line in lines_of(axes)} == {joined}
    at = [line.get_xdata()[0] for line in lines_of(axes)]
    assert len(set(at)) == len(at) == 2, "side by side"


@pytest.mark.parametrize("unit", ["fraction", "%", "nats", "cosine"])
def test_axes_begin_at_zero(figure, points, unit):
    """0.0011 and 0.0013 are half a query apart: on axes that begin at 0 that is little."""
    first = replace(figure.panels[0], y=replace(figure.panels[0].y, unit=unit))
    near = [p._replace(y="0.0011" if p.series == "ours" else "0.0013", low="", high="", sd="") for p in points if p.y]
    low, high = draw(replace(figure, panels=(first,)), near, "demo").axes[0].get_ylim()
    assert low == 0 and (high > 1 if unit == "cosine" else 0.0013 < high < 0.0015)


def test_intervals_widen_the_axes_but_do_not_press_the_values_together(figure, points):
    some = [p._replace(y="0.1", low="0.05", high="0.2", sd="") for p in points if p.y and p.panel == "a"]
    figure = replace(figure, panels=figure.panels[:1])
    assert 0.2 < draw(figure, some, "demo").axes[0].get_ylim()[1] < 0.25
    some = [p._replace(low="-9", high="9") for p in some]
    assert draw(figure, some, "demo").axes[0].get_ylim() == (0, pytest.approx(0.424)), (
        "four times the values, and some room"
    )


def test_chance_is_a_line_and_is_in_the_legend(figure, points, picture):
    known = [p._replace(chance="0.2" if p.x == "10%" else "0.1") if p.panel == "a" and p.y else p for p in points]
    axes = draw(figure, known, "demo").axes[0]
    levels = {
        (round(line.get_xdata().mean()), line.get_ydata()[0])
        for line in axes.lines
        if line.get_ydata()[0] == line.get_ydata()[-1]
    }
    assert {(0, 0.2), (1, 0.1)} <= levels
    assert "Chance" in words_of(to_svg(figure, known, "demo")).split("\n")
    assert "Chance" not in words_of(picture).split("\n")


def said(figure, points) -> str:
    return " ".join(words_of(to_svg(figure, points, "demo")).split())


def test_a_figure_that_tells_nothing_apart_says_so(figure, points):
    points = [p._replace(low=p.y, high=p.y) if p.panel == "a" and p.y else p for p in points]
    words = said(figure, points)
    assert "beyond chance" not in words and "more than an interval" not in words
    guessed = [p._replace(beyond_chance="no") if p.panel == "a" and p.y else p for p in points]
    assert "No value of (a) is beyond chance: nothing can be read from their differences." in said(figure, guessed)
    other = [p._replace(low="0", high="0.6") if p.panel == "a" and p.series == "ours" and p.y else p for p in points]
    assert "At no place of (a) do values differ by more than an interval." in said(figure, other)
    only = replace(figure, panels=figure.panels[:1])
    assert "No value is beyond chance" in said(only, [p for p in guessed if p.panel == "a"])


def test_a_change_against_a_score_at_chance_is_a_word(figure, points):
    figure = replace(figure, panels=(figure.panels[1],))
    (gain,) = [p for p in points if p.panel == "b"]
    some = [gain._replace(y="1200"), gain._replace(x="trivia", y="8")]
    axes = draw(figure, [some[0]._replace(beyond_chance="no"), some[1]], "demo").axes[0]
    assert "≈ chance" in [text.get_text() for text in axes.texts] and axes.get_ylim()[1] < 20
    assert draw(figure, some, "demo").axes[0].get_ylim()[1] > 1200
    assert "so their ratio says nothing" in said(figure, [some[0]._replace(beyond_chance="no"), some[1]])


def test_the_title_names_the_checkpoint_and_the_texts(figure, points, picture, tmp_path):
    tables = write_run(tmp_path).tables
    words = {"hub:a/b": "some model, trained on MS MARCO; no word head", "corpus": "leads of articles"}
    tables = replace(tables, starts={"ours": ["hub:a/b", 0]}, descriptions=words)
    svg = to_svg(figure, points, "demo", tables)
    title = (
        "Measured on leads of articles as texts; encoders continued from some model, trained on MS MARCO. The paper:"
    )
    assert title in " ".join(words_of(svg).split())
    assert "encoders continued" not in " ".join(words_of(picture).split())


def test_the_height_of_the_title_is_said_for_pages_that_leave_it_out(figure, points, picture):
    root = ElementTree.fromstring(picture)
    titles = [node for node in root.iter(f"{SVG}g") if node.get("id", "").startswith("title-")]
    height = float(root.get("data-title"))
    assert len(titles) == 1 and 72 * 0.24 < height < 72 * 0.5
    longer = ElementTree.fromstring(to_svg(replace(figure, caption="word " * 40), points, "demo"))
    assert float(longer.get("data-title")) > height + 72 * 0.24


def test_empty_axes_say_whether_something_is_missing(figure, points):
    broken = [point._replace(y="", sd="", n_seeds="", status="failed", note="missing: file") for point in points]
    words = words_of(to_svg(figure, broken, "demo")).split("\n")
    assert "failed" in words and "not run at this scale" not in words


def boxes_of(axes, wanted: str) -> list:
    """Where the words of axes that fit a pattern stand, in pixels."""
    axes.figure.canvas.draw()
    return [text.get_window_extent() for text in axes.texts if re.search(wanted, text.get_text())]


def test_a_bar_has_its_value_above_it_and_its_interval(figure, points):
    (bar,) = [point._replace(low="10", high="30") for point in points if point.panel == "b"]
    axes = draw(replace(figure, panels=figure.panels[1:2]), [bar], "demo").axes[0]
    (box,) = boxes_of(axes, rf"^{float(bar.y):.3g}$")
    assert box.y0 > axes.transData.transform((0, float(bar.high)))[1] > axes.transData.transform((0, float(bar.y)))[1]


def test_a_bar_near_zero_has_all_its_digits(figure, points):
    small = [point._replace(y="0.0022") if point.panel == "b" else point for point in points]
    assert "0.0022" in words_of(to_svg(figure, small, "demo")).split("\n")


def test_changes_have_axes_of_their_own(figure, points):
    axes = draw(figure, points, "demo").axes
    titles = {one.get_title(loc="left"): one for one in axes}
    assert list(titles)[:4] == ["(a) Scores", "(a) Scores, as published", "(b) Relative", "(c) Entropy"]
    change = titles["(c) Entropy: change"]
    drawn = [[line.get_marker() == "x" for line in one.lines].count(True) for one in (change, titles["(c) Entropy"])]
    assert drawn == [1, 0] and change.get_ylabel() == "Absolute change (nats)"


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
    some = [gain._replace(x=f"task {i}", y=value, sd="", low="", high="") for i, value in enumerate(values)]
    axes = draw(replace(figure, panels=figure.panels[1:2]), some, "demo").axes[0]
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
    several = " ".join(lines_above(figure, [*some, one._replace(series="separation", n_seeds="3")], "demo", 9))
    assert ("of the first seed" in several) == bool(words) and "of the first seed" not in flat


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
    at = {
        " ".join(axes.get_title(loc="left").split()): axes.get_position() for axes in draw(figure, points, "demo").axes
    }
    assert "MS MARCO question answering (top) and open-domain Natural Questions (bottom)" in figure.caption
    assert at["Question answering"].y0 > at["Open domain"].y1
    assert at["Question answering, as published"].x0 > at["Question answering"].x1


PUBLISHED = max((REFERENCES.parent / "results/published").glob("*-demo-*")) / "figures"


@pytest.mark.parametrize("name", sorted(f"{file.parent.name}/{file.stem}" for file in PUBLISHED.glob("*/*.csv")))
def test_no_word_of_a_published_figure_is_cut_off(name):
    figure = load_figure(REFERENCES / f"{name}.yaml")
    start = (
        "all-MiniLM-L6-v2, a sentence encoder trained on over a billion pairs of texts, among them MS MARCO and SQuAD"
    )
    figure = replace(figure, caption=f"Measured on encoders continued from {start}. The paper: “{figure.caption}”")
    points = read_points(PUBLISHED / f"{name}.csv")
    names = {
        (point.panel, point.x): f"questions (for {point.x})" for point in points if point.role.startswith("multireqa")
    }
    with matplotlib.rc_context(STYLE):
        canvas = draw(figure, points, "demo", names)
        FigureCanvasAgg(canvas).draw()
        whole = canvas.bbox.padded(1)
        words = [text for text in canvas.findobj(Text) if text.get_text().strip() and text.get_visible()]
        cut = [text.get_text() for text in words if not _inside(whole, text.get_window_extent())]
    assert len(words) > 10 and not [word for word in cut if not re.fullmatch(r"[−\d.,]+", word)], cut


def _inside(whole, box) -> bool:
    return whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1
