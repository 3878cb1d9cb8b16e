"""A collection directory: what goes in comes out, and every fault is named with its file and line.

Seen to fail when: duplicates are looked for among neighbours only; ids are compared before the last block is written; a
repeated judgement is written again; blank means the empty string alone; judgements of a document that was left out stay;
files are moved although a check failed; rows that wait to be
written are put down to the next file; an older collection's answers stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.tasks import collection as module
from pretrieve.tasks.collection import CollectionWriter
from pretrieve.tasks.collection_ids import HashedIds, hash_ids
from pretrieve.tasks.collection_tables import Collection

HARD = ["plain", "", " \t\u3000", "tab\tand\nline", "東京", "ﬁ \U0001f600", "\u2028", "\u00a0x"]


def test_hashes_tell_ids_of_any_length_apart_however_a_column_is_cut() -> None:
    ids = ["", "a", "foobar", "7", "x" * 50, "東京", "a"]
    hashes = hash_ids(pa.array(ids)).tolist()
    assert len(set(hashes)) == len(set(ids)) and hashes[1] == hashes[-1]
    assert hash_ids(pa.array(ids).slice(2, 3)).tolist() == hashes[2:5]
    assert len(hash_ids(pa.array([], pa.string()))) == 0


def test_repeated_ids_and_membership_against_a_set() -> None:
    draw = np.random.default_rng(1)
    names = [str(n) for n in draw.integers(0, 5000, 3000)]
    ids = HashedIds()
    for start in range(0, len(names), 700):
        part = names[start : start + 700]
        ids.add(hash_ids(pa.array(part)), np.arange(start + 1, start + 1 + len(part)))
    asked = [str(n) for n in range(6000)]
    assert ids.contains(hash_ids(pa.array(asked))).tolist() == [name in set(names) for name in asked]
    count, first = ids.repeated()
    assert count == len(names) - len(set(names)) > 0
    row = next(i for i, name in enumerate(names) if name in names[:i])
    before = names.index(names[row])
    assert first == ((before, before + 1), (row, row + 1))
    alone = HashedIds()
    alone.add(hash_ids(pa.array(asked)), np.zeros(len(asked)))
    assert alone.repeated() == (0, None) and HashedIds().repeated() == (0, None)


def fill(writer: CollectionWriter) -> None:
    writer.add_document("d1", "Title", "text one")
    writer.add_document("d2", "", "text two")
    writer.add_query("q1", "what", "test")
    writer.add_judgement("q1", "d1", 2, "test")


@pytest.mark.parametrize("rows", [1, 3, 20_000])
def test_what_goes_in_comes_out_in_order(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", rows)
    documents = [(f"d{i}", f"t{i % 2}" * (i % 3), text) for i, text in enumerate(HARD * 3)]
    with CollectionWriter(tmp_path / "c", "made up", "CC0") as writer:
        writer.variant, writer.expected = "untitled", {"documents": 24, "queries.dev": 1}
        for document in documents[:4]:
            writer.add_document(*document)
        columns = [pa.array(column) for column in zip(*documents[4:], strict=True)]
        writer.add_documents(*columns, first_line=5)
        # Judgements may come before their queries.
        writer.add_judgement("q2", "d0", 0, "dev")
        writer.add_judgement("q1", "d4", 3, "test")
        writer.add_query("q1", " what? ", "test")
        writer.add_query("q2", "東", "dev")
        writer.add_answers("q1", ["one", "two"], regex=True)
        writer.add_negative("q1", "d5")
        writer.add_negatives(pa.array(["q2"]), pa.array(["d0"]))
    found = Collection(tmp_path / "c")
    kept = [document for document in documents if document[1].strip() or document[2].strip()]
    assert len(kept) < len(documents) and list(found.documents(batch_size=2)) == kept
    assert found.document_count == len(kept)
    assert found.table("queries").to_pylist() == [
        {"query_id": "q1", "text": " what? ", "split": "test"},
        {"query_id": "q2", "text": "東", "split": "dev"},
    ]
    assert [tuple(row.values()) for row in found.table("qrels").to_pylist()] == [
        ("q2", "d0", 0, "dev"),
        ("q1", "d4", 3, "test"),
    ]
    assert found.table("answers").to_pylist() == [{"query_id": "q1", "answers": ["one", "two"], "regex": True}]
    assert [tuple(row.values()) for row in found.table("negatives").to_pylist()] == [("q1", "d5"), ("q2", "d0")]
    stats = found.stats
    assert stats["counts"]["documents"] == 24 and stats["kept"]["collection"] == len(kept)
    assert (stats["reader"], stats["variant"], stats["licence"]) == ("made up", "untitled", "CC0")
    assert stats["warnings"]["document without text, left out"]["count"] == 24 - len(kept)


def test_judgements_of_documents_without_text_go_with_them(tmp_path: Path) -> None:
    with CollectionWriter(tmp_path / "c", "r") as writer:
        fill(writer)
        writer.add_document("blank", "", " \u3000")
        writer.add_document("titled", "A title", "")
        writer.add_judgement("q1", "blank", 1, "test")
        writer.add_judgement("q1", "titled", 1, "test")
        writer.add_judgement("q1", "d1", 2, "test")
        writer.add_negative("q1", "blank")
    found = Collection(tmp_path / "c")
    assert found.table("qrels")["doc_id"].to_pylist() == ["d1", "titled"]
    assert found.table("negatives").num_rows == 0
    assert {kind: entry["count"] for kind, entry in found.stats["warnings"].items()} == {
        "document without text, left out": 1,
        "document with a title and no text": 1,
        "judgement that was there before, left out": 1,
        "row of qrels whose document has no text, left out": 1,
        "row of negatives whose document has no text, left out": 1,
    }


def test_documents_that_all_lack_a_text_are_no_collection(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="reader r read 2 documents, none of which has a text or a title"):  # noqa: SIM117
        with CollectionWriter(tmp_path / "c", "r") as writer:
            writer.add_document("d1", "", " ")
            writer.add_document("d2", "", "")
    assert list(tmp_path.iterdir()) == []


def again(method: str, *values: object) -> Callable[[CollectionWriter], None]:
    return lambda writer: getattr(writer, method)(*values)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (again("add_document", "d1", "", "other"), "f.tsv: line 7: document id 'd1' was used before, by document 1"),
        (again("add_query", "q1", "other", "dev"), "f.tsv: line 7: query id 'q1' was used before, by query 1"),
        (again("add_query", "q9", " \t", "test"), r"f.tsv: line 7: query 'q9' has the text ' \\t'; expected"),
        (
            again("add_judgement", "q9", "d1", 1, "test"),
            "f.tsv: line 7: qrels name query 'q9', which is not among the 1",
        ),
        (
            again("add_judgement", "q1", "d9", 1, "test"),
            "f.tsv: line 7: qrels name document 'd9', which is not among the 2",
        ),
        (again("add_judgement", "q1", "d2", -1, "test"), "f.tsv: line 7: relevance -1 of document 'd2' .* below zero"),
        (again("add_judgement", "q1", "d1", 1, "test"), "f.tsv: line 7: document 'd1' has relevance 1 .* had 2 before"),
        (again("add_answers", "q9", ["x"]), "f.tsv: line 7: answers name query 'q9'"),
        (again("add_answers", "q1", []), r"f.tsv: line 7: query 'q1' has the answers \[\]; expected one or more"),
        (again("add_answers", "q1", 7), "f.tsv: line 7: query 'q1' has the answers 7; expected one or more"),
        (again("add_query", "q9", None, "test"), "f.tsv: line 7: query 'q9' has the text None; expected"),
        (
            again("add_query", "q9", "x", "validation"),
            "line 7: query 'q9' has the split 'validation'; expected train, dev, test",
        ),
        (again("add_judgement", "q1", "d1", 2, "valid"), "f.tsv: line 7: query 'q1' has the split 'valid'; expected"),
        (
            again("add_document", "d9", "", 7),
            "f.tsv: line 7: document 'd9' has the title '', text 7; expected two texts",
        ),
        (again("add_negative", "q1", "d9"), "f.tsv: line 7: negatives name document 'd9'"),
        (again("add_document", "", "", "x"), "f.tsv: line 7: 1 of the documents from here on have an empty id"),
    ],
)
def test_a_fault_is_named_and_nothing_is_written(
    fault: Callable[[CollectionWriter], None], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):  # noqa: SIM117
        with CollectionWriter(tmp_path / "c", "r") as writer:
            fill(writer)
            writer.at("f.tsv", 7)
            fault(writer)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_an_older_collection_as_it_was_and_a_good_one_replaces_all_of_it(tmp_path: Path) -> None:
    with CollectionWriter(tmp_path / "c", "r") as writer:
        fill(writer)
        writer.add_answers("q1", ["x"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    with pytest.raises(ZeroDivisionError), CollectionWriter(tmp_path / "c", "r") as writer:
        writer.add_document("d7", "", "seven")
        _ = 1 / 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before
    with CollectionWriter(tmp_path / "c", "r") as writer:
        fill(writer)
    assert not Collection(tmp_path / "c").has("answers")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_expected_counts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"reader r read 2 documents, expected 3; a file is not the one"):  # noqa: SIM117
        with CollectionWriter(tmp_path / "c", "r") as writer:
            writer.expected = {"documents": 3}
            fill(writer)
    with pytest.raises(DataError, match=r"read 0 queries.train, expected 5"):  # noqa: SIM117
        with CollectionWriter(tmp_path / "c", "r") as writer:
            writer.expected = {"queries.train": 5}
            fill(writer)
    with pytest.raises(ConfigError, match="no such count"):  # noqa: SIM117
        with CollectionWriter(tmp_path / "c", "r") as writer:
            writer.expected = {"passages": 5}
            fill(writer)


def test_reading_what_is_no_collection(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"stats.json: no such file; expected a whole collection"):
        Collection(tmp_path)
    with CollectionWriter(tmp_path / "c", "r") as writer:
        fill(writer)
    (tmp_path / "c" / "qrels.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"qrels.parquet: not a readable Parquet file"):
        Collection(tmp_path / "c")
    (tmp_path / "c" / "stats.json").write_text(json.dumps({})[:1])
    with pytest.raises(DataError, match=r"stats.json: not JSON"):
        Collection(tmp_path / "c")
