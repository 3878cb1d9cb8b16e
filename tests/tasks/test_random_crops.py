"""Training pairs that are two crops of a document.

Seen to fail when: both crops are drawn with one key; crops are longer than half of their piece; the documents that are not drawn
stay whole; the draw follows the order of the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.corpus_pairs import word_spans
from pretrieve.benchmarks.reading import build_collection

WORDS = 400


def text_of(number: int) -> str:
    return "  ".join(f"{number}w{place}" for place in range(WORDS if number % 2 else 4 + number))


def write(path: Path, texts: dict[str, str]) -> Path:
    lines = [json.dumps({"_id": key, "title": f"T {key}", "text": text}) for key, text in texts.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(collection) -> list[list[dict]]:
    return [
        pq.read_table(collection.directory / f"{n}.parquet").to_pylist() for n in ("collection", "queries", "qrels")
    ]


def test_two_crops_of_one_document(tmp_path: Path) -> None:
    texts = {f"d{n}": text_of(n) for n in range(60)} | {"short": "three words only"}
    path = write(tmp_path / "corpus.jsonl", texts)
    documents, queries, qrels = read(
        build_collection("random-crops", {"corpus": path}, tmp_path / "out", {"pairs": 40})
    )
    assert [document["doc_id"] for document in documents] == list(texts), "every document is a candidate"
    assert [sum(q["split"] == s for q in queries) for s in ("train", "dev", "test")] == [32, 4, 4]
    of_document = {row["doc_id"]: row["text"] for row in documents}
    assert of_document.pop("short") == "three words only"
    crops = of_document | {f"{row['query_id']}": row["text"] for row in queries}
    for name, crop in crops.items():
        whole = texts[name.removeprefix("crop-")]
        piece = min(256, len(whole.split()))
        assert crop in whole and max(2, 0.05 * piece) <= len(crop.split()) <= max(2, 0.5 * piece)
    assert {row["query_id"] for row in qrels} == {f"crop-{row['doc_id']}" for row in qrels}
    pairs = [(row["text"], of_document[row["query_id"].removeprefix("crop-")]) for row in queries]
    long = [(query, passage) for query, passage in pairs if int(query.split("w")[0]) % 2]
    assert sum(query == passage for query, passage in long) == 0 < len(long)
    starts = {int(passage.split()[0].split("w")[1]) for _, passage in long}
    assert len(starts) > len(long) / 2 and max(starts) > 256, "pieces begin anywhere"


def test_the_draw_follows_ids_and_seed(tmp_path: Path) -> None:
    texts = {f"d{n}": text_of(n) for n in range(60)}
    files = [write(tmp_path / "a.jsonl", texts), write(tmp_path / "b.jsonl", dict(reversed(texts.items())))]
    by_id = [
        {
            row["query_id"]: row["text"]
            for row in read(build_collection("random-crops", {"corpus": f}, tmp_path / "o", options))[1]
        }
        for f, options in ((files[0], {"pairs": 20}), (files[1], {"pairs": 20}), (files[0], {"pairs": 20, "seed": 2}))
    ]
    assert by_id[0] == by_id[1] != by_id[2]


def test_a_script_without_blanks_has_words(tmp_path: Path) -> None:
    assert len(word_spans("今天下雨了我们待在家里。")) == 7
    texts = {f"d{n}": f"今天下雨了我们整天都待在家里看书{n}" for n in range(20)}
    _, queries, _ = read(build_collection("random-crops", {"corpus": write(tmp_path / "c", texts)}, tmp_path / "o"))
    assert len(queries) == 20 and all(2 <= len(row["text"]) <= 12 for row in queries)


def test_too_little_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", {f"d{n}": "the same words in all" for n in range(50)})
    with pytest.raises(DataError, match="1 documents with texts of their own have 4 words; expected 10 or more"):
        build_collection("random-crops", {"corpus": path}, tmp_path / "out")
