"""A folder of texts → ``corpus.jsonl``.

Seen to fail when: headings are left out of the text.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretrieve.corpora.beir_documents import read_beir_documents
from pretrieve.corpora.beir_writing import folder_documents, write_documents
from pretrieve.corpora.raw_text import Warnings
from pretrieve.errors import ConfigError, DataError


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


def test_what_cannot_be_made_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="documents 'pages' is not allowed; allowed: files, sections"):
        list(folder_documents(folder, "pages", Warnings()))
    with pytest.raises(DataError, match="would have no document"):
        write_documents(tmp_path / "none.jsonl", [])
    assert not (tmp_path / "none.jsonl").exists()
