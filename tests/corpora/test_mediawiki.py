"""The dump reader: containers, damage, and memory.

Seen to fail when: ``root.clear()`` is left out (memory grows with the dump); the namespace is not looked at; the reader
goes by the file's name instead of its first bytes; ``EOFError`` or ``zlib.error`` is not caught; ``last`` is not kept.
"""

from __future__ import annotations

import bz2
import gzip
import re
import tracemalloc
from pathlib import Path

import pytest

from pretrieve.corpora.mediawiki import Page, read_pages
from pretrieve.errors import DataError


def generated(pages: int, characters: int = 400) -> bytes:
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo/>\n'
    body = "".join(
        f"<page><title>Page {i}</title><ns>0</ns><id>{i}</id><revision><id>{i + 9}</id><contributor><id>3</id></contributor>"
        f"<text>{'word ' * (characters // 5)}{i}</text></revision></page>\n"
        for i in range(pages)
    )
    return (head + body + "</mediawiki>\n").encode()


def test_pages(dump: Path) -> None:
    pages = {page.title: page for page in read_pages(dump)}
    assert list(pages) == ["Anchor", "Boat", "Ketch", "Vessel", "Sea floor"]
    assert pages["Vessel"] == Page(13, "Vessel", "Boat", "#REDIRECT [[Boat]]")
    assert pages["Ketch"].page_id == 12 and pages["Ketch"].redirect is None
    assert "[[Vessel|boat]]" in pages["Ketch"].text
    assert [page.title for page in read_pages(dump, namespace=1)] == ["Talk:Boat"]


@pytest.mark.parametrize("kind", ["plain", "gz", "bz2", "multistream"])
def test_containers(tmp_path: Path, kind: str) -> None:
    data = generated(40)
    half = len(data) // 2
    packed = {
        "plain": data,
        "gz": gzip.compress(data),
        "bz2": bz2.compress(data),
        "multistream": bz2.compress(data[:half]) + bz2.compress(data[half:]),
    }[kind]
    path = tmp_path / "dump"  # no suffix: told apart by content
    path.write_bytes(packed)
    pages = list(read_pages(path))
    assert [page.title for page in pages] == [f"Page {i}" for i in range(40)]
    assert [page.text.split()[-1] for page in pages] == [str(i) for i in range(40)]


@pytest.mark.parametrize("compress", [bz2.compress, gzip.compress, bytes])
def test_truncated(tmp_path: Path, compress) -> None:
    data = generated(2000, 2000) if compress is not bytes else generated(50)
    path = tmp_path / "cut.xml.x"
    packed = compress(data)
    path.write_bytes(packed[: int(len(packed) * 0.7)])
    seen = []
    with pytest.raises(DataError) as error:
        seen.extend(page.title for page in read_pages(path))
        pytest.fail("the end of the file is missing, and nobody noticed")
    assert str(path) in str(error.value)
    assert "last whole page: Page " in str(error.value) or "last whole page: none" in str(error.value)


def test_truncated_multistream_names_the_last_page(tmp_path: Path) -> None:
    data = generated(400, 2000)
    cut = data.index(b"<page><title>Page 300<")
    path = tmp_path / "multi.bz2"
    second = bz2.compress(data[cut:])
    path.write_bytes(bz2.compress(data[:cut]) + second[: len(second) // 2])
    titles = []
    with pytest.raises(DataError) as error:
        titles.extend(page.title for page in read_pages(path))
    last = int(re.search(r"last whole page: Page (\d+)\)", str(error.value))[1])
    assert 250 < last < 300 and str(path) in str(error.value)  # a block of the parser's may be lost with the stream


@pytest.mark.parametrize("at", [10, 0.5, -8], ids=["start", "middle", "checksum"])
def test_damaged_gzip(tmp_path: Path, at: float) -> None:
    packed = bytearray(gzip.compress(generated(3000)))
    place = int(len(packed) * at) if isinstance(at, float) else at % len(packed)
    packed[place : place + 4] = b"\xff\xff\xff\xff"
    path = tmp_path / "bad.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"bad\.gz"):
        list(read_pages(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not xml at all", "line 1"),
        (b"<html><body/></html>", "root element is <html>, expected <mediawiki>"),
        (b"", "last whole page: none"),
        (b"<mediawiki>\n<page></title></page></mediawiki>", "line 2"),
    ],
)
def test_not_a_dump(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.xml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        list(read_pages(path))
    assert str(path) in str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="[Nn]o such file"):
        list(read_pages(tmp_path / "none.xml"))


def test_memory_does_not_grow(tmp_path: Path) -> None:
    def peak(pages: int) -> int:
        path = tmp_path / f"{pages}.xml"
        path.write_bytes(generated(pages, 2000))
        tracemalloc.start()
        count = sum(1 for _ in read_pages(path))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == pages
        return most

    peak(20)  # imports and caches
    small, large = peak(150), peak(1500)
    assert large <= 1.5 * small
