"""Lists of negatives: what is mined from a run, and their file.

Seen to fail when: relevant documents, or those with an answer, are taken out after the cut, or counted together; a document
judged 0 is taken out; a query without
negatives is dropped; one without judgement passes; the gzip header has a time or a name; the header is in the order
given; scores are written with 6 digits, or with those of float64; repeated ids, lengths that differ, infinite scores,
another format or a damaged file pass.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import DataError
from pretrieve.retrieval.negatives import Negatives, mine, read_negatives, write_negatives
from pretrieve.retrieval.trec_run import Run

WORDS = st.text(min_size=1, max_size=6).filter(lambda word: word.isprintable())
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
LISTS = st.dictionaries(WORDS, st.dictionaries(WORDS, SCORES, max_size=6), max_size=5)


def made(lists: dict[str, dict[str, float]], **about) -> Negatives:
    scores = [np.array(list(own.values()), np.float32) for own in lists.values()]
    return Negatives(list(lists), [list(own) for own in lists.values()], scores, about)


SOME = {"q2": {"d9": 3.5, "d1": 0.1}, "q1": {}, "q 3": {"ä": -2e-20}}


def test_mined_are_the_first_hits_that_are_not_relevant() -> None:
    run = Run(
        ["q2", "q1", "q3"],
        [["a", "b", "c", "d"], ["a", "b"], []],
        [np.array([4, 3, 2, 1], np.float32), np.array([2, 1], np.float32), np.zeros(0, np.float32)],
    )
    qrels = {"q1": {"a": 1, "b": 2}, "q2": {"b": 1, "a": 0, "z": 1}, "q3": {"a": 1}, "q4": {"a": 1}}
    negatives = mine(run, qrels, 2, {"source": "bm25", "run": "runs/bm25.trec.gz"})
    # b is taken out before the cut; a was judged and found irrelevant.
    assert negatives.query_ids == ["q2", "q1", "q3"] and negatives.doc_ids == [["a", "c"], [], []]
    assert [own.tolist() for own in negatives.scores] == [[4, 2], [], []]
    assert negatives.about == {
        **{"source": "bm25", "run": "runs/bm25.trec.gz", "depth": 2, "queries": 3, "without_negatives": 2},
    }
    del qrels["q3"]
    with pytest.raises(DataError, match=r"runs/bm25.trec.gz: query 'q3' has no judgement"):
        mine(run, qrels, 2, {"run": "runs/bm25.trec.gz"})


def test_hits_with_an_answer_are_taken_out_before_the_cut_and_counted() -> None:
    run = Run(["q2", "q1"], [["a", "b", "c", "d", "e"], ["a", "b"]], [np.arange(5, 0, -1.0), np.array([2.0, 1.0])])
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    about = {"source": "bm25"}
    negatives = mine(run, qrels, 2, about, {"q2": {"a", "b", "d"}, "q1": {"b"}})
    assert negatives.doc_ids == [["c", "e"], []] and [own.tolist() for own in negatives.scores] == [[3, 1], []]
    assert negatives.about == about | {"depth": 2, "queries": 2, "without_negatives": 1, "with_answer": 3}
    assert mine(run, qrels, 2, about, {"q2": set(), "q1": set()}).doc_ids == mine(run, qrels, 2, about).doc_ids


@settings(deadline=None, max_examples=60)
@given(lists=LISTS)
def test_a_file_keeps_every_bit_and_the_order(tmp_path_factory, lists) -> None:
    path = tmp_path_factory.mktemp("negatives") / "n.jsonl.gz"
    write_negatives(path, made(lists, source="bm25", depth=3))
    again = read_negatives(path)
    assert again.query_ids == list(lists) and again.doc_ids == [list(own) for own in lists.values()]
    assert [s.tobytes() for s in again.scores] == [np.array(list(o.values()), "f4").tobytes() for o in lists.values()]
    assert again.about == {"source": "bm25", "depth": 3} and again.path == str(path)


def test_the_file_is_as_described(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "n.jsonl.gz"
    write_negatives(path, made(SOME, source="bm25", run="r.trec.gz", depth=200))
    header, *rows = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert header == '{"negatives": 1, "depth": 200, "run": "r.trec.gz", "source": "bm25"}'
    assert rows[:2] == [
        '{"query": "q2", "documents": ["d9", "d1"], "scores": [3.5, 0.1]}',
        '{"query": "q1", "documents": [], "scores": []}',
    ]
    assert json.loads(rows[2]) == {"query": "q 3", "documents": ["ä"], "scores": [-2e-20]}


def test_equal_lists_give_equal_bytes(tmp_path: Path, monkeypatch) -> None:
    """Whatever the name, the time, the order of the header's keys; and reading and writing again changes nothing."""
    one, other, again = (tmp_path / name for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz"))
    write_negatives(one, made(SOME, source="bm25", depth=2))
    monkeypatch.setattr(time, "time", lambda: 2e9)
    write_negatives(other, made(SOME, depth=2, source="bm25"))
    write_negatives(again, read_negatives(one))
    assert one.read_bytes() == other.read_bytes() == again.read_bytes()
    write_negatives(again, made(SOME, source="bm25", depth=3))
    assert one.read_bytes() != again.read_bytes()


HEADER = '{"negatives": 1, "source": "bm25"}'
ROW = '{"query": "q1", "documents": ["a", "b"], "scores": [2.0, 1.0]}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER, ROW, ROW], "query id 'q1' occurs twice"),
        ([HEADER, ROW.replace('"b"', '"a"')], "document 'a' occurs twice for query 'q1'"),
        ([HEADER, ROW.replace(", 1.0", "")], "query 'q1' has 2 document ids but 1 scores"),
        ([HEADER, ROW.replace("1.0", "NaN")], "query 'q1' has a score that is not finite"),
        ([HEADER, ROW.replace("1.0", "1e99")], "query 'q1' has a score that is not finite"),
        ([HEADER, ROW, ROW[:20]], 'line 3: found \'{"query": "q1", "doc\''),
        ([HEADER, ROW.replace('"a"', "7")], "line 2: found .* expected"),
        ([HEADER, "[]"], "line 2: found '\\[\\]'"),
        ([HEADER, ROW.replace("2.0", '"x"')], "line 2: found"),
        ([ROW], "line 1: found .* expected the header"),
        (["[]"], "line 1: found '\\[\\]', expected the header"),
        ([""], "line 1: found '', expected the header"),
        ([HEADER.replace("1", "2")], "line 1: format 2, expected 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "n.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(DataError, match=f"n.jsonl.gz.*{message}"):
        read_negatives(path)


def test_half_of_a_surrogate_pair_is_named(tmp_path: Path) -> None:
    lists = Negatives(["q1"], [["a\ud800"]], [np.array([1.0])])
    with pytest.raises(DataError, match=r"n.jsonl.gz: .*q1.*\\ud800 without the other half of its surrogate pair"):
        write_negatives(tmp_path / "n.jsonl.gz", lists)
    assert not list(tmp_path.iterdir())


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl.gz"
    with pytest.raises(DataError, match=r"n.jsonl.gz: no such file"):
        read_negatives(path)
    write_negatives(path, made({f"q{i}": {f"d{i * 7919 % 1000}": i / 7} for i in range(2000)}))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"n.jsonl.gz: damaged after line [0-9]+"):
        read_negatives(path)
    path.write_bytes(b"plain text")
    with pytest.raises(DataError, match=r"n.jsonl.gz: damaged after line 0"):
        read_negatives(path)


def test_lists_that_do_not_belong_together() -> None:
    with pytest.raises(
        DataError, match="negatives of bm25: 2 query ids, 1 lists of document ids and 1 lists of scores"
    ):
        Negatives(["a", "b"], [["d"]], [np.ones(1)], {"source": "bm25"})
    with pytest.raises(DataError, match="negatives of no file: document 'd' occurs twice"):
        Negatives(["a"], [["d", "e", "d"]], [np.ones(3)])
    assert len(made(SOME)) == 3
