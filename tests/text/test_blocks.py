"""Blocks against a slow packing in plain Python, and what must hold for any corpus.

Seen to fail when: a block goes on into the next article; the sentence that fills a block exactly is put into the next
one; a sentence longer than a block gives a block that is too long; blocks are in the order in which they are found;
``short`` cuts a sentence, or does not follow its seed; [SEP] is cut away.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pretrieve.text.blocks import Blocks, article_bounds, build_blocks
from pretrieve.text.packing import pack_spans
from pretrieve.text.token_store import PassageText, TokenStore, write_token_store
from pretrieve.text.vocabulary import SPECIAL_TOKENS, from_vocab_file

WORDS = ["a", "sea", "##s", "ship", "##ping"]

#: Articles → sections → passages → tokens of each sentence; article 1 and a section are empty.
Shape = list[list[list[list[int]]]]
SMALL: Shape = [[[[3, 2], [4]], [[1, 1]]], [], [[[9]], [], [[2, 3, 3]]], [[[5]]]]


def make_store(directory: Path, shape: Shape, seed: int = 0) -> TokenStore:
    """A store of random words in which the sentences have the lengths asked for."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *WORDS]) + "\n")
    rng = np.random.default_rng(seed)
    passages, section_articles = [], []
    for article, sections in enumerate(shape):
        for paragraphs in sections or [[]]:
            for sentences in paragraphs:
                texts = [" ".join(rng.choice(["a", "sea", "ship"], n)) for n in sentences]
                passages.append(PassageText(texts, len(section_articles), article))
            section_articles.append(article)
    return write_token_store(directory, from_vocab_file(path), passages, section_articles=np.array(section_articles))


def random_shape(rng: np.random.Generator) -> Shape:
    def several(most: int) -> range:
        return range(rng.integers(0, most))

    return [
        [[[int(n) for n in rng.integers(0, 12, rng.integers(1, 5))] for _ in several(4)] for _ in several(4)]
        for _ in range(rng.integers(1, 7))
    ]


def slow(shape: Shape, length: int) -> list[tuple[int, int, int]]:
    """(start, length, article): sentences one after another, each put into the block as far as it fits."""
    blocks, row = [], 0
    for article, sections in enumerate(shape):
        sentences = [n for paragraphs in sections for passage in paragraphs for n in passage]
        start = row
        for n in sentences:
            if row - start + n > length and row > start:
                blocks.append((start, row - start, article))
                start = row
            row += n
            while row - start > length:
                blocks.append((start, length, article))
                start += length
        if row > start:
            blocks.append((start, row - start, article))
    return blocks


def as_list(blocks: Blocks) -> list[tuple[int, int, int]]:
    return list(zip(blocks.starts.tolist(), blocks.lengths.tolist(), blocks.article.tolist(), strict=True))


def test_by_hand(tmp_path: Path) -> None:
    """Passages and sections may share a block, articles may not."""
    store = make_store(tmp_path, SMALL)
    assert article_bounds(store).tolist() == [0, 11, 11, 28, 33]
    assert as_list(build_blocks(store, 5)) == [
        *[(0, 5, 0), (5, 5, 0), (10, 1, 0)],  # 3+2 fill it; 4+1; 1
        *[(11, 5, 2), (16, 4, 2), (20, 5, 2), (25, 3, 2)],  # 9 = 5+4, and 2 does not fit; 2+3; 3
        (28, 5, 3),
    ]
    assert as_list(build_blocks(store, 100)) == [(0, 11, 0), (11, 17, 2), (28, 5, 3)]
    assert as_list(build_blocks(store, 1)) == [(i, 1, 0 if i < 11 else 2 if i < 28 else 3) for i in range(33)]


@pytest.mark.parametrize("case", range(15))
def test_against_sentences_one_by_one(tmp_path: Path, case: int) -> None:
    """On random corpora with empty sections, articles and sentences; every token is in exactly one block."""
    rng = np.random.default_rng(case)
    shape = random_shape(rng)
    store = make_store(tmp_path, shape, case)
    for length in (1, 2, 5, 9, 14, 40, 10_000):
        blocks = build_blocks(store, length)
        assert as_list(blocks) == slow(shape, length)
        assert (blocks.starts[1:] == (blocks.starts + blocks.lengths)[:-1]).all()
        assert blocks.lengths.sum() == len(store.tokens) and blocks.lengths.max(initial=0) <= length


def test_filled_blocks_by_hand(tmp_path: Path) -> None:
    """RetroMAE: sentences of 3, 2, 4, 1 and 1 tokens (SMALL's first article), limit 4: 3+2 reach it and are cut to 4; 4; 1+1."""
    store = make_store(tmp_path, [[[[3, 2, 4, 1, 1]]], [[[9, 2]]]])
    assert as_list(build_blocks(store, 4, packing="fill")) == [(0, 4, 0), (5, 4, 0), (9, 2, 0), (11, 4, 1), (20, 2, 1)]
    assert as_list(build_blocks(store, 4)) == [
        *[(0, 3, 0), (3, 2, 0), (5, 4, 0), (9, 2, 0)],
        *[(11, 4, 1), (15, 4, 1), (19, 3, 1)],
    ]


@pytest.mark.parametrize("case", range(8))
def test_filled_blocks_against_sentences_one_by_one(tmp_path: Path, case: int) -> None:
    """The definition in plain words: add sentences while the block is shorter than the limit, then cut it."""
    shape = random_shape(np.random.default_rng(case))
    store = make_store(tmp_path, shape, case)
    for length in (1, 5, 14, 10_000):
        expected, row = [], 0
        for article, sections in enumerate(shape):
            start = row
            for n in (n for paragraphs in sections for passage in paragraphs for n in passage):
                if row - start >= length:
                    expected.append((start, length, article))
                    start = row
                row += n
            if row > start:
                expected.append((start, min(row - start, length), article))
        assert as_list(build_blocks(store, length, packing="fill")) == expected


def test_short_blocks(tmp_path: Path) -> None:
    """Condenser's short examples: some blocks end early, but none in the middle of a sentence that fits."""
    rng = np.random.default_rng(1)
    shape = [[[[int(n) for n in rng.integers(1, 7, 60)]]] for _ in range(40)]
    store = make_store(tmp_path, shape)
    ends = set(store.sentence_starts.tolist())
    plain, few, all_short = (build_blocks(store, 30, share) for share in (0.0, 0.1, 1.0))
    assert as_list(few) == as_list(build_blocks(store, 30, 0.1)) != as_list(build_blocks(store, 30, 0.1, seed=1))
    for blocks in (few, all_short):
        assert all(int(end) in ends for end in blocks.starts + blocks.lengths)
        assert blocks.lengths.sum() == len(store.tokens) and blocks.lengths.max() <= 30
        assert (np.diff(blocks.starts) > 0).all()
    # A block that is not short has at least 30 − 6 + 1 tokens; the last one of each article may have less.
    inside = [blocks.lengths[np.flatnonzero(np.diff(blocks.article) == 0)] for blocks in (plain, few, all_short)]
    shares = [float((lengths < 25).mean()) for lengths in inside]
    assert shares[0] == 0 and 0.04 < shares[1] < 0.13 and shares[2] > 0.7
    long = make_store(tmp_path / "long", [[[[100, 3]]]])
    assert build_blocks(long, 30, 1.0).lengths.tolist()[:3] == [
        30,
        30,
        30,
    ]  # one sentence, though longer than any target


def test_packed_with_special_tokens(tmp_path: Path) -> None:
    store = make_store(tmp_path, SMALL)
    blocks = build_blocks(store, 5)
    packed = blocks.pack(store, np.array([2, 0, 6, 0]))
    assert packed.lengths.tolist() == [7, 7, 5, 3] and packed.order.tolist() == [1, 3, 2, 0]
    assert not packed.segments.any()
    cls, sep = store.special.cls, store.special.sep
    expected = [[cls, *store.tokens[start : start + n], sep] for start, n in ((0, 5), (0, 5), (25, 3), (10, 1))]
    assert packed.tokens.tolist() == [token for row in expected for token in row]
    cut = pack_spans(store, np.array([11]), np.array([9]), 6)
    assert cut.tokens.tolist() == [cls, *store.tokens[11:15], sep]


def test_nothing(tmp_path: Path) -> None:
    assert len(build_blocks(make_store(tmp_path / "a", [[], [[]]]), 5)) == 0
    assert len(build_blocks(make_store(tmp_path / "b", [[[[0, 0]]]]), 5)) == 0
