"""MS MARCO's passages, documents, titles, negatives and TREC's topics: made-up files, and the real queries and judgements.

Seen to fail when: a quote is taken for quoting; titles are joined by place instead of id; a title that is left over is not
noticed; the relevant passage of a triple is taken for the negative; queries without judgements stay; dev and dev.small are
mixed up.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.compute as pc
import pytest
from mirror import MIRROR, needs

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.official import msmarco
from pretrieve.benchmarks.reading import build_collection
from pretrieve.raw import column_blocks
from pretrieve.tasks.collection_tables import Collection
from pretrieve.tasks.qrels_lines import read_qrels

PASSAGES = [
    "The presence of communication amid scientific minds",
    'one "quote and the next line must not be swallowed',
    "monotonic increasing â(not comparable)",
    "a\u2028b \x0c c\xa0d",
    "東京 \U0001f600",
    " leading blank",
    "NA",
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    content = {
        "collection": "".join(f"{i}\t{text}\n" for i, text in enumerate(PASSAGES)),
        "train_queries": "100\twhat is it\n101\tnever judged\n102\twho\n",
        "train_qrels": "100\t0\t1\t1\n102\t0\t2\t1\n102\t0\t2\t1\n",
        "dev_queries": "2\t Androgen receptor define\n",
        "dev_qrels": "2\t0\t4\t1\n",
        "negatives": "100\t1\t3\r\n102\t2\t0\r\n102\t2\t5\r\n",
        "titles": "0\tManhattan Project\n2\tMonotone\n5\tLast — title\n",
        "test_queries": "900\ttopic\r\n901\tanother\r\n",
        "test_qrels": "900 Q0 1 0\n900 Q0 2 3\n",
    }
    for name, text in content.items():
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8", newline="")
    return {name: tmp_path / f"{name}.tsv" for name in content}


def build(files: dict[str, Path], *names: str, reader: str = "msmarco-passage", **options: object) -> Collection:
    place = next(iter(files.values())).parent / "c"
    return build_collection(reader, {name: files[name] for name in names}, place, {"official": False, **options})


def rows(collection: Collection, name: str) -> list[tuple]:
    return [tuple(row.values()) for row in collection.table(name).to_pylist()]


TRAIN = ("train_queries", "train_qrels")


@pytest.mark.parametrize("packed", [False, True])
def test_records_as_they_stand_in_the_files(files: dict[str, Path], packed: bool) -> None:
    if packed:
        files["collection"].write_bytes(gzip.compress(files["collection"].read_bytes()))
    found = build(files, "collection", *TRAIN, "dev_queries", "dev_qrels", "negatives", "test_queries", "test_qrels")
    assert list(found.documents()) == [(str(i), "", text) for i, text in enumerate(PASSAGES)]
    assert rows(found, "queries") == [
        ("100", "what is it", "train"),
        ("102", "who", "train"),
        ("2", " Androgen receptor define", "dev"),
        ("900", "topic", "test"),
    ]
    assert rows(found, "qrels") == [
        ("100", "1", 1, "train"),
        ("102", "2", 1, "train"),
        ("2", "4", 1, "dev"),
        ("900", "1", 0, "test"),
        ("900", "2", 3, "test"),
    ]
    assert rows(found, "negatives") == [("100", "3"), ("102", "0"), ("102", "5")]
    assert found.stats["variant"] == "no titles"
    assert found.stats["counts"]["judgements.train"] == 3 and found.stats["kept"]["qrels"] == 5


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_titles_go_to_their_passages(files: dict[str, Path], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    found = build(files, "collection", "titles")
    titles = {0: "Manhattan Project", 2: "Monotone", 5: "Last — title"}
    assert list(found.documents()) == [(str(i), titles.get(i, ""), text) for i, text in enumerate(PASSAGES)]
    assert found.stats["variant"] == "titles of the documents (RocketQA)"


@pytest.mark.parametrize("content", ["2\ta\n0\tb\n", "0\ta\n0\tb\n", "0\ta\n7\tb\n", "0\ta\n3\tb\n2\tc\n"])
@pytest.mark.parametrize("block", [16, 1 << 20])
def test_titles_in_another_order(
    content: str, block: int, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_blocks, "BLOCK", block)
    files["titles"].write_text(content)
    with pytest.raises(DataError, match=r"titles.tsv: line \d+: passage '\d+' is not in this place in .*collection"):
        build(files, "collection", "titles")


def test_bad_input_is_named_with_file_and_line(files: dict[str, Path]) -> None:
    def fails(name: str, content: str, message: str, *more: str) -> None:
        before = files[name].read_bytes()
        files[name].write_text(content, encoding="utf-8", newline="")
        with pytest.raises(DataError, match=message):
            build(files, "collection", *more)
        assert not (files["collection"].parent / "c").exists()
        files[name].write_bytes(before)

    fails("collection", "0\ta\n1\tb\n1\tc\n", "collection.tsv: line 3: document id '1' was used before, by .*: line 2")
    fails("collection", "0\ta\n1 b\n", "collection.tsv: line 2: 1 fields; expected 2, separated by .*'pid', 'text'")
    fails("collection", "0\ta\n1\tb\tc\n", "collection.tsv: line 2: 3 fields; expected 2")
    fails("train_queries", "100\n", "train_queries.tsv: line 1: 1 fields; expected 2", *TRAIN)
    fails("train_qrels", "100 1 1\n", "train_qrels.tsv: line 1: 3 fields; expected 4", *TRAIN)
    fails("train_qrels", "100 0 77 1\n", "train_qrels.tsv: line 1: qrels name document '77'", *TRAIN)
    fails("train_qrels", "100 0 1 -2\n", "train_qrels.tsv: line 1: relevance -2", *TRAIN)
    fails(
        "negatives",
        "100\t1\t3\n100\t1\t77\n",
        "negatives.tsv: line 2: negatives name document '77'",
        *TRAIN,
        "negatives",
    )
    fails(
        "negatives", "what is it\ta b\tc d\n", "negatives.tsv: line 1: found the text 'what is it'", *TRAIN, "negatives"
    )
    with pytest.raises(ConfigError, match="dev_queries and dev_qrels belong together"):
        build(files, "collection", "dev_queries")


def test_an_empty_passage_is_left_out_with_its_judgements(files: dict[str, Path]) -> None:
    files["collection"].write_text("0\ta\n1\t \n2\tc\n")
    found = build(files, "collection", *TRAIN)
    assert list(found.documents()) == [("0", "", "a"), ("2", "", "c")]
    assert rows(found, "qrels") == [("102", "2", 1, "train")]
    warning = found.stats["warnings"]["document without text, left out"]
    assert warning["count"] == 1 and warning["first"].endswith("collection.tsv: line 2: document '1'")


def test_documents(files: dict[str, Path]) -> None:
    docs = files["collection"].with_name("docs.tsv")
    docs.write_text("D1\thttp://a\tTitle\tabcdé東京\nD2\thttp://b\t\tbody\nD3\thttp://c\t.\t\n", encoding="utf-8")
    files["docs"] = docs
    found = build(files, "docs", reader="msmarco-document")
    assert list(found.documents()) == [("D1", "Title", "abcdé東京"), ("D2", "", "body"), ("D3", ".", "")]
    found = build(files, "docs", reader="msmarco-document", url=True, max_chars=6)
    assert list(found.documents())[:2] == [("D1", "http://a Title", "abcdé東"), ("D2", "http://b ", "body")]
    assert found.stats["variant"] == "url in front of the title, first 6 characters of the body"
    with pytest.raises(ConfigError, match="max_chars: 0 is not allowed"):
        build(files, "docs", reader="msmarco-document", max_chars=0)


def test_official_counts_are_asserted(files: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="reader msmarco-passage read 7 documents, expected 8,841,823"):
        build(files, "collection", official=True)


@needs("msmarco")
@pytest.mark.parametrize(
    ("year", "queries", "counts"),
    [("2019", "msmarco-test2019-queries.tsv", (43, 9260)), ("2020", "topics.dl20.txt", (54, 11386))],
)
def test_real_queries_and_judgements(
    year: str, queries: str, counts: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dev.small and TREC's topics, on made-up passages with the ids that are judged."""
    judged = {
        row.doc_id
        for name in ("qrels.dev.small.tsv", f"{year}qrels-pass.txt")
        for row in read_qrels(MIRROR / "msmarco" / name, "trec")
    }
    (tmp_path / "collection.tsv").write_text("".join(f"{name}\tpassage {name}\n" for name in sorted(judged, key=int)))
    monkeypatch.setattr(msmarco, "PASSAGES", len(judged))
    files = {
        "collection": tmp_path / "collection.tsv",
        "dev_queries": MIRROR / "msmarco/queries.dev.small.tsv",
        "dev_qrels": MIRROR / "msmarco/qrels.dev.small.tsv",
        "test_queries": MIRROR / "msmarco" / queries,
        "test_qrels": MIRROR / f"msmarco/{year}qrels-pass.txt",
    }
    found = build_collection("msmarco-passage", files, tmp_path / "c")
    stats = found.stats["counts"]
    assert (stats["queries.dev"], stats["judgements.dev"]) == (6980, 7437)
    assert (stats["queries.test"], stats["judgements.test"]) == counts
    texts = dict(row[:2] for row in rows(found, "queries"))
    assert texts["1048585"] == "what is paula deen's brother" and texts["2"] == " Androgen receptor define"
    assert not any(text.endswith("\r") for text in texts.values())
    grades = pc.value_counts(found.table("qrels").filter(pc.field("split") == "test")["relevance"])
    assert {entry["values"] for entry in grades.to_pylist()} == {0, 1, 2, 3}


@needs("msmarco")
def test_all_of_dev_is_told_from_dev_small() -> None:
    judged = list(read_qrels(MIRROR / "msmarco/qrels.dev.tsv.gz", "trec"))
    assert (len({row.query_id for row in judged}), len(judged)) == msmarco.PASSAGE_COUNTS["dev"][1]
