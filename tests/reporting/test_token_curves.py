"""Scores by tokens of pre-training and their differences, worked out by hand: where a point lies, its interval, what is ahead.

Seen to fail when: tokens of the start are counted; a series is compared step by step and not at equal tokens; the interval is
that of a score and not of the difference; a point behind the end of a series is compared with its last one; an early lead that
is lost again counts; the level of guessing is BM25's score.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_figure import write_figure

from pretrieve.base.errors import DataError
from pretrieve.references.figures import load_figure
from pretrieve.references.palette import METHODS
from pretrieve.reporting.figures.draw import to_svg
from pretrieve.reporting.figures.measure import FigureSetting, measure_figure
from pretrieve.reporting.figures.points import NOT_AHEAD, Point
from pretrieve.reporting.tables.results import Setting

FIGURE = """\
paper: tiny
figure: figure1
caption: Scores by tokens.
source: docs/pretraining-tokens.md
claim: More is better.
panels:
  a:
    title: Questions
    draw: line
    x: {label: Pre-training, unit: million tokens, scale: linear}
    y: {label: MRR, unit: fraction}
    series:
      - &plain
        name: plain
        label: Plain
        method: bert-ours
        from: tokens
        role: qa
        metric: mrr@10
        points: {"0": base.reqa-full, "1/2": plain-half.reqa-full, "1": plain.reqa-full}
      - <<: *plain
        name: other
        label: Other
        method: seed
        points: {"0": base.reqa-full, "1/2": other-half.reqa-full, "1": other.reqa-full}
      - &level {name: BM25, method: bm25, from: level, value: score, system: bm25.reqa-full, role: qa, metric: mrr@10}
      - {<<: *level, name: chance, method: chance, value: chance}
      - {name: gain, label: Other, method: seed, from: gain, of: [other, plain]}
"""
#: Encoder → its start and the tokens of its own training.
TRAINED = {
    "base": (None, 5_000_000),
    "plain-half": ("base", 100_000),
    "plain": ("base", 200_000),
    "other-half": ("base", 150_000),
    "other": ("base", 300_000),
}
#: System → the scores of six queries, of the first seed. The second seed's are 0.02 less.
SCORES = {
    "base": (0.2,) * 6,
    "plain-half": (0.2,) * 6,
    "plain": (0.3,) * 6,
    "other-half": (0.9, 0.1) * 3,
    "other": (0.4, 0.7) * 3,
    "bm25": (0.5, 0.5, 0.5, 0.5, 0.5, 0.8),
}


def write_run(folder: Path, seeds: tuple[int, ...] = (1,)) -> FigureSetting:
    root = folder / "results/demo"
    for encoder, scores in SCORES.items():
        for seed in (0,) if encoder == "bm25" else seeds:
            values = {f"q{i}": value - 0.02 * (seed == 2) for i, value in enumerate(scores)}
            record = {"metrics": {"mrr@10": sum(values.values()) / 6}, "per_query": {"mrr@10": values}}
            record |= {"chance": {"mrr@10": 0.05}, "n_queries": 6}
            file = root / f"metrics/{encoder}.reqa-full/questions/seed{seed}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record))
            if encoder != "bm25":
                place = root / f"encoders/{encoder}/seed{seed}/pretrieve.json"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(json.dumps({"tokens": TRAINED[encoder][1]}))
    tables = Setting(str(root), "demo", seeds, {"qa": "questions"}, frozenset(TRAINED), frozenset({"reqa"}))
    return FigureSetting(tables, starts={name: start for name, (start, _) in TRAINED.items() if start})


def points_of(folder: Path, setting: FigureSetting, text: str = FIGURE) -> dict[tuple[str, str], Point]:
    points = measure_figure(load_figure(write_figure(folder, text)), setting, {})
    return {(point.series, point.x): point for point in points}


def test_a_point_stands_at_the_tokens_since_the_start(tmp_path: Path) -> None:
    points = points_of(tmp_path, write_run(tmp_path))
    assert [x for series, x in points if series == "plain"] == ["0", "0.1", "0.2"]
    assert [x for series, x in points if series == "other"] == ["0", "0.15", "0.3"]
    assert points["other", "0.3"].system == "other.reqa-full" and points["other", "0.3"].y == "0.5500"


def test_what_goes_on_from_another_encoder_has_its_tokens_too(tmp_path: Path) -> None:
    setting = write_run(tmp_path)
    points = points_of(tmp_path, replace(setting, starts={**setting.starts, "other": "other-half"}))
    assert ("other", "0.45") in points


def test_the_difference_is_taken_at_equal_tokens(tmp_path: Path) -> None:
    """At 0.1 million a third of the start and two thirds of the half; at 0.2 two thirds of the half and one of the whole."""
    points = points_of(tmp_path, write_run(tmp_path))
    gains = {x: point for (series, x), point in points.items() if series == "gain"}
    assert list(gains) == ["0", "0.1", "0.2"]
    assert (gains["0"].y, gains["0"].low, gains["0"].high) == ("0.0000", "0.0000", "0.0000")
    # 0.1: the queries have 2/3 − 0.2 and 2/15 − 0.2; mean 0.2, deviation 4/15, so its error is 4/15/√5, and t(5) is 2.5706
    assert (gains["0.1"].y, gains["0.1"].low, gains["0.1"].high) == ("0.2000", "-0.1066", "0.5066")
    # 0.2: 0.9·2/3 + 0.4/3 − 0.3 = 0.4333 and 0.1·2/3 + 0.7/3 − 0.3 = 0; error 0.2167/√5
    assert (gains["0.2"].y, gains["0.2"].low, gains["0.2"].high) == ("0.2167", "-0.0324", "0.4657")
    assert {point.ahead_from for point in gains.values()} == {NOT_AHEAD}
    # of the score itself: 0.4 and 0.7, the same deviation; all equal: no width
    assert (points["other", "0.3"].low, points["other", "0.3"].high) == ("0.3776", "0.7224")
    assert points["plain", "0.2"].low == points["plain", "0.2"].high == "0.3000"


def test_ahead_is_where_the_whole_interval_stays_above_the_reference(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(SCORES, "other-half", (0.7, 0.6) * 3)
    monkeypatch.setitem(SCORES, "other", (0.6, 0.5) * 3)
    points = points_of(tmp_path, write_run(tmp_path))
    assert points["gain", "0.1"].ahead_from == points["gain", "0.2"].ahead_from == "0.1"
    again = FIGURE + "      - {name: again, label: Again, method: seed, from: gain, of: [other, plain]}\n"
    figure = load_figure(write_figure(tmp_path, again))
    text = to_svg(figure, measure_figure(figure, write_run(tmp_path), {}), "demo").decode()
    assert "Ahead of plain, the whole interval: Other, Again from 0.1 million tokens on." in text
    monkeypatch.setitem(SCORES, "other", (0.1,) * 6)
    monkeypatch.setitem(SCORES, "plain", (0.6, 0.7) * 3)
    points = points_of(tmp_path, write_run(tmp_path))
    assert points["gain", "0.1"].low > "0" and points["gain", "0.1"].ahead_from == NOT_AHEAD, "it is behind at the end"


def test_a_series_that_ends_before_is_compared_up_to_its_end(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(TRAINED, "other", ("base", 170_000))
    points = points_of(tmp_path, write_run(tmp_path))
    assert [x for series, x in points if series == "gain"] == ["0", "0.1", "0.17"]
    # plain is seven tenths of the way from 0.2 to 0.3
    assert points["gain", "0.17"].y == "0.2800"


def test_seeds_make_an_interval_wider_only_where_they_differ(tmp_path: Path) -> None:
    """The two seeds differ by 0.02 in every system alike: in scores that is an error, in differences, paired by seed, none."""
    one, two = points_of(tmp_path, write_run(tmp_path)), points_of(tmp_path, write_run(tmp_path, (1, 2)))
    assert two["plain", "0.2"].y == "0.2900" and two["plain", "0.2"].n_seeds == "2"
    # error 0.01 of the two seeds, t(1) is 12.706
    assert (two["plain", "0.2"].low, two["plain", "0.2"].high) == ("0.1629", "0.4171")
    for x in ("0.1", "0.2"):
        assert two["gain", x].y == one["gain", x].y
        assert (two["gain", x].low, two["gain", x].high) == (one["gain", x].low, one["gain", x].high)


def test_levels_are_the_score_of_a_system_and_that_of_guessing(tmp_path: Path) -> None:
    points = points_of(tmp_path, write_run(tmp_path))
    assert (points["BM25", ""].y, points["BM25", ""].system) == ("0.5500", "bm25.reqa-full")
    assert (points["chance", ""].y, points["chance", ""].system) == ("0.0500", "")


def test_a_series_of_which_a_point_is_missing_says_so_and_other_queries_are_an_error(tmp_path: Path) -> None:
    setting = write_run(tmp_path)
    place = tmp_path / "results/demo/encoders/other-half/seed1/pretrieve.json"
    place.unlink()
    points = points_of(tmp_path, setting)
    assert points["other", ""].status == points["gain", ""].status == "failed" and str(place) in points["gain", ""].note
    file = tmp_path / "results/demo/metrics/plain.reqa-full/questions/seed1.json"
    setting = write_run(tmp_path, (1, 2))
    record = json.loads(file.read_text())
    del record["per_query"]["mrr@10"]["q0"]
    file.write_text(json.dumps(record))
    with pytest.raises(DataError, match="seed2.json: 6 queries have mrr@10, and 5 in .*seed1.json; expected the same"):
        points_of(tmp_path, setting)


def test_the_picture_has_bands_levels_and_what_is_read_off(tmp_path: Path) -> None:
    figure = load_figure(write_figure(tmp_path, FIGURE))
    points = measure_figure(figure, write_run(tmp_path), {})
    text = " ".join(to_svg(figure, points, "demo").decode().split())
    assert text.count('id="FillBetweenPolyCollection_') == 3  # two lines of scores, and the difference
    for words in (
        "BM25",
        "chance",
        "MRR minus that of",
        "Bars and bands are 95 % intervals over queries, of one seed.",
        NOT_AHEAD,
    ):
        assert words in text, words
    assert "error bars" not in text


def test_a_level_far_from_the_lines_is_a_number_at_their_edge(tmp_path: Path, monkeypatch) -> None:
    figure = load_figure(write_figure(tmp_path, FIGURE))
    near = to_svg(figure, measure_figure(figure, write_run(tmp_path), {}), "demo").decode()
    assert "↑" not in near and METHODS["bm25"].colour.lower() in near.lower()
    monkeypatch.setitem(SCORES, "bm25", (9.0,) * 6)
    far = to_svg(figure, measure_figure(figure, write_run(tmp_path), {}), "demo").decode()
    assert "BM25 9 ↑" in far
