"""A thousand random runs of ten queries or so: every metric that trec_eval has too equals its value to 1e-9, query by query.

trec_eval breaks ties of scores by document id in descending order, this project in ascending order. So it is given the
ranks of our order as scores without ties; that the order itself is by (score, id) whatever the order of insertion is
proven beside it, with a sort written here.

Seen to fail when: equal scores keep the order of insertion, or are ordered by descending id; queries missing from the
run are left out of the mean; unjudged hits take the number of a judged one; judged documents of grade 0 count as
relevant; the ideal order of nDCG is by rising grade; recall_cap is not capped.
"""

import random
import re
from collections import Counter
from functools import partial

import numba
import numpy as np
import pytest
import pytrec_eval
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import DataError
from pretrieve.evaluation.metrics import evaluate
from pretrieve.retrieval.trec_run import Run

CASES, QUERIES = 1000, 20
#: Ours to trec_eval's; the cut is drawn.
NAMES = {
    "map": "map",
    "mrr": "recip_rank",
    "ndcg": "ndcg",
    "r-precision": "Rprec",
    "recall@{}": "recall_{}",
    "map@{}": "map_cut_{}",
    "ndcg@{}": "ndcg_cut_{}",
    "precision@{}": "P_{}",
    "hit_rate@{}": "success_{}",
}
#: Ids whose order as text is not their order as numbers, and one that begins with another.
DOCS = ["10", "9", "b", "B", "é", "a1", "a", "z", "100", "_"]

# Few different scores, so that most rankings have ties. None: the document is not in the run, or not judged.
SCORES = [None, 0, 0, 1, 2]
GRADES = [None, None, 0, 1, 1, 2, 3]


@pytest.fixture(autouse=True)
def one_thread_for_ranx():
    """Twenty queries are too few to share: waking the other threads takes half of the time."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(threads)


def decode(data: bytes, most_queries: int = 3):
    """A case from bytes, which are drawn ten times faster than nested lists: ([(kind, [(score, grade)])], cut)."""
    left = iter(data)
    cut, n_queries = 1 + next(left) % 12, 1 + next(left) % most_queries
    queries = []
    for _ in range(n_queries):
        kind = next(left, 0) % 8
        n_docs = next(left, 0) % (len(DOCS) + 1)
        docs = [(SCORES[byte % 5], GRADES[byte // 5 % 7]) for byte in (next(left, 0) for _ in range(n_docs))]
        queries.append(({6: "empty", 7: "missing"}.get(kind, "there"), docs))
    return queries, cut


case = st.binary(min_size=20, max_size=38).map(decode)
#: Setting metrics up takes longer than the queries of a run.
whole_run = st.binary(min_size=9 * QUERIES, max_size=12 * QUERIES).map(partial(decode, most_queries=QUERIES))


def read(queries):
    """(Run, qrels, rankings) of a drawn case; a query without judgements is in the run only."""
    ids, docs, scores, qrels, rankings = [], [], [], {}, {}
    for number, (kind, drawn) in enumerate(queries):
        name = f"q{number}"
        judged = {doc: grade for doc, (_, grade) in zip(DOCS, drawn, strict=False) if grade is not None}
        if judged:
            qrels[name] = judged
        if kind == "missing":
            continue
        hits = {doc: score for doc, (score, _) in zip(DOCS, drawn, strict=False) if score is not None}
        if kind == "empty":
            hits = {}
        ids.append(name)
        docs.append(list(hits))
        scores.append(np.array(list(hits.values()), dtype=np.float32))
        rankings[name] = [doc for _, doc in sorted((-score, doc) for doc, score in hits.items())]
    return Run(ids, docs, scores), qrels, rankings


def scored(run, qrels) -> bool:
    """Whether there are judgements, and not of other queries only, which evaluate() refuses."""
    return bool(qrels) and (not run.query_ids or not qrels.keys().isdisjoint(run.query_ids))


def test_equals_trec_eval():
    seen, between = Counter(), set()

    @settings(derandomize=True, max_examples=CASES, deadline=None, database=None, phases=[Phase.generate])
    @given(whole_run)
    def check(drawn):
        queries, cut = drawn
        run, qrels, rankings = read(queries)
        assert dict(zip(run.query_ids, run.doc_ids, strict=True)) == rankings
        seen["cases"] += 1
        if not scored(run, qrels):
            with pytest.raises(DataError):
                evaluate(run, qrels, ["map"])
            return
        names = {ours.format(cut): theirs.format(cut) for ours, theirs in NAMES.items()}
        measures = {re.sub(r"_(\d+)$", r".\1", name) for name in names.values()}
        theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(
            {q: {doc: float(-rank) for rank, doc in enumerate(docs)} for q, docs in rankings.items() if docs}
        )
        ours = evaluate(run, qrels, list(names))
        for name, measure in names.items():
            expected = [theirs[q][measure] if q in theirs else 0.0 for q in qrels]
            found = ours.per_query[name]
            assert list(found) == list(qrels)
            assert all(abs(a - b) <= 1e-9 for a, b in zip(found.values(), expected, strict=True)), name
            assert abs(ours.mean[name] - sum(expected) / len(expected)) <= 1e-9, name
            if any(0 < value < 1 for value in expected):
                between.add(name)
        seen["ties"] += any(len(set(scores.tolist())) < len(scores) for scores in run.scores)
        seen["missing"] += any(q not in rankings for q in qrels)
        seen["empty"] += any(not rankings.get(q, ["-"]) for q in qrels)
        seen["unjudged"] += any(set(docs) - set(qrels.get(q, {})) for q, docs in rankings.items())
        seen["graded"] += any(len(set(grades.values()) - {0}) > 1 for grades in qrels.values())

    check()
    # The random cases are what they are meant to be, or nothing was shown. A rank above 10 and hit_rate have no value
    # between 0 and 1.
    assert seen["cases"] >= CASES
    assert min(seen.values()) > CASES / 10 and len(seen) == 6, seen
    cuts = range(2, 11)
    assert between >= {name.format(k) for name in NAMES for k in cuts if "hit_rate" not in name}


@settings(derandomize=True, max_examples=500, deadline=None, database=None, phases=[Phase.generate])
@given(case, st.integers(0, 10**6))
def test_the_order_of_insertion_changes_nothing(drawn, seed):
    queries, cut = drawn
    rng = random.Random(seed)
    run, qrels, _ = read(queries)
    mixed_docs, mixed_scores = [], []
    for docs, scores in zip(run.doc_ids, run.scores, strict=True):
        order = rng.sample(range(len(docs)), len(docs))
        mixed_docs.append([docs[i] for i in order])
        mixed_scores.append(scores[order])
    mixed = Run(list(run.query_ids), mixed_docs, mixed_scores)
    mixed_qrels = {q: dict(rng.sample(list(grades.items()), len(grades))) for q, grades in qrels.items()}
    metrics = [name.format(cut) for name in NAMES] + [f"recall_cap@{cut}"]
    if scored(run, qrels):
        first, second = evaluate(run, qrels, metrics), evaluate(mixed, mixed_qrels, metrics)
        assert first.per_query == second.per_query


@settings(derandomize=True, max_examples=300, deadline=None, database=None, phases=[Phase.generate])
@given(case)
def test_capped_recall_is_trec_evals_recall_up_to_the_cap(drawn):
    queries, cut = drawn
    run, qrels, _ = read(queries)
    if not scored(run, qrels):
        return
    scores = evaluate(run, qrels, [f"recall@{cut}", f"recall_cap@{cut}"])
    for query_id, grades in qrels.items():
        relevant = sum(grade > 0 for grade in grades.values())
        plain = scores.per_query[f"recall@{cut}"][query_id]
        assert scores.per_query[f"recall_cap@{cut}"][query_id] == pytest.approx(plain * max(1, relevant / cut))
