"""Documents in tables.

Seen to fail when: a column's name must be in lower case; rows are numbered anew in each file; a text with line breaks is cut; an
empty id is taken; the hub's data set is read past its cache.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.record_tables import hub_documents, table_documents
from pretrieve.raw.raw_text import Warnings

ROWS = [("1", "a", "one, two"), ("2", "b", 'new\nline; "q"'), ("3", "", "")]


def written(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith("parquet"):
        ids, titles, texts = zip(*ROWS, strict=True)
        columns = {
            "ID": list(map(int, ids)),
            "x": [[0.5]] * 3,
            "Title": [t or None for t in titles],
            "Body": list(texts),
        }
        pq.write_table(pa.table(columns), path)
    elif name.endswith("jsonl"):
        rows = [{"ID": int(i), "Title": t or None, "Body": b} for i, t, b in ROWS]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        separator = {"tsv": "\t", "csv": ","}.get(name[-3:], ";")
        quoted = [[f'"{value.replace(chr(34), chr(34) * 2)}"' for value in (i, t, b)] for i, t, b in ROWS]
        path.write_text(
            "\r\n".join(separator.join(row) for row in [["ID", "Title", "Body"], *quoted]), encoding="utf-8-sig"
        )
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.jsonl"])
def test_every_kind_has_the_same_documents(tmp_path: Path, name: str) -> None:
    path, warnings = written(tmp_path, name), Warnings()
    assert [tuple(row) for row in table_documents([path], {}, warnings)] == ROWS and not warnings.counts
    swapped = [tuple(row) for row in table_documents([path], {"text": "Title", "title": "Body"}, warnings)]
    assert swapped == [(i, b, t) for i, t, b in ROWS]
    with pytest.raises(
        ConfigError, match=r"columns: text: 'Bodi' is not a column of .*it has 'ID'.*did you mean 'Body'"
    ):
        list(table_documents([path], {"text": "Bodi"}, warnings))


def test_objects_may_lack_a_key(tmp_path: Path) -> None:
    """The first object does not say which columns there are: its title is missing, as BEIR's layout has it."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"_id": "1", "text": "one"}\n{"_id": "2", "title": "B", "text": "two"}\n')
    assert [tuple(row) for row in table_documents([path], {}, Warnings())] == [("1", "", "one"), ("2", "B", "two")]


def test_rows_without_ids_are_numbered_over_all_files(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("text;n\none;1\ntwo;2\n")
    warnings = Warnings()
    rows = list(table_documents([tmp_path / "a.csv", tmp_path / "b.csv"], {}, warnings))
    assert [row.doc_id for row in rows] == ["1", "2", "3", "4"]
    assert warnings.counts == {"table without a column of ids, its rows are numbered": 2}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.csv",
            b"q,r\n1,2\n",
            "a.csv: no column of texts among 'q', 'r'; expected one of text, .*columns: {text: NAME}",
        ),
        ("a.csv", b"", "a.csv: no column of texts among none"),
        ("a.csv", b"id,text\n,words\n", "a.csv: row 2: no id in column 'id'; expected one in every row"),
        ("a.csv", b"id,text\n1,a,b\n", "a.csv: line 2: 3 fields; expected 2"),
        ("a.csv", b'id,text\n1,"a\n', "a.csv: line 2: the quotes in this record do not match"),
        ("a.csv", b"id,text\n1,\xff\n", "a.csv: line 2, byte 3: 0xff is not UTF-8"),
        ("a.csv", b"id,te\rxt\n1,a\n", "a.csv: line 1: .*; expected a header with the names of the columns"),
        (
            "a.jsonl",
            b'{"text": ["a", "b"]}',
            r"a.jsonl: row 1: column 'text' is list \"\['a', 'b'\]\"; expected a text or a number",
        ),
        ("a.jsonl", b"", "a.jsonl: no column of texts among none"),
        ("a.parquet", b"PAR1 no table PAR1", "a.parquet: not a readable Parquet file"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as raised:
        list(table_documents([tmp_path / name], {}, Warnings()))
    assert "\n" not in str(raised.value)


def test_a_damaged_block_of_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["1"] * 5000, "text": [f"text {n}" for n in range(5000)]}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = b"\0" * 40
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.parquet: damaged after row [\d,]+"):
        list(table_documents([path], {}, Warnings()))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of ``datasets`` with owner/toy, in two splits, as the library leaves it when it has been fetched; no network."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({"_id": split, "title": "T", "text": f"of {split}"}) + "\n")
    files = {split: [str(tmp_path / f"{split}.jsonl")] for split in ("train", "test")}
    builder = datasets.load_dataset_builder("json", data_files=files, cache_dir=str(tmp_path / "cache"))
    builder.download_and_prepare()
    made = Path(builder.cache_dir)
    place = tmp_path / "cache/owner___toy/corpus" / made.parts[-2] / made.parts[-1]
    place.parent.mkdir(parents=True)
    os.rename(made, place)
    for file in place.glob("*.arrow"):
        file.rename(place / file.name.replace("json", "toy"))
    info = json.loads((place / "dataset_info.json").read_text()) | {"config_name": "corpus", "dataset_name": "toy"}
    (place / "dataset_info.json").write_text(json.dumps(info))
    return tmp_path / "cache"


def test_a_data_set_of_the_hub_is_read_from_its_cache(cache: Path) -> None:
    for name in ("hub:owner/toy", "hub:owner/toy:corpus"):
        rows = [tuple(row) for row in hub_documents(name, {}, Warnings())]
        assert rows == [("train", "T", "of train"), ("test", "T", "of test")]
    for name, words in (
        ("hub:owner/other", r"hub:owner/other: cannot be read \(.*\); expected a data set of the hub or its cache"),
        ("hub:owner/toy:queries", "hub:owner/toy:queries: cannot be read"),
        ("hub:../../etc", "hub:../../etc: no name of a data set; expected hub:OWNER/NAME"),
        ("hub:csv", "hub:csv: no name of a data set"),
    ):
        with pytest.raises(DataError, match=words) as raised:
            list(hub_documents(name, {}, Warnings()))
        assert "\n" not in str(raised.value)
