"""Wikispeedia's texts and links: unwrapping, captions, where links are put, damage; the real files where they are there.

Seen to fail when: every line goes on in the next; a caption that ran on with the prose is kept; the footer stays; lists count
as prose; "Ireland" is placed in "Northern Ireland"; lower case moves offsets; titles without their bracket come before others'
own; a part of a word is a place; symbolic links in the archive are followed; links to articles that are not there pass; a cut
archive or a member outside of its folder passes.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from mirror import MIRROR, needs

from pretrieve.base.errors import DataError
from pretrieve.corpora.builder import Article, UnplacedLink
from pretrieve.corpora.parts import build
from pretrieve.corpora.readers import Part
from pretrieve.corpora.wikispeedia import decode_title, parse_text, place_links, read_links, read_wikispeedia
from pretrieve.corpora.wikitext import Link, Paragraph, Section
from pretrieve.raw.raw_text import Warnings

MOGUL = """   #copyright

Mogul (Édouard's)

2007 Schools Wikipedia Selection. Related subjects: Railway transport and
much else

   SRC 89 working on the daily passenger train at Melrose (near the sea).
   Enlarge
   SRC 89 working on the daily passenger train at Melrose ( near the sea).

   In the Whyte notation for the classification of steam locomotives by
   wheel arrangement, a ( mogul) has a pair of leading wheels.
   A line of verse that ends early is not joined to the one behind it.
     * A list item that is long enough for a paragraph and has a full stop.

                              A table's title that is set in the middle.

References

   A reference that is long enough to be taken for a paragraph of prose.

History

   The first true one wasn't built until the early 1860s, the first few
   being built in 1860 for the Louisville & Nashville railroad in Company.
   Boston and Maine Railroad 1366 on train 136 at Wyoming, September 1947.
   Enlarge
   Boston and Maine Railroad 1366 on train 136 at Wyoming, September 1947.
   Retrieved from " http://en.wikipedia.org/wiki/Mogul"
   This reference article is mainly selected from the English Wikipedia.
"""


def test_text() -> None:
    title, sections = parse_text(MOGUL)
    assert title == "Mogul (Édouard's)"
    assert [(s.level, s.heading, [p.text for p in s.paragraphs]) for s in sections] == [
        (
            1,
            "",
            [
                "In the Whyte notation for the classification of steam locomotives by wheel arrangement, a (mogul) has a "
                "pair of leading wheels.",
                "A line of verse that ends early is not joined to the one behind it.",
            ],
        ),
        (
            2,
            "History",
            [
                "The first true one wasn't built until the early 1860s, the first few being built in 1860 for the "
                "Louisville & Nashville railroad in Company.",
            ],
        ),
    ]
    assert parse_text(MOGUL.replace("\n", "\r\n")) == (title, sections)


def test_titles() -> None:
    assert decode_title("%E2%82%AC2_commemorative_coins") == "€2 commemorative coins"
    with pytest.raises(UnicodeDecodeError):
        decode_title("%FF")


def placed(texts: list[str], targets: list[str]) -> tuple[list[list[tuple[str, str]]], list[str]]:
    """(target, label) of the links in each passage; targets without a place."""
    section = Section("", 1, [Paragraph(text) for text in texts])
    missing = place_links([section], targets)
    for paragraph in section.paragraphs:
        assert [link.start for link in paragraph.links] == sorted(link.start for link in paragraph.links)
    links = [[(link.target, p.text[link.start : link.end]) for link in p.links] for p in section.paragraphs]
    return links, missing


def test_places_of_links() -> None:
    links, missing = placed(
        ["İstanbul and Northern Ireland, subspecies.", "In Ireland, KINGS of Ireland saw Mercury; Éire's monarchies."],
        ["Ireland", "Northern Ireland", "King", "Mercury (planet)", "Éire", "Monarchy", "Species", "Island"],
    )
    assert links == [
        [("Northern Ireland", "Northern Ireland")],
        [("Ireland", "Ireland"), ("King", "KINGS"), ("Mercury (planet)", "Mercury"), ("Éire", "Éire")],
    ]
    assert missing == ["Monarchy", "Species", "Island"]
    # A title of its own comes before another one's without its bracket; without the longer title the shorter one stands in it.
    assert placed(["Mercury."], ["Mercury (planet)", "Mercury"]) == ([[("Mercury", "Mercury")]], ["Mercury (planet)"])
    assert placed(["Northern Ireland."], ["Ireland"]) == ([[("Ireland", "Ireland")]], [])
    assert placed(["C++ and C."], ["C++"]) == ([[("C++", "C++")]], [])
    assert placed([], ["A"]) == ([], ["A"])


PROSE = "   {} is an article of this test, long enough for a paragraph of prose.\n"


def write(folder: Path, texts: dict[str, str | bytes], links: str, members: list[tarfile.TarInfo] | None = None):
    """The two files; member names as given."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in texts.items():
            content = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members or ():
            archive.addfile(member)
    (folder / "a.tar.gz").write_bytes(gzip.compress(buffer.getvalue()))
    (folder / "links.tsv").write_bytes(b"\xef\xbb\xbf# comment\n\n" + links.encode())
    return folder / "a.tar.gz", folder / "links.tsv"


def article(title: str, body: str = "") -> str:
    return f"   #copyright\n\n{title}\n\n2007 Schools Wikipedia Selection.\n\n{body or PROSE.format(title)}"


TEXTS = {
    "p/%C3%89ire.txt": article(
        "Éire", "   Éire is an island with a king, and this is a paragraph of its prose, yes.\n"
    ),
    "p/King.txt": article("King"),
    "p/List.txt": article("Lists", "   * Nothing\n"),
}


def test_exact_records(tmp_path: Path) -> None:
    warnings = Warnings()
    files = write(tmp_path, TEXTS, "%C3%89ire\tKing\r\n%C3%89ire\tList\nKing\t%C3%89ire\n")
    items = list(read_wikispeedia(*files, warnings))
    assert [item.title for item in items if isinstance(item, Article)] == ["Éire", "King", "List"]
    (paragraph,) = items[0].sections[0].paragraphs
    assert paragraph.links == [Link("King", 25, 29)]
    assert items[1] == UnplacedLink("Éire", "List") and UnplacedLink("King", "Éire") in items
    assert warnings.counts == {"file name and title differ": 1, "article without a paragraph": 1}
    unpacked = tmp_path / "folder"
    unpacked.mkdir()
    for name, text in TEXTS.items():
        (unpacked / Path(name).name).write_text(text, encoding="utf-8")
    assert list(read_wikispeedia(unpacked, files[1], Warnings())) == items
    counts = build([Part("w", "wikispeedia", dict(zip(("articles", "links"), files, strict=True)))], tmp_path / "out")
    assert (counts["links"], counts["links_unplaced"], counts["wlp_pairs"]) == (1, 2, 1)


def other(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    ("texts", "links", "members", "told"),
    [
        ({}, "King\n", [], ["links.tsv: line 3", "expected two titles"]),
        ({}, "King\t%FF\n", [], ["links.tsv: line 3", "not URL-encoded UTF-8"]),
        ({}, "King\tList\nKing\tList\n", [], ["line 4", "is repeated"]),
        ({}, "King\tQueen\n", [], ["names 'Queen'", "do not belong together"]),
        ({}, "Queen\tKing\n", [], ["names 'Queen'"]),
        ({"q/King.txt": article("King")}, "", [], ["King.txt is repeated"]),
        ({"p/B%FF.txt": article("B")}, "", [], ["B%FF.txt: the name"]),
        ({"p/B\udcff.txt": article("B")}, "", [], [".txt' is not UTF-8"]),
        ({"../../Rome.txt": article("Rome")}, "", [], ["member '../../Rome.txt' would leave its folder"]),
        ({"/Rome.txt": article("Rome")}, "", [], ["member '/Rome.txt' would leave"]),
        ({"p/B.txt": b"\xff"}, "", [], ["p/B.txt: byte 1 is not UTF-8"]),
        ({"p/B.html": "x"}, "", [], ["member 'p/B.html'", "TITLE.txt only"]),
        ({}, "", [other("p/evil.txt", tarfile.SYMTYPE)], ["member 'p/evil.txt'"]),
    ],
)
def test_damage(tmp_path: Path, texts, links: str, members, told: list[str]) -> None:
    files = write(tmp_path, TEXTS | texts, links, members)
    with pytest.raises(DataError) as error:
        list(read_wikispeedia(*files, Warnings()))
    for words in told:
        assert words in str(error.value)


def test_cut_archive(tmp_path: Path) -> None:
    archive, links = write(tmp_path, TEXTS, "")
    whole = archive.read_bytes()
    plain = gzip.decompress(whole)
    for content, told in (
        (whole[: len(whole) // 2], "ends in the middle of a stream"),
        (whole[:-8], "ends in the middle of a stream"),  # all of the texts are there
        (gzip.compress(plain[:700]), "unexpected end of data"),
        (gzip.compress(plain[:1024]), "stops without a tar file's end"),  # after the first article
        (plain[:1024], "stops without a tar file's end"),
        (b"no tar file at all" * 99, "not a whole archive"),
    ):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=rf"a\.tar\.gz: .*{told}.*fetch it again"):
            list(read_wikispeedia(archive, links, Warnings()))


@needs("wikispeedia")
def test_real_links() -> None:
    links = read_links(MIRROR / "wikispeedia/links.tsv.gz")
    assert sum(map(len, links.values())) == 119_879
    assert links["Áedán mac Gabráin"] == [
        "Bede", "Columba", "Dál Riata", "Great Britain", "Ireland", "Isle of Man", "Monarchy", "Orkney", "Picts", "Scotland",
        "Wales",
    ]  # fmt: skip


@needs("wikispeedia")
def test_real_articles(tmp_path: Path) -> None:
    """The first 300 articles: streams, so the rest is not read."""
    place = MIRROR / "wikispeedia"
    reader = read_wikispeedia(place / "wikispeedia_plaintext_articles.tar.gz", place / "links.tsv.gz", Warnings())
    found: list[Article] = []
    unplaced = 0
    while len(found) < 300:
        item = next(reader)
        if isinstance(item, Article):
            found.append(item)
        else:
            unplaced += 1
    names = [a.title for a in found]
    assert names[:2] == ["Áedán mac Gabráin", "Åland"]
    mogul = found[names.index("2-6-0")]
    assert [s.heading for s in mogul.sections][:2] == ["", "History"]
    texts = [p.text for a in found for s in a.sections for p in s.paragraphs]
    assert (
        mogul.sections[0]
        .paragraphs[0]
        .text.endswith("This type of locomotive was built from the early 1860s to the 1920s.")
    )
    assert not [text for text in texts if "Enlarge" in text.split() or "GNU Free" in text]
    placed = sum(len(p.links) for a in found for s in a.sections for p in s.paragraphs)
    assert 0.6 < placed / (placed + unplaced) < 0.8
