"""Metrics by hand and against trec_eval (pytrec_eval).

Seen to fail when: queries missing from the run are left out of the mean; judged documents are sorted by rising grade
(ndcg); unjudged hits share the number of a judged one; the single-metric repetition is removed; bpref is let in (NaN);
hits@k counts relevant documents, or needs judgements; hits@20 is told to be missing without its file; a cut of hits is
optional; pools are those of all queries instead of the evaluated ones; the record's pool is the median; half a grade
counts as none; a number is taken for an id.
"""

import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.evaluation.answers import TaskAnswers
from pretrieve.evaluation.metrics import check_metric, evaluate, read_qrels
from pretrieve.evaluation.metrics_record import metrics_record
from pretrieve.retrieval.trec_run import Run, write_trec
from pretrieve.tasks.answers import Answers, write_answers


def make(rankings: dict[str, list[str]]) -> Run:
    return Run(list(rankings), list(rankings.values()), [np.arange(len(r), 0, -1.0) for r in rankings.values()])


QRELS = {"q1": {"a": 2, "b": 1, "z": 0}, "q2": {"c": 1}, "q3": {"d": 1}}
RUN = make({"q1": ["x", "b", "z", "a"], "q2": ["y", "c"], "extra": ["d"]})


def test_by_hand():
    metrics = ["recall@1", "recall@2", "recall@100", "mrr@10", "mrr@1", "ndcg@10", "map", "precision@2", "hit_rate@2"]
    scores = evaluate(RUN, QRELS, metrics)
    ndcg_q1 = (1 / math.log2(3) + 2 / math.log2(5)) / (2 + 1 / math.log2(3))
    expected = {  # q1, q2, q3 (not in the run)
        "recall@1": [0, 0, 0],
        "recall@2": [1 / 2, 1, 0],
        "recall@100": [1, 1, 0],
        "mrr@10": [1 / 2, 1 / 2, 0],
        "mrr@1": [0, 0, 0],
        "ndcg@10": [ndcg_q1, 1 / math.log2(3), 0],
        "map": [(1 / 2 + 2 / 4) / 2, 1 / 2, 0],
        "precision@2": [1 / 2, 1 / 2, 0],
        "hit_rate@2": [1, 1, 0],
    }
    for name, values in expected.items():
        assert scores.per_query[name] == pytest.approx(dict(zip(QRELS, values, strict=True))), name
        assert scores.mean[name] == pytest.approx(sum(values) / 3), name


def test_a_single_metric_and_a_graded_level():
    assert evaluate(RUN, QRELS, ["recall@2"]).mean == {"recall@2": pytest.approx(0.5)}
    assert evaluate(RUN, QRELS, ["recall@2-l2"]).per_query["recall@2-l2"] == {"q1": 0.0, "q2": 0.0, "q3": 0.0}


def test_queries_without_hits_or_without_relevant_documents_count_zero():
    scores = evaluate(make({"a": [], "b": ["x"]}), {"a": {"x": 1}, "b": {"x": 0}, "c": {}}, ["recall@5", "ndcg@5"])
    assert scores.mean == {"recall@5": 0.0, "ndcg@5": 0.0}
    assert list(scores.per_query["recall@5"]) == ["a", "b", "c"]


def test_ties_count_in_the_order_of_the_run():
    run = Run(["q"], [["b", "a"]], [np.array([1.0, 1.0])])
    assert evaluate(run, {"q": {"a": 1}}, ["mrr"]).mean["mrr"] == 1.0
    assert evaluate(run, {"q": {"b": 1}}, ["mrr"]).mean["mrr"] == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_equals_trec_eval(seed):
    rng = np.random.default_rng(seed)
    pool = [f"doc-{i}" for i in range(60)]
    qrels, rankings = {}, {}
    for i in range(40):
        judged = rng.choice(pool, rng.integers(1, 9), replace=False)
        qrels[f"q{i}"] = {doc_id: int(rng.integers(0, 4)) for doc_id in judged}
        if rng.random() < 0.9:
            rankings[f"q{i}"] = rng.permutation(pool)[: rng.integers(1, 60)].tolist()
    names = {
        "recall@5": "recall_5",
        "recall@20": "recall_20",
        "ndcg@10": "ndcg_cut_10",
        "ndcg": "ndcg",
        "map": "map",
        "map@10": "map_cut_10",
        "mrr": "recip_rank",
        "precision@5": "P_5",
        "hit_rate@5": "success_5",
        "r-precision": "Rprec",
    }
    scores = evaluate(make(rankings), qrels, list(names))
    judge = pytrec_eval.RelevanceEvaluator(
        qrels,
        {"recall.5,20", "ndcg_cut.10", "ndcg", "map", "map_cut.10", "recip_rank", "P.5", "success.5", "Rprec"},
    )
    theirs = judge.evaluate({q: {d: float(-i) for i, d in enumerate(ids)} for q, ids in rankings.items()})
    assert 20 < len(theirs) < 40 or seed != 0
    for ours, trec in names.items():
        expected = {q: theirs[q][trec] if q in theirs else 0.0 for q in qrels}
        assert scores.per_query[ours] == pytest.approx(expected, abs=1e-12), ours
        assert scores.mean[ours] > 0, ours


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("recal@10", "'recall@10'"),
        ("NDCG@10", "'ndcg@10'"),
        ("MRR", "'mrr'"),
        ("recall@0", "'recall'"),
        ("r-precision@5", "'r-precision'"),
        ("P@1", "'precision@1'"),
        ("rr@100", "'mrr@100'"),
        ("success@5", "'hit_rate@5'"),
        ("hits", "'hits@20'"),
        ("hits@20-l2", "'hits@20'"),
        ("recall@2147483648", "its cut is 2147483648; expected a number below 2,147,483,648"),
        ("ndcg@" + "9" * 5000, "its cut is 99999999999999999999; expected a number below"),
        ("map-l2147483648", "its lowest grade is 2147483648; expected a number below"),
        ("recall_cap", "'recall_cap@20'"),
        ("accuracy", "of labelled examples and not of a run; nearest is 'hit_rate'"),
        ("auc", "of labelled examples"),
        ("spearman", "of labelled examples"),
    ],
)
def test_an_unknown_metric_names_the_nearest(name, near):
    with pytest.raises(ConfigError, match=near):
        check_metric(name)


@pytest.mark.parametrize("name", ["ndcg_burges@10", "dcg_burges@10"])
def test_grades_that_are_too_large_for_a_metric_are_named(name):
    """They are exponents of 2 there, and 2 to the power of 1024 is no number of 64 bits."""
    assert evaluate(RUN, {"q2": {"c": 999}}, [name]).mean[name] > 0
    # The share of an infinite best sum would be 0.
    for grades in ({"q2": {"c": 1024}}, {"q2": {"c": 1023, "z": 1024}}):
        with pytest.raises(
            DataError, match=f"metric '{name}' is not finite: .*grade of the qrels is 1,024; expected smaller"
        ):
            evaluate(RUN, grades, [name])
    check_metric("recall@2147483647")


def test_wrong_inputs_are_named():
    with pytest.raises(ConfigError, match="'bpref' is unknown"):  # NaN in ranx 0.3.21 without judged grade-0 documents
        evaluate(RUN, QRELS, ["bpref"])
    with pytest.raises(DataError, match="qrels have no query"):
        evaluate(RUN, {}, ["mrr"])
    with pytest.raises(ConfigError, match="at least one"):
        evaluate(RUN, QRELS, [])
    with pytest.raises(ConfigError, match="one text, 'mrr'; expected a list of metrics"):
        evaluate(RUN, QRELS, "mrr")
    for run in (Run([1], [["a"]], [[1]]), Run(["q1"], [["a", 2]], [[2, 1]])):
        with pytest.raises(DataError, match="has an id that is no text"):
            evaluate(run, QRELS, ["mrr"])
    with pytest.raises(DataError, match="run: none of its queries is in the qrels: its first is 'q1', theirs is 'x1'"):
        evaluate(RUN, {"x1": {"a": 1}}, ["mrr"])
    run = make({"q1": ["a", "b"]})
    run.doc_ids[0][1] = "a"
    with pytest.raises(DataError, match="occurs twice for query 'q1'"):
        evaluate(run, QRELS, ["mrr"])
    with pytest.raises(ConfigError, match=r"run is a dict; expected a pretrieve\.Run"):
        evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}}, ["map"])
    with pytest.raises(ConfigError, match="qrels are a list; expected query id → document id → grade"):
        evaluate(make({"q": ["d"]}), [("q", "d", 1)], ["map"])


@pytest.mark.parametrize("grade", [0.5, float("nan"), float("inf"), "1", None])
def test_a_grade_that_is_no_whole_number_is_named(grade):
    with pytest.raises(DataError, match=r"query 'q2': the grade of document 'c' is .*; expected a whole number"):
        evaluate(RUN, QRELS | {"q2": {"c": grade}}, ["mrr@10"])


def test_whole_grades_may_be_of_any_type():
    scores = evaluate(
        RUN, {"q1": {"a": 2.0, "b": np.int64(1), "z": -1}, "q2": {"c": True}, "q3": {"d": 1}}, ["ndcg@10"]
    )
    assert scores == evaluate(RUN, QRELS, ["ndcg@10"])


def test_ids_of_judgements_that_no_run_can_have_are_named():
    with pytest.raises(DataError, match=r"queries of the qrels\[0\]: 1 is int; expected a text"):
        evaluate(RUN, {1: {"a": 1}}, ["mrr@10"])
    with pytest.raises(DataError, match=r"qrels of query 'q1'\[0\]: 7 is int; expected a text"):
        evaluate(RUN, {"q1": {7: 1}}, ["mrr@10"])
    with pytest.raises(DataError, match=r"qrels of query 'q1': \['a'\]; expected a grade for each document id"):
        evaluate(RUN, {"q1": ["a"]}, ["mrr@10"])


def test_record_and_qrels_file(tmp_path, capsys):
    columns = {"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "c"], "relevance": [2, 1, 1]}
    pq.write_table(pa.table(columns), tmp_path / "qrels.parquet")
    qrels = read_qrels(tmp_path / "qrels.parquet")
    assert qrels == {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
    write_trec(tmp_path / "run.trec.gz", RUN, "t")
    record = metrics_record(tmp_path / "run.trec.gz", qrels, ["q2"], 7, ["ndcg@10"])
    assert (record["n_queries"], record["n_candidates"]) == (1, 7)
    assert record["metrics"] == {"ndcg@10": round(1 / math.log2(3), 10)}
    assert record["per_query"] == {"ndcg@10": {"q2": round(1 / math.log2(3), 10)}}
    assert len(record["run_sha256"]) == 64 and json.dumps(record)
    with pytest.raises(DataError, match="1 of 1 queries have no judgement, the first is 'q9'"):
        metrics_record(tmp_path / "run.trec.gz", qrels, ["q9"], 7, ["mrr"])
    with pytest.raises(DataError, match=r"run.trec.gz: none of its queries is in the qrels"):
        metrics_record(tmp_path / "run.trec.gz", {"x1": {"a": 1}}, ["x1"], 7, ["mrr"])
    for searched in (list("abcdxyz"), ["a", "b", "07"]):
        documents = pa.chunked_array([searched])
        assert metrics_record(tmp_path / "run.trec.gz", qrels, ["q2"], documents, ["mrr"])["n_candidates"] == len(
            searched
        )
    (line,) = capsys.readouterr().err.splitlines()
    assert "run.trec.gz: " in line and "are not in the corpus, such as 'c': they count as not relevant." in line
    with pytest.raises(
        DataError, match=r"run.trec.gz: . of its . documents are not in the corpus, such as 'a'; score it on"
    ):
        metrics_record(tmp_path / "run.trec.gz", qrels, ["q2"], pa.chunked_array([["07"]]), ["mrr"])
    capsys.readouterr()
    metrics_record(tmp_path / "run.trec.gz", qrels | {"q9": {"a": 1}}, ["q2", "q9"], 7, ["mrr"])
    assert (
        capsys.readouterr().err
        == f"{tmp_path}/run.trec.gz: 1 of 2 queries have no hit in it, such as 'q9': they count as 0.\n"
    )
    pipe, end = os.pipe()
    os.write(end, b"q2 Q0 c 1 1.0 t\n")
    os.close(end)
    with pytest.raises(DataError, match=f"/dev/fd/{pipe}: is a pipe, .*; write the run first"):
        metrics_record(Path(f"/dev/fd/{pipe}"), qrels, ["q2"], 7, ["mrr"])
    os.close(pipe)
    pq.write_table(pa.table({k: v + v[:1] for k, v in columns.items()}), tmp_path / "qrels.parquet")
    with pytest.raises(DataError, match="row 3: document 'a' is judged twice"):
        read_qrels(tmp_path / "qrels.parquet")


def open_task(directory, answers) -> TaskAnswers:
    directory.mkdir()
    passages = {"a": "Oslo", "b": "Rome", "c": "Rome", "x": "Paris", "y": "Bern", "z": "Oslo"}
    columns = {"doc_id": list(passages), "passage": list(passages.values())}
    pq.write_table(pa.table(columns), directory / "corpus.parquet")
    write_answers(directory / "answers.parquet", answers.items())
    return TaskAnswers(directory)


def test_hits_are_answers_and_not_judgements(tmp_path):
    # Runs: q1 x b z a, q2 y c. The judged documents of q1 are b and a at ranks 2 and 4, of q2 it is c at rank 2.
    task = open_task(tmp_path / "task", {"q1": Answers(["Paris"]), "q2": Answers(["Madrid"]), "q3": Answers(["Rome"])})
    scores = evaluate(RUN, QRELS, ["hits@1", "mrr@10", "hits@20"], task)
    assert scores.per_query["hits@1"] == scores.per_query["hits@20"] == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert scores.mean["hits@20"] == pytest.approx(1 / 3)
    assert scores.per_query["mrr@10"] == {"q1": 1 / 2, "q2": 1 / 2, "q3": 0.0}
    assert list(scores.mean) == ["hits@1", "mrr@10", "hits@20"]


def test_hits_need_answers_and_no_judgements(tmp_path):
    task = open_task(tmp_path / "task", {"q1": Answers(["Rome"]), "q2": Answers(["Rome"])})
    path = tmp_path / "run.trec.gz"
    write_trec(path, RUN, "t")
    record = metrics_record(path, {}, ["q2", "q1"], 6, ["hits@1", "hits@2"], answers=task)
    assert record["metrics"] == {"hits@1": 0.0, "hits@2": 1.0}
    assert list(record["per_query"]["hits@2"]) == ["q2", "q1"]
    message = r"metric 'mrr@10' counts relevant documents, but 2 of 2 queries have no judgement, only answers .*'q2'"
    with pytest.raises(ConfigError, match=message):
        metrics_record(path, {}, ["q2", "q1"], 6, ["hits@1", "mrr@10"], answers=task)
    for other, queries in ((task, ["q2", "q9"]), (TaskAnswers(tmp_path / "none"), ["q1"])):  # not even answers
        with pytest.raises(DataError, match=rf"{len(queries)} of {len(queries)} queries have no judgement"):
            metrics_record(path, {}, queries, 6, ["mrr@10"], answers=other)
    with pytest.raises(ConfigError, match=r"'hits@20' needs the answers of the questions, the file answers\.parquet"):
        metrics_record(path, QRELS, ["q1"], 6, ["mrr", "hits@20"])
    with pytest.raises(DataError, match=r"none/answers\.parquet: no such file, and hits@20 needs it"):
        metrics_record(path, QRELS, ["q1"], 6, ["mrr", "hits@20"], answers=TaskAnswers(tmp_path / "none"))
    with pytest.raises(DataError, match=r"answers\.parquet: 1 of 2 questions have no answers, the first is 'q3'"):
        metrics_record(path, QRELS, ["q1", "q3"], 6, ["hits@20"], answers=task)


def test_pools_of_queries_with_candidates_of_their_own(tmp_path):
    path = tmp_path / "run.trec.gz"
    write_trec(path, RUN, "t")
    pools = {q: [f"{q} {i}" for i in range(n)] for q, n in {"q1": 100, "q2": 4, "q3": 10, "other": 1000}.items()}
    record = metrics_record(path, QRELS, ["q1", "q2", "q3"], pools, ["mrr"])
    assert record["n_candidates"] == 38
    assert record["candidates_per_query"] == {"min": 4, "median": 10, "max": 100}
    record = metrics_record(path, QRELS, ["q2", "q3"], pools | {"q3": pools["q3"][:5]}, ["mrr"])
    assert (record["n_candidates"], record["candidates_per_query"]["median"]) == (4.5, 4.5)
    with pytest.raises(DataError, match=r"run\.trec\.gz: 1 of 2 queries have no list of candidates.* 'q3'"):
        metrics_record(path, QRELS, ["q1", "q3"], {"q1": ["a"]}, ["mrr"])
    assert "candidates_per_query" not in metrics_record(path, QRELS, ["q1"], 5, ["mrr"])


@pytest.mark.parametrize(
    "name", ["recall@1000", "mrr", "mrr@100", "ndcg@5", "precision@1", "hits@5", "hits@100", "map", "recall_cap@100"]
)
def test_metrics_that_the_published_tables_need(name):
    check_metric(name)
