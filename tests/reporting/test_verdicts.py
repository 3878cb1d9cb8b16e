"""Claims are judged as their file says: every kind of check on cells worked out by hand, every verdict.

Seen to fail when: a tie counts as ahead; the margin is taken as the binary number it is read as; a relative margin is a part of
the first value; the share is rounded down; p is not that of a partial conjunction; no rate of false discoveries is kept; the
values alone decide (the old test: none); the deviation over seeds is taken for its error; one seed gives a verdict; equal
systems pass as "near" for want of data; one data set in two roles counts twice; values at the level of guessing decide; what is
not measured counts as a comparison; ``each`` takes an x that one series lacks; a table older than its metrics is believed;
a misspelt role or table is no fault; a check is told with another rule than it decides by; what the
highest value would not show either is against a claim, or shown as its effect.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import yaml

from pretrieve.base.code_folder import package_file
from pretrieve.base.errors import ConfigError, DataError
from pretrieve.references.figures import load_figure
from pretrieve.reporting.claims.claims import GROUP_SIZE, load_claims
from pretrieve.reporting.claims.ledger import (
    Comparison,
    Finding,
    load_reproductions,
    to_comparisons,
    to_findings,
    to_markdown,
)
from pretrieve.reporting.claims.measured import Facts, Measurements
from pretrieve.reporting.claims.verdicts import judge_claims
from pretrieve.reporting.figures.points import Point
from pretrieve.reporting.tables.filling import Line, write_lines
from pretrieve.reporting.tables.rows import read_rows, write_rows
from pretrieve.workflow.config_files import read_config
from pretrieve.workflow.plan import Plan

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


def claim_of(cells, smallest_effect=0, needs=None, **check):
    check = {"type": "greater", "cells": cells} | check
    claim = {"id": "a-b", "paper": "tiny", "section": "§1", "table": "table1", "claim": "It is so.", "check": check}
    return claim | {"estimand": "a less b.", "smallest_effect": smallest_effect} | (needs or {})


def judge(lines, cells, seeds=(1, 2, 3), points=(), facts=None, **claim):
    """The verdict on a claim with this check over a table with these lines."""
    write_lines(ROOT / "tables/tiny/table1.csv", lines)
    if points:
        write_rows(ROOT / "figures/tiny/figure1.csv", points, Point)
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim_of(cells, **claim)]}))
    return judge_claims(load_claims("claims.yaml"), Measurements(ROOT, seeds, facts))[0]


def with_scores(
    systems: dict[str, np.ndarray], chance: float | None = None, metric: str = "recall@1", **more: dict[str, np.ndarray]
) -> tuple[list[Line], list[dict[str, str]]]:
    """Rows with metrics files: (seeds, n) scores of each system; ``more``: by further metrics. chance: what guessing scores."""
    lines = []
    for row, scores in systems.items():
        for seed, values in enumerate(scores):
            bm25 = row == "bm25"
            path = ROOT / f"metrics/{row}.r-1k/qa/seed{0 if bm25 else seed + 1}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            named = {metric: values} | {name: of[row][seed] for name, of in more.items()}
            record = {
                "n_queries": len(values),
                "metrics": {name: float(one.mean()) for name, one in named.items()},
                "per_query": {name: {f"q{i}": float(x) for i, x in enumerate(one)} for name, one in named.items()},
            }
            path.write_text(json.dumps(record | ({} if chance is None else {"chance": {metric: chance}})))
        sd = f"{100 * scores.mean(1).std(ddof=1):.2f}" if len(scores) > 1 else ""
        found = {"system": f"{row}.r-1k", "dataset": "qa", "metric": metric, "sd": sd, "n_seeds": str(len(scores))}
        lines.append(line(row, "x", f"{100 * scores.mean():.2f}", **found))
    return lines, [{"row": row, "column": "x"} for row in systems]


def hits(*counts: int, n: int = 200) -> np.ndarray:
    """(seeds, n): the first so many queries of each seed are hits."""
    return np.array([np.arange(n) < count for count in counts], dtype=float)


def column(*values: str) -> tuple[list[Line], list[dict[str, str]]]:
    """Rows a, b, … with these values and small errors over three seeds, and the cells that name them."""
    rows = "abcdefgh"[: len(values)]
    of = {"sd": "0.001", "n_seeds": "3"}
    lines = [line(row, "x", value, system=f"{row}.r-1k", **of) for row, value in zip(rows, values, strict=True)]
    return lines, [{"row": row, "column": "x"} for row in rows]


@pytest.mark.parametrize(
    ("kind", "margin", "values", "points", "verdict", "effect"),
    [
        ("greater", 0, ("2.00", "1.00"), True, "supported", 1),
        ("greater", 0, ("1.00", "1.00"), False, "inconclusive", 0),  # a tie is not ahead
        ("greater", 0, ("1.00", "2.00"), False, "contradicted", -1),
        ("greater", "20%", ("1.00", "1.00"), False, "contradicted", 0),  # less than what matters
        ("greater", "20%", ("1.10", "1.00"), True, "supported", 0.1),  # but any size that is shown is for it
        ("greater", 2, ("97.90", "97.90"), False, "contradicted", 0),
        ("greater", 2, ("98.10", "98.10"), False, "inconclusive", 0),  # 100.10 is no value: nothing could show it
        ("greater", "2%", ("98.05", "98.05"), False, "inconclusive", 0),
        ("greater", 2, ("98.00", "98.10"), False, "contradicted", -0.1),  # reversed
        ("at-least", 2, ("98.20", "98.10"), False, "inconclusive", 0.1),
        ("order", 2, ("98.10", "98.10", "96.00"), False, "inconclusive", 0),
        ("order", 2, ("98.20", "98.10", "98.00"), True, "supported", 0.1),
        ("at-least", 0.2, ("0.50", "0.30"), True, "inconclusive", 0.2),  # exactly the margin: 0.5 - 0.3 > 0.2 in binary
        ("at-least", "100%", ("2.10", "1.00"), True, "supported", 1.1),
        ("at-least", "100%", ("1.90", "1.00"), False, "contradicted", 0.9),
        ("not-worse", 1.5, ("10.00", "11.60"), False, "contradicted", -1.6),
        ("not-worse", 1.5, ("10.00", "11.40"), True, "supported", -1.4),
        ("not-worse", "10%", ("9.10", "10.00"), True, "supported", -0.9),  # 10 % of the second: 9.1 + 0.91 > 10
        ("not-worse", "10%", ("8.90", "10.00"), False, "contradicted", -1.1),
        ("near", 0.2, ("0.75", "0.60"), True, "supported", 0.15),
        ("near", 0.2, ("0.60", "0.85"), False, "contradicted", -0.25),
        ("near", "10%", ("1.09", "1.00"), True, "supported", 0.09),
        ("near", "10%", ("1.12", "1.00"), False, "contradicted", 0.12),
        ("gap", 0, ("5.00", "1.00", "9.00", "6.00"), True, "supported", 1),
        ("gap", 0, ("5.00", "1.00", "9.00", "4.00"), False, "contradicted", -1),
        ("gap", "100%", ("5.00", "1.00", "9.00", "5.50"), True, "supported", 0.5),
        ("order", 0, ("3.00", "2.00", "1.00"), True, "supported", 1),
        ("order", 0, ("3.00", "1.00", "1.50"), False, "contradicted", -0.5),
    ],
)
def test_checks_on_values_worked_out_by_hand(folder, kind, margin, values, points, verdict, effect):
    lines, cells = column(*values)
    found = judge(lines, cells, type=kind, smallest_effect=margin)
    assert (found.verdict, found.outcomes[0].points) == (verdict, points)
    assert found.outcomes[0].effect == pytest.approx(effect)
    assert found.outcomes[0].low < effect < found.outcomes[0].high


def test_slightly_has_an_upper_bound_and_a_gain_must_be_one(folder):
    lines, cells = column("1.10", "1.00")
    assert judge(lines, cells, at_most="20%").verdict == "supported"
    lines, cells = column("30.00", "1.00")  # thirty-fold is not slightly
    assert judge(lines, cells, at_most="20%").verdict == "contradicted"
    lines, cells = column("5.00", "1.00", "0.50", "1.00")  # "masked words add far less": here they hurt
    assert judge(lines, cells, type="gap").verdict == "supported"
    assert judge(lines, cells, type="gap", both_gain=True).verdict == "contradicted"


@pytest.mark.parametrize(
    ("values", "margin", "verdict"),
    [  # Ranks of 1 2 3 4 against 1 2 4 3: 1 - 6·2 / (4·15) = 0.8
        (("1.0", "2.0", "4.0", "3.0"), 0.8, "supported"),
        (("1.0", "2.0", "4.0", "3.0"), 0.9, "supported"),  # above 0, though not 0.9
        (("4.0", "3.0", "1.0", "2.0"), -0.8, "supported"),
        (("4.0", "3.0", "1.0", "2.0"), 0.3, "contradicted"),
        (("2.0", "2.0", "2.0", "2.0"), 0.1, "inconclusive"),
    ],
)
def test_correlation_with_given_numbers(folder, values, margin, verdict):
    lines, cells = column(*values)
    found = judge(lines, cells, type="correlation", smallest_effect=margin, **{"with": [1, 2, 3, 4]})
    assert found.verdict == verdict and (
        verdict == "inconclusive" or abs(found.outcomes[0].effect) == pytest.approx(0.8)
    )


def test_a_rank_correlation_has_the_uncertainty_of_its_values(folder):
    """Four systems of 100 hits in 200, give or take one: their order is noise, whatever it is."""
    rng = np.random.default_rng(1)
    lines, cells = with_scores({row: (rng.random((3, 200)) < 0.5).astype(float) for row in "abcd"})
    for order in ([1, 2, 3, 4], [4, 3, 2, 1]):
        found = judge(lines, cells, type="correlation", smallest_effect=0.3, **{"with": order})
        assert found.verdict == "inconclusive" and found.outcomes[0].low < 0 < found.outcomes[0].high


def test_share_of_the_groups(folder):
    """Three of four hold: enough for 0.75, not for 0.76, but more than fail. Of two of four all would be refuted."""
    more = {"sd": "0.001", "n_seeds": "3"}
    values = (("a", "2222"), ("b", "1113"))
    lines = [line(r, c, v, system=f"{r}.r-1k", **more) for r, vs in values for c, v in zip("wxyz", vs, strict=True)]
    cells = [{"row": "a", "column": list("wxyz")}, {"row": "b", "column": list("wxyz")}]
    verdict = judge(lines, cells, share=0.75)
    assert (verdict.verdict, verdict.needed) == ("supported", 3)
    assert [outcome.outcome for outcome in verdict.outcomes] == ["for", "for", "for", "against"]
    part = judge(lines, cells, share=0.76)
    assert part.verdict == "inconclusive" and part.q < 0.05 and part.p_against < 0.05
    assert "3 beyond chance, and 1 beyond chance the other way" in part.note
    two = [one._replace(measured="3") if (one.row, one.column) == ("b", "y") else one for one in lines]
    assert judge(two, cells, share=0.76).verdict == "contradicted"
    found = judge(lines, cells, share=0.75, needs_groups=5)  # "most of 18 sets"
    assert found.verdict == "not tested" and "the claim is about 5 or more" in found.note


def test_the_middle_comparison_has_room_for_an_effect(folder):
    """Of 10, 0 and 0 at the top of the metric, which can show nothing, 10 is shown."""
    more = {"sd": "0.001", "n_seeds": "3"}
    values = {"a": ("60.00", "98.50", "99.00"), "b": ("50.00", "98.50", "99.00")}
    lines = [
        line(r, c, v, system=f"{r}.r-1k", **more) for r, vs in values.items() for c, v in zip("wxy", vs, strict=True)
    ]
    found = judge(lines, [{"row": row, "column": list("wxy")} for row in "ab"], smallest_effect=2)
    assert [outcome.has_room for outcome in found.outcomes] == [True, False, False]
    assert found.middle.effect == 10


def test_the_p_of_a_claim_is_that_of_a_partial_conjunction(folder):
    """All groups: the largest p. One contrary group is enough against all: the smallest times their number."""
    lines, cells = with_scores({"a": hits(60, 61, 62), "b": hits(50, 54, 52)})
    one = judge(lines, cells).outcomes[0]
    lines += [one_line._replace(column="y", system=f"{one_line.row}.s-1k") for one_line in lines]
    for row, scores in {"a": hits(70, 71, 72), "b": hits(50, 50, 50)}.items():
        for seed, values in enumerate(scores, 1):
            path = ROOT / f"metrics/{row}.s-1k/qa/seed{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            per_query = {"recall@1": {f"q{i}": float(x) for i, x in enumerate(values)}}
            path.write_text(
                json.dumps({"n_queries": 200, "metrics": {"recall@1": values.mean()}, "per_query": per_query})
            )
    lines[2], lines[3] = lines[2]._replace(measured="35.50"), lines[3]._replace(measured="25.00")
    both = [{"row": "a", "column": ["x", "y"]}, {"row": "b", "column": ["x", "y"]}]
    found = judge(lines, both)
    other = found.outcomes[1]
    assert other.p_for < one.p_for < 0.025
    assert found.p == pytest.approx(2 * one.p_for) and judge(lines, both, share=0.5).p == pytest.approx(4 * other.p_for)


def test_false_discoveries_are_counted_over_all_claims(folder):
    """p = 0.03 alone supports a claim; beside nineteen that show nothing it does not."""
    weak, cells = with_scores({"a": hits(60, 61, 62), "b": hits(50, 54, 52)})
    write_lines(ROOT / "tables/tiny/table1.csv", weak)
    alone = claim_of(cells)
    none = [claim_of([cells[0], cells[0]]) | {"id": f"none-{i}"} for i in range(19)]
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [alone, *none]}))
    claims = load_claims("claims.yaml")
    found = judge_claims(claims[:1], Measurements(ROOT, (1, 2, 3)))[0]
    among = judge_claims(claims, Measurements(ROOT, (1, 2, 3)))
    assert found.verdict == "supported" and found.q == found.p > 0.05 / 20
    assert among[0].verdict == "inconclusive" and among[0].q == pytest.approx(20 * found.p)
    assert {verdict.verdict for verdict in among[1:]} == {"inconclusive"}


def test_no_verdict_without_uncertainty(folder):
    """Optimus was "better by 19 of 872" and a cut cost 0.013: the values alone say nothing (the old test: none)."""
    first = hits(719, n=872)
    second = first.copy()
    second[:, 10:80], second[:, 719:770] = 0, 1  # 70 lost and 51 won: 19 of 872 fewer
    lines, cells = with_scores({"a": first, "b": second})
    assert judge(lines, cells, (1,)).verdict == "inconclusive"
    assert judge(lines, cells, (1,), type="near", smallest_effect=2).verdict == "inconclusive"
    assert judge(lines, cells[::-1], (1,), type="not-worse", smallest_effect=3).verdict == "inconclusive"
    lines = [one._replace(dataset="", sd="", system="a.r-1k") for one in lines]  # one seed, and no queries to ask
    found = judge(lines, cells, (1,))
    assert found.verdict == "inconclusive" and "no uncertainty is known" in found.note


def test_equivalence_needs_data(folder):
    """Equal means of few queries that all change sides are not near; of systems that agree on nearly all they are."""
    rng = np.random.default_rng(0)
    noise = (rng.random((3, 40)) < 0.5).astype(float)
    lines, cells = with_scores({"a": noise, "b": noise[:, ::-1]})
    assert judge(lines, cells, type="near", smallest_effect=5).verdict == "inconclusive"
    lines, cells = with_scores({"a": hits(100, 101, 100), "b": hits(101, 100, 100)})
    assert judge(lines, cells, type="near", smallest_effect=5).verdict == "supported"
    lines, cells = with_scores({"a": hits(100, 101, 100), "b": hits(150, 151, 149)})
    assert judge(lines, cells, type="near", smallest_effect=5).verdict == "contradicted"


def test_one_seed_gives_no_verdict_on_training(folder):
    lines, cells = with_scores({"a": hits(80), "b": hits(40)})
    assert judge(lines, cells, (1,)).verdict == "holds for this seed only"
    assert judge(lines, cells[::-1], (1,)).verdict == "fails for this seed only"
    lines, cells = with_scores({"a": hits(80, 81, 79), "bm25": hits(40)})  # BM25 draws nothing
    assert judge(lines, cells).verdict == "supported"


def test_seeds_that_differ_much_leave_a_large_difference_open(folder):
    """Means 60 and 50 of 200 with deviations of 10: beyond the deviation, not beyond its error's t (the old test: seeds)."""
    lines, cells = with_scores({"a": hits(60, 70, 50), "b": hits(35, 45, 55)})
    found = judge(lines, cells)
    assert found.verdict == "inconclusive" and found.outcomes[0].low < 0 < found.outcomes[0].high


def test_seeds_are_paired_where_encoders_share_a_base(folder):
    lines, cells = with_scores({"a": hits(60, 80, 100), "b": hits(50, 70, 91)})
    assert judge(lines, cells).verdict == "inconclusive"
    assert judge(lines, cells, facts=Facts(bases={"a": "base", "b": "base"})).verdict == "supported"


def test_one_data_set_in_two_roles_counts_once(folder):
    lines, cells = with_scores({"a": hits(60, 61, 62), "b": hits(50, 54, 52)})
    lines += [one._replace(column="y") for one in lines]
    both = [{"row": "a", "column": ["x", "y"]}, {"row": "b", "column": ["x", "y"]}]
    found = judge(lines, both)
    assert [outcome.outcome for outcome in found.outcomes] == ["for", "counted above"]
    assert (found.needed, found.p) == (1, judge(lines, cells).p)
    assert "1 of 2 comparisons repeat others" in found.note


def test_stand_ins_and_few_examples_are_not_testable(folder):
    lines, cells = with_scores({"a": hits(60, 61, 62), "b": hits(50, 54, 52)})
    lines = [one._replace(role="nq") for one in lines]
    needs = {"needs_original": ["nq"], "because": "questions were written from the passage"}
    found = judge(lines, cells, needs=needs)
    assert found.verdict == "not testable here"
    assert found.note == "substitute data for nq: questions were written from the passage"
    assert judge(lines, cells, needs=needs | {"needs_original": ["squad"]}).verdict == "supported"
    assert judge(lines, cells, needs=needs, facts=Facts(original=lambda *_: True)).verdict == "supported"
    facts = Facts(trained=lambda value: {"a": 90, "b": 1015}[value.encoder])
    found = judge(lines, cells, needs={"needs_train": 1000}, facts=facts)
    assert (
        found.verdict == "not testable here"
        and "trained on 90 examples where the sentence is about 1,000" in found.note
    )
    facts = Facts(trained=lambda value: 960)
    assert judge(lines, cells, needs={"needs_train": 1000}, facts=facts).verdict == "supported"


@pytest.mark.parametrize(
    ("a", "b", "chance", "check", "verdict", "note"),
    [
        # 108 of 200, 0.54, has an error of 0.035: it is not beyond 0.5; 140 of 200 is, with 0.032.
        (108, 60, 0.5, {}, "inconclusive", "all values are at the level of guessing"),
        (108, 60, 0.1, {}, "supported", ""),
        (108, 60, None, {}, "supported", ""),
        (60, 108, 0.5, {}, "inconclusive", "all values are at the level of guessing"),
        (140, 60, 0.5, {}, "supported", "has not learnt (≈ chance): b"),
        (60, 140, 0.5, {}, "contradicted", "has not learnt (≈ chance): a"),
        (
            108,
            108,
            0.5,
            {"type": "near", "smallest_effect": 5},
            "inconclusive",
            "all values are at the level of guessing",
        ),
        (140, 140, 0.5, {"type": "near", "smallest_effect": 5}, "supported", ""),
        (125, 108, 0.5, {"type": "near", "smallest_effect": 20}, "inconclusive", "a value is at the level of guessing"),
        (60, 140, 0.5, {"type": "near", "smallest_effect": 5}, "contradicted", "has not learnt (≈ chance): a"),
        (108, 140, 0.5, {"type": "not-worse", "smallest_effect": "40%"}, "inconclusive", "a value is at the level"),
        (140, 140, 0.5, {"type": "not-worse", "smallest_effect": "40%"}, "inconclusive", "guessing would pass this"),
        (140, 140, 0.5, {"type": "not-worse", "smallest_effect": "10%"}, "supported", ""),
    ],
)
def test_what_guessing_would_score_decides_nothing(folder, a, b, chance, check, verdict, note):
    lines, cells = with_scores({"a": hits(a, a + 1, a), "b": hits(b, b, b + 1)}, chance=chance)
    found = judge(lines, cells, **check)
    assert (
        found.verdict == verdict
        and note in found.note
        and ("chance" in found.note or bool(note) == ("guess" in found.note))
    )


def test_the_second_estimand_is_shown_and_decides_only_where_the_claim_says_so(folder):
    """Hits are equal; the entropy of a is lower by 0.5 on every query, which is better."""
    rng = np.random.default_rng(0)
    second = {"b": 4 + rng.random((3, 200))}
    second["a"] = second["b"] - 0.5 + 0.01 * rng.random((3, 200))
    lines, cells = with_scores({"a": hits(50, 51, 50), "b": hits(50, 50, 51)}, contrastive_entropy=second)
    found = judge(lines, cells)
    assert found.verdict == "inconclusive"
    assert found.beside.startswith("contrastive entropy: better by 0.49") and found.beside.endswith(
        "1 for and 0 against of 1"
    )
    assert judge(lines, cells, decided_by="contrastive_entropy").verdict == "supported"
    decided = judge(lines, cells[::-1], decided_by="contrastive_entropy", type="not-worse", smallest_effect="20%")
    assert decided.verdict == "supported"  # 0.5 of about 4 is less than a fifth, downwards as well
    for level, counted in ((5.549, "1 for and 0 against of 1"), (3.0, "0 for and 0 against of 1")):  # lower is beyond
        for path in ROOT.rglob("seed*.json"):
            path.write_text(json.dumps(json.loads(path.read_text()) | {"chance": {"contrastive_entropy": level}}))
        assert judge(lines, cells).beside.endswith(counted)


def test_a_comparison_is_on_the_queries_that_both_have(folder):
    """Of all queries a answers 100 and b 60; of the 60 that both were tested on a answers none and b all."""
    first = hits(0, 0, 0)
    first[:, 100:] = 1
    lines, cells = with_scores({"a": first, "b": hits(60, 60, 60)})
    for seed in (1, 2, 3):
        path = ROOT / f"metrics/b.r-1k/qa/seed{seed}.json"
        scores = json.loads(path.read_text())["per_query"]["recall@1"]
        asked = {query: score for query, score in scores.items() if score}
        path.write_text(json.dumps({"n_queries": 60, "metrics": {"recall@1": 1.0}, "per_query": {"recall@1": asked}}))
    lines[1] = lines[1]._replace(measured="100.00")
    found = judge(lines, cells)
    assert found.verdict == "contradicted" and found.outcomes[0].effect == -100
    assert [str(value.number) for value in found.outcomes[0].values] == ["0.00", "100.00"]
    assert "on the 60 queries that all of its cells were tested on" in found.note


def test_two_data_sets_have_no_query_in_common(folder):
    """Whatever their ids: a on one data set and b on another are independent, each with its own number of queries."""
    for same in (True, False):
        lines, cells = with_scores({"a": hits(120, 121, 122), "b": hits(60, 61, 62)})
        for seed in (1, 2, 3):
            there, path = (ROOT / f"metrics/b.r-1k/{name}/seed{seed}.json" for name in ("qa", "more"))
            record = json.loads(there.read_text())
            for of in record["per_query"].values() if not same else ():
                of |= {f"other-{query}": of.pop(query) for query in list(of)[:150]}
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(record))
        lines[1] = lines[1]._replace(dataset="more")
        found = judge(lines, cells).outcomes[0]
        # √(0.61 · 0.39 / 199 + 0.31 · 0.69 / 199) = 4.8 points, and more for the seeds
        assert (found.outcome, found.effect, found.note) == ("for", 30.0, "") and 18 < found.low < 30 - 1.96 * 4.7


def test_no_p_is_nothing(folder):
    verdict = judge(*with_scores({"a": hits(199, 199, 199), "b": hits(1, 1, 1)}))
    finding, comparison = to_findings([verdict], "demo")[0], to_comparisons([verdict])[0]
    assert 0 < float(comparison.p_for) < 1e-5 and 0 < float(finding.p) < 1e-5 and 0 < float(finding.q) < 1e-5


def test_seeds_are_of_what_was_trained(folder):
    verdict = judge(*with_scores({"a": hits(199, 199, 199), "bm25": hits(1)}))
    assert to_findings([verdict], "demo")[0].seeds == "3"


def test_five_equal_differences_have_no_interval(folder):
    few, cells = with_scores({"a": hits(5, n=5), "b": hits(0, n=5)})
    outcome = judge(few, cells, (1,)).outcomes[0]
    assert (outcome.outcome, outcome.effect, outcome.low, outcome.high) == ("open", 100.0, None, None)


def test_one_query_says_nothing_of_others_however_many_seeds(folder):
    lines, cells = with_scores({"a": np.ones((3, 1)), "b": np.array([[0.1], [0.2], [0.15]])})
    found = judge(lines, cells)
    assert found.verdict == "inconclusive" and found.outcomes[0].low is None
    assert "1 query is common to all cells" in found.note


def test_other_queries_or_an_older_table_are_no_comparison(folder):
    lines, cells = with_scores({"a": hits(2), "b": hits(0)})
    path = ROOT / "metrics/b.r-1k/qa/seed1.json"
    record = {"n_queries": 1, "metrics": {"recall@1": 0.0}}
    path.write_text(json.dumps(record | {"per_query": {"recall@1": {"other": 0.0}}}))
    found = judge(lines, cells, (1,))
    assert found.verdict == "inconclusive" and "no query is common to all cells" in found.note
    path.write_text(json.dumps({"metrics": {"recall@1": 0.5}, "per_query": {"recall@1": {}}}))
    with pytest.raises(DataError, match=r"recall@1 is 50 and 0.00 in the table"):
        judge(lines, cells, (1,))


def test_a_rank_correlation_of_texts_is_compared_by_its_own_error(folder):
    """Spearman 0.60 and 0.55 of 1,000 pairs: errors of 0.02 each, so nothing; 0.60 and 0.40: something."""
    for other, verdict in (("0.5500", "inconclusive"), ("0.4000", "holds for this seed only")):
        lines = []
        for row, value in (("a", "0.6000"), ("b", other)):
            path = ROOT / f"metrics/{row}.r-1k/qa/seed1.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"n_queries": 1000, "metrics": {"spearman": float(value)}, "per_query": {}}))
            more = {"system": f"{row}.r-1k", "dataset": "qa", "metric": "spearman", "n_seeds": "1", "unit": "fraction"}
            lines.append(line(row, "x", value, **more))
        assert judge(lines, [{"row": "a", "column": "x"}, {"row": "b", "column": "x"}], (1,)).verdict == verdict


def test_what_is_not_measured_is_said_and_never_counts(folder):
    lines = [*column("2.00", "1.00")[0], line("b", "z", "1.00")]
    lines += [line("a", "y", note="a reference's note; no data set for the role fever"), line("b", "y", "1.00")]
    lines += [line("a", "z", note="no data set for the role scifact")]
    cells = [{"row": "a", "column": list("xyz")}, {"row": "b", "column": list("xyz")}]
    found = judge(lines, cells)
    assert (found.verdict, len(found.measured), found.needed) == ("supported", 1, 1)
    assert found.note == "2 of 3 comparisons are not measured; no data set for the role fever, scifact"
    found = judge(lines[3:], [{"row": "a", "column": ["y", "z"]}, {"row": "b", "column": ["y", "y"]}])
    assert (found.verdict, found.middle, found.p) == ("not tested", None, None)
    Path(ROOT / "tables/tiny/table1.csv").unlink()
    missing = judge_claims(load_claims("claims.yaml"), Measurements(ROOT, (1,)))[0]
    assert missing.verdict == "not tested" and missing.note == "tiny/table1 is not among the tables of this run"


def test_a_cell_that_is_nowhere_is_an_error(folder):
    with pytest.raises(DataError, match=r"no cell \('a', 'typo'\)"):
        judge([line("a", "x", "1")], [{"row": "a", "column": "x"}, {"row": "a", "column": "typo"}])


def point(series: str, x: str, y: str = "", **more: str) -> Point:
    fields = dict.fromkeys(Point._fields, "") | {"figure": "figure1", "panel": "a", "series": series, "x": x, "y": y}
    return Point(
        **(
            fields
            | {"status": "scale-differs" if y else "not-run", "unit": "fraction", "sd": "0.001", "n_seeds": "3"}
            | more
        )
    )


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
    with_scores({"a": hits(2, 2, 2), "b": hits(1, 1, 1)})
    fields = {"dataset": "qa", "metric": "recall@1", "unit": "%"}
    points = [point(name, "1", y, system=f"{name}.r-1k", **fields) for name, y in (("a", "30.00"), ("b", "20.00"))]
    found = judge([line("a", "x", "1")], [at("a", "1"), at("b", "1")], points=points)
    assert found.verdict == "supported" and found.outcomes[0].effect == pytest.approx(10)


def test_points_on_the_way_of_training_that_guessing_has_decide_nothing(folder):
    """They have no metrics file; their line says it."""
    for word, verdict in (("yes", "supported"), ("no", "inconclusive")):
        points = [point(name, "1", y, beyond_chance=word) for name, y in (("a", "0.3"), ("b", "0.2"))]
        assert judge([line("a", "x", "1")], [at("a", "1"), at("b", "1")], points=points).verdict == verdict


def test_points_without_scores_of_queries_have_the_error_of_their_interval(folder):
    """Three seeds may lie together by chance; other queries or texts would give other points."""
    for sd in ("0.001", "0.000"):
        points = [point(name, "1", y, sd=sd, low="0.1", high="0.4") for name, y in (("a", "0.3"), ("b", "0.2"))]
        for x in ("1", "mean"):
            found = judge([line("a", "x", "1")], [at("a", x), at("b", x)], points=points)
            # half widths of 0.2 and 0.2: √(0.04 + 0.04) on both sides of 0.1
            assert found.verdict == "inconclusive" and found.outcomes[0].low == pytest.approx(0.1 - 0.08**0.5)


def test_steps_to_reach_what_the_other_comes_to(folder):
    """b is best at step 50 with 0.5; a has 0.52 at step 10: a fifth. Of wide deviations nothing follows."""
    first, second = {"0": "0.1", "10": "0.52", "50": "0.7"}, {"0": "0.1", "10": "0.2", "50": "0.5"}
    cells = [at("u", "each"), at("v", "each")]
    for sd, verdicts in (("0.001", {0.3: "supported", 0.1: "contradicted"}), ("0.5", {0.3: "inconclusive"})):
        curves = (("u", first), ("v", second))
        points = [point(name, x, y, sd=sd, encoder=name) for name, curve in curves for x, y in curve.items()]
        for margin, verdict in verdicts.items():
            found = judge([line("a", "x", "1")], cells, points=points, type="reach", smallest_effect=margin)
            assert found.verdict == verdict and found.outcomes[0].effect == pytest.approx(0.2)
    points = [one._replace(sd="", n_seeds="1") for one in points]
    found = judge([line("a", "x", "1")], cells, points=points, type="reach", smallest_effect=0.3)
    assert found.verdict == "inconclusive" and "no uncertainty is known" in found.note


def test_a_curve_that_is_as_good_in_time_is_seldom_said_to_be_late(folder):
    """a is where b ends at a fifth of b's steps, and stays there. The best of b's noisy values lies above its end, so that draws
    of all values alone count a as late in every third run."""
    rng, late = np.random.default_rng(5), 0
    steps = [0, 10, 20, 30, 40, 50]
    for _ in range(60):
        curves = {"u": [0.1, *[0.5] * 5], "v": [0.1, *[0.5] * 5]}
        drawn = {name: rng.normal(values, 0.03) for name, values in curves.items()}
        points = [
            point(name, str(x), f"{y:.4f}", sd="0.0520", encoder=name)
            for name, values in drawn.items()
            for x, y in zip(steps, values, strict=True)
        ]
        cells = [at("u", "each"), at("v", "each")]
        found = judge([line("a", "x", "1")], cells, points=points, type="reach", smallest_effect=0.25)
        late += found.outcomes[0].outcome == "against"
    assert late <= 3


def test_steps_of_one_training_are_not_the_same_runs(folder):
    """All name the metrics file of its end."""
    with_scores({"a": hits(100, 101, 102), "b": hits(50, 51, 52)})
    fields = {"dataset": "qa", "metric": "recall@1"}
    points = [
        point(name, x, y, system=f"{name}.r-1k", **fields)
        for name, y in (("a", "0.5"), ("b", "0.25"))
        for x in ("0", "10", "20")
    ]
    found = judge([line("a", "x", "1")], [at("a", "each"), at("b", "each")], points=points)
    assert [outcome.outcome for outcome in found.outcomes] == ["for"] * 3


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


def test_a_check_is_told_as_it_decides(folder):
    """A gain below the smallest effect is for the claim when it is shown, and no gain when one of that size is excluded."""
    lines, cells = column("1.01", "1.00", "2.00", "1.00")
    small = judge(lines[:2], cells[:2], smallest_effect="20%")
    limited = judge(lines[2:], cells[2:], smallest_effect="20%", at_most="200%", share=0.9)
    assert (small.verdict, limited.verdict) == ("supported", "supported")
    told = [one.check for one in to_findings([small, limited], "demo")]
    against = "; against it: a difference below 20%"
    assert told == [
        f"the first exceeds the second{against}",
        f"the first exceeds the second, and by less than 200%, in 90% of the comparisons{against}",
    ]


def test_the_ledger_is_read_as_it_was_written(folder):
    lines, cells = column("2.00", "1.00")
    verdicts = [judge(lines, cells, smallest_effect="5%", facts=Facts(trained=lambda value: 90))]
    reproduction = {
        "by": "Doe 2024",
        "system": "a",
        "data": "theirs",
        "metric": "MRR",
        "value": 1.5,
        "source": "table 2",
    }
    Path("others.yaml").write_text(yaml.safe_dump({"reproductions": [reproduction | {"claims": ["a-b"]}]}))
    others = load_reproductions("others.yaml", load_claims("claims.yaml"))
    findings, comparisons = to_findings(verdicts, "demo", others), to_comparisons(verdicts)
    write_rows("claims.csv", findings, Finding)
    write_rows("claims.groups.csv", comparisons, Comparison)
    assert read_rows("claims.csv", Finding) == findings and read_rows("claims.groups.csv", Comparison) == comparisons
    one = findings[0]
    assert (one.groups, one.effect, one.values, one.smallest_effect) == ("1/1/1", "1", "2.00 > 1.00", "5%")
    assert float(one.low) < 1 < float(one.high) and one.others == "Doe 2024: a, theirs: MRR 1.5 (table 2)"
    assert json.loads(comparisons[0].cells) == ["tiny/table1: a, x", "tiny/table1: b, x"]
    page = to_markdown(findings, "demo")
    assert "**1** supported, **0** contradicted" in page
    assert f"| 1/1/1 | 1 [{one.low}, {one.high}] % | {one.q} | 3 | 90 |" in page and "Doe 2024" in page
    assert "Measured at the demo scale" in page and "demo" not in to_markdown(findings, "paper")
    with pytest.raises(DataError, match="line 1: columns are id,number"):
        read_rows("claims.groups.csv", Finding)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claims": ["a-c"]}, "no claim 'a-c'; did you mean 'a-b'"),
        ({"value": "high"}, "value is 'high'"),
        ({"claims": 5}, "claims is 5; expected a list of claims"),
        ({"sources": ""}, "reproduction 1: key sources is unknown; allowed: "),
        ({"metric": None}, "expected metric and value, or a note"),
    ],
)
def test_a_senseless_reproduction_is_refused(folder, change, message):
    lines, cells = column("2.00", "1.00")
    judge(lines, cells)
    one = {"by": "x", "system": "a", "data": "d", "metric": "m", "value": 1.5, "source": "s", "claims": ["a-b"]}
    one = {key: value for key, value in (one | change).items() if value is not None}
    Path("others.yaml").write_text(yaml.safe_dump({"reproductions": [one]}))
    with pytest.raises(ConfigError, match=message):
        load_reproductions("others.yaml", load_claims("claims.yaml"))


GOOD = {"cells": [{"row": "a", "column": "x"}, {"row": "b", "column": "x"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "larger"}, "check.type is 'larger'; allowed: greater"),
        ({"type": ["a"]}, r"check.type is \['a'\]; allowed: greater"),
        ({"smallest_effect": "small"}, "smallest_effect is 'small'; expected a number"),
        ({"smallest_effect": float("nan")}, "smallest_effect is nan; expected a number"),
        ({"smallest_effect": float("inf")}, "smallest_effect is inf; expected a number"),
        ({"smallest_effect": "1.2.3%"}, "smallest_effect is '1.2.3%'; expected a number"),
        ({"at_most": float("nan")}, "check.at_most is nan; expected a number"),
        ({"needs": {"claim": ""}}, "claim is ''; expected a text"),
        ({"needs": {"claim": None}}, "claim is None; expected a text"),
        ({"needs": {"needs_original": ["nq"], "because": 3}}, "because is 3; expected a text"),
        ({"needs": {"needs_original": 5, "because": "so"}}, "needs_original is 5; expected a name or a list of names"),
        ({"type": "correlation", "with": 3}, "check.with is 3; expected a list of numbers"),
        ({"type": "correlation", "with": ["a", "b"]}, "check.with.[01] is '[ab]'; expected a number"),
        ({"cells": [{"row": "a", "column": []}] * 2}, r"check.cells.[01].column is \[\]; expected .* one at least"),
        ({"cells": [5, 6]}, "check.cells.[01] is [56]; expected the keys of a cell or a point"),
        ({"smallest_effect": -1}, "smallest_effect is -1; type greater expects"),
        (
            {"smallest_effect": "5%", "type": "correlation", "with": [1, 2]},
            "type correlation expects a plain number",
        ),
        ({"type": "near", "at_most": 2}, "check.at_most is 2 for type near"),
        ({"both_gain": True}, "check.both_gain is for type gap"),
        ({"needs": {"needs_train": "1K"}}, "needs_train is '1K'"),
        ({"needs": {"needs_original": ["nq"]}}, "needs_original and because belong together"),
        ({"share": 0}, "check.share is 0"),
        ({"shares": 1}, "key check.shares is unknown; .*did you mean 'share'"),
        ({"with": [1, 2]}, "check.with is"),
        ({"type": "correlation", "with": [1]}, "check.with has 1 numbers for 2 cells"),
        ({"type": "gap"}, "2 cells; type gap expects groups of 4"),
        ({"cells": [{"row": "a"}, {"row": "b"}]}, "key check.cells.[01]: 'column' is a required property"),
        (
            {"cells": [{"row": ["a", "b"], "column": "x"}, {"row": ["a", "b", "c"], "column": "x"}]},
            r"lists of lengths \[2, 3\]",
        ),
    ],
)
def test_a_senseless_claim_is_refused_by_name(folder, change, message):
    claim = claim_of(**(GOOD | change))
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim]}))
    with pytest.raises(ConfigError, match=f"claim a-b.*{message}"):
        load_claims("claims.yaml")


TABLES = {"tiny/table1": [{"row": row, "column": "x", "dataset": "nq"} for row in "ab"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"needs": {"needs_original": ["nqq"], "because": "so"}},
            "needs_original: 'nqq' is no role .*did you mean 'nq'",
        ),
        ({"needs": {"table": "tabel1"}}, "'tiny/tabel1'; expected a table or figure .*did you mean 'tiny/table1'"),
        (
            {"cells": [{"row": "a", "column": "x"}, {"row": "c", "column": "x"}]},
            "'c, x'; expected a row and a column of",
        ),
        (
            {"cells": [{"figure": "figure2", "panel": "a", "series": "b", "x": "last"}] * 2},
            "'tiny/figure2'; expected a table or figure",
        ),
    ],
)
def test_a_claim_about_what_the_references_lack_is_refused(folder, change, message):
    """It would be "not tested", or with a misspelt role be judged as if the data were the paper's."""
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim_of(**(GOOD | change))]}))
    assert load_claims("claims.yaml")
    with pytest.raises(ConfigError, match=f"claims.yaml: claim a-b: .*{message}"):
        load_claims("claims.yaml", TABLES)
    Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim_of(**GOOD)]}))
    assert load_claims("claims.yaml", TABLES)


def test_a_claim_about_a_series_that_no_panel_has_is_refused(folder):
    figure = load_figure(Path(__file__).parents[2] / "references/dual_encoders/figure2.yaml")
    panel, series = next(figure.all_series())
    point = {"figure": "figure2", "panel": panel.name, "series": series.name, "x": "last"}
    for name, right in ((series.name, True), (f"{series.name}s", False)):
        Path("claims.yaml").write_text(yaml.safe_dump({"claims": [claim_of([point, point | {"series": name}])]}))
        with (
            nullcontext()
            if right
            else pytest.raises(ConfigError, match="expected a panel and a series of tiny/figure2")
        ):
            load_claims("claims.yaml", {}, {"tiny/figure2": figure})


def test_every_claim_of_the_papers_is_loaded():
    references = Path(__file__).parents[2] / "references"
    plan = Plan.load(read_config(references.parent / "config.yaml"), references)
    claims = load_claims(references / "claims.yaml", plan.cells, plan.figures)
    assert len(claims) >= 40 and sum(len(claim.groups) for claim in claims) > 400
    assert all(isinstance(claim.smallest_effect.size, Decimal) and claim.groups for claim in claims)
    schema = yaml.safe_load(package_file("schemas/claims.schema.yaml").read_text(encoding="utf-8"))["$defs"]["claim"]
    assert schema["properties"]["check"]["properties"]["type"]["enum"] == list(GROUP_SIZE)
    assert load_reproductions(references / "reproductions.yaml", claims)
