"""What benchmarks count differently, each by a table worked by hand.

Seen to fail when: the mean is over the run's queries; scores decide instead of ranks; an unfilled slot is no passage; the
first of two lines with one rank stays; the document variant keeps gaps, breaks ties of rank by file order, or does not
cut; a judgement of grade 0 is not relevant for MS MARCO, or is for others; an identical id stays, or the hit above it is
dropped too; the forums are weighted by queries; recall is not capped, or is divided by the cut alone; a rank of 0 is let
in; a level is ignored.
"""

import argparse
import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.base.files import write_json
from pretrieve.commands import mean
from pretrieve.evaluation.conventions import (
    CONVENTIONS,
    capped_recall,
    check_conventions,
    drop_identical_ids,
    mean_of_means,
    msmarco_mrr,
    read_ranks,
)
from pretrieve.evaluation.metrics_record import metrics_record
from pretrieve.retrieval.trec_run import Run, write_trec

# Reference queries 1 to 6; query 9 is only in the run, 6 only in the reference.
RELEVANT = {"1": {"11"}, "2": {"22", "23"}, "3": {"0"}, "4": {"44"}, "5": {"55"}, "6": {"66"}}
HITS = {
    "9": [(1, "11")],
    "2": [(2, "23"), (4, "22"), (1, "20")],  # file order does not matter: rank 2 is relevant
    "1": [(11, "11"), (1, "10")],  # behind the cut
    "3": [(1, "7"), (3, "8")],  # rank 2 has no line, so it is passage 0, which is relevant here
    "4": [(1, "44"), (1, "45"), (3, "44")],  # the later line of rank 1 replaces 44, which is at rank 3 too
    "5": [(7, "51"), (4, "55"), (4, "50")],  # a tie of ranks, and a gap
}


def test_msmarco_passages_by_hand():
    values = msmarco_mrr(HITS, RELEVANT, cut=10)
    assert values == {"1": 0, "2": 1 / 2, "3": 1 / 2, "4": 1 / 3, "5": 0, "6": 0}
    assert msmarco_mrr(HITS, RELEVANT, cut=11)["1"] == 1 / 11
    assert msmarco_mrr(HITS, RELEVANT, cut=1)["3"] == 0


def test_msmarco_documents_by_hand():
    values = msmarco_mrr(HITS, RELEVANT, cut=100, variant="document")
    # 1: the gap closes, rank 11 is second. 3: nothing is filled. 4: ranks 1 (44), 1 (45), 3. 5: 50 sorts before 55.
    assert values == {"1": 1 / 2, "2": 1 / 2, "3": 0, "4": 1, "5": 1 / 2, "6": 0}
    assert msmarco_mrr(HITS, RELEVANT, cut=1, variant="document")["5"] == 0


def test_msmarco_needs_a_query_in_common():
    with pytest.raises(DataError, match="no query of the run"):
        msmarco_mrr({"9": [(1, "11")]}, RELEVANT)
    with pytest.raises(ConfigError, match="cut of 0"):
        msmarco_mrr(HITS, RELEVANT, cut=0)


def test_ranks_of_both_formats(tmp_path):
    (tmp_path / "marco.tsv").write_text("1\t11\t2\n2\t22\t1\n1\t10\t1\n", encoding="utf-8-sig")  # as Windows writes it
    with gzip.open(tmp_path / "run.trec.gz", "wt") as stream:
        stream.write("1 Q0 11 2 0.5 x\n2 Q0 22 1 1 x\n1 Q0 10 1 0.1 x\n")
    expected = {"1": [(2, "11"), (1, "10")], "2": [(1, "22")]}
    assert read_ranks(tmp_path / "marco.tsv") == read_ranks(tmp_path / "run.trec.gz") == expected


@pytest.mark.parametrize("line", ["1\t11\t0", "1\t11\tfirst", "1\t11", "1 Q0 11 -1 0.5 x", "1 Q0 11 1 0.5"])
def test_a_wrong_rank_names_file_and_line(tmp_path, line):
    (tmp_path / "run").write_text(f"1\t10\t1\n{line}\n")
    with pytest.raises(DataError, match="run, line 2: found '1"):
        read_ranks(tmp_path / "run")


def test_a_damaged_or_missing_run_is_named(tmp_path):
    with pytest.raises(DataError, match="none: no such file"):
        read_ranks(tmp_path / "none")
    (tmp_path / "run.gz").write_bytes(gzip.compress(b"1\t10\t1\n")[:-3])
    with pytest.raises(DataError, match=r"run\.gz: damaged after line"):
        read_ranks(tmp_path / "run.gz")


def test_the_record_applies_msmarcos_mrr(tmp_path):
    path = tmp_path / "run"
    # Ranks and scores contradict each other; ties of scores too. 0 is judged for q2, and not retrieved.
    path.write_text("q1 Q0 a 2 9 x\nq1 Q0 b 1 1 x\nq2 Q0 c 1 1 x\n")
    qrels = {"q1": {"b": 1}, "q2": {"0": 1, "c": 0}, "q3": {"d": 1}}
    metrics = ["mrr@10", "mrr", "recall@1", "mrr@10-l2"]

    def record(*conventions):
        return metrics_record(path, qrels, list(qrels), 5, metrics, conventions=conventions)

    plain = record()
    assert plain["per_query"]["mrr@10"] == {"q1": 0.5, "q2": 0, "q3": 0} and "conventions" not in plain
    passage = record("msmarco-passage-mrr")
    assert passage["per_query"]["mrr@10"] == {"q1": 1, "q2": 1, "q3": 0}  # c: grade 0, and judged is relevant
    assert passage["metrics"]["mrr@10"] == round(2 / 3, 10)
    assert passage["conventions"] == ["msmarco-passage-mrr"]
    for name in ("mrr", "recall@1", "mrr@10-l2"):
        assert passage["per_query"][name] == plain["per_query"][name], name
    qrels["q2"] = {"0": 1}
    assert record("msmarco-passage-mrr")["per_query"]["mrr@10"]["q2"] == 1 / 2
    assert record("msmarco-document-mrr")["per_query"]["mrr@10"] == {"q1": 1, "q2": 0, "q3": 0}


def test_the_record_of_msmarcos_three_columns(tmp_path):
    (tmp_path / "run").write_text("q1\ta\t2\nq1\tb\t1\nq2\tc\t1\n")
    qrels = {"q1": {"a": 1}, "q2": {"c": 1}}

    def record(*conventions):
        return metrics_record(tmp_path / "run", qrels, list(qrels), 5, ["mrr@10", "recall@1"], conventions=conventions)

    for name in ("msmarco-passage-mrr", "msmarco-document-mrr"):
        assert record(name)["per_query"] == {"mrr@10": {"q1": 0.5, "q2": 1}, "recall@1": {"q1": 0, "q2": 1}}
    with pytest.raises(
        DataError, match="run, line 1: found 'q1\ta\t2', expected 6 columns .* and a finite score. Write"
    ):
        record()
    (tmp_path / "run").write_text("q1\ta\t2\nq1\tb\tfirst\n")
    with pytest.raises(DataError, match="run, line 2: found .* or 3 columns 'query_id doc_id rank'"):
        record("msmarco-passage-mrr")


def test_for_a_run_of_this_project_msmarcos_mrr_is_the_ordinary_one(tmp_path):
    rng = np.random.default_rng(0)
    qrels, ids, docs, scores = {}, [], [], []
    for i in range(50):
        pool = [f"d{j}" for j in rng.permutation(40)]
        qrels[f"q{i}"] = dict.fromkeys(pool[:3], 1)
        ids.append(f"q{i}")
        docs.append([f"d{j}" for j in rng.permutation(40)[:15]])
        scores.append(rng.integers(0, 4, 15).astype(float))
    write_trec(tmp_path / "run", Run(ids, docs, scores), "t")
    plain, passage, document = (
        metrics_record(tmp_path / "run", qrels, ids, 40, ["mrr@10", "mrr@3"], conventions=names)
        for names in ([], ["msmarco-passage-mrr"], ["msmarco-document-mrr"])
    )
    assert plain["per_query"] == passage["per_query"] == document["per_query"]
    assert 0.1 < plain["metrics"]["mrr@3"] < plain["metrics"]["mrr@10"] < 0.9


def test_identical_ids_are_dropped(tmp_path):
    run = Run(["a", "b", "c"], [["a", "x", "b"], ["x", "b", "a"], ["c"]], [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [1.0]])
    kept = drop_identical_ids(run)
    assert kept.query_ids == ["a", "b", "c"] and kept.doc_ids == [["x", "b"], ["x", "a"], []]
    assert [scores.tolist() for scores in kept.scores] == [[2.0, 1.0], [3.0, 1.0], []]
    assert run.doc_ids[0] == ["a", "x", "b"]
    write_trec(tmp_path / "run", run, "t")
    qrels = {"a": {"x": 1}, "b": {"a": 1}}
    by_name = {
        name: metrics_record(tmp_path / "run", qrels, ["a", "b"], 4, ["mrr@10", "precision@1"], conventions=[*name])
        for name in ((), ("drop-identical-ids",))
    }
    assert by_name[()]["per_query"]["mrr@10"] == {"a": 1 / 2, "b": round(1 / 3, 10)}
    assert by_name[("drop-identical-ids",)]["per_query"]["mrr@10"] == {"a": 1, "b": 1 / 2}
    assert by_name[("drop-identical-ids",)]["metrics"]["precision@1"] == 1 / 2


def test_capped_recall_by_hand():
    run = Run(["q1", "q2", "q3"], [["a", "x", "b", "c"], ["x"], ["e"]], [np.arange(4, 0, -1.0), [1.0], [1.0]])
    qrels = {"q1": {"a": 1, "b": 2, "c": 1, "d": 3, "x": 0}, "q2": {"y": 0}, "q3": {"e": 1}, "q4": {"f": 1}}
    assert capped_recall(run, qrels, 2) == {"q1": 1 / 2, "q2": 0, "q3": 1, "q4": 0}
    assert capped_recall(run, qrels, 3) == {"q1": 2 / 3, "q2": 0, "q3": 1, "q4": 0}
    assert capped_recall(run, qrels, 100)["q1"] == 3 / 4
    assert capped_recall(run, qrels, 3, level=2)["q1"] == 1 / 2


def forum(n_queries: int, value: float, pool: int = 10) -> dict:
    return {
        "run": "run",
        "run_sha256": "0",
        "n_queries": n_queries,
        "n_candidates": pool,
        "metrics": {"ndcg@10": value},
        "per_query": {"ndcg@10": {f"q{i}": value for i in range(n_queries)}},
    }


#: As CQADupStack has twelve tasks with a corpus each.
FORUMS = [f"forum{number}" for number in range(10)] + ["tex", "gis"]


def test_mean_of_twelve_means_by_hand():
    parts = {name: forum(1, 0.0) for name in FORUMS} | {"tex": forum(9, 0.6, pool=20), "gis": forum(1, 0.3)}
    joined = mean_of_means(parts, FORUMS)
    assert joined["metrics"] == {"ndcg@10": round(0.9 / 12, 10)}  # and not 5.7 / 20
    assert joined["n_queries"] == 20 and joined["n_candidates"] == 14.5
    values = joined["per_query"]["ndcg@10"]
    assert len(values) == 20 and sum(values.values()) / 20 == pytest.approx(0.9 / 12, abs=1e-9)
    assert values["tex/q8"] == round(0.6 * 20 / (12 * 9), 10) and values["gis/q0"] == 0.5, "0.3 · 20 / (12 · 1)"
    assert list(joined["parts"]) == FORUMS and joined["parts"]["gis"]["metrics"] == {"ndcg@10": 0.3}
    assert mean_of_means({"b": forum(3, 1.0), "a": forum(1, 0.0)}, ["a", "b"])["metrics"] == {"ndcg@10": 0.5}


def test_a_mean_in_a_mean_weighs_like_any_other_part():
    """As BEIR's mean takes CQADupStack; levels of guessing are averaged where every part has one."""
    levels = [{"chance": {"ndcg@10": level}} for level in (0.1, 0.3, 0.5)]
    inner = mean_of_means({"a": forum(3, 0.2) | levels[0], "b": forum(1, 0.6) | levels[1]}, ["a", "b"])
    outer = mean_of_means({"c": forum(2, 0.9) | levels[2], "both": inner}, ["c", "both"])
    assert inner["metrics"] == {"ndcg@10": 0.4} and inner["chance"] == {"ndcg@10": 0.2}
    assert outer["metrics"] == {"ndcg@10": 0.65} and outer["chance"] == {"ndcg@10": 0.35}
    assert outer["n_queries"] == 6 and list(outer["parts"]["both"]["parts"]) == ["a", "b"]
    # a: 0.2 · 4/(2 · 3) in `both`, and then · 6/(2 · 4)
    assert outer["per_query"]["ndcg@10"]["both/a/q2"] == pytest.approx(0.1)
    assert sum(outer["per_query"]["ndcg@10"].values()) / 6 == pytest.approx(0.65)
    assert mean_of_means({"c": forum(2, 0.9), "both": inner}, ["c", "both"])["chance"] == {}


def test_a_mean_of_means_is_of_all_parts():
    parts = {name: forum(1, 0.5) for name in FORUMS}
    assert len(parts) == 12
    with pytest.raises(DataError, match=r"missing \['forum9'\], not expected \['linux'\]"):
        mean_of_means({("linux" if name == "forum9" else name): record for name, record in parts.items()}, FORUMS)
    with pytest.raises(DataError, match=r"'tex' has metrics \['mrr'\], 'forum0' has \['ndcg@10'\]"):
        mean_of_means(parts | {"tex": forum(1, 0.5) | {"metrics": {"mrr": 1.0}}}, FORUMS)
    with pytest.raises(DataError, match=r"'tex' has conventions \['drop-identical-ids'\]"):
        mean_of_means(parts | {"tex": forum(1, 0.5) | {"conventions": ["drop-identical-ids"]}}, FORUMS)
    with pytest.raises(DataError, match=r"'tex' has no per_query; expected a metrics record"):
        mean_of_means(parts | {"tex": {**forum(1, 0.5), "per_query": {}}}, FORUMS)
    same = {name: record | {"conventions": ["drop-identical-ids"]} for name, record in parts.items()}
    assert mean_of_means(same, FORUMS)["conventions"] == ["drop-identical-ids"]


def mean_of_files(folder: Path, *contents: str) -> Path:
    """What ``pretrieve mean`` writes for the contents of metrics files."""
    paths = [folder / f"{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    names = [path.stem for path in paths]
    mean.main(argparse.Namespace(parts=names, metrics=list(map(str, paths)), out=folder / "mean.json"))
    return folder / "mean.json"


def test_the_mean_of_files_is_that_of_their_records(tmp_path):
    parts = [forum(9, 0.6, pool=20) | {"chance": {"ndcg@10": 0.1}}, forum(1, 0.3) | {"chance": {"ndcg@10": 0.2}}]
    made = mean_of_files(tmp_path, *map(json.dumps, parts))
    write_json(tmp_path / "by_hand.json", mean_of_means({"0": parts[0], "1": parts[1]}, ["0", "1"]))
    assert made.read_bytes() == (tmp_path / "by_hand.json").read_bytes()
    both = made.read_text()  # a mean may be a part
    assert json.loads(mean_of_files(tmp_path, both, json.dumps(parts[0])).read_text())["metrics"] == {"ndcg@10": 0.525}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_queries": "2"}, "key n_queries is '2'; expected a number"),
        ({"n_queries": True}, "key n_queries is True; expected a number"),
        ({"n_queries": 7.5}, "key per_query.ndcg@10 has 2 of 7.5 queries; expected a value for each"),
        ({"n_queries": 3}, "key per_query.ndcg@10 has 2 of 3 queries; expected a value for each"),
        ({"n_candidates": "many"}, "key n_candidates is 'many'; expected a number"),
        ({"metrics": 7.5}, "key metrics is '7.5'; expected an object"),
        ({"metrics": {"ndcg@10": math.nan}}, "key metrics.ndcg@10 is nan; expected a number"),
        ({"per_query": {"ndcg@10": [1, 0]}}, "the mean of its values per query nan; expected the same number"),
        ({"per_query": {"ndcg@10": {"q0": "1", "q1": 0}}}, "the mean of its values per query nan"),
        ({"per_query": {"ndcg@10": {"q0": True, "q1": 0}}}, "key per_query.ndcg@10.q0 is True; expected a number"),
        ({"per_query": 7.5}, "key per_query is 7.5; expected an object"),
        ({"per_query": {"mrr": {}}}, "key per_query.ndcg@10 has none of 2 queries"),
        ({"chance": {"ndcg@10": "low"}}, "key chance.ndcg@10 is 'low'; expected a number"),
        ({"conventions": True}, "key conventions is 'True'; expected a list"),
    ],
)
def test_a_mean_of_files_checks_them(tmp_path, change, words):
    with pytest.raises(DataError, match=f"1.json: .*{words}"):
        mean_of_files(tmp_path, json.dumps(forum(2, 0.5)), json.dumps(forum(2, 0.5) | change))
    assert not (tmp_path / "mean.json").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metrics": {"ndcg@10": 0.5, "mrr": 0.5}}, r"'1' has metrics \['ndcg@10', 'mrr'\], '0' has \['ndcg@10'\]"),
        ({"per_query": {}}, "'1' has no per_query; expected a metrics record"),
    ],
)
def test_files_that_do_not_join_say_so_first(tmp_path, change, words):
    with pytest.raises(DataError, match=words):
        mean_of_files(tmp_path, json.dumps(forum(2, 0.5)), json.dumps(forum(2, 0.5) | change))


def test_a_mean_of_files_that_are_no_records(tmp_path):
    with pytest.raises(DataError, match=r"1.json: not readable as JSON: maximum recursion depth"):
        mean_of_files(tmp_path, json.dumps(forum(2, 0.5)), "[" * 100_000)


def test_unknown_conventions_name_the_nearest():
    for name in CONVENTIONS:
        check_conventions([name])
    with pytest.raises(ConfigError, match="nearest is 'drop-identical-ids'"):
        check_conventions(["drop-identical"])
    with pytest.raises(ConfigError, match="exclude each other"):
        check_conventions(["msmarco-passage-mrr", "drop-identical-ids"])
