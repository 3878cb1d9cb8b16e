"""Masks for the masked language model (Devlin et al. 2019, §3.1)."""

from __future__ import annotations

import numpy as np

from pretrieve.text.packing import Packed
from pretrieve.text.vocabulary import SpecialIds


def choose_positions(packed: Packed, special: SpecialIds, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Rows (m,) of the packed batch to predict, sorted: ``max(1, round(rate · L))`` of each sequence's L ordinary tokens.

    [CLS] and [SEP] are never chosen; a sequence without ordinary tokens gives none.
    """
    ordinary = ~np.isin(packed.tokens, [special.cls, special.sep, special.pad])
    sequence = np.repeat(np.arange(len(packed.lengths)), packed.lengths)
    available = np.bincount(sequence[ordinary], minlength=len(packed.lengths))
    wanted = np.minimum(np.maximum(1, np.floor(available * rate + 0.5).astype(np.int64)), available)
    rows = np.flatnonzero(ordinary)
    shuffled = rows[np.lexsort((rng.random(len(rows)), sequence[rows]))]
    begin = np.cumsum(available) - available
    rank = np.arange(len(shuffled)) - np.repeat(begin, available)
    return np.sort(shuffled[rank < np.repeat(wanted, available)])


def corrupt(
    tokens: np.ndarray, positions: np.ndarray, special: SpecialIds, vocabulary_size: int, rng: np.random.Generator
) -> np.ndarray:
    """A copy of ``tokens`` in which 80 % of ``positions`` are [MASK], 10 % a random word, 10 % unchanged."""
    corrupted = tokens.copy()
    draw = rng.random(len(positions))
    corrupted[positions[draw < 0.8]] = special.mask
    random_rows = positions[(draw >= 0.8) & (draw < 0.9)]
    first_word = max(vars(special).values()) + 1 if max(vars(special).values()) < 5 else 0
    corrupted[random_rows] = rng.integers(first_word, vocabulary_size, len(random_rows))
    return corrupted
