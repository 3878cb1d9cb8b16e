"""A directory to search in that is damaged or was changed, questions and names of files that cannot be: a sentence each.

Seen to fail when: settings have no bounds; ids and columns are not looked at; Java's errors pass; a snippet compares all
places with each other.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import DataError
from pretrieve.base.files import whole_file
from pretrieve.commands.search import snippet
from pretrieve.corpora.beir_documents import id_of
from pretrieve.raw.raw_text import Warnings, read_json_lines
from pretrieve.retrieval.deployed_index import load_index
from pretrieve.retrieval.index_documents import index_documents

IDS = [f"d{number}" for number in range(20)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("index") / "whole"
    index_documents(out, ((name, "Anchors", f"An anchor holds ship {name}.") for name in IDS), None, "bm25", "en")
    return out


def settings(**changed: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "search.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changed))

    return change


def text(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content) and None


def ids(values: list, kind: pa.DataType) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        table = pa.table({"id": pa.array(values, kind)})
        with pa.ipc.new_file(folder / "bm25" / "ids.arrow", table.schema) as file:
            file.write_table(table)

    return change


def documents(**columns: list) -> Callable[[Path], None]:
    return lambda folder: pq.write_table(pa.table(columns), folder / "documents.parquet")


def half(pattern: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (file,) = folder.glob(pattern)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return change


#: What was changed → what is said. Each ended in a traceback, or was searched as if nothing were wrong.
CHANGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a number that is none": (settings(bm25={"k1": float("nan"), "b": 0.4}), "search.json: search: .*k1=nan"),
    "a number without use": (settings(bm25={"k1": 1e300, "b": 0.4}), r"search.json: search: .*k1=1e\+300"),
    "half a document": (settings(depth=3.5), r"search.json: search: depth=3\.5"),
    "a depth that is a word": (settings(depth=True), "search.json: search: depth=True"),
    "settings without end": (text("search.json", "[" * 100_000), "search.json: damaged .RecursionError"),
    "fewer ids": (ids(["d0"], pa.large_string()), r"bm25: 20 documents, and 1 in ids\.arrow"),
    "ids that are no texts": (
        ids(list(range(20)), pa.int64()),
        r"ids\.arrow: ids are int64, 0 missing; expected texts",
    ),
    "ids of an older version": (text("bm25/ids.arrow", '["d0"]'), r"ids\.arrow: missing or damaged"),
    "languages without end": (text("bm25/language.json", "[" * 100_000), r"language\.json: missing or damaged"),
    "an unknown language": (text("bm25/language.json", '"xx"'), r"language\.json: language 'xx', expected one of"),
    "half of Lucene's list": (half("bm25/segments_*"), "bm25: cannot be searched .*build the index again"),
    "columns of another kind": (
        documents(doc_id=IDS, title=[["a"]] * 20, text=[1] * 20),
        r"documents\.parquet: columns doc_id: string, title: list.*expected doc_id, title, text, all strings",
    ),
    "no documents": (
        lambda folder: (folder / "documents.parquet").unlink(),
        r"documents\.parquet: missing or damaged; make the directory again",
    ),
    "other documents": (
        documents(doc_id=[f"e{number}" for number in range(20)], title=[""] * 20, text=["x"] * 20),
        r"documents\.parquet: has no document 'd\d+', which an index beside it has",
    ),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_a_directory_that_was_changed_is_refused(whole: Path, tmp_path: Path, kind: str) -> None:
    change, said = CHANGED[kind]
    folder = tmp_path / "changed"
    shutil.copytree(whole, folder)
    change(folder)
    with pytest.raises(DataError, match=said):
        load_index(folder).search(["anchor"])


def test_a_long_document_is_shown_at_once() -> None:
    """Seen to compare each place with each other one: minutes for a megabyte."""
    begin = time.process_time()
    shown = snippet("anchor " * 100_000 + "holds " * 9 + "anchor " * 100_000, "what holds an anchor?")
    assert 150 < len(shown) < 210 and time.process_time() - begin < 5


def test_a_question_that_is_no_text_is_refused(whole: Path) -> None:
    """What Python makes of a word of a command line that is not UTF-8."""
    index = load_index(whole)
    assert len(index.search(["anchor"])[0]) == 10
    with pytest.raises(DataError, match=r"questions\[0\]: 'anchor .udcff' is not UTF-8"):
        index.search(["anchor \udcff"])


def test_a_name_that_no_file_can_have_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "file").touch()
    for name, why in (
        ("folder.jsonl", "it is a folder"),
        ("file/x", "a file stands where a folder should"),
        ("file/x/y", "a part of its path is no folder"),
        ("x" * 300, "its name is too long"),
    ):
        with pytest.raises(DataError, match=f"cannot be written: {why}. Give another"), whole_file(tmp_path / name):
            pass


def test_an_id_that_lucene_does_not_take_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(f'{{"_id": "{"x" * 32_766}", "text": "a"}}\n{{"_id": "{"x" * 32_767}", "text": "b"}}\n')
    ids = (id_of(record, path, line, Warnings()) for line, record in read_json_lines(path, ("_id", "text")))
    assert len(next(ids)) == 32_766
    with pytest.raises(DataError, match=r"line 2: '_id' has 32,767 bytes; expected at most 32,766"):
        next(ids)
