"""Relatedness from a text's structure: each grade means what the table says, balanced, no article in two parts.

Seen to fail when: neighbours count as grade 4; grade 3 takes the same paragraph; grade 1 ignores the links; grade 0
pairs linked articles; a lead is put into a part without the page that links to it; the grades are not cut to the
rarest; a pair comes twice the other way round; max_examples does nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from example_reader import Examples, tree_bytes
from linked_corpus import PAGES, links_of
from tokenizers import Tokenizer

from pretrieve.base.errors import ConfigError, DataError
from pretrieve.benchmarks.made.structure_sts import build_structure_sts
from pretrieve.tasks.splits import Target


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, linked: Path, tokenizer: Tokenizer) -> Examples:
    directory = tmp_path_factory.mktemp("sts")
    build_structure_sts(linked, Target(tokenizer, directory, {"20": 20, "full": "all"}, 1))
    return Examples(directory)


def place(text: str) -> tuple[str, int, int, int]:
    """Article, section, paragraph and number that a sentence says it has."""
    if found := re.search(r"page (\d+) lies in section (\d+), paragraph (\d+), as sentence (\d+)", text):
        page, *numbers = map(int, found.groups())
        return (f"Page {page}", *numbers)
    lead, number = re.search(r"lead (\d+) as its sentence (\d+)", text).groups()
    return f"Lead {int(lead)}", 0, 0, int(number)


def linked_pair(one: str, two: str) -> bool:
    return any(
        a.startswith("Page") and b in [f"Lead {lead}" for lead in links_of(int(a.split()[1]))]
        for a, b in ((one, two), (two, one))
    )


def expected_grade(first: tuple, second: tuple) -> int:
    if first[0] != second[0]:
        return 1 if linked_pair(first[0], second[0]) else 0
    if first[1] != second[1]:
        return 2
    if first[2] != second[2]:
        return 3
    return 5 if abs(first[3] - second[3]) == 1 else 4


def test_grades(task: Examples) -> None:
    assert task.data.kind == "regression" and len(task.examples) > 200
    for (first, second), labels, history in task.examples.values():
        assert first != second and labels == [expected_grade(place(first), place(second))] and history == []


def test_every_part_is_balanced_and_has_articles_of_its_own(task: Examples) -> None:
    home: dict[str, str] = {}
    for part, ids in task.splits["full"].items():
        assert len(set(Counter(task.examples[i][1][0] for i in ids).values())) == 1 and len(ids) >= 6
        assert {task.examples[i][1][0] for i in ids} == set(range(6))
        for example_id in ids:
            for text in task.examples[example_id][0]:
                assert home.setdefault(place(text)[0], part) == part
    assert len(home) > 40 and set(home.values()) == {"train", "valid", "test", "dev"}
    first_links = {f"Lead {lead}": f"Page {page}" for page in reversed(range(PAGES)) for lead in links_of(page)}
    both = [(lead, page) for lead, page in first_links.items() if lead in home and page in home]
    assert len(both) > 20 and all(home[lead] == home[page] for lead, page in both)
    assert len({frozenset(texts) for texts, _, _ in task.examples.values()}) == len(task.examples)
    assert task.splits["20"]["test"] == task.splits["full"]["test"] and len(task.splits["20"]["train"]) == 18


def test_bytes_limit_and_errors(linked: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_structure_sts(linked, Target(tokenizer, tmp_path / name, {"full": "all"}, seed), max_examples=120)
    first, again, other = (tree_bytes(tmp_path / name) for name in "abc")
    assert first == again and first["examples.parquet"] != other["examples.parquet"]
    assert Counter(i[0] for i in Examples(tmp_path / "a").examples) == dict.fromkeys("012345", 14 + 2 + 2 + 2)
    with pytest.raises(ConfigError, match="max-examples is 59"):
        build_structure_sts(linked, Target(tokenizer, tmp_path / "x", {"full": "all"}, 1), max_examples=59)


def test_a_corpus_that_is_too_small(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no pair of grade"):
        build_structure_sts(corpus, Target(tokenizer, tmp_path, {"full": "all"}, 1))
