"""Corpora of the configuration: registry, several parts, titles left out; and overlap with a test set.

Seen to fail when: titles of earlier parts come again; earlier parts, or all but the last, are forgotten; a line that is no
title excludes articles without one; a paragraph counts once for each of its sentences; judged documents count as relevant; one
8-gram is enough; the order of words is not looked at; case counts; a corpus without text passes; redirects are dropped.
"""

from __future__ import annotations

import gzip
import inspect
import json
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.corpora.builder import Article, Redirect, build_corpus
from pretrieve.corpora.contamination import grams, measure_overlap, write_overlap
from pretrieve.corpora.parts import build, read_titles
from pretrieve.corpora.readers import READERS, Part, parts_of
from pretrieve.corpora.titles import EarlierTitles, TitleTable, title_hash
from pretrieve.corpora.wikitext import Link, Paragraph, Section

CORPORA = {
    "demo": {"dump": "fragment", "leads": None},
    "wiki": {"reader": "extracted", "files": {"text": "aa.bz2", "text-2": "ab.bz2"}},
    "both": {"parts": ["demo", "wiki"], "exclude": "titles.txt"},
}


def test_shapes_of_the_configuration() -> None:
    assert parts_of(CORPORA, "demo") == [Part("demo", "mediawiki", {"dump": "fragment"})]
    wiki = Part("wiki", "extracted", {"text": "aa.bz2", "text-2": "ab.bz2"})
    assert parts_of(CORPORA, "wiki") == [wiki]
    assert parts_of(CORPORA, "both") == [*parts_of(CORPORA, "demo"), wiki]


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        ({}, "none of dump, reader and parts; expected exactly one"),
        ({"dump": "x", "reader": "plain"}, "found dump, reader of"),
        ({"reader": "extractd", "files": {"text": "x"}}, "did you mean 'extracted'"),
        (
            {"reader": "extracted", "files": {"texts": "x"}},
            "found 'texts', 'no text'; expected text, text-… (more of it)",
        ),
        (
            {"reader": "wikispeedia", "files": {"articles": "x", "links": None}},
            "found 'no links'; expected articles, links",
        ),
        ({"parts": ["wikki"]}, "parts: 'wikki' is not a corpus; there are demo, wiki, both, x; did you mean 'wiki'"),
        ({"parts": ["both"]}, "'both' has parts of its own"),
    ],
)
def test_mistakes(corpus: dict, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        parts_of({**CORPORA, "x": corpus}, "x")
    assert str(error.value).startswith("config: corpora.x") and told in str(error.value)


def test_every_reader_is_there() -> None:
    for name, reader in READERS.items():
        parameters = list(inspect.signature(resolve_name(reader.read)).parameters)
        assert len(parameters) == len(reader.required) + len(reader.optional) + 1, name


def test_earlier_titles() -> None:
    seen = EarlierTitles()
    for part in (["b", "a", "a"], [], ["C d", ""]):
        for title in part:
            seen.add(title)
        seen.end_part()
    assert [title in seen for title in ("A", "b", "c_d", "C d", "D", "")] == [True, True, True, True, False, False]


def text_file(path: Path, articles: dict[str, str]) -> str:
    path.write_text("".join(f'<doc id="1" url="u" title="{t}">\n{t}\n\n{x}\n</doc>\n' for t, x in articles.items()))
    return str(path)


LONG = "This paragraph of the article {} is long enough to be a paragraph of prose, as it has to be."


def rows(directory: Path, table: str) -> list[dict]:
    return pq.read_table(directory / f"{table}.parquet").to_pylist()


def test_parts_and_exclusion(tmp_path: Path) -> None:
    link = '<a href="Twice">again</a>'
    one = text_file(
        tmp_path / "1",
        {"Boat": LONG.format("one").replace("article", link), "Twice": LONG.format(1), "Out": LONG.format("o")},
    )
    two = text_file(tmp_path / "2", {"boat": LONG.format("two"), "Ω": LONG.format("Ω"), "out": LONG, "Two": LONG})
    untitled = tmp_path / "corpus.jsonl"
    untitled.write_text('{"_id": "1", "text": "zero one two three four fifth"}\n' * 2)
    titles = tmp_path / "titles.txt"
    titles.write_text("# Articles that overlap\n\nOut\r\ntwo\n#hash\nNobody\n")
    parts = [Part("first", "extracted", {"text": one}), Part("second", "extracted", {"text": two})]
    parts.append(Part("third", "beir", {"corpus": str(untitled)}))
    counts = build(parts, tmp_path / "c", {"pages": 5}, titles)
    assert [(a["article_id"], a["title"]) for a in rows(tmp_path / "c", "articles")] == [
        *((0, "Boat"), (1, "Twice"), (2, "Ω")),
        *((3, ""), (4, "")),
    ]
    assert [p["text"].split()[5] for p in rows(tmp_path / "c", "passages")] == ["one", "1", "Ω", "fifth", "fifth"]
    stats = json.loads((tmp_path / "c/stats.json").read_text())
    assert stats == counts
    wanted = {
        "duplicate_titles": 1,
        "excluded": 3,
        "excluded_titles": 2,
        "parts": {"first": 2, "second": 1, "third": 2},
    }
    assert {key: stats[key] for key in wanted} == wanted
    assert stats["warnings"] == {"title to exclude that no article has": 2}
    with pytest.raises(DataError, match="a name of its own"):
        build([parts[0], parts[0]], tmp_path / "d")


def test_titles_within_a_part_may_come_again(tmp_path: Path) -> None:
    """As the passages of one page do in BEIR's sets."""
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id": "1", "title": "A", "text": "x"}\n{"_id": "2", "title": "A", "text": "y"}\n' * 2)
    beir = Part("b", "beir", {"corpus": str(path)})
    assert build([beir], tmp_path / "one")["articles"] == 4
    counts = build([beir, Part("c", "beir", beir.files)], tmp_path / "two")
    assert (counts["articles"], counts["duplicate_titles"]) == (4, 4)


def test_a_sign_in_a_title_begins_no_section(tmp_path: Path) -> None:
    """C# is another article than C, for exclusion, equal titles, overlap and links."""

    def titled(name: str, *titles: str) -> Part:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"_id": t, "title": t, "text": f"A text on {t}."}) + "\n" for t in titles))
        return Part(name, "beir", {"corpus": str(path)})

    def kept(directory: Path) -> list[str]:
        return [article["title"] for article in rows(directory, "articles")]

    (tmp_path / "titles.txt").write_text("C#\n#MeToo\n")
    stats = build([titled("a", "C", "c#", "#MeToo", "F#")], tmp_path / "one", exclude=tmp_path / "titles.txt")
    assert kept(tmp_path / "one") == ["C", "F#"] and "warnings" not in stats
    build([titled("b", "C", "F#"), titled("c", "C#", "F#", "#MeToo")], tmp_path / "two")
    assert kept(tmp_path / "two") == ["C", "F#", "C#", "#MeToo"]
    asked = [{"title": title, "paragraphs": [{"context": "Other words."}]} for title in ("C#", "#MeToo")]
    (tmp_path / "squad.json").write_text(json.dumps({"data": asked}))
    numbers, titles = measure_overlap(tmp_path / "two", tmp_path / "squad.json")
    assert titles == ["C#", "#MeToo"] and numbers["paragraphs_by_title"] == 2
    table = TitleTable()
    for number, title in enumerate(("C", "C#")):
        table.add_article(title, number)
    table.add_redirect("C Sharp", "C#")
    table.freeze()
    assert table.resolve(np.array([title_hash(name) for name in ("C", "C#", "C Sharp")])).tolist() == [0, 1, 1]


def test_links_through_redirects_of_any_reader(tmp_path: Path) -> None:
    items = [
        Article("A", [Section("", 1, iter([Paragraph("See b and c.", [Link("B.md", 4, 5), Link("C", 10, 11)])]))]),
        Redirect("b.md", "B"),
        Article("B", iter([Section("", 1), Section("Two", 2, [Paragraph("Text.")])]), page_id=7),
        Article("", [Section("", 1, [Paragraph("No title.")])]),
    ]
    counts = build_corpus(items, tmp_path)
    assert [(link["article_id"], link["title"]) for link in rows(tmp_path, "links")] == [(1, "B.md"), (-1, "C")]
    assert (counts["redirects"], counts["links_inside"], counts["wlp_pairs"]) == (1, 1, 0)
    with pytest.raises(DataError, match="without a single paragraph"):
        build_corpus([Article("A", [])], tmp_path)
    assert not list(tmp_path.iterdir())


WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "small",
    "ships",
    "sail",
]


def test_grams_by_brute_force() -> None:
    text = " ".join(WORDS) + " — " + " ".join(WORDS).upper() + "!"
    words = WORDS + WORDS
    wanted = {tuple(words[i : i + 8]) for i in range(len(words) - 7)}
    assert len(grams(text)) == len(wanted) == 14
    assert set(grams(" ".join(WORDS[3:12]))) < set(grams(text))
    assert not set(grams(" ".join(reversed(WORDS)))) & set(grams(text))
    assert len(grams("one two three four five six seven")) == 0


def corpus(directory: Path, articles: dict[str, list[str]]) -> Path:
    build_corpus(
        (Article(t, [Section("", 1, list(map(Paragraph, texts)))]) for t, texts in articles.items()), directory
    )
    return directory


def sentence(begin: int, end: int, name: str = "w") -> str:
    return " ".join(f"{name}{i}" for i in range(begin, end))


def squad(path: Path, paragraphs: list[tuple[str, str]]) -> Path:
    data = [{"title": title, "paragraphs": [{"context": text, "qas": []}]} for title, text in paragraphs]
    path.write_bytes(gzip.compress(json.dumps({"data": data}).encode()))
    return path


def test_overlap_by_hand(tmp_path: Path) -> None:
    built = corpus(
        tmp_path / "c",
        {
            "Super Bowl": ["other text"],  # by title
            "Copy": ["Before.", sentence(0, 30)],  # all of paragraph 1
            "Half": [sentence(0, 18), sentence(60, 90, "z")],  # 11 of its 23 8-grams
            "More": [sentence(0, 19)],  # 12 of 23
            "None": [sentence(100, 130)],
        },
    )
    test = squad(
        tmp_path / "squad.json.gz",
        [
            ("super_Bowl", sentence(0, 9, "s")),
            ("", sentence(0, 30).upper()),
            ("T", "too short"),
            ("U", sentence(0, 9, "u")),
        ],
    )
    numbers, titles = measure_overlap(built, test)
    assert titles == ["Super Bowl", "Copy", "More"]
    assert numbers == {
        "of": "paragraphs of the file", "corpus": "c", "corpus_articles": 5,
        "test_paragraphs": 4, "paragraphs": 2, "paragraphs_by_title": 1, "paragraphs_by_text": 1, "paragraphs_touched": 1,
        "paragraphs_short": 1, "articles": 3, "articles_by_title": 1, "articles_by_text": 2, "words": 8, "share": 0.5,
    }  # fmt: skip
    assert measure_overlap(built, test, share=0.1)[1] == ["Super Bowl", "Copy", "Half", "More"]
    write_overlap(numbers, titles, tmp_path / "stats.json", tmp_path / "titles.txt")
    assert read_titles(tmp_path / "titles.txt") == titles
    assert json.loads((tmp_path / "stats.json").read_text())["articles"] == 3


def tables(directory: Path, **named: dict[str, list]) -> Path:
    directory.mkdir()
    for name, columns in named.items():
        pq.write_table(pa.table(columns), directory / f"{name}.parquet")
    return directory


def test_test_paragraphs_of_tasks_and_collections(tmp_path: Path) -> None:
    built = corpus(tmp_path / "c", {"A": [sentence(0, 20)], "B": [sentence(40, 60)], "C": [sentence(80, 99)]})
    documents = {"doc_id": ["a", "a2", "b", "c"], "title": ["x", "x", "y", "C"]}
    passages = [sentence(0, 20), sentence(0, 20), sentence(40, 60), "none"]
    qrels = {"query_id": ["1", "1", "2", "3"], "doc_id": ["a", "a2", "b", "c"], "relevance": [1, 1, 1, 0]}
    task = tables(
        tmp_path / "task",
        corpus=documents | {"passage": passages},
        qrels=qrels,
        splits={"size": ["s", "s", "s"], "query_id": ["1", "2", "3"], "split": ["test", "train", "test"]},
    )
    numbers, titles = measure_overlap(built, task)
    assert (numbers["test_paragraphs"], titles) == (1, ["A"])  # b is trained on, c is judged and not relevant
    collection = tables(
        tmp_path / "collection",
        collection=documents | {"text": passages},
        qrels=qrels | {"split": ["train", "train", "test", "test"]},
        queries={"query_id": ["1", "2", "3"], "text": ["", "", ""], "split": ["train", "test", "test"]},
    )
    assert measure_overlap(built, collection)[1] == ["B"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected a task or a collection"):
        measure_overlap(built, tmp_path / "empty")
    (tmp_path / "x.json").write_text('{"data": [{"title": "x"}]}')
    with pytest.raises(DataError, match=r"x\.json: KeyError.*SQuAD's layout"):
        measure_overlap(built, tmp_path / "x.json")
    (tmp_path / "x.json").write_text('{"data": [{"title": 5, "paragraphs": [{"context": "x"}]}]}')
    with pytest.raises(DataError, match=r"x\.json: TypeError: a title or context is not text"):
        measure_overlap(built, tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"x\.json: not valid JSON: values nested too deeply"):
        measure_overlap(built, tmp_path / "x.json")
    with pytest.raises(DataError, match="no paragraph in it"):
        measure_overlap(built, squad(tmp_path / "none.gz", []))
    assert np.array_equal(grams(""), np.empty(0, np.uint64))
