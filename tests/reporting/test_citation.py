"""The papers are cited alike wherever they are named: CITATION.cff, README.md and references/.

Seen to fail when: an author is missing in CITATION.cff; a title differs in README.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAPERS = {
    file.parent.name: yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in ROOT.glob("references/*/paper.yaml")
    if file.parent.name != "pretrieve"  # the project's own tables
}


@pytest.fixture(scope="module")
def cited() -> dict:
    entries = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert len(entries) == len(PAPERS) == 5
    return {entry["title"]: entry for entry in entries}


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_a_paper_is_cited_as_its_tables_name_it(name, cited):
    paper = PAPERS[name]
    entry = cited[paper["title"]]
    authors = [f"{author['given-names']} {author['family-names']}" for author in entry["authors"]]
    assert (authors, entry["year"]) == (paper["authors"], paper["year"])
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{', '.join(authors)}. *{paper['title']}" in readme
