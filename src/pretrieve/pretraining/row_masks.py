"""RetroMAE's position-specific masks: each row of the decoder has its own view of the text (paper ``dupmae`` §3.1).

One mask for the whole text would leave half of its words to predict. Instead row i, which predicts word i, gets its
own half of the words to look at, so that *all* words are predicted. Row i may attend to column j (equation 5) if

- j is not i: no word sees itself;
- and j = 0, the sentence embedding; or word j is not hidden by the row's mask. [SEP] is never hidden.

A mask hides ``round(rate · L)`` tokens, of L with [CLS] and [SEP], by the rule of the encoder's masks
(:mod:`pretrieve.pretraining.masking`). ``masks='all'`` draws one for each row, as the paper has it. A number draws at
most so many for a text, and each row takes any of them, with replacement: the released code, with 256 (data.py:44-54;
FlagEmbedding's version 128). There a row can lack one word more than ``round(rate · L)``, its own, and so it can here
in both; the paper samples among the other words.

All draws are hashed from (seed, number of the sequence, mask, word): the same masks on every device, in every process, and
however the batch is cut or padded. A stateful generator gives what comes next, so a draw depends on all draws before it. Here
draw number c of seed s is ``mix(s + (c + 1)·γ)`` of splitmix64 (Steele, Lea & Flood 2014), whatever else was drawn. Several
numbers are taken one after the other: the value for the first is the seed for the second. int64 products wrap in the same way
on every device; ``>>`` of an int64 copies its sign, so what it shifts in is masked off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.models.batch import Batch
from pretrieve.pretraining.masking import Masking, choose_words, word_numbers, word_sizes
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore


def _signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


_GAMMA = _signed(0x9E3779B97F4A7C15)
#: (shift, factor) of each round, and the last shift.
_ROUNDS = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)))
_LAST_SHIFT = 31


def _fold(values: torch.Tensor, shift: int) -> torch.Tensor:
    return values.bitwise_xor_((values >> shift).bitwise_and_((1 << (64 - shift)) - 1))


def hashed(seed: int, *numbers: torch.Tensor | int) -> torch.Tensor:
    """64 random bits (int64, negative for half of them) for each combination of ``numbers``, int64 tensors that broadcast.

    With one tensor it is the output of splitmix64 at these places of its sequence:

    >>> [value % 2**64 for value in hashed(1234567, torch.arange(3)).tolist()]
    [6457827717110365317, 3203168211198807973, 9817491932198370423]
    """
    values = torch.tensor(_signed(seed))
    for number in numbers:
        step = _signed((number + 1) * _GAMMA) if isinstance(number, int) else (number + 1) * _GAMMA
        values = values + step
        for shift, factor in _ROUNDS:
            values = _fold(values, shift).mul_(factor)
        values = _fold(values, _LAST_SHIFT)
    return values


def below(bits: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Whole numbers from 0 to ``limit`` − 1 (int64, broadcasts, at least 1), equally likely but for ``limit`` in 2⁶³.

    >>> below(hashed(7, torch.arange(8)), torch.tensor(3)).tolist()
    [1, 0, 0, 1, 2, 1, 2, 0]
    """
    return ((bits >> 1) & (2**63 - 1)) % limit


#: Two kinds of draws of one sequence: which words a mask hides, which mask a row takes.
_WORDS, _ROWS = 0, 1


@dataclass(frozen=True)
class RowMasks:
    """masking: unit, rate, and what it is a share of; masks: most masks of a text, or ``all``: one for each row."""

    masking: Masking
    masks: int | str
    seed: int

    def visible(
        self, words: torch.Tensor, sizes: torch.Tensor, wanted: torch.Tensor, lengths: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """(n, 1, L, L) bool: row i of sequence s may attend to column j. All int64.

        words (n, L): number of each token's word, −1 for [CLS], [SEP] and padding; sizes (n, W): tokens of each word;
        wanted (n,): tokens to hide; lengths (n,), at most L; draws (n,): each sequence's number in the run.

        Every row of a sequence of at least two tokens sees something: row 0 the [SEP], all others, padding too, the [CLS].
        """
        n, length = words.shape
        count = length if self.masks == "all" else min(length, self.masks)
        column = torch.arange(max(length, sizes.shape[1]), device=words.device)
        # Masks for the rows of padding are drawn too: a rectangle is cheaper than what leaving them out would save.
        keys = hashed(self.seed, draws[:, None, None], _WORDS, column[:count, None], column[: sizes.shape[1]])
        hidden = choose_words(
            sizes[:, None, :].expand(keys.shape).flatten(0, 1),
            keys.flatten(0, 1),
            wanted[:, None].expand(n, count).flatten(),
        ).view(keys.shape)
        hidden = hidden.gather(2, words.clamp(min=0)[:, None, :].expand(-1, count, -1)) & (words >= 0)[:, None, :]
        if self.masks != "all":
            bits = hashed(self.seed, draws[:, None], _ROWS, column[:length])
            taken = (
                below(bits, lengths.clamp(max=count)[:, None]) + count * torch.arange(n, device=words.device)[:, None]
            )
            hidden = hidden.flatten(0, 1).index_select(0, taken.flatten()).view(n, length, length)
        visible = ~hidden & (column[:length] < lengths[:, None])[:, None, :]
        visible.diagonal(dim1=1, dim2=2).fill_(False)
        return visible[:, None]

    def of(
        self, packed: Packed, tokens: np.ndarray, draws: np.ndarray, store: TokenStore, batch: Batch
    ) -> list[torch.Tensor]:
        """:meth:`visible` for each group of a batch, (n, 1, L, L) with the group's n and L.

        packed: the batch; tokens (T,): its words before masking; draws (n,): see
        :class:`~pretrieve.pretraining.examples.Masked`.
        """
        original = Packed(tokens, packed.segments, packed.lengths, packed.order)
        words = word_numbers(original, store, self.masking.unit)
        sizes = word_sizes(original, words)
        wanted = self.masking.wanted(sizes.sum(axis=1))
        device = batch.tokens.device
        flat = torch.from_numpy(words).to(device)
        result = []
        for group in batch.groups:
            first, last, begin, end, longest, full = group
            part = flat[begin:end] if full else batch.padded(flat[begin:end], group, -1)[0]
            width = int((sizes[first:last] > 0).sum(axis=1).max(initial=1))
            arrays = (sizes[first:last, :width], wanted[first:last], packed.lengths[first:last], draws[first:last])
            tensors = [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]
            result.append(self.visible(part.view(last - first, longest), *tensors))
        return result
