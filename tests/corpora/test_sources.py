"""Raw files: found, checked, and put in place.

Seen to fail when: the checksum is not compared; the package is looked at before the mirror; the target is written before
the check; a wrong file ends the search; the message leaves out a checksum.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pretrieve.corpora.sources import Source, fetch, read_sources, sha256_of
from pretrieve.errors import DataError

GOOD = b"the right content\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    package = tmp_path / "site" / "pretrieve_test_data"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "raw.bin").write_bytes(GOOD)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "pretrieve_test_data", raising=False)
    digest = hashlib.sha256(GOOD).hexdigest()
    return Source("raw", "file.bin", "pretrieve_test_data", "raw.bin", digest, len(GOOD), "CC0", "tests")


def mirror_with(tmp_path: Path, content: bytes, folder: str = "") -> Path:
    mirror = tmp_path / "mirror"
    (mirror / folder).mkdir(parents=True)
    (mirror / folder / "file.bin").write_bytes(content)
    return mirror


def test_right_file_from_the_package(tmp_path: Path, source: Source) -> None:
    target = tmp_path / "data" / "sources" / "file.bin"
    assert fetch(source, target).endswith("pretrieve_test_data/raw.bin")
    assert target.read_bytes() == GOOD and sha256_of(target) == source.sha256
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("folder", ["", "deep/down"])
def test_mirror_comes_first(tmp_path: Path, source: Source, folder: str) -> None:
    mirror = mirror_with(tmp_path, GOOD, folder)
    assert fetch(source, tmp_path / "t", mirror) == str(mirror / folder / "file.bin")


def test_a_wrong_mirror_is_passed_over(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"wrong")
    assert "pretrieve_test_data" in fetch(source, tmp_path / "t", mirror)
    assert (tmp_path / "t").read_bytes() == GOOD


def test_a_damaged_file_is_named_and_replaces_nothing(tmp_path: Path, source: Source) -> None:
    mirror = mirror_with(tmp_path, b"damaged")
    target = tmp_path / "t"
    target.write_bytes(GOOD)
    with pytest.raises(DataError) as error:
        fetch(replace(source, package="no_such_package_here"), target, mirror)
    message = str(error.value)
    for part in (source.sha256, hashlib.sha256(b"damaged").hexdigest(), "file.bin", "--config mirror=", str(mirror)):
        assert part in message
    assert target.read_bytes() == GOOD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mirror", "site", "t"]


def test_missing(tmp_path: Path, source: Source) -> None:
    with pytest.raises(DataError, match="missing") as error:
        fetch(replace(source, package="no_such_package_here"), tmp_path / "t", tmp_path / "no-folder")
    for part in (source.sha256, "file.bin", "--config mirror=", "no_such_package_here", "no-folder"):
        assert part in str(error.value)


def test_the_list(tmp_path: Path) -> None:
    sources = read_sources(Path(__file__).parents[2] / "resources" / "sources.tsv")
    assert {"enwiki-fragment", "encyclopaedia-leads"} <= set(sources)
    for source in sources.values():
        assert len(source.sha256) == 64 and source.bytes > 0 and source.licence
    columns = "name\tfile\tpackage\tpath\tsha256\tbytes\tlicence\tneeded_by\n"
    for line in (
        "a\tf\tp\tq\t00\tmany\tCC0\tall",
        "a\tf\tp\tq\t00\t12\tCC0",
        "a\tf",
        "a\tf\tp\tq\t00\t1\tCC0\tall\tmore",
    ):
        table = tmp_path / "sources.tsv"
        table.write_text("# comment\n" + columns + line + "\n")
        with pytest.raises(DataError, match=r"sources\.tsv: source 1 \('a'\) is not complete"):
            read_sources(table)
