"""Wikitext to prose and links: by hand, on malformed pages, and against wikitextparser on real pages.

Seen to fail when: a link's start is counted from its opening bracket; ``_MEDIA`` runs once (an image within a caption);
templates are removed outermost first; ``NON_PROSE_HEADINGS`` is not looked at; the first section is left out when empty;
entities are resolved before tags; interwiki labels go away with their links; ``_COMMENT`` needs its end (the run does not
end).
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from pretrieve.corpora import wikitext
from pretrieve.corpora.mediawiki import read_pages
from pretrieve.corpora.wikitext import Link, Paragraph, link_target, parse_page, parse_paragraph

FRAGMENT = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
TAIL = " The rest of this paragraph makes it long enough to be taken for prose by the reader."


def texts(wikitext: str) -> list[str]:
    return [paragraph.text for section in parse_page(wikitext) for paragraph in section.paragraphs]


def only(wikitext: str) -> Paragraph:
    (paragraph,) = [paragraph for section in parse_page(wikitext + TAIL) for paragraph in section.paragraphs]
    return Paragraph(paragraph.text.removesuffix(TAIL), paragraph.links)


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("A {{convert|5|km|mi}} walk.", "A 5 km walk."),
        ("From {{convert|5|to|6|km|mi|abbr=on}} away.", "From 5 to 6 km away."),
        ("Gone{{efn|A note with {{lang|de|ein Wort}} in it}} away.", "Gone away."),
        ("The {{lang|de|''Wort {{nowrap|zwei}}''}} stays.", "The Wort zwei stays."),
        ("In {{lang-la|verbum|lit=word}} it is so.", "In verbum it is so."),
        ("Half: {{frac|1|2}} and {{frac|3|1|2}}.", "Half: 1/2 and 3 1/2."),
        ("Text<ref>A note.</ref> and<ref name=a /> more<ref name=b>{{cite|x}}<math>y</math></ref>.", "Text and more."),
        ("A <!-- hidden [[link]] --> comment.", "A comment."),
        ("'''Bold''' and ''italic'' and '''''both'''''.", "Bold and italic and both."),
        ("An [http://example.org/a external link] and [http://example.org] none.", "An external link and none."),
        ("H<sub>2</sub>O and 1&nbsp;000 and x &lt;b&gt; y &amp; z.", "H2O and 1 000 and x <b> y & z."),
        ("Word ({{IPA|x}}; {{lang|el|y}}) and (, z) and ({{IPA|x}}) end.", "Word (y) and (z) and end."),
        ("Near [[File:a.jpg|thumb|of a [[Boat]] and a [[Sea|deep sea]]]] the end.", "Near the end."),
        ("Near [[Image:a.jpg|An [[Image:b.jpg|icon of a [[Boat]]]] in a caption]] the end.", "Near the end."),
        ("The [[fr:Bateau]] film [[Ben-Hur: A Tale|Ben-Hur]] is long.", "The film Ben-Hur is long."),
        ("The [[:fr:Quai|quay]] was [[wikt:oblique|oblique]]ly lit.", "The quay was obliquely lit."),
        ("Some <nowiki>[[text]]</nowiki> __NOTOC__ here.", "Some text here."),
        ("Of the [[Boat (film)|]] and the [[#History|past]].", "Of the Boat and the past."),
    ],
)
def test_text_of_markup(wikitext: str, text: str) -> None:
    assert only(wikitext).text == text


def test_links_point_at_their_labels() -> None:
    paragraph = only(
        "''The'' {{convert|2|m}} [[boat]]s — 日本 😀 — of [[Sea_floor#Mud|the sea]], [[ Old  Sea ]] & [[:Sea]]."
    )
    found = [(link.target, paragraph.text[link.start : link.end]) for link in paragraph.links]
    assert found == [("Boat", "boats"), ("Sea floor", "the sea"), ("Old Sea", " Old Sea "), ("Sea", "Sea")]


def test_captions_tables_and_templates_keep_no_links() -> None:
    wikitext = f"""{{{{Infobox|a=[[One]]|b={{{{nested|[[Two]]}}}}}}}}
[[File:x.jpg|thumb|A caption with [[Three]] that is long enough to be taken for prose, if it were not a caption.]]
{{| class="wikitable"
| [[Four]] in a table that is long enough to be taken for prose, if it were not in a table of this page.
{{|
| nested [[Five]]
|}}
|}}
Prose with [[Six]].{TAIL}"""
    (paragraph,) = parse_page(wikitext)[0].paragraphs
    assert [link.target for link in paragraph.links] == ["Six"]


def test_unbalanced_brackets_keep_words_and_drop_offsets() -> None:
    assert parse_paragraph("A [[boat]] and [[broken") == Paragraph("A boat and broken", [])
    assert parse_paragraph("A [[boat]].") == Paragraph("A boat.", [Link("Boat", 2, 6)])


def test_sections() -> None:
    sections = parse_page(
        f"First.{TAIL}\n\n== ''One'' ==\nOne.{TAIL}\n=== [[Deep|Deeper]] ===\n* List.{TAIL}\nTwo.{TAIL}\nThree.{TAIL}\n"
        f"== Empty ==\n\n==References==\nGone.{TAIL}\n== SEE ALSO ==\nGone.{TAIL}\n==Last==\n:Indented.{TAIL}\nFour.{TAIL}"
    )
    assert [(s.heading, s.level, [p.text.removesuffix(TAIL) for p in s.paragraphs]) for s in sections] == [
        ("", 1, ["First."]),
        ("One", 2, ["One."]),
        ("Deeper", 3, ["Two.", "Three."]),
        ("Last", 2, ["Four."]),
    ]


@pytest.mark.parametrize("wikitext", ["", "== Only ==\nA heading comes first on this page." + TAIL, "short"])
def test_first_section_is_there_even_when_empty(wikitext: str) -> None:
    first = parse_page(wikitext)[0]
    assert (first.heading, first.level, first.paragraphs) == ("", 1, [])


def test_short_lines_and_lists_are_no_prose() -> None:
    assert (
        texts(
            "A caption.\n* List."
            + TAIL
            + "\n#"
            + TAIL
            + "\n|"
            + TAIL
            + "\nNo stop at its end, though it is"
            + TAIL[:-1]
        )
        == []
    )


@pytest.mark.parametrize(
    "piece",
    [
        "<ref>",
        "<!-- ",
        "{{",
        "}}",
        "{{a|",
        "{|\n",
        "[[",
        "]]",
        "[[File:a ",
        "[http://a ",
        "== a ",
        "'''",
        "<b ",
        "(;",
        ";",
        "&#",
    ],
)
def test_malformed_pages_end(piece: str) -> None:
    """A quadratic pass would take minutes here."""
    before = "Whole." + TAIL + "\n\n"
    assert texts(before + piece * 50_000)[:1] == ["Whole." + TAIL]
    assert isinstance(parse_page(before + "(" + piece * 100_000 + TAIL), list)


def test_no_pattern_is_possessive() -> None:
    """CPython 3.11 before 3.11.5 matches some of them wrongly, so that a corpus would depend on the patch release."""
    patterns = [value.pattern for value in vars(wikitext).values() if isinstance(value, re.Pattern)]
    assert len(patterns) > 10
    assert not [
        pattern for pattern in patterns if re.search(r"(?<!\\)(?:[*+?}])\+|\(\?>", re.sub(r"\[[^\]]*\]", "", pattern))
    ]


def test_link_target() -> None:
    titles = ["boat", " boat_ yard ", ":boat", "Boat#Sails", "", "#x", "éclair"]
    assert [link_target(title) for title in titles] == ["Boat", "Boat yard", "Boat", "Boat", "", "", "Éclair"]


@pytest.fixture(scope="module")
def real_pages():
    package = importlib.util.find_spec("gensim")
    path = Path(package.submodule_search_locations[0]) / FRAGMENT if package else None
    if path is None or not path.is_file():
        pytest.skip("the installed gensim package has no dump fragment in its test data")
    return list(read_pages(path))


def test_real_fragment(real_pages) -> None:
    assert len(real_pages) == 205
    articles = [page for page in real_pages if page.redirect is None]
    assert len(articles) == 106
    paragraphs = [p for page in articles for section in parse_page(page.text) for p in section.paragraphs]
    links = 0
    for paragraph in paragraphs:
        assert not re.search(r"\[\[|\]\]|\{\{|\}\}|<ref|'''|&nbsp;", paragraph.text), paragraph.text
        end = 0
        for link in paragraph.links:
            assert link.target and paragraph.text[link.start : link.end].strip(), (link, paragraph.text)
            assert end <= link.start < link.end <= len(paragraph.text)
            end = link.end
        links += len(paragraph.links)
    assert len(paragraphs) > 4000 and links > 15_000


def test_addresses_as_a_pattern_without_bounds_finds_them(real_pages) -> None:
    """The shorter pattern needs days for a megabyte of ``[//`` (test_text_in_one_go.py)."""
    slow = r"\[(?:https?:|ftp:|mailto:)?//[^\s\]]*\s*([^\[\]]*)\]|\[mailto:[^\s\]]*\s*([^\[\]]*)\]"
    found = 0
    for page in real_pages:
        labels = [match[1] or match[2] or "" for match in re.finditer(slow, page.text, re.I)]
        assert [(match[1] or "").lstrip() for match in wikitext._EXTERNAL.finditer(page.text)] == labels
        found += len(labels)
    assert found > 1000


def test_words_agree_with_wikitextparser(real_pages) -> None:
    wikitextparser = pytest.importorskip("wikitextparser")
    word = re.compile(r"\w+")
    articles = sorted((p for p in real_pages if p.redirect is None), key=lambda page: (len(page.text), page.page_id))
    for page in articles[20:60:8]:
        parsed = wikitextparser.parse(re.sub(r"<ref[^>/]*>.*?</ref>|<ref[^>]*/>", "", page.text, flags=re.S))
        reference = set(word.findall(parsed.plain_text()))
        ours = word.findall(" ".join(texts(page.text)))
        assert len(ours) > 50, page.title
        assert sum(w in reference for w in ours) >= 0.97 * len(ours), page.title
