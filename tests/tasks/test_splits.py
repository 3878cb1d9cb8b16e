"""Splits: shares, nesting, cold start, and what cannot be drawn.

Seen to fail when: the first of the draw validate instead of the last (nesting); the pool is not shuffled; test
questions are drawn for training; dev queries fall into test; a size too large, or a
fraction of 0, passes; the test set of a number changes with it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrieve.base.errors import ConfigError
from pretrieve.tasks.splits import SplitRow, all_test, make_splits, rounded, shuffled

SIZES = {"1pct": 0.01, "5pct": 0.05, "80pct": 0.8}


def ids(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


def members(rows: list[SplitRow], size: str, split: str) -> set[str]:
    return {row.query_id for row in rows if row.size == size and row.split == split}


def split(train: int, test: int, dev: int, sizes: dict[str, float], seed: int = 1) -> list[SplitRow]:
    groups = ids("a", train), ids("b", test), ids("d", dev)
    return make_splits([*groups[0], *groups[1], *groups[2]], *groups, sizes, seed)


def test_counts_by_hand() -> None:
    """Pool of 1,000: 1 % is 10 questions, of which 1 validates; 5 % is 50 (5); 80 % is 800 (80); the rest is test."""
    rows = split(820, 180, 100, SIZES)
    counts = {size: [len(members(rows, size, s)) for s in ("train", "valid", "test", "dev")] for size in SIZES}
    assert counts == {"1pct": [9, 1, 990, 100], "5pct": [45, 5, 950, 100], "80pct": [720, 80, 200, 100]}


@settings(max_examples=60, deadline=None)
@given(st.integers(50, 300), st.integers(0, 60), st.integers(0, 30), st.integers(0, 5))
def test_invariants(train: int, test: int, dev: int, seed: int) -> None:
    """Every query once a size; training from its pool only; dev apart; training sets nested."""
    sizes = {"small": 0.1, "middle": 0.2, "large": 0.4}
    rows = split(train, test, dev, sizes, seed)
    everything = {*ids("a", train), *ids("b", test), *ids("d", dev)}
    for size, share in sizes.items():
        assert sorted(row.query_id for row in rows if row.size == size) == sorted(everything)
        drawn = members(rows, size, "train") | members(rows, size, "valid")
        assert drawn <= set(ids("a", train))
        assert len(drawn) == rounded(share * (train + test))
        assert members(rows, size, "valid")
        assert set(ids("b", test)) <= members(rows, size, "test")
        assert members(rows, size, "dev") == set(ids("d", dev))
    for small, large in (("small", "middle"), ("middle", "large")):
        assert members(rows, small, "train") <= members(rows, large, "train")
        part = [members(rows, size, "train") | members(rows, size, "valid") for size in (small, large)]
        assert part[0] <= part[1]


def test_draw_depends_on_the_seed_and_not_on_the_input_order() -> None:
    query_ids = ids("a", 90) + ids("b", 10)
    base = make_splits(query_ids, ids("a", 90), ids("b", 10), [], {"x": 0.2}, seed=1)
    turned = make_splits(query_ids, ids("a", 90)[::-1], ids("b", 10), [], {"x": 0.2}, seed=1)
    other = make_splits(query_ids, ids("a", 90), ids("b", 10), [], {"x": 0.2}, seed=2)
    assert base == turned
    assert members(base, "x", "train") != members(other, "x", "train")
    assert shuffled(["a", "b", "c", "d"], seed=1) == ["a", "c", "b", "d"]  # the same on every machine and version


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"9": 0.9},
            r"size '9': fraction 0.9 needs 90 training questions of the pool's 100, but only 80 .* at most 0.8",
        ),
        ({"s": 0.02}, r"size 's': fraction 0.02 .* is 2, which leaves fewer than 2 .* at least 0.03 and at most 0.8"),
        ({"p": 5.5}, r"size 'p': 5.5; expected a share between 0 and 1"),
        ({"z": 0.0}, "expected a share between 0 and 1"),
        ({"n": float("nan")}, "expected a share between 0 and 1"),
        ({"w": "every"}, "'every'; expected a share between 0 and 1 .* or 'all'"),
        ({"c": 81}, r"size 'c': 81 questions needs 81 .* only 80 .* at most 80"),
        ({"c": 2}, r"size 'c': 2 questions .* fewer than 2 .* at least 3 and at most 80"),
        ({}, "no training-set size"),
    ],
)
def test_what_cannot_be_drawn_is_said(sizes: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split(80, 20, 0, sizes)


def test_a_number_of_questions_and_all_of_them() -> None:
    rows = split(80, 20, 0, {"k": 10, "full": "all"})
    assert [len(members(rows, "k", part)) for part in ("train", "valid", "test")] == [9, 1, 20]
    assert [len(members(rows, "full", part)) for part in ("train", "valid", "test")] == [72, 8, 20]
    assert members(rows, "k", "train") < members(rows, "full", "train")


def test_numbers_have_one_test_set_and_shares_their_complements() -> None:
    """condenser §4 fine-tunes on 1K, 10K and all with one test set; pretraining_tasks §4.1 tests on all other questions."""
    sizes = {"1pct": 0.1, "1k": 20, "10k": 40, "most": 60}
    rows = split(80, 20, 7, sizes)
    tests = {size: members(rows, size, "test") for size in sizes}
    assert tests["1k"] == tests["10k"] == tests["most"] and len(tests["1k"]) == 40 and len(tests["1pct"]) == 90
    for size in ("1k", "10k", "most"):
        part = members(rows, size, "train") | members(rows, size, "valid")
        assert len(part) == sizes[size] and not part & tests[size] and len(members(rows, size, "dev")) == 7
    assert members(rows, "1pct", "test") == {r.query_id for r in rows} - members(rows, "1pct", "dev") - (
        members(rows, "1pct", "train") | members(rows, "1pct", "valid")
    )


def test_smallest_size_that_the_message_names_can_be_drawn() -> None:
    assert len(members(split(80, 20, 0, {"s": 0.03}), "s", "train")) == 2
    assert len(members(split(80, 20, 0, {"l": 0.8}), "l", "test")) == 20


def test_too_few_questions() -> None:
    with pytest.raises(ConfigError, match="too few questions"):
        split(2, 2, 0, {"s": 0.5})


def test_overlapping_groups_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="disjoint"):
        make_splits(["a", "b"], ["a", "b"], ["b"], [], {"x": 0.5}, 1)


def test_zero_shot_is_all_test() -> None:
    assert all_test(["q"], {"1pct": 0.01, "5pct": 0.05}) == [
        SplitRow("1pct", "q", "test"),
        SplitRow("5pct", "q", "test"),
    ]
    with pytest.raises(ConfigError):
        all_test(["q"], {})
