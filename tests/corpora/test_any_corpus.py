"""What a place is, and its documents in BEIR's layout.

Seen to fail when: a README beside tables makes a folder one of texts; questions in BEIR's layout are taken for documents; a
changed file, other columns or another way to divide texts changes nothing; the documents are written again with nothing changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.any_corpus import Wanted, converted, documents_of, source_of
from pretrieve.corpora.beir_documents import read_documents
from pretrieve.raw.raw_text import LONGEST, Warnings


def put(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


TABLE = "id,text\na,one\n"


def kind(folder: Path) -> tuple[str, list[str]]:
    source = source_of(str(folder))
    return source.kind, [file.relative_to(folder).as_posix() for file in source.files]


def test_what_a_place_is(tmp_path: Path) -> None:
    folder = put(
        tmp_path / "f", data__b_dot_csv=TABLE, data__a_dot_csv=TABLE, README_dot_md="# About", queries_dot_jsonl="{}"
    )
    put(folder, queries_dot_csv=TABLE, queries__test_dot_csv=TABLE, qrels_dot_tsv="q\ta\t1\n")
    put(folder, qrels__test_dot_tsv="q\ta\t1\n", _dot_hidden__c_dot_csv=TABLE)
    assert kind(folder) == ("tables", ["data/a.csv", "data/b.csv"]), "README tells of the tables"
    put(folder, corpus_dot_csv=TABLE)
    assert kind(folder) == ("tables", ["corpus.csv"]), "the name says which table it is"
    (folder / "corpus.csv").unlink()
    put(folder, notes__x_dot_txt="Text.")
    assert kind(folder) == ("texts", ["README.md", "notes/x.txt"]), "a table among texts is none of them"
    assert kind(folder / "data/a.csv")[0] == "tables" and kind(folder / "README.md")[0] == "texts"
    assert source_of("hub:owner/name").kind == "hub"
    for place, words in (
        (str(tmp_path / "none"), "none: no such file or folder; expected one with documents, or hub:OWNER/NAME"),
        (str(put(tmp_path / "empty", image_dot_png="x")), "empty: nothing in it that can be read as documents"),
        (str(tmp_path / "empty/image.png"), "image.png: nothing in it that can be read as documents"),
    ):
        with pytest.raises(DataError, match=words) as raised:
            source_of(place)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["notes.md", "rows.csv"])
def test_links_lead_to_files_of_the_folder_alone(tmp_path: Path, name: str) -> None:
    """Texts and tables alike; the place itself may be a link."""
    (tmp_path / f"private{Path(name).suffix}").write_text(TABLE)
    folder = put(tmp_path / "real", **{f"deep__{name.replace('.', '_dot_')}": TABLE})
    (tmp_path / "f").symlink_to("real")
    (folder / f"link{Path(name).suffix}").symlink_to(f"deep/{name}")
    assert kind(tmp_path / "f")[1] == [f"deep/{name}", f"link{Path(name).suffix}"]
    (folder / "way").symlink_to(tmp_path)
    assert len(kind(tmp_path / "f")[1]) == 2, "a link to a folder is passed over"
    (folder / name).symlink_to(f"../private{Path(name).suffix}")
    with pytest.raises(
        DataError, match=rf"f/{name} leads out of its folder by a link, to .*; expected a file in the folder"
    ):
        source_of(str(tmp_path / "f"))
    (folder / name).rename(folder / "queries.jsonl")
    assert len(kind(tmp_path / "f")[1]) == 2, "what is not read may be a link to anywhere"


def test_the_documents_are_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = put(
        tmp_path / "texts",
        a_dot_md="# One\n\nText.\n\n## Part\n\nMore.",
        corpus_dot_jsonl_dot_zst="?",
        queries_dot_jsonl="{}",
    )
    out = tmp_path / "made"

    def made(documents: str = "files", code: str = "") -> list[str]:
        corpus, notes = converted(str(folder), out, Wanted(documents), code)
        assert len(notes) == 1 and "passed over: 1, the first: " in notes[0] and notes[0].endswith("corpus.jsonl.zst")
        return [json.loads(line)["_id"] for line in corpus.read_text().splitlines()]

    assert made() == ["a.md"] and "its documents are written to" in capsys.readouterr().err
    before = os.stat(out / "corpus.jsonl").st_mtime_ns
    assert made() == ["a.md"] and os.stat(out / "corpus.jsonl").st_mtime_ns == before
    assert capsys.readouterr().err == ""
    assert made("sections") == ["a.md#1", "a.md#2"]
    put(folder, c_dot_txt="New.")
    assert made("sections") == ["a.md#1", "a.md#2", "c.txt#1"]
    stamp = os.stat(out / "corpus.jsonl").st_mtime_ns
    made("sections", code="edited readers")
    assert os.stat(out / "corpus.jsonl").st_mtime_ns != stamp
    (out / "corpus.jsonl").unlink()
    assert len(made("sections", code="edited readers")) == 3


@pytest.mark.parametrize("name", ["log.txt", "corpus.parquet"])
def test_a_document_that_no_reader_takes_is_left_out(tmp_path: Path, name: str) -> None:
    """It was written, and a line of corpus.jsonl was refused by whatever read it."""
    folder, long = put(tmp_path / "f", a_dot_txt="A boat."), "A line.\n" * (LONGEST // 8)
    if name == "log.txt":
        (folder / name).write_text(long)
    else:
        pq.write_table(pa.table({"id": ["a.txt", name], "text": ["A boat.", long]}), folder / name)
    corpus, notes = converted(str(folder), tmp_path / "made", Wanted())
    assert [document.doc_id for _, document in read_documents(corpus, Warnings())] == ["a.txt"]
    assert notes[0] == f"document of more than 16,777,216 bytes, left out: 1, the first: {name}"


def test_another_text_of_the_same_size_and_date_is_read(tmp_path: Path) -> None:
    """Archives and mirrors give every file the date that they say, such as one and the same for all."""
    folder, out = put(tmp_path / "f", a_dot_txt="Version 1."), tmp_path / "made"
    os.utime(folder / "a.txt", (1, 1))
    converted(str(folder), out, Wanted())
    put(folder, a_dot_txt="Version 2.")
    os.utime(folder / "a.txt", (1, 1))
    assert "Version 2." in converted(str(folder), out, Wanted()).corpus.read_text()


def test_documents_are_made_again_with_other_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that took too long may be read with them."""
    folder, out = put(tmp_path / "f", a_dot_txt="Text."), tmp_path / "made"
    monkeypatch.delenv("PRETRIEVE_SIZE_LIMIT", raising=False)
    before = os.stat(converted(str(folder), out, Wanted()).corpus).st_mtime_ns
    monkeypatch.setenv("PRETRIEVE_SIZE_LIMIT", "10")
    assert os.stat(converted(str(folder), out, Wanted()).corpus).st_mtime_ns != before


@pytest.mark.parametrize("content", [b"", b'{"key": "', b"\xff", b"7", b"[" * 100_000, None])
def test_documents_are_made_again_where_the_record_is_damaged(tmp_path: Path, content: bytes | None) -> None:
    folder, out = put(tmp_path / "f", a_dot_txt="Text."), tmp_path / "made"
    made = converted(str(folder), out, Wanted())
    whole = (out / "made_of.json").read_bytes()
    content = json.dumps({"key": json.loads(whole)["key"]}).encode() if content is None else content  # it has no notes
    (out / "made_of.json").write_bytes(content)
    assert converted(str(folder), out, Wanted()) == made and (out / "made_of.json").read_bytes() == whole


def test_a_failed_reading_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = put(tmp_path / "t", corpus_dot_csv=TABLE)
    converted(str(folder), tmp_path / "made", Wanted())
    put(folder, corpus_dot_csv="id,text\nb,two\n,three\n")
    for _ in range(2):
        with pytest.raises(DataError, match="line 3: no id"):
            converted(str(folder), tmp_path / "made", Wanted())


def test_an_option_of_another_kind_is_refused(tmp_path: Path) -> None:
    """It would do nothing."""
    folder = put(tmp_path / "t", a_dot_csv=TABLE, b_dot_txt="Text.")
    for name, wanted, said in (
        ("a.csv", Wanted("sections"), "a.csv: a table, whose documents are its rows; leave documents 'sections' out"),
        ("b.txt", Wanted(columns={"id": "x"}), "b.txt: texts, which have no columns; leave columns {'id': 'x'} out"),
    ):
        with pytest.raises(ConfigError, match=said):
            documents_of(source_of(str(folder / name)), wanted, Warnings())
