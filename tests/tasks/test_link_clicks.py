"""Reading paths as clicks: histories, who is clicked, where the others come from, users of one part each.

Seen to fail when: the history has the clicked ones, or is newest first; a linked article is an unclicked candidate;
the others come from outside the part's links; a candidate comes twice; the clicked ones stand first; a user is in two
parts; a title stands for the candidate's text where there is a lead.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from example_reader import Examples, tree_bytes
from linked_corpus import PAGES, links_of
from tokenizers import Tokenizer

from pretrieve.base.errors import DataError
from pretrieve.benchmarks.made.link_clicks import build_link_clicks, impressions
from pretrieve.tasks.splits import Target


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory, linked: Path, tokenizer: Tokenizer) -> Examples:
    directory = tmp_path_factory.mktemp("clicks")
    build_link_clicks(
        linked, Target(tokenizer, directory, {"10": 10, "full": "all"}, 1), candidates=7, first=2, lead_words=5
    )
    return Examples(directory)


def path_of(user: int) -> list[str]:
    return [f"Lead {lead}" for lead in links_of(user) if lead != 0]  # Lead 0 is not in the corpus


def test_impressions(task: Examples) -> None:
    clicked_at = Counter()
    for example_id, (texts, labels, history) in task.examples.items():
        user, seen = map(int, example_id.split("-"))
        path = path_of(user)
        assert history == path[:seen] and seen >= 2
        titles = [text.split(".")[0] for text in texts]
        clicked = [title for title, label in zip(titles, labels, strict=True) if label]
        assert 1 <= len(clicked) <= 2 and set(clicked) == set(path[seen : seen + len(clicked)])
        others = [title for title, label in zip(titles, labels, strict=True) if not label]
        assert others and not set(others) & set(path) and len(set(titles)) == len(titles) <= 7
        clicked_at.update(np.flatnonzero(labels).tolist())
        assert all(
            text.startswith(f"{title}. This ") and len(text.split()) == 7
            for text, title in zip(texts, titles, strict=True)
        )
    assert len(task.examples) > 60 and len(clicked_at) == 7  # a clicked one can stand anywhere
    assert task.data.kind == "clicks"


def test_users_and_their_parts(task: Examples) -> None:
    home: dict[int, str] = {}
    for part, ids in task.splits["full"].items():
        for example_id in ids:
            assert home.setdefault(int(example_id.split("-")[0]), part) == part
    assert sorted(home) == list(range(PAGES)) and set(home.values()) == {"train", "valid", "test", "dev"}
    for part in set(home.values()):
        pool = {title for user, own in home.items() if own == part for title in path_of(user)}
        shown = {text.split(".")[0] for i in task.splits["full"][part] for text in task.examples[i][0]}
        assert shown <= pool and len(shown) > 5
    assert task.splits["10"]["test"] == task.splits["full"]["test"] and len(task.splits["10"]["train"]) == 9


def test_a_path_is_clicked_to_its_end() -> None:
    for seed in range(5):
        found = impressions(list(range(30)), 3, seed, user=seed)
        assert [article for _, clicked in found for article in clicked] == list(range(3, 30))
        assert all(history == list(range(len(history))) and clicked[0] == len(history) for history, clicked in found)
        assert {len(clicked) for _, clicked in found} == {1, 2}
    assert impressions([1, 2, 3], 3, 1, 0) == []


def test_bytes_limit_and_errors(linked: Path, corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_link_clicks(linked, Target(tokenizer, tmp_path / name, {"full": "all"}, seed), max_examples=60)
    first, again, other = (tree_bytes(tmp_path / name) for name in "abc")
    assert first == again and first["examples.parquet"] != other["examples.parquet"]
    assert len(Examples(tmp_path / "a").examples) == 60
    with pytest.raises(DataError, match="has no impression"):
        build_link_clicks(corpus, Target(tokenizer, tmp_path / "x", {"full": "all"}, 1))
