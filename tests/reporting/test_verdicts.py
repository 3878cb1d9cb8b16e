"""Claims are judged as their file says: every kind of check on cells worked out by hand, every test, every verdict.

Seen to fail when: a tie counts as ahead; the margin is taken as the binary number it is read as; the share is rounded down; p is
not corrected; a paired test takes the margin in other units than the scores; deviations are added and not their squares; an
order goes by its most certain pair; what is not measured counts as a comparison; ``each`` takes an x that one series lacks; a
table older than its metrics is believed; BM25 lacks a deviation; one seed has deviation 0; values at the level of
guessing decide.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from pretrieve.errors import ConfigError, DataError
from pretrieve.reporting.claims import load_claims
from pretrieve.reporting.figures.points import Point, write_points
from pretrieve.reporting.ledger import (
    Comparison,
    Finding,
    to_comparisons,
    to_findings,
    to_markdown,
)
from pretrieve.reporting.measured import Measurements
from pretrieve.reporting.rows import read_rows, write_rows
from pretrieve.reporting.tables import Line, write_lines
from pretrieve.reporting.verdicts import judge_claim

ROOT = Path("results/demo")


def line(row: str, column: str, measured: str = "", **more: str) -> Line:
    fields = dict.fromkeys(Line._fields, "") | {
        "paper": "tiny",
        "table": "table1",
        "row": row,
        "column": column,
        "measured": measured,
        "status": "scale-differs" if measured else "not-run",
        "unit": "%",
    }
    return Line(**(fields | more))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judge(lines, cells, seeds=(1,), points=(), **check):
    """The verdict on a claim with this check over a table with these lines."""
    write_lines(ROOT / "tables/tiny/table1.csv", lines)
    if points:
        write_points(ROOT / "figures/tiny/figure1.csv", points)
    check = {"type": "greater", "margin": 0, "test": "none", "cells": cells} | check
    claim = {"id": "a-b", "paper": "tiny", "section": "§1", "table": "table1", "claim": "It is so.", "check": check}
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim]}))
    return judge_claim(load_claims("claims.yaml")[0], Measurements(ROOT, seeds))


def column(*values: str) -> tuple[list[Line], list[dict[str, str]]]:
    """Rows a, b, … with these values, and the cells that name them."""
    rows = "abcdefgh"[: len(values)]
    lines = [line(row, "x", value) for row, value in zip(rows, values, strict=True)]
    return lines, [{"row": row, "column": "x"} for row in rows]


@pytest.mark.parametrize(
    ("kind", "margin", "values", "holds", "effect"),
    [
        ("greater", 0, ("2.00", "1.00"), True, 1),
        ("greater", 0, ("1.00", "1.00"), False, 0),  # a tie is not ahead
        ("greater", 0.2, ("0.50", "0.30"), False, 0.2),  # exactly the margin: 0.5 - 0.3 > 0.2 in binary
        ("greater", 0.2, ("0.51", "0.30"), True, 0.21),
        ("greater", -1.5, ("10.00", "11.50"), False, -1.5),
        ("greater", -1.5, ("10.00", "11.49"), True, -1.49),
        ("close", 0.2, ("0.80", "0.60"), True, 0.2),  # 0.8 - 0.6 > 0.2 in binary
        ("close", 0.2, ("0.60", "0.80"), True, 0.2),
        ("close", 0.2, ("0.60", "0.81"), False, 0.21),
        ("gap", 0, ("5.00", "1.00", "9.00", "6.00"), True, 1),
        ("gap", 0, ("5.00", "1.00", "9.00", "5.00"), False, 0),
        ("gap", 1, ("5.00", "1.00", "9.00", "6.00"), False, 1),
        ("ratio", 0.9, ("9.00", "10.00"), True, 0.9),
        ("ratio", 0.9, ("8.99", "10.00"), False, 0.899),
        ("order", 0, ("3.00", "2.00", "1.00"), True, 1),
        ("order", 0, ("3.00", "1.00", "1.00"), False, 0),
        ("order", 1, ("4.00", "2.00", "1.00"), False, 1),
    ],
)
def test_checks_on_values_worked_out_by_hand(folder, kind, margin, values, holds, effect):
    lines, cells = column(*values)
    verdict = judge(lines, cells, type=kind, margin=margin)
    assert verdict.verdict == ("supported" if holds else "contradicted")
    assert verdict.effect == pytest.approx(effect) and verdict.p is None


@pytest.mark.parametrize(
    ("values", "margin", "holds"),
    [  # Ranks of 1 2 3 4 against 1 2 4 3: 1 - 6·2 / (4·15) = 0.8
        (("1.0", "2.0", "4.0", "3.0"), 0.8, True),
        (("1.0", "2.0", "4.0", "3.0"), 0.81, False),
        (("4.0", "3.0", "1.0", "2.0"), -0.8, True),
        (("4.0", "3.0", "1.0", "2.0"), -0.81, False),
        (("2.0", "2.0", "2.0", "2.0"), 0.1, False),
    ],
)
def test_correlation_with_given_numbers(folder, values, margin, holds):
    lines, cells = column(*values)
    verdict = judge(lines, cells, type="correlation", margin=margin, **{"with": [1, 2, 3, 4]})
    assert verdict.verdict == ("supported" if holds else "contradicted")
    assert verdict.effect is None or abs(verdict.effect) == pytest.approx(0.8)


def test_share_of_the_groups(folder):
    """Three of four hold: enough for 0.75, not for 0.76."""
    lines = [line(row, c, v) for row, vs in (("a", "2222"), ("b", "1113")) for c, v in zip("wxyz", vs, strict=True)]
    cells = [{"row": "a", "column": list("wxyz")}, {"row": "b", "column": list("wxyz")}]
    verdict = judge(lines, cells, share=0.75)
    assert (verdict.verdict, verdict.needed, verdict.pointing) == ("supported", 3, 3)
    assert [outcome.outcome for outcome in verdict.outcomes] == ["for", "for", "for", "against"]
    assert judge(lines, cells, share=0.76).verdict == "contradicted"


def with_queries(
    hits: dict[str, list[tuple[int, ...]]], n: int = 20, chance: float | None = None
) -> tuple[list[Line], list[dict[str, str]]]:
    """Rows with metrics files: for each seed which of n queries are hits. chance: what guessing scores."""
    lines = []
    for row, seeds in hits.items():
        for seed, hit in enumerate(seeds, 1):
            path = ROOT / f"metrics/{row}.r-1k/qa/seed{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            scores = {f"q{i}": float(i in hit) for i in range(n)}
            mean = sum(scores.values()) / n
            record = {"n_queries": n, "metrics": {"recall@1": mean}, "per_query": {"recall@1": scores}}
            path.write_text(json.dumps(record | ({} if chance is None else {"chance": {"recall@1": chance}})))
        mean = 100 * sum(len(hit) for hit in seeds) / n / len(seeds)
        lines.append(line(row, "x", f"{mean:.2f}", system=f"{row}.r-1k", dataset="qa", metric="recall@1"))
    return lines, [{"row": row, "column": "x"} for row in hits]


@pytest.mark.parametrize(
    ("a", "b", "margin", "p", "verdict"),
    [
        # Six differences of one sign: two of the 2^6 sign patterns reach them.
        (range(6), (), 0, 2 / 64, "supported"),
        ((), range(6), 0, 2 / 64, "contradicted"),
        (range(5), (), 0, 2 / 32, "inconclusive"),
        ((), range(5), 0, 2 / 32, "inconclusive"),
        (range(6), range(6), 0, 1.0, "inconclusive"),
    ],
)
def test_paired_test_on_the_same_queries(folder, a, b, margin, p, verdict):
    lines, cells = with_queries({"a": [tuple(a)], "b": [tuple(b)]})
    found = judge(lines, cells, test="paired", margin=margin)
    assert found.verdict == verdict and found.outcomes[0].p == pytest.approx(p)
    assert found.p == (pytest.approx(p) if verdict != "inconclusive" else None)


def test_paired_test_takes_the_margin_in_the_cells_unit(folder):
    """All 20 queries differ by 1: far beyond 50 %, and as far on the other side of 150 %."""
    lines, cells = with_queries({"a": [tuple(range(20))], "b": [()]})
    assert judge(lines, cells, test="paired", margin=50).verdict == "supported"
    assert judge(lines, cells, test="paired", margin=150).verdict == "contradicted"
    assert judge(lines, cells, test="paired", margin=50, type="close").verdict == "contradicted"
    # 55 % is above 50 %, but of 20 queries only 11 are above and 9 below: chance.
    lines, cells = with_queries({"a": [tuple(range(11))], "b": [()]})
    found = judge(lines, cells, test="paired", margin=50)
    assert (found.verdict, found.pointing) == ("inconclusive", 1)
    lines, cells = with_queries({"a": [tuple(range(10))], "b": [tuple(range(10))]})
    assert judge(lines, cells, test="paired", margin=50, type="close").verdict == "supported"


def test_holm_over_the_groups_of_a_claim(folder):
    """p = 2/64 alone is below 0.05; of two such groups the smaller one counts twice, and neither stays."""
    lines, cells = with_queries({"a": [tuple(range(6))], "b": [()]})
    both = judge([*lines], cells * 2, test="paired")
    assert [outcome.p_holm for outcome in both.outcomes] == [pytest.approx(4 / 64)] * 2
    assert both.verdict == "inconclusive" and both.pointing == 2


def test_an_order_needs_all_its_pairs(folder):
    hits = {"a": [tuple(range(16))], "b": [tuple(range(8))], "c": [()]}
    lines, cells = with_queries(hits)
    found = judge(lines, cells, test="paired", type="order")
    assert found.verdict == "supported" and found.p == pytest.approx(2 / 2**8)
    lines, cells = with_queries(hits | {"b": [tuple(range(14))]})  # a - b: 2 queries, which is chance
    assert judge(lines, cells, test="paired", type="order").verdict == "inconclusive"


def test_paired_test_on_the_queries_that_both_have(folder):
    """Of all 20 queries a answers 10 and b 8; of the 8 that both were tested on a answers none and b all."""
    lines, cells = with_queries({"a": [tuple(range(10, 20))], "b": [tuple(range(8))]})
    path = ROOT / "metrics/b.r-1k/qa/seed1.json"
    scores = json.loads(path.read_text())["per_query"]["recall@1"]
    asked = {query: score for query, score in scores.items() if score}
    assert judge(lines, cells, test="paired").pointing == 1
    lines[1] = lines[1]._replace(measured="100.00")
    path.write_text(json.dumps({"metrics": {"recall@1": 1.0}, "per_query": {"recall@1": asked}}))
    found = judge(lines, cells, test="paired")
    assert found.verdict == "contradicted" and found.effect == -100 and found.p == pytest.approx(2 / 2**8)
    assert [str(value.number) for value in found.outcomes[0].values] == ["0.00", "100.00"]
    assert "on the 8 queries that all of its cells were tested on" in found.note


def test_paired_test_of_other_queries_or_an_older_table_is_none(folder):
    lines, cells = with_queries({"a": [(1,)], "b": [()]})
    path = ROOT / "metrics/b.r-1k/qa/seed1.json"
    path.write_text(json.dumps({"metrics": {"recall@1": 0.0}, "per_query": {"recall@1": {"other": 0.0}}}))
    found = judge(lines, cells, test="paired")
    assert found.verdict == "inconclusive" and "none is common to all cells" in found.note
    path.write_text(json.dumps({"metrics": {"recall@1": 0.5}, "per_query": {"recall@1": {}}}))
    with pytest.raises(DataError, match=r"recall@1 is 50 and 0.00 in the table"):
        judge(lines, cells, test="paired")
    path.unlink()
    found = judge(lines, cells, test="paired")
    assert found.verdict == "inconclusive" and "seed1.json is not there" in found.note


@pytest.mark.parametrize(
    ("a", "b", "chance", "check", "verdict", "note"),
    [
        # 12 of 20, 0.60, has an error of 0.112: it is not beyond 0.5; 16 of 20 is, with 0.092.
        (12, 6, 0.5, {}, "inconclusive", "all values are at the level of guessing"),
        (12, 6, 0.1, {}, "supported", ""),
        (12, 6, None, {}, "supported", ""),
        (6, 12, 0.5, {}, "inconclusive", "all values are at the level of guessing"),
        (16, 6, 0.5, {}, "supported", ""),  # ahead of a system that guesses
        (6, 16, 0.5, {}, "contradicted", ""),
        (12, 12, 0.5, {"type": "close", "margin": 5}, "inconclusive", "all values are at the level of guessing"),
        (16, 16, 0.5, {"type": "close", "margin": 5}, "supported", ""),
        (15, 12, 0.5, {"type": "close", "margin": 20}, "inconclusive", "a value is at the level of guessing"),
        (6, 16, 0.5, {"type": "close", "margin": 5}, "contradicted", ""),
        (12, 16, 0.5, {"type": "ratio", "margin": 0.7}, "inconclusive", "a value is at the level of guessing"),
        (16, 16, 0.5, {"type": "ratio", "margin": 0.6}, "inconclusive", "guessing would pass this check too"),
        (16, 16, 0.5, {"type": "ratio", "margin": 0.7}, "supported", ""),
        (16, 16, 0.5, {"margin": -40}, "inconclusive", "guessing would pass this check too"),
        (16, 16, 0.5, {"margin": -20}, "supported", ""),
        (2, 18, 0.5, {"type": "correlation", "margin": 0.9, "with": [1, 2]}, "supported", ""),
        (2, 9, 0.5, {"type": "correlation", "margin": 0.9, "with": [1, 2]}, "inconclusive", "all values are at"),
    ],
)
def test_what_guessing_would_score_decides_nothing(folder, a, b, chance, check, verdict, note):
    lines, cells = with_queries({"a": [tuple(range(a))], "b": [tuple(range(b))]}, chance=chance)
    found = judge(lines, cells, **check)
    assert found.verdict == verdict and note in found.note and ("guessing" in found.note) == bool(note)


def test_values_alone_are_of_the_queries_that_both_have(folder):
    lines, cells = with_queries({"a": [tuple(range(10, 20))], "b": [tuple(range(8))]})
    path = ROOT / "metrics/b.r-1k/qa/seed1.json"
    record = json.loads(path.read_text())
    asked = {query: score for query, score in record["per_query"]["recall@1"].items() if score}
    path.write_text(json.dumps({"metrics": {"recall@1": 1.0}, "per_query": {"recall@1": asked}}))
    lines[1] = lines[1]._replace(measured="100.00")
    found = judge(lines, cells, type="ratio", margin=0.3)  # 50 of 100 would do
    assert found.verdict == "contradicted" and found.effect == 0
    assert found.note == "on the 8 queries that all of its cells were tested on"


@pytest.mark.parametrize("test", ["none", "paired"])
def test_guessing_is_looked_for_in_all_queries_of_a_value(folder, test):
    """The values that are compared are those of the 8 queries that both were tested on, which no table shows."""
    lines, cells = with_queries({"a": [tuple(range(10, 20))], "b": [tuple(range(8))]}, chance=0.1)
    path = ROOT / "metrics/b.r-1k/qa/seed1.json"
    record = json.loads(path.read_text())
    asked = {query: score for query, score in record["per_query"]["recall@1"].items() if score}
    path.write_text(json.dumps(record | {"metrics": {"recall@1": 1.0}, "per_query": {"recall@1": asked}}))
    lines[1] = lines[1]._replace(measured="100.00")
    assert judge(lines, cells, test=test).verdict == "contradicted"


def test_deviations_of_other_queries_are_said(folder):
    lines, cells = with_queries({"a": [(1,), (2,)], "b": [(3,), (4,)]})
    for seed in (1, 2):
        path = ROOT / f"metrics/b.r-1k/qa/seed{seed}.json"
        path.write_text(json.dumps({"metrics": {"recall@1": 0.05}, "per_query": {"recall@1": {"q1": 0.05}}}))
    lines = [line._replace(sd="1") for line in lines]
    assert "cells are tested on 1 and 20 queries" in judge(lines, cells, seeds=(1, 2), test="seeds").note


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [  # (value, sd): the deviation of a difference is the root of the sum of squares: 3 and 4 give 5
        (("15.01", "3"), ("10.00", "4"), "supported"),
        (("15.00", "3"), ("10.00", "4"), "inconclusive"),
        (("10.00", "3"), ("15.01", "4"), "contradicted"),
        (("10.00", "3"), ("15.00", "4"), "inconclusive"),
        (("15.01", ""), ("10.00", ""), "inconclusive"),
    ],
)
def test_seeds_differ_by_more_than_their_deviations(folder, a, b, verdict):
    lines = [line(row, "x", value, sd=sd, system=f"{row}.r-1k") for row, (value, sd) in (("a", a), ("b", b))]
    found = judge(lines, [{"row": "a", "column": "x"}, {"row": "b", "column": "x"}], test="seeds")
    assert found.verdict == verdict and ("one seed" in found.note) == (a[1] == "")


def test_bm25_has_no_deviation_and_one_run(folder):
    lines = [line("a", "x", "15.00", sd="1", system="a.r-1k"), line("b", "x", "10.00", system="bm25.r-1k")]
    assert judge(lines, [{"row": "a", "column": "x"}, {"row": "b", "column": "x"}], test="seeds").verdict == "supported"


def test_what_is_not_measured_is_said_and_never_counts(folder):
    lines = [line("a", "x", "2.00"), line("b", "x", "1.00"), line("b", "z", "1.00")]
    lines += [line("a", "y", note="a reference's note; no data set for the role fever"), line("b", "y", "1.00")]
    lines += [line("a", "z", note="no data set for the role scifact")]
    cells = [{"row": "a", "column": list("xyz")}, {"row": "b", "column": list("xyz")}]
    found = judge(lines, cells)
    assert found.verdict == "supported" and found.in_part and found.needed == 1
    assert found.note == "2 of 3 comparisons are not measured; no data set for the role fever, scifact"
    found = judge(lines[3:], [{"row": "a", "column": ["y", "z"]}, {"row": "b", "column": ["y", "y"]}])
    assert (found.verdict, found.effect, found.p) == ("not tested", None, None)
    Path(ROOT / "tables/tiny/table1.csv").unlink()
    missing = judge_claim(load_claims("claims.yaml")[0], Measurements(ROOT, (1,)))
    assert missing.verdict == "not tested" and missing.note == "tiny/table1 is not among the tables of this run"


def test_a_cell_that_is_nowhere_is_an_error(folder):
    with pytest.raises(DataError, match=r"no cell \('a', 'typo'\)"):
        judge([line("a", "x", "1")], [{"row": "a", "column": "x"}, {"row": "a", "column": "typo"}])


def point(series: str, x: str, y: str = "", **more: str) -> Point:
    fields = dict.fromkeys(Point._fields, "") | {"figure": "figure1", "panel": "a", "series": series, "x": x, "y": y}
    return Point(**(fields | {"status": "scale-differs" if y else "not-run", "unit": "fraction"} | more))


def at(series: str, x: str) -> dict[str, str]:
    return {"figure": "figure1", "panel": "a", "series": series, "x": x}


POINTS = [
    *(point("s", "0", "0.9"), point("s", "5", "0.5"), point("s", "10", "0.1")),
    *(point("t", "0", "0.4"), point("t", "10", "0.2")),
]


@pytest.mark.parametrize(
    ("cells", "effects"),
    [
        ([at("s", "first"), at("s", "last")], [0.8]),
        ([at("s", "mean"), at("t", "mean")], [0.2]),
        ([at("s", "5"), at("t", "10")], [0.3]),
        ([at("s", "each"), at("t", "each")], [0.5, -0.1]),  # x = 5 is in one series only
    ],
)
def test_points_of_figures(folder, cells, effects):
    found = judge([line("a", "x", "1")], cells, points=POINTS)
    assert [outcome.effect for outcome in found.outcomes] == [pytest.approx(effect) for effect in effects]


def test_points_are_compared_as_they_are_drawn(folder):
    """A figure may show a value of some of the queries, which is not the one of the metrics file."""
    with_queries({"a": [(1, 2)], "b": [(1,)]})
    fields = {"dataset": "qa", "metric": "recall@1", "unit": "%"}
    points = [point(name, "1", y, system=f"{name}.r-1k", **fields) for name, y in (("a", "30.00"), ("b", "20.00"))]
    found = judge([line("a", "x", "1")], [at("a", "1"), at("b", "1")], points=points)
    assert found.verdict == "supported" and found.effect == 10


def test_a_series_that_was_not_run_and_a_figure_that_is_not_there(folder):
    points = [*POINTS, point("u", "", note="encoder u is not configured")]
    for x in ("5", "each", "last"):
        found = judge([line("a", "x", "1")], [at("s", x), at("u", x)], points=points)
        assert (found.verdict, found.note) == ("not tested", "encoder u is not configured")
    with pytest.raises(DataError, match="no series 'v' in panel 'a'; it has a/s, a/t, a/u"):
        judge([line("a", "x", "1")], [at("s", "5"), at("v", "5")], points=points)
    Path(ROOT / "figures/tiny/figure1.csv").unlink()
    found = judge([line("a", "x", "1")], [at("s", "each"), at("t", "each")])
    assert (found.verdict, found.note) == ("not tested", "tiny/figure1 is not among the figures of this run")


def test_the_ledger_is_read_as_it_was_written(folder):
    lines, cells = column("2.00", "1.00")
    verdicts = [judge(lines, cells)]
    findings, comparisons = to_findings(verdicts, "demo"), to_comparisons(verdicts)
    write_rows("claims.csv", findings, Finding)
    write_rows("claims.groups.csv", comparisons, Comparison)
    assert read_rows("claims.csv", Finding) == findings and read_rows("claims.groups.csv", Comparison) == comparisons
    assert (findings[0].groups, findings[0].effect, findings[0].values) == ("1/1/1", "1", "2.00 > 1.00")
    assert json.loads(comparisons[0].cells) == ["tiny/table1: a, x", "tiny/table1: b, x"]
    page = to_markdown(findings, "demo")
    assert "**1** supported, **0** contradicted" in page
    assert "| **supported** | It is so. | §1, table1 | table1: a, b × x | none | 1/1/1 | 1 % |  |  |  |" in page
    assert "Measured at the demo scale" in page and "demo" not in to_markdown(findings, "paper")
    with pytest.raises(DataError, match="line 1: columns are id,number"):
        read_rows("claims.groups.csv", Finding)


GOOD = {
    "type": "greater",
    "margin": 0,
    "test": "none",
    "cells": [{"row": "a", "column": "x"}, {"row": "b", "column": "x"}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "larger"}, "check.type is 'larger'; expected one of greater"),
        (
            {"test": "paired", "type": "correlation", "with": [1, 2]},
            "check.test is 'paired'; .* expected one of none",
        ),
        ({"margin": "small"}, "check.margin is 'small'"),
        ({"share": 0}, "check.share is 0"),
        ({"shares": 1}, "unknown key 'shares'; .*did you mean 'share'"),
        ({"with": [1, 2]}, "check.with is"),
        ({"type": "correlation", "with": [1]}, "check.with has 1 numbers for 2 cells"),
        ({"type": "gap"}, "2 cells; of type gap expected groups of 4"),
        ({"cells": [{"row": "a"}, {"row": "b"}]}, "no key 'column'"),
        (
            {"cells": [{"row": ["a", "b"], "column": "x"}, {"row": ["a", "b", "c"], "column": "x"}]},
            r"lists of lengths \[2, 3\]",
        ),
    ],
)
def test_a_senseless_claim_is_refused_by_name(folder, change, message):
    claim = {"id": "a-b", "paper": "p", "section": "§1", "table": "t", "claim": "c", "check": GOOD | change}
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim]}))
    with pytest.raises(ConfigError, match=f"claim a-b.*{message}"):
        load_claims("claims.yaml")


def test_every_claim_of_the_papers_is_loaded():
    claims = load_claims(Path(__file__).parents[2] / "references" / "claims.yaml")
    assert len(claims) >= 40 and sum(len(claim.groups) for claim in claims) > 400
    assert all(isinstance(claim.margin, Decimal) and claim.groups for claim in claims)
