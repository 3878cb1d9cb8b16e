"""Runs and their TREC files.

Seen to fail when: the id is left out of ``rank_order``'s key; ids are sorted descending; scores are printed with %.6g;
``mtime=0`` is removed; the GzipFile is given its file's name; the repeated-document check of ``read_trec`` is removed;
``whole_file`` writes in place; ``_read_columns`` keeps the file's order of queries apart, takes 'nan' for a missing value, or
lets ids with white space through; damage that zlib finds is not caught.
"""

import gzip
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.evaluation.conventions import read_ranks
from pretrieve.retrieval import trec_run as run_module
from pretrieve.retrieval.trec_run import Run, read_trec, write_trec

#: Any text but lone surrogates, blanks, line ends and what looks encoded among it.
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(
    ["a b", " ", "%20", "a%2520", "\u3000", "50%"]
)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
RANKINGS = st.dictionaries(WORDS, st.dictionaries(WORDS, SCORES, min_size=1, max_size=8), max_size=5)


def make(rankings: dict[str, dict[str, float]]) -> Run:
    return Run(
        list(rankings),
        [list(hits) for hits in rankings.values()],
        [np.array(list(hits.values()), np.float32) for hits in rankings.values()],
    )


def rows(run: Run) -> list:
    return [
        (q, d, s.tobytes()) for q, d, s in zip(run.query_ids, run.doc_ids, run.scores, strict=True)
    ]  # bytes: every bit counts


def test_equal_scores_are_ordered_by_id_whatever_the_order_given():
    # Code-point order: 'd10' before 'd2', capitals before small letters.
    for ids in (["d2", "d10", "D3", "a"], ["a", "D3", "d10", "d2"]):
        run = Run(["q"], [ids], [np.array([1.0 if i != "a" else 2.0 for i in ids])])
        assert run.doc_ids == [["a", "D3", "d10", "d2"]]
        assert run.scores[0].tolist() == [2.0, 1.0, 1.0, 1.0]


@settings(deadline=None, max_examples=60)
@given(rankings=RANKINGS)
def test_trec_round_trip_keeps_every_bit(tmp_path_factory, rankings):
    path = tmp_path_factory.mktemp("run") / "run.trec.gz"
    run = make(rankings)
    write_trec(path, run, "tag")
    again = read_trec(path)
    # -0.0 and 0.0 are one score but two bit patterns; adding 0.0 maps both to 0.0.
    assert [(q, d) for q, d, _ in rows(again)] == [(q, d) for q, d, _ in rows(run)]
    for a, b in zip(again.scores, run.scores, strict=True):
        assert (a + 0.0).tobytes() == (b + 0.0).tobytes()


@settings(deadline=None, max_examples=60)
@given(rankings=RANKINGS.filter(bool), seed=st.integers(0, 5))
def test_columns_and_lines_are_read_alike_in_any_order(tmp_path_factory, rankings, seed):
    path = tmp_path_factory.mktemp("run") / "run.trec"
    write_trec(path, make(rankings), "tag")
    lines = path.read_bytes().splitlines(keepends=True)
    np.random.default_rng(seed).shuffle(lines)
    path.write_bytes(b"".join(lines))
    assert rows(run_module._read_columns(path)) == rows(run_module._read_lines(path))


@pytest.mark.parametrize(
    "text",
    [
        "q\tQ0\td\t1\t0.5\tt\n",
        "q Q0  d 1 0.5 t\n",
        "\ufeffq Q0 d 1 0.5 t\r\n",
        "q Q0 d +1 0.5 t",
        'q Q0 "d 1 0.5 t\n',
        "q Q0 NA 1 0.5 t\n",
        "",
    ],
    ids=["tabs", "two spaces", "BOM and CRLF", "plus", "quote", "NA", "empty"],
)
def test_what_other_programs_write_is_read(tmp_path, text):
    path = tmp_path / "run.trec"
    path.write_text(text, encoding="utf-8", newline="")
    word = '"d' if '"' in text else "NA" if "NA" in text else "d"
    assert rows(read_trec(path)) == rows(make({"q": {word: 0.5}} if text else {}))


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
def test_what_looks_encoded_is_decoded_only_where_the_line_says_so(tmp_path, name):
    """Another program's ids are as they are; it knows no mark."""
    path = tmp_path / name
    text = "q%20 Q0 a%20b 1 2 t\nq%20 Q0 50%25 2 1 t\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    run = make({"q%20": {"a%20b": 2.0, "50%25": 1.0}})
    assert rows(read_trec(path)) == rows(run_module._read_lines(path)) == rows(run)
    assert read_ranks(path) == {"q%20": [(1, "a%20b"), (2, "50%25")]}
    write_trec(tmp_path / "again", run, "t")
    assert (tmp_path / "again").read_text() == text
    ours = make({"q": {"a b": 2.0, "a%20b": 1.0}, "q%20": {"a%20b": 1.0}, "q ": {"c": 1.0}})
    write_trec(path, ours, "t")
    assert rows(read_trec(path)) == rows(run_module._read_columns(path)) == rows(ours)
    assert read_ranks(path) == {"q": [(1, "a b"), (2, "a%20b")], "q%20": [(1, "a%20b")], "q ": [(1, "c")]}
    path = tmp_path / "ranks.tsv"
    path.write_text("q%20\ta%20b\t1\n")  # MS MARCO's
    assert read_ranks(path) == {"q%20": [(1, "a%20b")]}


@pytest.mark.parametrize("ids", [("q\ud800", "d"), ("q", "d\ud800"), ("q", "my d\ud800")])
def test_half_of_a_surrogate_pair_in_an_id_is_named(tmp_path, ids):
    with pytest.raises(DataError, match=r"run: query 'q.*', its id or that of a hit: \\ud800 without the other half"):
        write_trec(tmp_path / "run", make({ids[0]: {ids[1]: 1.0}}), "t")
    assert not list(tmp_path.iterdir())


def test_a_query_without_hits_has_no_line(tmp_path):
    write_trec(tmp_path / "run", make({"a": {"d": 1.0}, "b": {}}), "t")
    assert (tmp_path / "run").read_text() == "a Q0 d 1 1 t\n"
    assert read_trec(tmp_path / "run").query_ids == ["a"]


def test_bytes_depend_on_the_run_only(tmp_path, monkeypatch):
    run = make({"q1": {"b": 0.1, "a": 0.1}, "q0": {"c": 3.0}})
    write_trec(tmp_path / "one.trec.gz", run, "t")
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    write_trec(tmp_path / "other.trec.gz", make({"q1": {"a": 0.1, "b": 0.1}, "q0": {"c": 3.0}}), "t")
    assert (tmp_path / "one.trec.gz").read_bytes() == (tmp_path / "other.trec.gz").read_bytes()
    write_trec(tmp_path / "plain.trec", run, "t")
    assert gzip.decompress((tmp_path / "one.trec.gz").read_bytes()) == (tmp_path / "plain.trec").read_bytes()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("q Q0 d2 2 0.5", "q Q0 d2 2 0.5"),
        ("q Q0 d2 two 0.5 t", "two"),
        ("q Q0 d2 2 high t", "high"),
        ("q Q0 d1 2 0.5 t", "document 'd1' occurs twice for query 'q'"),
        ("q Q0 d2 2 nan t", "finite score"),
        ("q Q0 d2 2 1e39 t", "1e39"),
        ("q Q0 d2 2 1_0 t", "finite score"),
        ("q Q0 d2 1_0 0.5 t", "whole-number rank"),
        ("q Q0 d2 2 \u0661 t", "finite score"),
        ("q Q0 d\u00a02 2 0.5 t", "expected 6 columns"),
        ("", "expected 6 columns"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, found):
    path = tmp_path / "run.trec"
    path.write_text(f"q Q0 d1 1 0.75 t\n{line}\n")
    with pytest.raises(DataError, match="line 2") as error:
        read_trec(path)
    assert found in str(error.value) and str(path) in str(error.value)


def test_damaged_and_missing_files_are_named(tmp_path):
    path = tmp_path / "run.trec.gz"
    write_trec(path, make({"q": {f"d{i}": float(i) for i in range(1000)}}), "t")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged"):
        read_trec(path)
    data = bytearray(path.read_bytes())
    data[20:400] = b"\xff" * 380
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read: Error -3"):
        read_trec(path)
    with pytest.raises(DataError, match="no such file"):
        read_trec(tmp_path / "none.trec")
    with pytest.raises(DataError, match="cannot be read: .*Is a directory"):
        read_trec(tmp_path)


def test_an_empty_file_is_no_gzip_file(tmp_path):
    """A plain file without a line is a run without hits, and so is a packed one."""
    path = tmp_path / "run.trec.gz"
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"run.trec.gz: has 0 bytes, which is no gzip file"):
        read_trec(path)
    path.write_bytes(gzip.compress(b""))
    (tmp_path / "run.trec").write_bytes(b"")
    assert len(read_trec(path)) == len(read_trec(tmp_path / "run.trec")) == 0


def test_what_trec_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "run.trec"
    write_trec(path, make({"q": {"d": 1.0}}), "t")
    before = path.read_bytes()
    with pytest.raises(DataError, match="query 'q' is empty"):
        write_trec(path, make({"p": {"d": 1.0}, "q": {"": 1.0}}), "t")
    with pytest.raises(ConfigError, match="two words"):
        write_trec(path, make({"q": {"d": 1.0}}), "two words")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.trec"]


def test_what_a_run_is_made_of_stays_as_it_was():
    parts = (["q"], [["a", "b"]], [[1.0, 2.0]])
    for _ in range(2):  # sorted in place, the ids would get each other's scores the second time
        assert Run(*parts).doc_ids == [["b", "a"]]
    assert Run(*map(tuple, parts)).doc_ids == [["b", "a"]]


@pytest.mark.parametrize(
    "parts",
    [
        (["q"], [["a", "a"]], [[1, 2]]),
        (["q"], [["a"]], [[1, 2]]),
        (["q"], [["a"]], [[np.nan]]),
        (["q", "q"], [["a"], ["b"]], [[1], [1]]),
        (["q", "p"], [["a"]], [[1]]),
    ],
)
def test_impossible_runs_are_refused(parts):
    with pytest.raises(DataError, match="run:"):
        Run(*parts)


def test_restrict_and_cut():
    run = make({"a": {"x": 2.0, "y": 1.0}, "b": {"x": 1.0}, "c": {"z": 1.0}})
    assert run.restrict(["c", "a"]).query_ids == ["a", "c"]
    assert run.cut(1).doc_ids == [["x"], ["x"], ["z"]]
    with pytest.raises(DataError, match="'nowhere'"):
        run.restrict(["a", "nowhere"])
