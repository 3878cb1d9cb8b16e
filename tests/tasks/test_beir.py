"""BEIR's layout: made-up files with hard encodings, every kind of bad input, and real sets where they are at hand.

Seen to fail when: the header line is taken for a judgement, or the first judgement for the header; a query in two splits
stays in train; queries that are not judged are kept; a missing title is an error; numbers as ids are refused; -1 is
read as relevance 1; BM25 leaves titles out.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mirror import MIRROR, needs
from task_reader import search_by_bm25
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official.beir import SETS, beir_files
from pretrieve.benchmarks.official.beir_sets import BeirSet
from pretrieve.benchmarks.reading import build_collection
from pretrieve.corpora.beir_documents import write_questions
from pretrieve.tasks.collection_tables import Collection
from pretrieve.tasks.collection_task import build_collection_task
from pretrieve.tasks.qrels_lines import read_qrels
from pretrieve.tasks.splits import Target

DOCUMENTS = [
    {"_id": "MED-1", "title": "Ünïcode", "text": "line\u2028separator and\ttab", "metadata": {"url": "x"}},
    {"_id": "2", "text": 'no title, a "quote" and \\u00e9'},
    {"_id": 3, "title": None, "text": "東京 \U0001f600"},
    {"_id": "4", "title": "only a title", "text": ""},
]
QUERIES = [
    {"_id": "q1", "text": "what is it?"},
    {"_id": "q2", "text": "  Androgen receptor define"},
    {"_id": "unjudged", "text": ""},
    {"_id": "q3", "text": "質問"},
]
HEADER = "query-id\tcorpus-id\tscore\r\n"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    place = tmp_path / "set"
    (place / "qrels").mkdir(parents=True)
    lines = "\r\n".join(json.dumps(document, ensure_ascii=False) for document in DOCUMENTS)
    (place / "corpus.jsonl.gz").write_bytes(gzip.compress(("\ufeff" + lines).encode()))
    (place / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in QUERIES) + "\n")
    (place / "qrels" / "train.tsv").write_text(HEADER + "q1\tMED-1\t1\r\nq2\t2\t1\r\n")
    (place / "qrels" / "test.tsv").write_text("q2\t3\t2\nq2\t2\t0\nq3\t4\t1\n")
    return place


def build(layout: Path, **options: object) -> Collection:
    return build_collection("beir", beir_files(layout), layout.parent / "c", options)


def rows(collection: Collection, name: str) -> list[tuple]:
    return [tuple(row.values()) for row in collection.table(name).to_pylist()]


def test_records_as_they_stand_in_the_files(layout: Path) -> None:
    found = build(layout)
    assert list(found.documents()) == [
        ("MED-1", "Ünïcode", "line\u2028separator and\ttab"),
        ("2", "", 'no title, a "quote" and \\u00e9'),
        ("3", "", "東京 \U0001f600"),
        ("4", "only a title", ""),
    ]
    # q2 is judged in both: it is test, and its train judgement is gone.
    assert rows(found, "queries") == [
        ("q1", "what is it?", "train"),
        ("q2", "  Androgen receptor define", "test"),
        ("q3", "質問", "test"),
    ]
    assert rows(found, "qrels") == [
        ("q1", "MED-1", 1, "train"),
        ("q2", "3", 2, "test"),
        ("q2", "2", 0, "test"),
        ("q3", "4", 1, "test"),
    ]
    assert {kind: entry["count"] for kind, entry in found.stats["warnings"].items()} == {
        "query of split 'train' that is judged in 'test' too, kept there only": 1,
        "id that is a number, read as text": 1,
        "document with a title and no text": 1,
        "query that is not judged, left out": 1,
        "blank line": 1,
        "judgements without the header line": 1,
    }


def test_ids_with_quotes_are_quoted_as_beir_writes_them(layout: Path) -> None:
    """beir/util.py writes with ``csv.writer(…, quoting=csv.QUOTE_MINIMAL)``, and its loader reads with ``csv.reader``."""
    names = ['"Heroes"_(album)', 'the_"7"']
    (layout / "corpus.jsonl.gz").unlink()
    documents = [*DOCUMENTS, *({"_id": name, "text": "x"} for name in names)]
    (layout / "corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    with open(layout / "qrels/train.tsv", "w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        writer.writerows([("query-id", "corpus-id", "score"), *(("q1", name, 1) for name in names)])
    assert b'"""Heroes""_(album)"' in (layout / "qrels/train.tsv").read_bytes()
    assert [row[:3] for row in rows(build(layout), "qrels") if row[3] == "train"] == [("q1", name, 1) for name in names]
    (layout / "qrels/train.tsv").write_text(HEADER + 'q1\t"Heroes"_(album)\t1\n')
    with pytest.raises(DataError, match=r"train.tsv: line 2: the quotes in this record do not match"):
        build(layout)


def test_questions_are_written_as_they_are_read(tmp_path: Path) -> None:
    pairs = [('"7"', "d1"), ("q\t2", '"Heroes"_(album)')]
    write_questions(tmp_path, {}, {"test": pairs})
    assert [(row.query_id, row.doc_id) for row in read_qrels(tmp_path / "qrels/test.tsv", "beir")] == pairs


def test_below_zero_is_an_error_unless_it_means_not_judged(layout: Path) -> None:
    (layout / "qrels" / "test.tsv").write_text(HEADER + "q2\t3\t-1\nq3\t4\t1\n")
    with pytest.raises(DataError, match=r"test.tsv: line 2: relevance -1 of document '3' for query 'q2' is below zero"):
        build(layout)
    found = build(layout, below_zero="leave-out")
    assert [row[:3] for row in rows(found, "qrels") if row[3] == "test"] == [("q3", "4", 1)]
    assert found.stats["warnings"]["judgement below zero, left out"]["count"] == 1
    with pytest.raises(ConfigError, match="below_zero: 'zero' is not allowed; allowed: error, leave-out"):
        build(layout, below_zero="zero")


def spoil(name: str, content: bytes) -> Callable[[Path], None]:
    def change(layout: Path) -> None:
        (layout / "corpus.jsonl.gz").rename(layout / "corpus.jsonl")
        plain = gzip.decompress((layout / "corpus.jsonl").read_bytes())
        (layout / "corpus.jsonl").write_bytes(plain)
        (layout / name).write_bytes(content)

    return change


DOCUMENT = b'{"_id": "2", "text": "x"}\n'
Q1, Q2, BLANK = (b'{"_id": "%s", "text": "%s"}\n' % pair for pair in ((b"q1", b"x"), (b"q2", b"x"), (b"q2", b" ")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("corpus.jsonl", gzip.compress(DOCUMENT * 99)[:-9]), "corpus.jsonl: not a whole gzip file: it ends in the middle"),
        (spoil("corpus.jsonl", DOCUMENT + b"{'_id': 3}\n"), "corpus.jsonl: line 2: not JSON"),
        (spoil("corpus.jsonl", b"[1, 2]\n"), "corpus.jsonl: line 1: found list .* expected a JSON object"),
        (spoil("corpus.jsonl", b'{"_id": "2"}\n'), "corpus.jsonl: line 1: no key 'text'; it has '_id'"),
        (spoil("corpus.jsonl", b'{"_id": "", "text": "x"}\n'), "corpus.jsonl: line 1: '_id' is ''; expected a text"),
        (spoil("corpus.jsonl", b'{"_id": "2", "text": 7}\n'), "corpus.jsonl: line 1: 'text' is int '7'; expected a text"),
        (spoil("corpus.jsonl", DOCUMENT * 2), "corpus.jsonl: line 2: document id '2' was used before, by .*corpus.jsonl: line 1"),
        (spoil("corpus.jsonl", b'{"_id": "\xe9", "text": "x"}\n'), "corpus.jsonl: line 1, byte 10: 0xe9 is not UTF-8"),
        (spoil("corpus.jsonl", b"x" * (17 << 20)), "corpus.jsonl: line 1: at least .* bytes; expected at most 16,777,216"),
        (spoil("corpus.jsonl", DOCUMENT), "qrels/train.tsv: line 2: qrels name document 'MED-1', which is not among the 1"),
        (spoil("queries.jsonl", b'{"_id": "q9", "text": "x"}\n'), "line 2: qrels name query 'q1', which is not there, nor"),
        (spoil("queries.jsonl", b'{"_id": "q1", "text": "x"}\n' * 2), "queries.jsonl: line 2: query id 'q1' was used before"),
        (spoil("queries.jsonl", Q1 + Q2 + BLANK), "queries.jsonl: line 3: query id 'q2' was used before, by .*: line 2"),
        (spoil("queries.jsonl", Q1 + BLANK + Q2), "queries.jsonl: line 3: query id 'q2' was used before, by .*: line 2"),
        (spoil("qrels/test.tsv", b"q2\t3\n"), "qrels/test.tsv: line 1: 2 fields; expected 3, .*'query-id', 'corpus-id', 'score'"),
        (spoil("qrels/test.tsv", b"q2\t3\t1\t0\n"), "qrels/test.tsv: line 1: 4 fields; expected 3"),
        (spoil("qrels/test.tsv", b"q2\t3\thigh\n"), "qrels/test.tsv: line 1: found 'q2', '3', 'high'; expected .* or the header"),
        (spoil("qrels/test.tsv", b"q2\t3\t1\nq2\t3\t1.5\n"), "qrels/test.tsv: line 2: found .*'1.5'; expected .*a whole number"),
        (spoil("qrels/test.tsv", HEADER.encode()), "qrels/test.tsv: no judgement in it; .* leave an empty split out"),
        (spoil("qrels/test.tsv", b""), "qrels/test.tsv: no judgement in it"),
        (spoil("qrels/test.tsv", b"\r\n" + HEADER.encode()), "test.tsv: line 2: the header stands here, for line 1 is empty"),
        (spoil("qrels/test.tsv", HEADER.encode() * 2), "qrels/test.tsv: line 2: the header stands below other lines"),
        (spoil("qrels/test.tsv", b"q2\t3\t99999999999\n"), "test.tsv: line 1: the relevance .* is 99999999999; expected"),
        (spoil("qrels/test.tsv", b"q2\t3\t" + b"9" * 5000), "test.tsv: line 1: the relevance of document '3' .* is 9+…;"),
        (spoil("qrels/test.tsv", b"q2\t3\t1\nq2\t3\t2\n"), "qrels/test.tsv: line 2: document '3' has relevance 2 .* had 1"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_file_and_line(change: Callable[[Path], None], message: str, layout: Path) -> None:
    change(layout)
    with pytest.raises(DataError, match=message):
        build(layout)
    assert [path.name for path in layout.parent.iterdir()] == ["set"]


def test_files_that_are_not_there(tmp_path: Path, layout: Path) -> None:
    with pytest.raises(DataError, match=r"corpus.jsonl: no such file \(nor with .gz, .bz2\)"):
        beir_files(tmp_path)
    files = beir_files(layout)
    for path in (layout / "qrels").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"qrels: no train.tsv, dev.tsv or test.tsv"):
        beir_files(layout)
    with pytest.raises(DataError, match=r"train.tsv: no such file; reader 'beir' expects it as 'train'"):
        build_collection("beir", files, tmp_path / "c")
    with pytest.raises(ConfigError, match="reader 'beir' has no judgements"):
        build_collection("beir", {name: files[name] for name in ("corpus", "queries")}, tmp_path / "c")
    with pytest.raises(ConfigError, match="beir: it needs the files corpus, queries; found corpus"):
        build_collection("beir", {"corpus": files["corpus"]}, tmp_path / "c")
    with pytest.raises(ConfigError, match="beir: no file 'querys'; .*did you mean 'queries'"):
        build_collection("beir", {"querys": files["queries"]}, tmp_path / "c")
    with pytest.raises(ConfigError, match="reader 'bier' is unknown; .*did you mean 'beir'"):
        build_collection("bier", {}, tmp_path / "c")


def test_judgements_of_documents_that_the_published_corpus_lacks(
    layout: Path, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ArguAna's: beir-cellar/beir#101."""
    assert SETS["arguana"].lacking == 5
    monkeypatch.setitem(SETS, "arguana", BeirSet(4, {"test": 2}, {"test": 3}, lacking=1))
    (layout / "qrels/train.tsv").unlink()
    (layout / "qrels/test.tsv").write_text(HEADER + "q2\t3\t2\nq2\t2\t0\nq3\tcon03b\t1\n")
    with pytest.raises(DataError, match=r"test.tsv: line 4: qrels name document 'con03b', which is not among the 4"):
        build(layout)
    found = build(layout, name="arguana")
    assert [row[:3] for row in rows(found, "qrels")] == [("q2", "3", 2), ("q2", "2", 0)]
    assert found.stats["warnings"]["row of qrels whose document is not in the corpus, left out"] == {
        "count": 1,
        "first": "q3 con03b 1 test",
    }
    stats = build_collection_task(found.directory, Target(tokenizer, tmp_path / "t", {"full": "all"}, 1))
    assert stats["collection"]["left_out"] == {"test queries without a relevant document": 1}
    monkeypatch.setitem(SETS, "arguana", BeirSet(4, {"test": 2}, {"test": 3}))
    with pytest.raises(DataError, match="qrels name document 'con03b', which is not among the 4"):
        build(layout, name="arguana")


def test_options_are_checked_and_counts_asserted(layout: Path) -> None:
    with pytest.raises(ConfigError, match="beir: no option 'nam'; it has name, below_zero"):
        build(layout, nam="scifact")
    with pytest.raises(ConfigError, match="name: 'sci-fact' is not allowed; .*did you mean 'scifact'"):
        build(layout, name="sci-fact")
    with pytest.raises(DataError, match="reader beir read 4 documents, expected 5,183"):
        build(layout, name="scifact")


def test_the_table_of_sets() -> None:
    forums = {name: counts for name, counts in SETS.items() if name.startswith("cqadupstack/")}
    names = "android, english, gaming, gis, mathematica, physics, programmers, stats, tex, unix, webmasters, wordpress"
    assert ", ".join(name.partition("/")[2] for name in forums) == names
    # Table 1 of the paper has their sums.
    assert sum(counts.documents for counts in forums.values()) == 457_199
    assert sum(counts.queries["test"] for counts in forums.values()) == 13_145
    assert len(SETS) - len(forums) + 1 == 19  # 18 and MS MARCO
    assert all(("dev" if name == "msmarco" else "test") in counts.queries for name, counts in SETS.items())


@needs("scifact")
def test_scifact(tmp_path: Path) -> None:
    found = build_collection("beir", beir_files(MIRROR / "scifact"), tmp_path / "c", {"name": "scifact"})
    assert found.stats["warnings"] == {}
    first = next(iter(found.documents()))
    assert first[:2] == (
        "4983",
        "Microstructural development of human newborn cerebral white matter assessed in vivo by diffusion tensor magnetic "
        "resonance imaging.",
    )
    assert first[2].startswith("Alterations of the architecture of cerebral white matter")
    queries = found.table("queries").to_pylist()
    assert queries[0] == {
        "query_id": "0",
        "text": "0-dimensional biomaterials lack inductive properties.",
        "split": "train",
    }
    assert found.table("qrels").to_pylist()[-339] == {
        "query_id": "1",
        "doc_id": "31715818",
        "relevance": 1,
        "split": "test",
    }


@needs("scifact")
def test_bm25_on_scifact_is_anserinis(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """The numbers of its regressions-beir-v1.0.0-scifact-flat.md, with title and text in one field."""
    build_collection("beir", beir_files(MIRROR / "scifact"), tmp_path / "c", {"name": "scifact"})
    build_collection_task(tmp_path / "c", Target(tokenizer, tmp_path / "t", {"full": "all"}, 1), title="separate")
    found = json.loads(search_by_bm25(tmp_path / "t", "ndcg@10 recall@100")["outputs"].read_text())["metrics"]
    assert found == pytest.approx({"ndcg@10": 0.6789, "recall@100": 0.9253}, abs=5e-5)


@needs("msmarco_mini_dl19")
def test_the_miniature_of_dl19(tmp_path: Path) -> None:
    found = build_collection("beir", beir_files(MIRROR / "msmarco_mini_dl19"), tmp_path / "c")
    assert found.stats["counts"]["documents"] == 5000
    assert (found.table("queries").num_rows, found.table("qrels").num_rows) == (43, 4102)
    # Its judgements have no header, and the first of them is not lost.
    assert found.table("qrels").to_pylist()[0] == {
        "query_id": "19335",
        "doc_id": "1720389",
        "relevance": 1,
        "split": "test",
    }


@needs("beir_topics_qrels")
@pytest.mark.parametrize("name", ["arguana", "fiqa", "nfcorpus", "scidocs", "scifact", "trec-covid"])
def test_published_judgements_have_the_counts_of_the_table(name: str) -> None:
    place = MIRROR / "beir_topics_qrels"
    path = next(place.glob(f"qrels.beir-v1.0.0-{name}.test.txt*"))
    judged = list(read_qrels(path, "trec"))
    counts = SETS[name].expected({"test": path})
    assert len({row.query_id for row in judged}) == counts["queries.test"]
    assert len(judged) == counts.get("judgements.test", len(judged))
    if name == "fiqa":
        for split in ("train", "dev", "test"):
            judged = list(read_qrels(place / "fiqa_qrels" / f"{split}.tsv", "beir"))
            counts = SETS[name].expected({split: path})
            assert len(judged) == counts[f"judgements.{split}"]
            assert len({row.query_id for row in judged}) == counts[f"queries.{split}"]
