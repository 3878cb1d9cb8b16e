"""The dump reader: containers, damage, and memory.

Seen to fail when: ``root.clear()`` is left out (memory grows with the dump); the namespace is not looked at; the reader
goes by the file's name instead of its first bytes; ``EOFError`` or ``zlib.error`` is not caught; ``last`` is not kept; a page
without ``<ns>`` is in namespace 0; ``<redirect />`` without a title leads to ''; numbers and encodings are not looked at.
"""

from __future__ import annotations

import bz2
import gzip
import re
import tracemalloc
from pathlib import Path

import pytest

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Redirect
from pretrieve.corpora.mediawiki import Page, read_encyclopedia, read_pages


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


NAMESPACES = (
    '<siteinfo><namespaces><namespace key="-1">Special</namespace><namespace key="0" />'
    '<namespace key="1">Talk</namespace><namespace key="10">Template</namespace></namespaces></siteinfo>'
)
ROME = "<page><title>Rome</title>{}<revision><text>Rome, see #REDIRECT [[Paris]].</text></revision></page>"


def export(folder: Path, pages: str, version: str = "0.3", siteinfo: str = NAMESPACES, begin: str = "") -> Path:
    path = folder / "dump.xml"
    head = f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-{version}/" version="{version}">'
    path.write_text(f"{begin}{head}{siteinfo}\n{pages}</mediawiki>\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("flag", ["", "<redirect />"])
@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("#REDIRECT [[Rome]]", "Rome"),
        ("\n#redirect: [[ Rome (city)|Rome]] {{R}} [[Paris]]", "Rome (city)"),
        ("#Redirect[[Rome#Begin]]", "Rome#Begin"),
    ],
)
def test_pages_before_0_6_have_no_namespace(tmp_path: Path, text: str, target: str, flag: str) -> None:
    """Export-0.3 has neither <ns> nor <redirect>, 0.4 and 0.5 have <redirect /> without a title."""
    titles = ("2001: A Space Odyssey", "Talk", "Talk:Rome", "Template:Foo")
    pages = "".join(
        f"<page><title>{title}</title><id>{number}</id><revision><text>A text.</text></revision></page>"
        for number, title in enumerate(titles)
    )
    pages += f"<page><title>Roma</title><id>8</id>{flag}<revision><text>{text}</text></revision></page>"
    pages += f"<page><title>Talk:Roma</title>{flag}<revision><text>{text}</text></revision></page>"
    path = export(tmp_path, ROME.format("<id>9</id>") + pages)
    found = [(page.title, page.redirect) for page in read_pages(path)]
    assert found == [("Rome", None), ("2001: A Space Odyssey", None), ("Talk", None), ("Roma", target)]
    assert [item for item in read_encyclopedia([path]) if isinstance(item, Redirect)] == [
        Redirect("Roma", target.removesuffix("#Begin"))
    ], "an article's title has no section"
    found = [(page.title, page.redirect) for page in read_pages(path, namespace=1)]
    assert found == [("Talk:Rome", None), ("Talk:Roma", target)]


def test_another_language_s_redirect_before_0_6(tmp_path: Path) -> None:
    page = "<page><title>Roma</title>{}<revision><text>#WEITERLEITUNG [[Rom]]</text></revision></page>"
    assert next(read_pages(export(tmp_path, page.format("<redirect />"), "0.5"))).redirect == "Rom"
    assert next(read_pages(export(tmp_path, page.format("")))).redirect is None  # as the docstring says
    empty = "<page><title>Roma</title><redirect /><revision><text /></revision></page>"
    assert next(read_pages(export(tmp_path, empty, "0.4"))).redirect == ""


def test_what_a_page_says_of_itself_counts(tmp_path: Path) -> None:
    """Since 0.6: neither the text nor the title's prefix is looked at."""
    text = "<revision><text>#REDIRECT [[Rome]]</text></revision>"
    pages = f"<page><title>Talk:R</title><ns>0</ns><id>1</id>{text}</page>"
    for siteinfo in (NAMESPACES, ""):
        assert list(read_pages(export(tmp_path, pages, "0.6", siteinfo))) == [
            Page(1, "Talk:R", None, "#REDIRECT [[Rome]]")
        ]


@pytest.mark.parametrize(
    ("element", "options", "told"),
    [
        ("<ns>x</ns><id>1</id>", {}, ["page 'Rome': <ns> is 'x'; expected a whole number"]),
        ("<ns>0</ns><id>1x</id>", {}, ["page 'Rome': <id> is '1x'; expected a whole number of at most"]),
        (f"<ns>0</ns><id>{10**23}</id>", {}, [f"<id> is '{10**23}'", "at most 9,223,372,036,854,775,807"]),
        (f"<ns>0</ns><id>{'9' * 5000}</id>", {}, ["<id> is '9999"]),
        ("<id>1</id>", {"siteinfo": "<siteinfo/>"}, ["'Rome' has no <ns>, and the dump lacks <siteinfo><namespaces>"]),
        ("<ns>0</ns>", {"siteinfo": NAMESPACES.replace('"10"', '"x"')}, ["<namespace key='x'>Template"]),
        ("<ns>0</ns>", {"begin": '<?xml version="1.0" encoding="foo"?>'}, ["unknown encoding: foo", "expected UTF-8"]),
        ("<ns>0</ns>", {"begin": '<?xml version="1.0" encoding="utf-7"?>'}, ["encoding", "expected UTF-8"]),
    ],
)
def test_a_page_that_no_dump_has(tmp_path: Path, element: str, options: dict[str, str], told: list[str]) -> None:
    path = export(tmp_path, ROME.format(element), **options)
    with pytest.raises(DataError) as error:
        list(read_pages(path))
    for words in (f"{path}: ", "fetch", *told):
        assert words in str(error.value)
    assert len(str(error.value)) < 400


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
