"""The table of a corpus of one's own and its answer, on numbers that can be checked by hand.

Seen to fail when: the row with the highest mean is deployed whatever its interval; a tie goes to the dearer row; a row that
is not above BM25 beyond chance is deployed; the values of the queries are those of one seed; an interval is one row's alone;
the cross-encoder is what the third sentence compares with; notes speak of training where nothing is trained.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from pretrieve.base.errors import DataError
from pretrieve.evaluation.significance import crossed_draws, crossed_estimate, simultaneous_tail
from pretrieve.reporting.tables import my_corpus_table
from pretrieve.reporting.tables.my_corpus_read import Comparison, Row, Running, Score, read_rows
from pretrieve.reporting.tables.my_corpus_table import answer, choice, make_page, to_csv, to_markdown
from pretrieve.reporting.tables.render import fill_template
from pretrieve.reporting.tables.results import Cost

N = 60
REQUEST = {
    "root": "results/demo/my_corpus",
    "dataset": "my-corpus",
    "trained_on": "my-corpus",
    "metrics": ["ndcg@10"],
    "folder": "mine",
    "generated": False,
    "remarks": ["language: en", "ict-bfs is skipped: no sections"],
    "start": "package:x",
    "depth": 100,
    "rerank": 20,
    "lengths": {"query_length": 32, "passage_length": 64},
}
SYSTEMS = {
    "bm25": ("bm25", "bm25.reqa-full", "BM25", 1.0),
    "as_is": ("as-is", "published.as-it-is-full", "published encoder, not trained further", 60.0),
    "tuned": ("fine-tuned", "published.dpr-bm25-full", "fine-tuned", 300.0),
    "retromae": ("continued", "retromae.dpr-bm25-full", "RetroMAE, fine-tuned", 900.0),
    "hybrid": ("hybrid", "hybrid-published.as-it-is-full", "BM25 + published encoder, not trained further", 61.0),
    "rerank": ("rerank", "rerank-published.reranker-full", "BM25, reranked", 400.0),
    "scratch": ("scratch", "scratch.dpr-bm25-full", "from random weights, fine-tuned", 400.0),
}


def around(mean: float, spread: float = 0.05, seed: int = 0) -> np.ndarray:
    """(2, N) values with this mean: two seeds that lie 0.001 apart, queries spread evenly."""
    offsets = np.random.default_rng(seed).permutation(np.linspace(-spread, spread, N))
    return np.stack([mean + offsets - 0.0005, mean + offsets + 0.0005])


def compared(**values: np.ndarray) -> Comparison:
    rows = []
    for name, of in values.items():
        kind, system, label, wall = SYSTEMS[name]
        dense = ("published.as-it-is-full", "as-is", 0.5) if kind == "hybrid" else ("", "", None)
        of = of.mean(0, keepdims=True) if name in ("bm25", "as_is", "hybrid") else of
        score = Score(float(of.mean()), None if len(of) == 1 else 0.0007)
        cost, running = Cost(wall, 0.0, 0.5), Running(5.0, 10**8)
        rows.append(
            Row(kind, label, system, tuple(range(1, len(of) + 1)), {"ndcg@10": score}, of, cost, running, *dense)
        )
    return Comparison(tuple(rows), "ndcg@10").with_gains()


def deployed(**values: np.ndarray) -> str:
    return answer(compared(**values), 1000).use.system


def test_a_clear_winner_is_deployed_with_its_interval() -> None:
    found = compared(
        bm25=around(0.5), as_is=around(0.5, seed=1), tuned=around(0.7, seed=2), retromae=around(0.6, seed=3)
    )
    said = answer(found, 1000)
    assert said.use.label == "fine-tuned" and said.best is said.use is said.exported
    gain = said.use.gain
    assert gain.effect == pytest.approx(0.2) and gain.low > 0.1
    assert said.sentences[0] == (
        f"Deploy fine-tuned: nDCG@10 0.700, which is {gain.effect:+.3f} (95 % interval {gain.low:+.3f} to {gain.high:+.3f}) "
        "above BM25's 0.500, on 60 test queries; no other row that can be deployed has a higher mean."
    )
    assert (
        "(RetroMAE, the only objective) changes nDCG@10 by -0.100" in said.sentences[1]
        and "is a loss" in said.sentences[1]
    )
    assert (
        "takes 5 min 00 s to build" in said.sentences[2]
        and "5 ms a query on one core among 1,000 documents" in said.sentences[2]
    )


def test_a_gain_within_chance_deploys_bm25() -> None:
    values = {"bm25": around(0.5, 0.4), "as_is": around(0.4, 0.4, 1), "tuned": around(0.52, 0.4, 2)}
    said = answer(compared(**values), 1000)
    assert said.use.kind == "bm25" and said.exported.kind == "fine-tuned", "the best dense row is exported all the same"
    assert "60 test queries do not tell from chance, and BM25 costs least" in said.sentences[0]
    assert choice(said, REQUEST)["deploy"] == {"kind": "bm25", "dense": None, "weights": None}
    assert said.sentences[1] == "Whether more pre-training on these texts helps was not measured in this run."


def test_where_all_is_below_bm25_it_is_said() -> None:
    said = answer(compared(bm25=around(0.9), as_is=around(0.5, seed=1), tuned=around(0.6, seed=2)), 1000)
    assert said.use.kind == "bm25"
    assert "every other row is below it, the nearest, fine-tuned, by -0.300 (95 %" in said.sentences[0]


def test_a_tie_goes_to_the_cheaper() -> None:
    near = {"bm25": around(0.5), "as_is": around(0.5, seed=1), "tuned": around(0.705, seed=2)}
    assert deployed(**near, hybrid=around(0.7, seed=3)) == "hybrid-published.as-it-is-full"
    assert deployed(**near, hybrid=around(0.6, seed=3)) == "published.dpr-bm25-full"
    said = answer(compared(**near, hybrid=around(0.7, seed=3)), 1000)
    assert "fine-tuned has 0.705, but the difference of" in said.sentences[0] and "costs less" in said.sentences[0]
    deploy = choice(said, REQUEST)
    assert deploy["deploy"]["kind"] == "hybrid" and deploy["deploy"]["weights"] == {"bm25": 0.5, "dense": 0.5}
    assert deploy["deploy"]["dense"] == deploy["exported"] == "published.as-it-is-full"


@pytest.mark.parametrize("queries", [1, 9, 10])
def test_few_queries_recommend_nothing(queries: int) -> None:
    """Even where all favour one search: a search that finds nothing was recommended for one query."""
    found = compared(bm25=np.zeros((1, queries)), as_is=np.ones((1, queries)), hybrid=np.full((1, queries), 0.9))
    said = answer(found, 1)
    task = {"candidates": 1, "splits": {"full": {"train": 0}}}
    weights = {"hybrid-published.as-it-is-full": {"weight": 0.5, "questions": 1}}
    stats = {"tested": task, "trained": task, "collection": {"warnings": {}}}
    page = make_page(REQUEST, found, stats, said, weights)
    text, chosen = to_markdown(page) + fill_template("my_corpus.html.j2", page=page), choice(said, REQUEST)
    assert chosen["recommended"] == ("(use this)" in text) == ("Deploy" in text) == (queries == 10)
    assert chosen["deploy"]["kind"] == ("dense" if queries == 10 else "bm25"), "something is exported"
    assert f"1 document, {queries} test {'query' if queries == 1 else 'queries'};" in text
    if queries < 10:
        verb = "1 test query is" if queries == 1 else "9 test queries are"
        assert said.sentences[0].startswith(f"No recommendation: {verb} too few, ") and "judge 10 or more" in text
        assert "difference" not in said.sentences[1] and "large differences only" not in text
    else:
        assert "among 1 document;" in said.sentences[2] and "large differences only" in text


def test_a_gain_on_one_query_may_be_nothing_however_many_seeds() -> None:
    gain = compared(bm25=np.zeros((1, 1)), tuned=np.array([[0.5], [0.6], [0.55]])).rows[1].gain
    assert gain.low == 0 < gain.effect


def test_what_the_queries_can_tell_is_the_wider_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of 1 on each of six queries, among three rows: its interval reaches down to 0, and not above 1."""
    monkeypatch.setattr(my_corpus_table, "FEWEST", 6)
    rng = np.random.default_rng(0)
    others = {"tuned": rng.random((1, 6)), "retromae": rng.random((1, 6))}
    found = compared(bm25=np.zeros((1, 6)), as_is=np.ones((1, 6)), **others)
    assert found.tail < 0.5**6 and found.rows[1].gain == (1.0, 0.0, 1.0)
    said = answer(found, 9)
    assert said.use.kind == "bm25" and "a difference up to 1.000 between it and published" in said.sentences[2]


def test_what_is_deployed_is_above_bm25_itself() -> None:
    """A row may be tied with the best one and with BM25 too: it is not deployed."""
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.35, (1, N))
    noisy = 0.56 + noise - noise.mean()
    found = {"bm25": around(0.5), "as_is": np.repeat(noisy, 2, 0), "tuned": around(0.6, seed=2)}
    comparison = compared(**found)
    as_is, tuned = comparison.rows[1:]
    assert as_is.gain.low < 0 < tuned.gain.low and comparison.difference(tuned, as_is).may_be_nothing
    assert answer(comparison, 1000).use.system == tuned.system


def test_intervals_hold_for_all_rows_at_once() -> None:
    rng = np.random.default_rng(0)
    scores = [rng.random((1, N)) for _ in range(9)]
    draws = crossed_draws(scores, [str(number) for number in range(9)])
    tail = simultaneous_tail(draws[:, 1:] - draws[:, :1])
    assert 0.025 / 8 <= tail < 0.015, "eight rows: wider than one row's, no wider than Bonferroni's"
    same = np.repeat(draws[:, 1:2] - draws[:, :1], 8, axis=1)
    assert simultaneous_tail(same) == pytest.approx(0.025, rel=0.3), "rows that move as one are one"
    alone = crossed_estimate([scores[1], scores[0]], [1.0, -1.0], ["1", "0"])
    assert alone.interval(tail)[0] < alone.interval()[0]


def test_simultaneous_intervals_cover(rounds: int = 300) -> None:
    """Of comparisons without any true difference, about one in twenty has an interval that misses 0 in any of its six rows."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(rounds):
        common = rng.normal(0, 1, N)
        scores = [(common + rng.normal(0, 1, N))[None] for _ in range(7)]
        bases = [str(number) for number in range(7)]
        draws = crossed_draws(scores, bases, rounds=400)
        tail = simultaneous_tail(draws[:, 1:] - draws[:, :1])
        gains = [crossed_estimate([one, scores[0]], [1.0, -1.0], ["a", "b"]).interval(tail) for one in scores[1:]]
        missed += any(not low <= 0 <= high for low, high in gains)
    assert 0.01 < missed / rounds < 0.09


def test_the_page_and_the_csv_say_the_same() -> None:
    found = compared(bm25=around(0.5), as_is=around(0.5, seed=1), tuned=around(0.7, seed=2), hybrid=around(0.6, seed=3))
    task = {"candidates": 1000, "splits": {"full": {"train": 90}}}
    stats = {"tested": task, "trained": task, "collection": {"warnings": {}}}
    weights = {"hybrid-published.as-it-is-full": {"weight": 0.5, "questions": 30}}
    page = make_page(REQUEST, found, stats, answer(found, 1000), weights)
    text = to_markdown(page)
    assert "> **Deploy fine-tuned" in text and "| **fine-tuned**" in text and "**0.700 ± 0.001**" in text
    assert "BM25's share, chosen on 30 development questions" in text and "All dense rows begin with package:x" in text
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [row["mean"] for row in rows] == ["0.5000", "0.5000", "0.7000", "0.6000"]
    assert rows[0]["gain"] == "" and float(rows[2]["gain"]) == pytest.approx(0.2) and rows[3]["bm25_weight"] == "0.5"
    assert str(found.rows[2].gain) in text


def notes_of(**values: np.ndarray) -> str:
    found = compared(**values)
    task = {"candidates": 1000, "splits": {"full": {"train": 0}}}
    stats = {"tested": task, "trained": task, "collection": {"warnings": {}}}
    weights = {"hybrid-published.as-it-is-full": {"weight": 0.5, "questions": 30}}
    return "\n".join(make_page(REQUEST, found, stats, answer(found, 1000), weights)["notes"])


def test_notes_speak_of_the_rows_that_are_there() -> None:
    given = {"bm25": around(0.5), "as_is": around(0.5, seed=1), "hybrid": around(0.6, seed=3)}
    notes = notes_of(**given)
    assert "The folder: language: en; ict-bfs is skipped: no sections." in notes
    assert "; nothing is trained;" in notes and "One seed" not in notes and "random weights" not in notes
    notes = notes_of(**given, tuned=around(0.6, seed=4), scratch=around(0.4, seed=5))
    assert (
        "; fine-tuned on 0 questions;" in notes and "All dense rows but the one from random weights begin with" in notes
    )
    assert "One seed" not in notes, "the published encoder draws nothing, alone or in a hybrid"
    assert "One seed of a row" in notes_of(**given, tuned=around(0.6, seed=4)[:1])


def test_a_cross_encoder_is_no_alternative() -> None:
    given = {"bm25": around(0.5), "as_is": around(0.52, seed=1), "tuned": around(0.7, seed=2)}
    said = answer(compared(**given, rerank=around(0.8, seed=3)), 1000)
    assert "BM25, reranked has 0.800" in said.sentences[0] and "but no search here runs" in said.sentences[0]
    assert "between it and published encoder, not trained further from chance" in said.sentences[2]


def test_rows_are_read_with_all_their_seeds(tmp_path: Path) -> None:
    request = REQUEST | {"root": str(tmp_path)}
    cost = tmp_path / "cost.json"
    cost.write_text(json.dumps({"wall_s": 2.0, "gpu_h": 0.0, "peak_gb": 1.0}))
    speed = {
        "bm25_ms": 1.0,
        "bm25_bytes": 10,
        "encode_ms": 2.0,
        "search_ms": 3.0,
        "vectors_bytes": 20,
        "model_bytes": 30,
    }
    request["rows"] = []
    for name, seeds in (("bm25", [0]), ("as_is", [1]), ("hybrid", [1])):
        kind, system, label, _ = SYSTEMS[name]
        row = {
            "kind": kind,
            "label": label,
            "system": system,
            "seeds": seeds,
            "costs": {str(s): [str(cost)] for s in seeds},
        }
        request["rows"].append(row | ({"dense": "published.as-it-is-full"} if kind == "hybrid" else {}))
        for seed in seeds:
            file = tmp_path / f"metrics/{system}/my-corpus/seed{seed}.json"
            file.parent.mkdir(parents=True)
            values = {"a": 0.25, "b": 0.75} if name == "bm25" else {"b": 1.0, "a": 0.5}
            mean = sum(values.values()) / 2
            file.write_text(json.dumps({"metrics": {"ndcg@10": mean}, "per_query": {"ndcg@10": values}}))
    weights = {"hybrid-published.as-it-is-full": {"weight": 0.8, "questions": 0}}
    found = read_rows(request, weights, speed)
    assert found.rows[1].values.tolist() == [[0.5, 1.0]], "in the order of the queries of BM25"
    assert [row.running for row in found.rows] == [Running(1.0, 10), Running(5.0, 50), Running(6.0, 60)]
    assert found.rows[2].dense_kind == "as-is" and found.rows[2].weight == 0.8
    assert answer(found, 3).use.kind == "bm25", "two queries tell nothing"
    file.write_text(json.dumps({"metrics": {"ndcg@10": 1}, "per_query": {"ndcg@10": {"a": 1.0}}}))
    with pytest.raises(DataError, match="1 queries with ndcg@10, .* has 2; expected the same"):
        read_rows(request, weights, speed)
