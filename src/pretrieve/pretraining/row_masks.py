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

All draws are hashed from (seed, number of the sequence, mask, word), see :mod:`pretrieve.pretraining.hashed`: the
same masks on every device, in every process, and however the batch is cut or padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.models.batch import Batch
from pretrieve.pretraining.hashed import below, hashed
from pretrieve.pretraining.masking import Masking, choose_words, word_numbers, word_sizes
from pretrieve.text.packing import Packed
from pretrieve.text.token_store import TokenStore

#: Two kinds of draws of one sequence: which words a mask hides, which mask a row takes.
_WORDS, _ROWS = 0, 1


@dataclass(frozen=True)
class RowMasks:
    """masking: unit, rate, and what it is a share of; masks: most masks of a text, or ``all``: one for each row."""

    masking: Masking
    masks: int | str
    seed: int

    def visible(
        self,
        words: torch.Tensor,
        sizes: torch.Tensor,
        wanted: torch.Tensor,
        lengths: torch.Tensor,
        draws: torch.Tensor,
    ) -> torch.Tensor:
        """(n, 1, L, L) bool: row i of sequence s may attend to column j. All int64.

        words (n, L): number of each token's word, −1 for [CLS], [SEP] and padding; sizes (n, W): tokens of each word;
        wanted (n,): tokens to hide; lengths (n,), at most L; draws (n,): each sequence's number in the run.

        Every row of a sequence of at least two tokens sees something: row 0 the [SEP], all others, padding too, the
        [CLS].
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
        for first, last, begin, end, longest, full in batch.groups:
            n, part = last - first, flat[begin:end]
            if not full:
                place = (batch.sequence[begin:end] - first) * longest + batch.positions[begin:end]
                part = part.new_full((n * longest,), -1).index_copy(0, place, part)
            width = int((sizes[first:last] > 0).sum(axis=1).max(initial=1))
            arrays = (sizes[first:last, :width], wanted[first:last], packed.lengths[first:last], draws[first:last])
            tensors = [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]
            result.append(self.visible(part.view(n, longest), *tensors))
        return result
