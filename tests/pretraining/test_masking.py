"""Masks of the masked language model.

Seen to fail when: [SEP] can be chosen; the count is rounded down; the count is of the batch instead of each sequence; 70 % are
[MASK]; random words can be special tokens; the unchanged tokens are changed.
"""

from __future__ import annotations

import numpy as np
import pytest

from pretrieve.pretraining.masking import choose_positions, corrupt
from pretrieve.text.packing import Packed
from pretrieve.text.vocabulary import SpecialIds

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
SIZE = 100


def batch(lengths: list[int], seed: int = 0) -> Packed:
    """[CLS] words [SEP] words [SEP], longest first."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in sorted(lengths, reverse=True):
        row = rng.integers(5, SIZE, length)
        row[0], row[-1] = 2, 3
        if length > 6:
            row[length // 2] = 3
        rows.append(row)
    tokens = np.concatenate(rows)
    sizes = np.array([len(row) for row in rows])
    return Packed(tokens, np.zeros_like(tokens), sizes, np.arange(len(rows)))


@pytest.mark.parametrize("rate", [0.15, 0.3, 0.5, 0.01])
def test_exact_counts_and_never_a_special_token(rate: float) -> None:
    packed = batch([*range(2, 60), 2, 3, 60, 60])
    rng = np.random.default_rng(1)
    for _ in range(20):
        positions = choose_positions(packed, SPECIAL, rate, rng)
        assert (np.diff(positions) > 0).all()
        assert not np.isin(packed.tokens[positions], [0, 2, 3]).any()
        for start, length in zip(packed.starts, packed.lengths, strict=True):
            words = int((packed.tokens[start : start + length] >= 5).sum())
            chosen = int(((positions >= start) & (positions < start + length)).sum())
            assert chosen == (max(1, int(words * rate + 0.5)) if words else 0)


def test_every_word_is_equally_likely() -> None:
    packed = batch([22])
    rng = np.random.default_rng(2)
    counts = np.zeros(22)
    n = 4000
    for _ in range(n):
        counts[choose_positions(packed, SPECIAL, 0.15, rng)] += 1
    words = packed.tokens >= 5
    share = 3 / words.sum()
    assert words.sum() == 19 and not counts[~words].any()
    assert (np.abs(counts[words] - n * share) <= 4 * np.sqrt(n * share * (1 - share))).all()


def test_shares_of_corruption() -> None:
    packed = batch([64] * 1500)
    rng = np.random.default_rng(3)
    positions = choose_positions(packed, SPECIAL, 0.5, rng)
    n = len(positions)
    before = packed.tokens.copy()
    after = corrupt(packed.tokens, positions, SPECIAL, SIZE, rng)
    assert n > 40_000 and (packed.tokens == before).all()
    elsewhere = np.ones(len(before), dtype=bool)
    elsewhere[positions] = False
    assert (after[elsewhere] == before[elsewhere]).all()
    masked = after[positions] == 4
    same = after[positions] == before[positions]
    other = ~masked & ~same
    by_chance = 0.1 / (SIZE - 5)  # a random word can be the right one
    for count, share in ((masked, 0.8), (other, 0.1 - by_chance), (same, 0.1 + by_chance)):
        assert abs(count.sum() - n * share) <= 4 * np.sqrt(n * share * (1 - share))
    random_words = after[positions][other]
    assert random_words.min() == 5 and random_words.max() == SIZE - 1
