"""Web pages and PDFs in a folder of texts.

Seen to fail when: scripts and comments count as text; a heading begins no section; nested blocks are one paragraph; the stated
encoding is ignored; one byte that does not fit changes the encoding; a PDF that is no PDF ends the run; a cut word stays cut; a
text of any length is believed of a PDF.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pdf import pdf

from pretrieve.base.errors import DataError
from pretrieve.corpora import folder as folder_reader
from pretrieve.corpora.any_corpus import folder_documents
from pretrieve.corpora.folder import read_pdf, read_web_page
from pretrieve.corpora.plain_text import UnreadableFile
from pretrieve.raw.raw_text import Warnings

PAGE = """<!doctype html><html><head><meta charset="iso-8859-1"><title>Tide\n tables</title><style>p {}</style></head>
<body><nav>Home</nav>intro <b>bo</b>ld<!-- hidden --><p>One
 <a href="x.html">paragraph</a>.<p>Two<h2>Setting <i>up</i></h2><ul><li># first<li>second caf\xe9</ul><script>x()</script>
<div>outer<div>inner</div>again<br>broken</div><h3></h3><h4>Empty</h4></body></html>"""


def sections(path: Path) -> list[tuple[str, int, list[str]]]:
    return [(s.heading, s.level, [p.text for p in s.paragraphs]) for s in read_web_page(path)[1]]


def test_a_web_page_is_its_prose(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(PAGE.encode("latin-1"))
    assert read_web_page(path)[0] == "Tide tables"
    assert sections(path) == [
        ("", 1, ["intro bold", "One paragraph.", "Two"]),
        ("Setting up", 2, ["# first", "second café", "outer", "inner", "again", "broken"]),
    ]
    path.write_text("<h1>Only a heading</h1>and text &amp; more")
    assert read_web_page(path)[0] == "Only a heading" and sections(path)[1] == (
        "Only a heading",
        2,
        ["and text & more"],
    )
    # A page may leave <head> out; a question and its answer are two blocks.
    path.write_text("<title>Tides</title><details><summary>How high?</summary>Two metres.</details>in May")
    assert sections(path) == [("", 1, ["How high?", "Two metres.", "in May"])]
    path.write_text("<p>The boat&shy;house <b>is&shy;land</b>")
    assert sections(path) == [("", 1, ["The boathouse island"])]
    fields = "<fieldset><legend>You</legend><label>Name <input></label><textarea>Hi</textarea></fieldset><button>Send</button>"
    path.write_text(f"<body>Now<form>It is high.{fields}</form>or low</body>")  # the whole page, in ASP.NET
    assert sections(path) == [("", 1, ["Now", "It is high.", "or low"])]
    path.write_text(
        "<form>Go<datalist><option>Foo</option></datalist><fieldset>Two</fieldset>Three</form><label>How?</label>"
    )
    assert sections(path) == [("", 1, ["Go", "Two", "Three", "How?"])]
    path.write_text("<h1>Boat&shy;house</h1>")
    assert read_web_page(path)[0] == "Boathouse"


STATED = '<meta charset="{}">'


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (STATED.format("utf-8").encode() + "Größe über".encode() + b"\xff Nordsee", "Größe über\ufffd Nordsee"),
        ("Größe über".encode() + b"\xff Nordsee", "Größe über\ufffd Nordsee"),
        (STATED.format("shift_jis").encode() + "①髙島屋は船".encode("cp932") + b"\x81", "①髙島屋は船\ufffd"),
        (STATED.format("x-sjis").encode() + "錨は船".encode("cp932"), "錨は船"),
        (STATED.format("shift_jis").encode() + "日本語のページは船".encode(), "日本語のページは船"),
        (STATED.format("gb2312").encode() + "朱镕基喆是一个字。".encode("gbk"), "朱镕基喆是一个字。"),
        (STATED.format("euc-kr").encode() + "똠방각하 뷁".encode("cp949"), "똠방각하 뷁"),
        ("Hello deep sea".encode("utf-16-le"), "Hello deep sea"),
        ("Größe über".encode("utf-16") + b"!", "Größe über\ufffd"),
        ((STATED.format("utf-8") + "Größe über").encode("latin-1"), "Größe über"),  # it is not what it states
        ((STATED.format("iso-8859-1") + "“It’s” über").encode("cp1252"), "“It’s” über"),
        ((STATED.format("utf-16") + "deep sea.").encode(), "deep sea."),
        ((STATED.format("zip") + "Größe").encode(), "Größe"),
        ((STATED.format("idna") + "Größe").encode(), "Größe"),
        (b"", ""),
    ],
)
def test_the_encoding_of_a_page(tmp_path: Path, caplog: pytest.LogCaptureFixture, page: bytes, text: str) -> None:
    (tmp_path / "a.html").write_bytes(page)
    assert "".join(paragraph for *_, part in sections(tmp_path / "a.html") for paragraph in part) == text
    assert not caplog.text


def test_a_guessed_encoding_is_said(tmp_path: Path) -> None:
    warnings = Warnings()
    pages = ["Größe".encode("latin-1"), "Größe".encode(), PAGE.encode("latin-1"), b'<meta charset="unicode">deep']
    for name, page in zip("abcd", pages, strict=True):
        (tmp_path / f"{name}.html").write_bytes(page)
    assert len(list(folder_documents(tmp_path, "files", warnings))) == 4
    assert warnings.summary().startswith(f"web page whose encoding is a guess: 1, the first: {tmp_path}/a.html: ")


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title> </title><h1></h1><h1>Tides</h1><p>Text.", "Tides"),
        ("<p>Text.<svg><title>Menu</title></svg><h1>Tides</h1>", "Tides"),
        ("<p>Text.<svg><title>Menu</title></svg>", ""),
    ],
)
def test_the_title_of_a_page_is_not_empty_nor_that_of_a_drawing(tmp_path: Path, page: str, title: str) -> None:
    path = tmp_path / "a.html"
    path.write_text(page)
    assert read_web_page(path)[0] == title


@pytest.mark.parametrize("body", ["", "<body>", "</head>", "</head><body>"])
def test_a_head_may_have_no_end(tmp_path: Path, body: str) -> None:
    """HTML allows it, and all of the page was taken for a part of the head: it was left out as one without text."""
    (tmp_path / "a.html").write_text(f"<!doctype html><head><title>T</title><style>a {{}}</style>{body}<p>Words.")
    assert sections(tmp_path / "a.html") == [("", 1, ["Words."])]


def test_deep_markup_is_read_without_recursion(tmp_path: Path) -> None:
    path = tmp_path / "deep.html"
    path.write_text(f"{'<div>' * 5000}deep{'</div>' * 5000}")
    assert sections(path) == [("", 1, ["deep"])]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_some_page(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("page") / "a.html"
    path.write_bytes(content)
    for _, _, texts in sections(path):
        assert all(text == " ".join(text.split()) != "" for text in texts)


def test_a_pdf_is_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([["The tide comes in twi-", "ce a day."], [], ["Second page."]], title="Tides"))
    title, pages = read_pdf(path)
    assert title == "Tides"
    assert [[p.text for p in page.paragraphs] for page in pages] == [
        ["The tide comes in twice a day."],
        ["Second page."],
    ]


@pytest.mark.parametrize("title", ["null  ", "99 0 R", "[]    "])
def test_a_title_that_is_no_text_is_none(tmp_path: Path, title: str) -> None:
    """It was NullObject, in front of every page."""
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([["Words."]], title="Tide").replace(b"(Tide)", title.encode()))
    assert read_pdf(path)[0] == ""


def test_a_title_may_stand_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    content = pdf([["Tide tables of the harbour"]], title="Tide")
    number = content.index(b"<< /Length")  # an object that is replaced by a text of the same length
    end = content.index(b"endstream", number) + len(b"endstream")
    path.write_bytes(content[:number] + b"(Tides)".ljust(end - number) + content[end:].replace(b"(Tide)", b"4 0 R "))
    assert read_pdf(path)[0] == "Tides"


def test_a_pdf_that_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pdf([["Words."]])
    contents = {
        "ok.pdf": whole,
        "none.pdf": pdf([[]]),
        "broken.PDF": b"%PDF-1.4\nnothing",
        "page.pdf": b"<html>sign in</html>",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "big.html").write_text("x" * 50)
    monkeypatch.setattr(folder_reader, "LONGEST", 40)
    warnings = Warnings()
    documents = list(folder_documents(tmp_path, "files", warnings))
    assert [document.doc_id for document in documents] == ["ok.pdf"] and documents[0].text == "Words."
    assert warnings.counts == {
        "web page of more than 40 bytes, left out": 1,
        "PDF that cannot be read, left out": 2,
        "file without text, left out": 1,
    }
    monkeypatch.setattr(folder_reader, "unpacked_limit", lambda size: 3)
    with pytest.raises(DataError, match=r"ok.pdf, its text: \d bytes or more; the limit is 3"):
        read_pdf(tmp_path / "ok.pdf")


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 600), st.binary(min_size=1, max_size=4))
def test_a_damaged_pdf_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, place: int, put: bytes) -> None:
    path = tmp_path_factory.mktemp("pdf") / "a.pdf"
    content = bytearray(pdf([["Words of a page."]]))
    content[place : place + len(put)] = put
    path.write_bytes(content)
    try:
        read_pdf(path)
    except UnreadableFile as error:
        assert "\n" not in str(error)


def test_a_page_keeps_its_number_behind_one_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf([["First."], [], ["Third."]]))
    documents = [tuple(document) for document in folder_documents(tmp_path, "sections", Warnings())]
    assert documents == [("a.pdf#1", "a", "First."), ("a.pdf#3", "a", "Third.")]


def test_pages_of_a_pdf_are_documents_where_sections_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf([["First."], ["Second."]]))
    (tmp_path / "b.htm").write_text("<p>Lead.<h2>Part</h2><p>More.")
    warnings = Warnings()
    documents = [tuple(document) for document in folder_documents(tmp_path, "sections", warnings)]
    assert documents == [
        ("a.pdf#1", "a", "First."),
        ("a.pdf#2", "a", "Second."),
        ("b.htm#1", "b", "Lead."),
        ("b.htm#2", "b: Part", "More."),
    ]
    assert [tuple(d) for d in folder_documents(tmp_path, "files", warnings)][1] == (
        "b.htm",
        "b",
        "Lead.\n\n## Part\n\nMore.",
    )
