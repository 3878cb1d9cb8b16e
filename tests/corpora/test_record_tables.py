"""Documents in tables.

Seen to fail when: a column's name must be in lower case; rows are numbered anew in each file; a text with line breaks is cut; an
empty id is taken; the hub's data set is read past its cache; a title of line 1,101 is lost; an id comes twice, or is 1.0; the
quotes of a ``.tsv`` are those of CSV.
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


def written(folder: Path, name: str, rows: list[tuple[str, str, str]]) -> Path:
    path = folder / name
    if name.endswith("parquet"):
        ids, titles, texts = zip(*rows, strict=True)
        columns = {
            "ID": list(map(int, ids)),
            "x": [[0.5]] * 3,
            "Title": [t or None for t in titles],
            "Body": list(texts),
        }
        pq.write_table(pa.table(columns), path)
    elif name.endswith("jsonl"):
        path.write_text("".join(json.dumps({"ID": int(i), "Title": t or None, "Body": b}) + "\n" for i, t, b in rows))
    else:
        separator = {"tsv": "\t", "csv": ","}.get(name[-3:], ";")
        quoted = [[f'"{value.replace(chr(34), chr(34) * 2)}"' for value in row] for row in rows]
        path.write_text(
            "\r\n".join(separator.join(row) for row in [["ID", "Title", "Body"], *quoted]), encoding="utf-8-sig"
        )
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.jsonl"])
def test_every_kind_has_the_same_documents(tmp_path: Path, name: str) -> None:
    rows = [(i, t, b.replace("\n", " ") if name.endswith("tsv") else b) for i, t, b in ROWS]
    path, warnings = written(tmp_path, name, rows), Warnings()
    assert [tuple(row) for row in table_documents([path], {}, warnings)] == rows
    assert warnings.counts == {"row without text and title": 1}
    swapped = [tuple(row) for row in table_documents([path], {"text": "Title", "title": "Body"}, warnings)]
    assert swapped == [(i, b, t) for i, t, b in rows]
    with pytest.raises(
        ConfigError, match=r"columns: text: 'Bodi' is not a column of .*it has 'ID'.*did you mean 'Body'"
    ):
        list(table_documents([path], {"text": "Bodi"}, warnings))


def test_objects_may_lack_a_key(tmp_path: Path) -> None:
    """The first object does not say which columns there are: its title is missing, as BEIR's layout has it."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"_id": "1", "text": "one"}\n{"_id": "2", "title": "B", "text": "two"}\n')
    assert [tuple(row) for row in table_documents([path], {}, Warnings())] == [("1", "", "one"), ("2", "B", "two")]


def test_what_may_be_lost_is_said(tmp_path: Path) -> None:
    """Texts under several usual names were dropped in silence, and all titles where the first came late."""
    path = tmp_path / "a.jsonl"
    rows = [{"id": 1, "text": "a"}, {"id": 2, "Contents": "b"}, {"id": 3, "text": float("nan")}]
    rows += [{"id": number, "text": "x"} for number in range(4, 1101)]
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, {"id": 1101, "title": "T", "text": "x", "body": ""}])
    )
    warnings = Warnings()
    found = list(table_documents([path], {}, warnings))
    assert found[-1] == ("1101", "T", "x") and found[2] == ("3", "", "")
    assert warnings.summary().splitlines() == [
        f"row without text and title: 2, the first: {path}: line 2",
        f"column 'Contents', usual for the text, is not read: 1, the first: {path}: line 2",
        f"column 'body', usual for the text, is not read: 1, the first: {path}: line 1101",
    ]
    with pytest.raises(ConfigError, match=r"'body' is not a column of .*a.jsonl in its first 1,000 rows; it has 'id'"):
        list(table_documents([path], {"text": "body"}, Warnings()))
    (tmp_path / "a.csv").write_text("id;url;text;abstract\n1;x;a;b\n2;x; ;b\n")
    list(table_documents([tmp_path / "a.csv"], {}, warnings := Warnings()))
    assert warnings.summary().splitlines() == [
        f"row without text and title: 1, the first: {tmp_path}/a.csv: line 3",
        f"column 'abstract', usual for the text, is not read: 1, the first: {tmp_path}/a.csv: line 1",
    ]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_ids_that_are_floats(tmp_path: Path, name: str) -> None:
    """pandas makes doubles of whole numbers where one is missing."""
    path = tmp_path / name

    def read(*ids: float | None) -> list[str]:
        if name.endswith("parquet"):
            pq.write_table(pa.table({"id": pa.array(ids, pa.float64()), "text": ["1.0"] * len(ids)}), path)
        else:
            path.write_text("".join(json.dumps({"id": i, "text": "1.0"}) + "\n" for i in ids))
        rows = list(table_documents([path], {}, Warnings()))
        assert {row.text for row in rows} == {"1.0"}
        return [row.doc_id for row in rows]

    assert read(1.0, -0.0, 2.0**53 - 1) == ["1", "0", "9007199254740991"]
    for wrong in (1.5, float("inf"), 2.0**53):
        with pytest.raises(
            DataError, match=r"(row|line) 2: column 'id' is float .*; expected a text or a whole number: "
        ):
            read(1.0, wrong)
    for wrong in (float("nan"), None):
        with pytest.raises(DataError, match=r"(row|line) 2: no id in column 'id'"):
            read(1.0, wrong)


def test_an_id_that_comes_twice_is_said_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"a\nb"\n2,b\n1,c\n')
    with pytest.raises(
        DataError, match=r"a.csv: line 5: id '1' was used before, by .*a.csv: line 2; .* every id once\.$"
    ):
        list(table_documents([tmp_path / "a.csv"], {}, Warnings()))
    ids = [f"d{number}" for number in range(2500)]
    pq.write_table(pa.table({"id": [*ids, "d7", "d1200"], "text": ["x"] * 2502}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"id": "d1200", "text": "x"}')
    said = r"c.jsonl: line 1: id 'd1200' was .*b.parquet: row 1201;"
    with pytest.raises(DataError, match=r"b.parquet: row 2501: id 'd7' was .*b.parquet: row 8; .*; 1 more rows have"):
        list(table_documents([tmp_path / "b.parquet"], {}, Warnings()))
    pq.write_table(pa.table({"id": ids, "text": ["x"] * 2500}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=said):
        list(table_documents([tmp_path / "b.parquet", tmp_path / "c.jsonl"], {}, Warnings()))


def test_quotes_of_a_tsv(tmp_path: Path) -> None:
    """Four rows became two documents: ``"`` began a field of the first and ended one of the third."""
    path = tmp_path / "a.tsv"
    fields = ['"a boat', 'of 5"', '"Hello" he said', '"say ""hi"""', '"one, two"', '"', '""', '"a"b""c"', '"""']
    path.write_text("id\ttext\n" + "".join(f"{row}\t{field}\n" for row, field in enumerate(fields)))
    texts = [row.text for row in table_documents([path], {}, Warnings())]
    assert texts == ['"a boat', 'of 5"', '"Hello" he said', 'say "hi"', "one, two", '"', "", '"a"b""c"', '"""']
    path.write_text('"id"\t"text"\n"1"\t"one\nline"\n')
    with pytest.raises(
        DataError, match=r"a.tsv: line 3: 1 fields; expected 2.* line breaks or tabs in them, name the file \.csv"
    ):
        list(table_documents([path], {}, Warnings()))
    assert [tuple(row) for row in table_documents([path.rename(tmp_path / "a.csv")], {}, Warnings())] == [
        ("1", "", "one\nline")
    ]


def test_names_of_columns_in_quotes(tmp_path: Path) -> None:
    """Separators within quotes were counted, and a header ended at its first line break."""
    path = tmp_path / "a.csv"
    path.write_text('"id";"How good, 1, 2 or 3?";"Why? ""So, so,"" or\nnot"\n1;2;Because.\n')
    columns = {"title": "How good, 1, 2 or 3?", "text": 'Why? "So, so," or\nnot'}
    assert [tuple(row) for row in table_documents([path], columns, Warnings())] == [("1", "2", "Because.")]


def test_the_first_column_has_a_line_break_in_its_name(tmp_path: Path) -> None:
    """Its separators stand on a later line than the first, and none was found. A quote that does not end is a character."""
    path = tmp_path / "a.csv"
    path.write_text('"Document\r\nnumber",id,"full\n""text"""\nx,1,"One\ntext."\n')
    assert [tuple(row) for row in table_documents([path], {"text": 'full\n"text"'}, Warnings())] == [
        ("1", "", "One\ntext.")
    ]
    path.write_text('id,text,size "\n' + "".join(f"{n},Text.,2\n" for n in range(99)))
    assert len(list(table_documents([path], {}, Warnings()))) == 99


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
            "a.csv: no column of texts among 'q', 'r'; expected one of text, .*: --columns text=NAME of .*columns: {text: NAME}",
        ),
        ("a.csv", b"", "a.csv: no names of columns in line 1; expected one of text"),
        ("a.tsv", b"\nid\ttext\n", "a.tsv: no names of columns in line 1; expected one of text"),
        ("a.csv", b"text,title,text\na,b,c\n", "a.csv: line 1: 2 columns are named 'text'; expected one."),
        ("a.csv", b"id,text\n", "a.csv: no row; expected a document in each"),
        (
            "a.csv",
            b"id,text\r1,a\r2,b\r",
            r"a.csv: line 1: a line break '\\r' without '\\n'; expected lines that end in",
        ),
        (
            "a.tsv",
            b"id\ttext\r1\ta\r2\tb\r",
            r"a.tsv: line 1: a line break '\\r' without '\\n'; expected lines that end in",
        ),
        (
            "a.jsonl",
            b'{"id": "%s", "text": "a"}' % (b"x" * 32_767),
            "line 1: column 'id' has 32,767 bytes; expected at most",
        ),
        ("a.csv", b"id,text\n,words\n", "a.csv: line 2: no id in column 'id'; expected one in every row"),
        ("a.csv", b"id,text\n1,a,b\n", "a.csv: line 2: 3 fields; expected 2"),
        ("a.csv", b'id,text\n1,"a\n', "a.csv: line 2: the quotes in this record do not match"),
        ("a.csv", b"id,text\n1,\xff\n", "a.csv: line 2, byte 3: 0xff is not UTF-8"),
        (
            "a.jsonl",
            b'{"text": ["a", "b"]}',
            r"a.jsonl: line 1: column 'text' is list \"\['a', 'b'\]\"; expected a text or a number",
        ),
        (
            "a.jsonl",
            b'{"id": "1", "text": true}',
            "a.jsonl: line 1: column 'text' is bool 'True'; expected a text or a number",
        ),
        ("a.jsonl", b'{"id": false, "text": "a"}', "a.jsonl: line 1: column 'id' is bool 'False'; expected a text"),
        ("a.jsonl", b"", "a.jsonl: no names of columns in line 1; expected one of text"),
        ("a.parquet", b"PAR1 no table PAR1", "a.parquet: not a readable Parquet file"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as raised:
        list(table_documents([tmp_path / name], {}, Warnings()))
    assert "\n" not in str(raised.value)


def test_two_columns_of_a_parquet_file_with_one_name_are_refused(tmp_path: Path) -> None:
    columns = [pa.array([value]) for value in ("1", "a", "b")]
    pq.write_table(pa.Table.from_arrays(columns, names=["id", "text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="a.parquet: 2 columns are named 'text'; expected one"):
        list(table_documents([tmp_path / "a.parquet"], {}, Warnings()))


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
