"""Masks for the masked language model (Devlin et al. 2019, §3.1): token by token, or whole words.

A sequence of L tokens gives ``max(1, round(rate · L))`` tokens to predict. Whole words follow the rule of BERT's
collator, which Condenser (data.py:68-98), RetroMAE and DupMAE use: the words are taken in random order until so many
tokens are covered; a word that would overshoot is passed over, so at the end there may be a few less. Tokens one by
one are the same rule with words of one token, and give exactly that number.

[CLS] and [SEP] are never predicted, and neither is [UNK]: there is nothing to learn from it. It counts as a token of L all the
same. ``unk: skipped``: it is never chosen, as in Condenser. ``spent``: it is chosen like any other token and then not predicted,
so that fewer than wanted are, as in RetroMAE (data.py:42,69, whose collator passes over [CLS] and [SEP] alone).
``round`` is Python's, which takes a half to the even number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.base.errors import ConfigError
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore
from pretrieve.text.vocabulary import SpecialIds


@dataclass(frozen=True)
class Masking:
    """How many tokens are predicted, and what the encoder sees in their place.

    unit: ``token`` or ``word``; rate: share of a sequence's tokens; of: what the share is counted over, ``ordinary``
    tokens (Condenser) or ``all`` with [CLS] and [SEP] (RetroMAE); mask, random: shares of the predicted tokens that
    become [MASK] or a random word, the rest stays; unk: ``skipped`` or ``spent``, see above.
    """

    unit: str = "token"
    rate: float = 0.15
    of: str = "ordinary"
    mask: float = 0.8
    random: float = 0.1
    unk: str = "skipped"

    def __post_init__(self) -> None:
        if not (0 < self.rate < 1 and min(self.mask, self.random) >= 0 and self.mask + self.random <= 1):
            raise ConfigError(
                f"masking: rate={self.rate}, mask={self.mask}, random={self.random}; expected 0 < rate < 1 and "
                "nonnegative shares that sum to at most 1."
            )

    def wanted(self, ordinary: np.ndarray) -> np.ndarray:
        """Tokens to predict (n,) in sequences with ``ordinary`` (n,) tokens besides [CLS] and [SEP]: at least one.

        >>> Masking(rate=0.15).wanted(np.array([0, 1, 10, 30])).tolist()  # 1.5 and 4.5 go to the even number
        [0, 1, 2, 4]
        """
        length = ordinary + (2 if self.of == "all" else 0)
        return np.minimum(np.maximum(1, np.rint(length * self.rate).astype(np.int64)), ordinary)


def choose_words(sizes: torch.Tensor, keys: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Fill each row with words in the order of their keys, passing over what would overshoot.

    sizes (R, W) int64, 0 where a row has no such word; keys (R, W), any sortable type; wanted (R,) int64.
    Returns (R, W) bool: the chosen words, of at most ``wanted`` tokens in each row.

    >>> sizes, keys = torch.tensor([[2, 3, 1, 1]]), torch.tensor([[0, 1, 2, 3]])
    >>> choose_words(sizes, keys, torch.tensor([4])).tolist()  # 2, then 3 does not fit, then 1 and 1
    [[True, False, True, True]]
    """
    order = keys.argsort(dim=1)
    size = sizes.gather(1, order)
    active = size > 0
    column = torch.arange(size.shape[1], device=size.device)
    while True:
        covered = torch.where(active, size, 0).cumsum(1)
        over = active & (covered > wanted[:, None])
        if not bool(over.any()):
            return torch.zeros_like(active).scatter_(1, order, active)
        # What does not fit after the first word that overshoots will not fit later either: room only shrinks.
        first = over.to(torch.int8).argmax(1, keepdim=True)
        room = wanted[:, None] - (covered - size).gather(1, first)
        active &= ~((column >= first) & (size > room) & over.any(1, keepdim=True))


def word_numbers(packed: Packed, store: TokenStore, unit: str) -> np.ndarray:
    """(T,) number of each ordinary token's word within its sequence, from 0; −1 for [CLS], [SEP] and padding.

    ``unit='token'``: every token is a word. The first ordinary token of a sequence, or after a [SEP], begins a word
    whatever it is: a text that was cut can begin in the middle of one.
    """
    ordinary = ordinary_tokens(packed.tokens, store.special)
    begins = ordinary.copy()
    if unit == "word":
        begins &= np.asarray(store.word_starts)[packed.tokens].astype(bool) | ~np.roll(ordinary, 1)
        begins[packed.starts] = ordinary[packed.starts]
    count = np.cumsum(begins)
    before = count[packed.starts] - begins[packed.starts]
    return np.where(ordinary, count - 1 - np.repeat(before, packed.lengths), -1)


def ordinary_tokens(tokens: np.ndarray, special: SpecialIds) -> np.ndarray:
    """(T,) bool: tokens of the text, not [CLS], [SEP] or [PAD]."""
    return ~np.isin(tokens, [special.cls, special.sep, special.pad])


def word_sizes(packed: Packed, words: np.ndarray) -> np.ndarray:
    """(n, W) int64: tokens of each word of each sequence, 0 where there is no such word; ``words`` (T,) as
    :func:`word_numbers` gives them."""
    sequence = np.repeat(np.arange(len(packed.lengths)), packed.lengths)
    width = int(words.max(initial=-1)) + 1
    inside = words >= 0
    flat = np.bincount(sequence[inside] * width + words[inside], minlength=len(packed.lengths) * width)
    return flat.reshape(len(packed.lengths), width)


def choose_positions(packed: Packed, store: TokenStore, masking: Masking, rng: np.random.Generator) -> np.ndarray:
    """Rows (m,) of the packed batch to predict, sorted. [CLS], [SEP] and [UNK] are never chosen."""
    words = word_numbers(packed, store, masking.unit)
    sequence = np.repeat(np.arange(len(packed.lengths)), packed.lengths)
    wanted = masking.wanted(np.bincount(sequence[words >= 0], minlength=len(packed.lengths)))
    unknown = packed.tokens == store.special.unk
    if masking.unk == "skipped":
        words = np.where(unknown, -1, words)
    sizes = word_sizes(packed, words)
    if not sizes.size:
        return np.empty(0, dtype=np.int64)
    keys = rng.random(sizes.shape)
    chosen = choose_words(torch.from_numpy(sizes), torch.from_numpy(keys), torch.from_numpy(wanted)).numpy()
    return np.flatnonzero((words >= 0) & ~unknown & chosen[sequence, np.maximum(words, 0)])


def corrupt(
    tokens: np.ndarray, positions: np.ndarray, store: TokenStore, masking: Masking, rng: np.random.Generator
) -> np.ndarray:
    """A copy of ``tokens`` with [MASK], a random word or the token itself at ``positions``, in the shares of ``masking``."""
    special = store.special
    corrupted = tokens.copy()
    draw = rng.random(len(positions))
    corrupted[positions[draw < masking.mask]] = special.mask
    random_rows = positions[(draw >= masking.mask) & (draw < masking.mask + masking.random)]
    # Where the special tokens are the first entries, as in a vocabulary trained here, they are not drawn.
    ids = vars(special).values()
    first_word = max(ids) + 1 if max(ids) < len(ids) else 0
    corrupted[random_rows] = rng.integers(first_word, store.vocabulary_size, len(random_rows))
    return corrupted
