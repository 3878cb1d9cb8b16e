"""Training pairs made of a corpus: a sentence and the rest of its document, and two crops of a document.

Seen to fail when: the sentence stays in its document; a document of one sentence is drawn; the draw follows the order of
the file; both crops are drawn with one key; crops are longer than half of their piece; the documents that are not drawn stay
whole; a copy of a document is a candidate.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.made.corpus_pairs import word_spans
from pretrieve.benchmarks.readers import check_dataset
from pretrieve.benchmarks.reading import build_collection


def text_of(number: int) -> str:
    return f"First words of number {number} are these. Second words „Ä“ of {number} come here. Third words close {number} now."


def long_text_of(number: int) -> str:
    return "  ".join(f"{number}w{place}" for place in range(400 if number % 2 else 4 + number))


def write(path: Path, texts: dict[str, str]) -> Path:
    lines = [json.dumps({"_id": key, "title": f"T {key}", "text": text}) for key, text in texts.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = {f"d{n}": text_of(n) for n in range(60)}
    return write(
        tmp_path / "corpus.jsonl", texts | {"one": "Only a single sentence stands here alone.", "two": "No. Yes."}
    )


def read(collection) -> tuple[dict, dict, list]:
    tables = [
        pq.read_table(collection.directory / f"{name}.parquet").to_pylist()
        for name in ("collection", "queries", "qrels")
    ]
    documents, queries, qrels = tables
    return {d["doc_id"]: d for d in documents}, {q["query_id"]: q for q in queries}, qrels


def test_a_sentence_finds_the_rest_of_its_document(corpus: Path, tmp_path: Path) -> None:
    collection = build_collection("inverse-cloze", {"corpus": corpus}, tmp_path / "out", {"pairs": 50, "keep": 0.2})
    documents, queries, qrels = read(collection)
    assert list(documents) == [*(f"d{n}" for n in range(60)), "one", "two"], "every document is a candidate"
    assert len(queries) == len(qrels) == 50
    assert [sum(q["split"] == s for q in queries.values()) for s in ("train", "dev", "test")] == [40, 5, 5]
    kept = 0
    for judgement in qrels:
        doc_id = judgement["doc_id"]
        assert judgement["query_id"] == f"ict-{doc_id}" and doc_id not in ("one", "two")
        whole, query, rest = text_of(int(doc_id[1:])), queries[f"ict-{doc_id}"]["text"], documents[doc_id]["text"]
        assert query in whole and query.endswith(".")
        if rest == whole:
            kept += 1
            assert queries[f"ict-{doc_id}"]["split"] == "train", "what tests is never kept"
        else:
            assert query not in rest and sorted(f"{rest} {query}".split()) == sorted(whole.split())
    assert kept == 10
    drawn = {judgement["doc_id"] for judgement in qrels}
    assert all(documents[d]["text"] == text_of(int(d[1:])) for d in documents if d[0] == "d" and d not in drawn)
    places = {text_of(int(q[5:])).index(query["text"]) > 0 for q, query in queries.items()}
    assert places == {True, False}, "not always the first sentence"


@pytest.mark.parametrize(("reader", "text"), [("inverse-cloze", text_of), ("random-crops", long_text_of)])
def test_the_draw_follows_ids_and_seed(tmp_path: Path, reader: str, text) -> None:
    texts = {f"d{n}": text(n) for n in range(60)}
    files = [write(tmp_path / "a.jsonl", texts), write(tmp_path / "b.jsonl", dict(reversed(texts.items())))]
    drawn = [read(build_collection(reader, {"corpus": f}, tmp_path / "out", {"pairs": 20}))[1] for f in files]
    other = read(build_collection(reader, {"corpus": files[0]}, tmp_path / "out", {"pairs": 20, "seed": 2}))[1]
    assert drawn[0] == drawn[1] and drawn[0].keys() != other.keys()


def test_two_crops_of_one_document(tmp_path: Path) -> None:
    texts = {f"d{n}": long_text_of(n) for n in range(60)} | {"short": "three words only"}
    path = write(tmp_path / "corpus.jsonl", texts)
    documents, queries, qrels = read(
        build_collection("random-crops", {"corpus": path}, tmp_path / "out", {"pairs": 40})
    )
    assert list(documents) == list(texts), "every document is a candidate"
    assert [sum(q["split"] == s for q in queries.values()) for s in ("train", "dev", "test")] == [32, 4, 4]
    of_document = {doc_id: row["text"] for doc_id, row in documents.items()}
    assert of_document.pop("short") == "three words only"
    crops = of_document | {query_id: row["text"] for query_id, row in queries.items()}
    for name, crop in crops.items():
        whole = texts[name.removeprefix("crop-")]
        piece = min(256, len(whole.split()))
        assert crop in whole and max(2, 0.05 * piece) <= len(crop.split()) <= max(2, 0.5 * piece)
    assert {row["query_id"] for row in qrels} == {f"crop-{row['doc_id']}" for row in qrels}
    pairs = [(row["text"], of_document[query_id.removeprefix("crop-")]) for query_id, row in queries.items()]
    long = [(query, passage) for query, passage in pairs if int(query.split("w")[0]) % 2]
    assert sum(query == passage for query, passage in long) == 0 < len(long)
    starts = {int(passage.split()[0].split("w")[1]) for _, passage in long}
    assert len(starts) > len(long) / 2 and max(starts) > 256, "pieces begin anywhere"


def test_a_script_without_blanks_has_words(tmp_path: Path) -> None:
    assert len(word_spans("今天下雨了我们待在家里。")) == 7
    texts = {f"d{n}": f"今天下雨了我们整天都待在家里看书{n}" for n in range(20)}
    _, queries, _ = read(build_collection("random-crops", {"corpus": write(tmp_path / "c", texts)}, tmp_path / "o"))
    assert len(queries) == 20 and all(2 <= len(row["text"]) <= 12 for row in queries.values())


def test_too_little_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "corpus.jsonl", {f"d{n}": text_of(n) for n in range(9)} | {"x": "One sentence is all there is."}
    )
    with pytest.raises(DataError, match="9 documents with texts of their own have two sentences.*expected 10 or more"):
        build_collection("inverse-cloze", {"corpus": path}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"reader_options\.pairs: 3 is not allowed"):
        build_collection("inverse-cloze", {"corpus": path}, tmp_path / "out", {"pairs": 3})
    path = write(tmp_path / "c.jsonl", {f"d{n}": "the same words in all" for n in range(50)})
    with pytest.raises(DataError, match="1 documents with texts of their own have 4 words; expected 10 or more"):
        build_collection("random-crops", {"corpus": path}, tmp_path / "out")


def test_of_equal_texts_one_is_drawn(tmp_path: Path) -> None:
    texts = {f"d{n}": text_of(n // 3) for n in range(60)}
    _, queries, qrels = read(
        build_collection("inverse-cloze", {"corpus": write(tmp_path / "c.jsonl", texts)}, tmp_path / "out")
    )
    assert len(queries) == 20 and {int(row["doc_id"][1:]) % 3 for row in qrels} == {0}


@pytest.mark.parametrize(("reader", "text"), [("inverse-cloze", text_of), ("random-crops", long_text_of)])
def test_a_copy_of_a_document_is_no_candidate(tmp_path: Path, reader: str, text) -> None:
    """It was the first hard negative of the query that was made of the other one."""
    texts = {f"d{n}": text(n) for n in range(30)}
    copies = {f"copy-{n}": f" {text(n)}\n" for n in range(0, 30, 2)}
    path = write(tmp_path / "c.jsonl", texts | copies | {"titled": "", "titled-too": ""})
    collection = build_collection(reader, {"corpus": path}, tmp_path / "out")
    documents, queries, qrels = read(collection)
    assert list(documents) == [*texts, "titled", "titled-too"], "a title alone is no text that another one has"
    assert {row["doc_id"] for row in qrels} == set(texts) and len(queries) == 30
    warning = collection.stats["warnings"]["document with the text of another one, left out"]
    assert warning == {"count": 15, "first": f"{path}: line 31: 'copy-0'"}


def test_the_workflow_checks_the_files_of_a_collection() -> None:
    with pytest.raises(ConfigError, match=r"beir: no file 'tets'; it has corpus.*did you mean 'test'"):
        check_dataset({"reader": "beir", "files": {"corpus": "a", "queries": "b", "tets": "c"}})
    with pytest.raises(ConfigError, match="beir: it needs the files corpus, queries; found corpus"):
        check_dataset({"reader": "beir", "files": {"corpus": "a"}})
    with pytest.raises(ConfigError, match="dpr: it needs the files passages, train, dev, test; found none"):
        check_dataset({"reader": "dpr"})
    check_dataset({"reader": "corpus", "files": {"dev": "questions.csv"}})  # its tables are the corpus's
