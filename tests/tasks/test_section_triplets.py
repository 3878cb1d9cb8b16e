"""Section triplets: where anchor, positive and negative stand, whole articles in one part, and the same bytes again.

Seen to fail when: the negative is drawn from the anchor's section or from another article; the positive may be the
anchor itself; the introduction gives sentences; short sentences are used; a subsection is a section of its own; parts
are drawn by example; per_article or max_examples does nothing; a sentence that two articles share is used in both.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from example_reader import Examples, tree_bytes
from linked_corpus import PAGES, corpus_of
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.section_triplets import articles_of, build_section_triplets, triplets_of, usable
from pretrieve.tasks.splits import Target

SIZES = {"50": 50, "full": "all"}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, linked: Path, tokenizer: Tokenizer) -> Examples:
    directory = tmp_path_factory.mktemp("triplets")
    build_section_triplets(linked, Target(tokenizer, directory, SIZES, 1))
    return Examples(directory)


def place(sentence: str) -> tuple[int, int]:
    """Page and section that a sentence says it is from."""
    page, section = re.search(r"page (\d+) lies in section (\d+)", sentence).groups()
    return int(page), int(section)


def test_where_the_three_sentences_stand(task: Examples) -> None:
    # 3 sections of 2 paragraphs of 4 sentences on each page; not the introduction, not "Too short."
    assert len(task.examples) == 24 * PAGES and task.data.kind == "triplet"
    positives = set()
    for (anchor, positive, negative), labels, history in task.examples.values():
        assert place(anchor) == place(positive) and anchor != positive
        assert place(anchor)[0] == place(negative)[0] and place(anchor)[1] != place(negative)[1]
        assert 0 not in (place(anchor)[1], place(negative)[1])
        assert labels == history == []
        positives.add(positive)
    assert len({texts[0] for texts, _, _ in task.examples.values()}) == 24 * PAGES and len(positives) > 200


def test_an_article_is_in_one_part(task: Examples) -> None:
    home: dict[int, str] = {}
    for part, ids in task.splits["full"].items():
        for example_id in ids:
            pages = {place(text)[0] for text in task.examples[example_id][0]}
            assert len(pages) == 1 and home.setdefault(pages.pop(), part) == part
    assert Counter(home.values()) == {"train": 14, "valid": 2, "dev": 2, "test": 2}
    assert sum(map(len, task.splits["full"].values())) == len(task.examples)
    small = task.splits["50"]
    assert (len(small["train"]), len(small["valid"])) == (45, 5)
    assert set(small["train"]) < set(task.splits["full"]["train"]) and small["test"] == task.splits["full"]["test"]


def test_bytes_and_seeds(linked: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_section_triplets(linked, Target(tokenizer, tmp_path / name, SIZES, seed))
    first, again, other = (tree_bytes(tmp_path / name) for name in "abc")
    assert first == again and first["examples.parquet"] != other["examples.parquet"]


def test_limits(linked: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    build_section_triplets(linked, Target(tokenizer, tmp_path / "a", {"full": "all"}, 1), per_article=5)
    by_page = Counter(place(texts[0])[0] for texts, _, _ in Examples(tmp_path / "a").examples.values())
    assert by_page == dict.fromkeys(range(PAGES), 5)
    build_section_triplets(linked, Target(tokenizer, tmp_path / "b", {"full": "all"}, 1), max_examples=60)
    assert len(Examples(tmp_path / "b").examples) == 60


def test_subsections_shared_sentences_and_length(tmp_path: Path) -> None:
    same = "This sentence stands word for word in two articles here."
    page = f"""The introduction has a sentence of nine words here. {same}

== One ==
The first section has a sentence of its own here. It also has a second sentence that is long.

=== Deep ===
The subsection of it has a sentence of its own, and this one is long enough to be a paragraph of prose.

== Two ==
The other section has a sentence of its own here. {same}
"""
    corpus_of(tmp_path, {"First": page, "Second": f"It has one more sentence than that. {same}\n"})
    first, second = articles_of(tmp_path)
    assert [s.text for s in second.sentences] == ["It has one more sentence than that."]
    sections = {s.text.split()[1]: s.section for s in first.sentences}
    assert (
        sections["first"] == sections["subsection"] != sections["other"]
        and first.introduction == sections["introduction"]
    )
    triplets = list(triplets_of(first, 1, 100))
    assert len(triplets) == 5 and all(t[0].section != first.introduction for t in triplets)
    assert not list(triplets_of(second, 1, 100))
    assert usable("one two three four five") and not usable("one two three four") and not usable("word " * 51)


def test_a_corpus_without_sections(tokenizer: Tokenizer, tmp_path: Path) -> None:
    prose = "It has more than six words in its only sentence. And here are as many words in another sentence of it."
    corpus_of(tmp_path, {"A": prose})
    with pytest.raises(DataError, match="no article has usable sentences in two sections"):
        build_section_triplets(tmp_path, Target(tokenizer, tmp_path / "t", SIZES, 1))
