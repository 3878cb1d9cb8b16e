"""Corpora of one's own: plain text, folders of Markdown, BEIR's documents.

Seen to fail when: a text without blank lines is one paragraph; hidden files are read; the first paragraph of a book is lost;
list marks within a line go; escapes are not undone; code is text; links are relative to the root; links between files lead
nowhere; empty documents are articles; headings do not divide documents; a folder that cannot be read is taken for an empty one.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from mirror import MIRROR, needs

from pretrieve.base.errors import DataError
from pretrieve.corpora.beir_documents import read_beir_documents
from pretrieve.corpora.builder import Article, Redirect
from pretrieve.corpora.folder import read_folder
from pretrieve.corpora.markdown import sections_of
from pretrieve.corpora.parts import build
from pretrieve.corpora.plain_text import WORDS, paragraphs_of, read_plain
from pretrieve.corpora.readers import Part
from pretrieve.corpora.wikitext import Link
from pretrieve.raw.raw_text import Warnings


def texts(article: Article) -> list[tuple[int, str, list[str]]]:
    return [(s.level, s.heading, [p.text for p in s.paragraphs]) for s in article.sections]


def test_paragraphs() -> None:
    assert list(paragraphs_of(["  a b", "c\t d", " ", "", "e"])) == ["a b c d", "e"]
    assert list(paragraphs_of([])) == list(paragraphs_of(["", " "])) == []
    # One sentence a line and no blank lines: passages of whole lines, each just long enough.
    lines = [f"Sentence {i} of seven words ends here." for i in range(100)]
    cut = list(paragraphs_of(lines, words=50))
    assert " ".join(cut) == " ".join(lines)
    assert [len(paragraph.split()) for paragraph in cut] == [56] * 12 + [28]
    # A paragraph a line stays one, however long.
    assert list(paragraphs_of(["x " * 500, "y"])) == [("x " * 500).strip(), "y"]


def test_plain(tmp_path: Path) -> None:
    books = tmp_path / "books"
    (books / "Ω").mkdir(parents=True)
    (books / ".hidden").mkdir()
    (books / ".hidden/x.txt").write_text("Not read.")
    (books / "notes.pdf").write_bytes(b"\xff")
    (books / "empty.txt").write_text(" \n\n")
    (books / "Ω/émile 2.txt.gz").write_bytes(gzip.compress("\ufeffUn.\r\nDeux 𝄞.\r\n\r\nTrois.".encode()))
    (books / "b.txt").write_bytes(b"One\x0c line\xe2\x80\xa8still one.\n")
    warnings = Warnings()
    found = list(read_plain([books, books / "b.txt"], warnings))
    assert [(a.title, a.page_id, a.has_page, texts(a)) for a in found] == [
        ("b", -1, True, [(1, "", ["One line still one."])]),
        ("Ω/émile 2", -1, True, [(1, "", ["Un. Deux 𝄞.", "Trois."])]),
        ("b", -1, True, [(1, "", ["One line still one."])]),
    ]
    assert warnings.counts == {"file without text, left out": 1}
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match=r"nothing: no file in this folder ends in \.txt"):
        list(read_plain([tmp_path / "nothing"], Warnings()))
    with pytest.raises(DataError, match=r"none\.txt"):
        list(read_plain([tmp_path / "none.txt"], Warnings()))


def test_what_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "a.md").write_text("Text.")
    for name in ("none", "none.pdf", "none.html"):
        with pytest.raises(DataError, match=rf"{name}: cannot be read: No such file or directory; expected a file"):
            list(read_folder([tmp_path / name], Warnings()))

    def denied(path: str, scan: Callable = os.scandir) -> Iterator:
        if Path(path).name == "shut":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(DataError, match=r"shut: cannot be read: Permission denied; expected a file or folder"):
        list(read_folder([tmp_path], Warnings()))


def test_a_carriage_return_alone_ends_a_line(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_bytes(b"One.\rTwo.\r\rThree.\r")
    (tmp_path / "both.txt").write_bytes(b"One.\r\r\nTwo.\r\r\n\r\r\nThree.")  # no blank line but where one is meant
    (tmp_path / "notes.md").write_bytes(b"# Title\rOne.\r\r## Two\rThree.")
    for path in (tmp_path / "book.txt", tmp_path / "both.txt"):
        (book,) = read_plain([path], Warnings())
        assert texts(book) == [(1, "", ["One. Two.", "Three."])]
    (notes,) = (item for item in read_folder([tmp_path / "notes.md"], Warnings()) if isinstance(item, Article))
    assert (notes.title, texts(notes)) == ("Title", [(1, "", ["One."]), (2, "Two", ["Three."])])


def test_memory_of_a_long_book_does_not_grow(tmp_path: Path) -> None:
    def peak(lines: int) -> int:
        path = tmp_path / f"{lines}.txt"
        path.write_text("It was the best of times, it was the worst of times, and so on.\n" * lines)
        tracemalloc.start()
        (book,) = read_plain([path], Warnings())
        assert sum(1 for section in book.sections for _ in section.paragraphs) == -(-lines // 14)  # of 15 words
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert WORDS == 200
    peak(100)
    assert peak(30_000) <= 1.3 * peak(10_000)


MARKDOWN = """\ufeff---
title: "Setting up Ωmega"
tags: [a]
---
# Setting up Ωmega

An *introduction* with `code`, a [guide](guide/run%20it.md#start "hint"), the [web](https://a.b/c_(d)), snake_case_name,
2 * 3 * 4 and <b>tags</b> &amp; \\*escapes\\*. ![image](x.png)
<!-- a comment

over lines -->
> A quotation
> goes on.

- first item
- [x] second item

```python
# no heading
text that is code
```

    indented code

| a | b |
|---|---|
| table | cell |

Second level
------------
See [[run it|the guide]], [[Elsewhere]] and [that][1].

***

### Deep ###
Text.

## Empty

## 東京
1. One
2) Two 𝄞
"""


def test_markdown() -> None:
    title, sections = sections_of(MARKDOWN.removeprefix("\ufeff").split("\n"), lambda address: None)
    assert title == "Setting up Ωmega"
    assert [(s.level, s.heading, [p.text for p in s.paragraphs]) for s in sections] == [
        (
            1,
            "",
            [
                "An introduction with code, a guide, the web, snake_case_name, 2 * 3 * 4 and tags & *escapes*.",
                "A quotation goes on.",
                "first item second item",
            ],
        ),
        (2, "Second level", ["See the guide, Elsewhere and that."]),
        (3, "Deep", ["Text."]),
        (2, "東京", ["One Two 𝄞"]),
    ]
    assert sections_of([]) == ("", [sections[0].__class__("", 1)])
    # A first-level heading behind text divides; so does one beside a front matter's title.
    assert [s.heading for s in sections_of(["Text.", "", "# A", "More."])[1]] == ["", "A"]
    assert [s.heading for s in sections_of(["---", "title: T", "---", "# A", "More."])[1]] == ["", "A"]


ITEMS = """\
1.  Install it.

    > It needs Java.

    ```
    code in a fence
    ```

    * Nested.

      Within nested.

    Behind nested.

        code

-\tA tab.

\tBehind a tab.

Behind the list.

    code
"""


def test_paragraphs_within_a_list_are_text() -> None:
    """They were taken for code and lost: most of what npm's pages say of its commands."""
    _, (section,) = sections_of(ITEMS.split("\n"))
    assert [p.text for p in section.paragraphs] == [
        "Install it.",
        "It needs Java.",
        "Nested.",
        "Within nested.",
        "Behind nested.",
        "A tab.",
        "Behind a tab.",
        "Behind the list.",
    ]


def test_text_between_two_rules_is_no_front_matter() -> None:
    """All of it was lost, up to the second rule."""
    _, (section,) = sections_of(["---", "", "Text.", "", "---", "More."])
    assert [p.text for p in section.paragraphs] == ["Text.", "More."]
    for keys in (["", "title: T"], ["tags:", "- a", "title: T"], ["date created: 2024-01-31", "title: T"]):
        title, (section,) = sections_of(["---", *keys, "---", "More."])
        assert title == "T" and [p.text for p in section.paragraphs] == ["More."]


def test_markdown_keeps_private_characters() -> None:
    text = "An icon \U000f0041, \U00100041 and &#xf0041;, \\*escaped\\* \\A [a\\_b](a\\_b%20c.md)."
    _, (section,) = sections_of([text], lambda address: address)
    assert section.paragraphs[0].text == "An icon \U000f0041, \U00100041 and \U000f0041, *escaped* \\A a_b."
    assert [link.target for link in section.paragraphs[0].links] == ["A b%20c.md"]


def test_folder_and_its_links(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "guide").mkdir(parents=True)
    (folder / "setup.md").write_text(MARKDOWN, encoding="utf-8")
    (folder / "guide/run it.md").write_text("Back to [setup](../setup.md), [root](/setup.md), [out](#x).\n")
    (folder / "log.txt").write_text("Short.\n\nAnother # paragraph [setup](setup.md).\n")
    (folder / "none.markdown").write_text("```\ncode\n```\n")
    warnings = Warnings()
    items = list(read_folder([folder], warnings))
    assert [item.title for item in items if isinstance(item, Article)] == ["guide/run it", "log", "Setting up Ωmega"]
    assert [item for item in items if isinstance(item, Redirect)] == [
        Redirect("guide/run it.md", "guide/run it"),
        Redirect("run it", "guide/run it"),
        Redirect("log.txt", "log"),
        Redirect("setup.md", "Setting up Ωmega"),
        Redirect("setup", "Setting up Ωmega"),
    ]
    assert texts(items[3]) == [(1, "", ["Short.", "Another # paragraph [setup](setup.md)."])]
    (paragraph,) = items[0].sections[0].paragraphs
    assert paragraph.text == "Back to setup, root, out."
    assert paragraph.links == [Link("Setup.md", 8, 13), Link("Setup.md", 15, 19)]
    assert warnings.counts == {"file without text, left out": 1}
    counts = build([Part("docs", "folder", {"folder": str(folder)})], tmp_path / "out")
    assert counts["warnings"] == warnings.counts
    # Five links within the folder, one to a page that is not there; two passages link to another page.
    assert (counts["links"], counts["links_inside"], counts["wlp_pairs"]) == (5, 4, 3)


#: File, its text; and the address of a link in ``links.md`` that leads to it.
LINKED = [
    ("a/intro.md", "# Introduction\n\nOne.", "a/intro.md"),
    ("guide/intro.md", "# Introduction\n\nTwo.", "guide/intro.md#part"),
    ("guide/plain.txt", "Three.", "guide/plain"),
    ("intro.md", "# Introduction\n\nFour.", "intro"),
    ("C#.md", "# Introduction\n\nFive.", "C%23.md"),
    ("a|b [c].md", "Six.", "a%7Cb%20%5Bc%5D.md"),
    ("__init__.md", "Seven.", "__init__.md"),
    ("my file.md", "Eight.", "<my file.md>"),
]


@pytest.mark.parametrize(("name", "text", "address"), LINKED)
def test_a_link_leads_to_the_file_that_it_names(tmp_path: Path, name: str, text: str, address: str) -> None:
    """Several files have one title, and their names have signs of markup in them."""
    for file, content in [
        *((f"docs/{file}", text) for file, text, _ in LINKED),
        ("docs/links.md", f"See [it]({address})."),
    ]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    build([Part("docs", "folder", {"folder": str(tmp_path / "docs")})], tmp_path / "out")
    (link,) = pq.read_table(tmp_path / "out/links.parquet").to_pylist()
    passages = pq.read_table(tmp_path / "out/passages.parquet").to_pylist()
    assert passages[link["passage_id"]]["text"] == "See it."
    assert [p["text"] for p in passages if p["article_id"] == link["article_id"]] == [text.rpartition("\n")[2]]


def corpus_file(folder: Path, records: list[object]) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def test_beir(tmp_path: Path) -> None:
    warnings = Warnings()
    path = corpus_file(
        tmp_path,
        [
            {
                "_id": "1",
                "title": " A  title ",
                "text": "One\u2028line, #no heading.\nTwo.\n\nThree 𝄞.\n## Results ##\nFour.",
            },
            {"_id": "2", "text": "Without a title [[x]] *y*.", "metadata": {}},
            {"_id": "3", "title": "A title", "text": " \n"},
            {"_id": "4", "title": None, "text": "Five."},
        ],
    )
    found = list(read_beir_documents([path], warnings))
    assert [(a.title, texts(a)) for a in found] == [
        ("A title", [(1, "", ["One line, #no heading. Two.", "Three 𝄞."]), (2, "Results", ["Four."])]),
        ("", [(1, "", ["Without a title [[x]] *y*."])]),
        ("", [(1, "", ["Five."])]),
    ]
    assert warnings.counts == {"document without text, left out": 1}
    assert len(list(read_beir_documents([corpus_file(tmp_path, [{"_id": 7, "text": "Seven."}])], warnings))) == 1
    assert warnings.counts["id that is a number, read as text"] == 1
    for record, told in [
        ({"_id": "1", "title": "x"}, "line 1: no key 'text'"),
        ({"_id": 1.5, "text": "x"}, "line 1: '_id' is float '1.5'; expected a text that is not empty: write \"1.5\""),
        ({"_id": True, "text": "x"}, "line 1: '_id' is bool 'True'"),
        ({"_id": "", "text": "x"}, "line 1: '_id' is ''; expected a text that is not empty"),
        ({"_id": "1", "text": ["x"]}, "line 1: 'text' is list"),
        ({"_id": "1", "text": "x", "title": False}, "line 1: 'title' is bool 'False'"),
        ({"_id": "1", "text": "x", "title": 3}, "line 1: 'title' is int '3'"),
    ]:
        with pytest.raises(DataError, match=r"corpus\.jsonl: " + told):
            list(read_beir_documents([corpus_file(tmp_path, [record])], Warnings()))


@needs("scifact")
def test_real_scifact() -> None:
    documents = list(read_beir_documents([MIRROR / "scifact/corpus.jsonl.gz"], Warnings()))
    assert len(documents) == 5183
    assert documents[0].title.startswith(
        "Microstructural development of human newborn cerebral white matter assessed in"
    )
