"""A folder of texts → ``corpus.jsonl``.

Seen to fail when: headings are left out of the text; the id is the first name of a file that is not its title; files that
are passed over are not counted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.corpora.any_corpus import folder_documents
from pretrieve.corpora.beir_documents import read_beir_documents, read_documents, write_documents
from pretrieve.raw.raw_text import Warnings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "guide.md").write_text(
        "# The guide\n\nIntro „quoted“.\n\n## Set up\n\nDo this.\n\nThen that.\n", encoding="utf-8"
    )
    (folder / "deep/guide.md").write_text("# Other\n\nText of the other.\n")
    (folder / "plain.txt").write_text("First paragraph\nin two lines.\n\nSecond.\n")
    (folder / "empty.md").write_text("\n")
    return folder


def records(path: Path) -> dict[str, dict]:
    return {record["_id"]: record for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


def test_files_become_documents_with_their_sections(folder: Path, tmp_path: Path) -> None:
    warnings = Warnings()
    assert write_documents(tmp_path / "corpus.jsonl", folder_documents(folder, "files", warnings)) == 3
    found = records(tmp_path / "corpus.jsonl")
    assert set(found) == {"guide.md", "deep/guide.md", "plain.txt"} and sum(warnings.counts.values()) == 1
    assert found["guide.md"]["title"] == "The guide"
    assert found["guide.md"]["text"] == "Intro „quoted“.\n\n## Set up\n\nDo this.\n\nThen that."
    articles = {article.title: article for article in read_beir_documents([tmp_path / "corpus.jsonl"], Warnings())}
    headings = [(s.heading, [p.text for p in s.paragraphs]) for s in articles["The guide"].sections]
    assert headings == [("", ["Intro „quoted“."]), ("Set up", ["Do this.", "Then that."])], (
        "pre-training sees the sections"
    )


def test_sections_become_documents(folder: Path, tmp_path: Path) -> None:
    write_documents(tmp_path / "corpus.jsonl", folder_documents(folder, "sections", Warnings()))
    found = records(tmp_path / "corpus.jsonl")
    assert found["guide.md#2"] == {"_id": "guide.md#2", "title": "The guide: Set up", "text": "Do this.\n\nThen that."}
    assert found["guide.md#1"]["title"] == "The guide" and len(found) == 4


def test_a_title_that_is_the_name_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, title in (("a.md", "a.md"), ("b.md", "b"), ("a.txt", "")):
        (folder / name).write_text(f"# {title}\n\nText.\n")
    documents = list(folder_documents(folder, "files", Warnings()))
    assert [(document.doc_id, document.title) for document in documents] == [
        ("a.md", "a.md"), ("a.txt", "a"), ("b.md", "b")
    ]  # fmt: skip
    sections = [document.doc_id for document in folder_documents(folder, "sections", Warnings())]
    assert sections == ["a.md#1", "a.txt#1", "b.md#1"]


def test_files_that_are_passed_over_are_counted(folder: Path) -> None:
    for name in ("guide.rst", "deep/log.txt.gz", ".hidden.rst"):
        (folder / name).write_bytes(b"x")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    (folder / "dangling.md").symlink_to("nowhere.md")
    (folder / "link.md").symlink_to("guide.md")
    (folder / "linked").symlink_to("deep")
    warnings = Warnings()
    documents = list(folder_documents(folder, "files", warnings))
    assert [document.doc_id for document in documents] == ["deep/guide.md", "guide.md", "link.md", "plain.txt"]
    kind = "no .md, .markdown, .html, .htm, .pdf, .txt file, passed over"
    assert warnings.counts == {"file without text, left out": 1, kind: 4}
    assert f"{kind}: 4, the first: {folder / 'dangling.md'}" in warnings.summary()


@pytest.mark.parametrize("name", [b"b\xff.txt", b"d\xff/b.md"])
def test_a_name_that_is_not_utf8(folder: Path, tmp_path: Path, name: bytes) -> None:
    path = folder / os.fsdecode(name)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text("Text.")
    except OSError:
        pytest.skip("this file system takes no such name")
    with pytest.raises(DataError) as error:
        write_documents(tmp_path / "corpus.jsonl", folder_documents(folder, "files", Warnings()))
    assert f"{folder}: the file name {name!r} is not UTF-8" in str(error.value) and "rename" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts"]


def test_what_cannot_be_made_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="would have no document"):
        write_documents(tmp_path / "none.jsonl", [])
    assert not (tmp_path / "none.jsonl").exists()
    for name in ("a.csv", "a.TSV.gz", "a.parquet"):
        with pytest.raises(DataError, match=f"{name}: a table; expected what pretrieve make-corpus .*{name} --out"):
            next(read_documents(tmp_path / name, Warnings()))
