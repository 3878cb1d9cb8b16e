"""Packed batches against naive loops over Python lists.

Seen to fail when: the closing [SEP] is cut; the sort is not stable; segments are set before sorting; a group's bound compares
with the previous instead of the longest sequence; the sentence takes the whole room; the dropped sentence stays.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_sentences import sentence_of

from pretrieve.text.packing import (
    Packed,
    Part,
    constant,
    pack,
    pack_passages,
    pack_sentences,
    ragged_arange,
)
from pretrieve.text.token_store import TokenStore
from pretrieve.text.windows import PassageWindows


def examples(packed: Packed) -> list[list[int]]:
    """Token lists in the caller's order."""
    result: list[list[int]] = [[] for _ in packed.lengths]
    for start, length, place in zip(packed.starts, packed.lengths, packed.order, strict=True):
        result[place] = packed.tokens[start : start + length].tolist()
    return result


def segments(packed: Packed) -> list[list[int]]:
    return examples(Packed(packed.segments, packed.segments, packed.lengths, packed.order))


def naive(parts: list[list[list[int]]], limit: int | None) -> list[list[int]]:
    """parts[p][i] is part p of example i; the last part is kept whole."""
    result = []
    for pieces in zip(*parts, strict=True):
        head = [token for piece in pieces[:-1] for token in piece]
        if limit is not None:
            head = head[: max(limit - len(pieces[-1]), 0)]
        result.append(head + pieces[-1])
    return result


def as_part(lists: list[list[int]], segment: int) -> Part:
    lengths = np.array([len(item) for item in lists], dtype=np.int64)
    return Part(
        np.array([t for item in lists for t in item], dtype=np.uint16), np.cumsum(lengths) - lengths, lengths, segment
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_pack_against_a_naive_loop(data) -> None:
    n = data.draw(st.integers(1, 6))
    lists = st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=n, max_size=n)
    parts = [data.draw(lists) for _ in range(data.draw(st.integers(1, 4)))]
    closing = [[7]] * n
    limit = data.draw(st.none() | st.integers(1, 20))
    tags = [*range(len(parts)), 1]
    packed = pack(
        [*(as_part(p, tag % 2) for p, tag in zip(parts, tags, strict=False)), constant(7, n, segment=1)], limit
    )
    assert examples(packed) == naive([*parts, closing], limit)
    of_part = [[[tag % 2] * len(item) for item in part] for part, tag in zip(parts, tags, strict=False)]
    assert segments(packed) == naive([*of_part, [[1]] * n], limit)
    lengths = packed.lengths.tolist()
    assert lengths == sorted(lengths, reverse=True)
    for length in set(lengths):  # equal lengths keep the caller's order
        order = [place for place, own in zip(packed.order, lengths, strict=True) if own == length]
        assert order == sorted(order)
    assert packed.positions.tolist() == [i for length in lengths for i in range(length)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 60), max_size=25), st.integers(1, 80))
def test_groups_and_slices(lengths: list[int], budget: int) -> None:
    lengths = np.array(sorted(lengths, reverse=True), dtype=np.int64)
    packed = Packed(np.arange(lengths.sum()), np.zeros(lengths.sum(), dtype=np.int64), lengths, np.arange(len(lengths)))
    assert len(packed.starts) == len(lengths)
    for ranges in (packed.groups(), packed.slices(budget)):
        assert [i for first, last in ranges for i in range(first, last)] == list(range(len(lengths)))
    for first, last in packed.groups():
        assert lengths[last - 1] >= 0.85 * lengths[first]
        assert last == len(lengths) or lengths[last] < 0.85 * lengths[first]
    for first, last in packed.slices(budget):
        assert lengths[first:last].sum() <= budget or last == first + 1
        assert last == len(lengths) or lengths[first : last + 1].sum() > budget
        part = packed.part(first, last)
        assert part.tokens.tolist() == list(range(packed.rows(first, last).start, packed.rows(first, last).stop))
        assert part.lengths.tolist() == lengths[first:last].tolist() and part.order.tolist() == list(
            range(last - first)
        )


def test_an_empty_example_is_refused() -> None:
    part = Part(np.array([1, 2]), np.array([0, 2]), np.array([2, 0]))
    with pytest.raises(ValueError, match="example 1 is empty"):
        pack([part])


def test_an_empty_batch() -> None:
    none = np.zeros(0, dtype=np.int64)
    packed = pack([constant(2, 0), Part(np.array([1]), none, none), constant(3, 0)], 8)
    assert len(packed.tokens) == len(packed.lengths) == len(packed.starts) == 0


def test_ragged_arange() -> None:
    assert ragged_arange(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    assert ragged_arange(np.array([], dtype=np.int64)).tolist() == []


def passage(store: TokenStore, index: int, without: int = -1) -> list[int]:
    sentences = range(store.passage_starts[index], store.passage_starts[index + 1])
    return [token for s in sentences if s != without for token in sentence_of(store, s).tolist()]


def test_sentences(store: TokenStore) -> None:
    ids = np.array([3, 0, 18, 3])
    for limit in (100, 6, 3):
        expected = [[2, *sentence_of(store, i).tolist()[: limit - 2], 3] for i in ids]
        assert examples(pack_sentences(store, ids, limit)) == expected


@pytest.mark.parametrize("limit", [200, 20, 9, 4])
def test_passages(store: TokenStore, limit: int) -> None:
    ids = np.arange(store.n_passages)
    articles = store.passage_article()
    dropped = np.where(
        ids % 3 == 0, store.passage_starts[ids], np.where(ids % 3 == 1, store.passage_starts[ids + 1] - 1, -1)
    )
    dropped[8] = -1  # its only sentence
    titled = ids % 2 == 0
    expected, expected_segments = [], []
    for i in ids:
        a = articles[i]
        title = store.title_tokens[store.title_starts[a] : store.title_starts[a + 1]].tolist()
        head = [2, *title, 3] if titled[i] else [2]
        body = passage(store, i, dropped[i])
        expected.append([*(head + body)[: limit - 1], 3])
        marks = [0] * len(head) + [1 if titled[i] else 0] * (len(body) + 1)
        expected_segments.append(marks[: len(expected[-1])])
    packed = pack_passages(store, ids, limit, dropped, titled, articles)
    assert examples(packed) == expected
    assert segments(packed) == expected_segments
    assert (limit < 200) == any(len(e) == limit for e in expected)
    plain = pack_passages(store, ids, limit)
    assert examples(plain) == [[2, *passage(store, i)[: limit - 2], 3] for i in ids]
    assert not plain.segments.any()


@pytest.mark.parametrize("limit", [200, 24, 10])
def test_candidates(store: TokenStore, limit: int) -> None:
    passages = np.array([0, 5, 7, 4])
    sentences = np.array([store.passage_starts[0] + 1, store.passage_starts[5], -1, store.passage_starts[4]])
    expected, marks = [], []
    for s, p in zip(sentences, passages, strict=True):
        head = [2, *sentence_of(store, s).tolist()[: limit // 2], 3] if s >= 0 else [2]
        tail = passage(store, p)[: limit - 1 - len(head)]
        expected.append([*head, *tail, 3])
        marks.append([0] * len(head) + [int(s >= 0)] * (len(tail) + 1))
        assert tail, "a passage is never cut away whole"
    packed = PassageWindows(store, sentences, passages, limit, 1).pack(np.arange(4))
    assert examples(packed) == expected
    assert segments(packed) == marks
