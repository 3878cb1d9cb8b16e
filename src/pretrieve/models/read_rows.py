"""Which rows of a packed batch a layer is computed for: the last layer need not be computed where nobody reads it.

A row of a layer depends on all rows of its sequence through its keys and values alone. So where the last states are read
at some rows only (masked words, [CLS]), the last layer's queries, its attention output and its feed-forward part are
computed for these: of the 12·d² products that a token costs, 2·d² (keys and values) stay for the rest. Values and
gradients at the rows that are read are the same. With 15 % of the tokens masked that saves 71 % of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.models.batch import Batch
from pretrieve.text.packing import Packed


@dataclass(frozen=True)
class Asking:
    """Rows (m,) of a packed batch, sorted, each once.

    place (m,): where row i stands among the n·widest of its group; parts: for each group of the batch ``(first row, last
    + 1, widest, even)``: at most ``widest`` rows of a sequence, exactly so many if ``even``.
    """

    rows: torch.Tensor
    place: torch.Tensor
    parts: list[tuple[int, int, int, bool]]

    @classmethod
    def of(cls, rows: np.ndarray, packed: Packed, batch: Batch) -> Asking:
        """``rows`` (m,) of ``packed``, whose tensors are ``batch``."""
        counts = np.diff(np.searchsorted(rows, np.append(packed.starts, len(packed.tokens))))
        before = np.cumsum(counts) - counts
        parts, offset = [], np.zeros(len(counts), dtype=np.int64)
        for first, last, *_ in batch.groups:
            own = counts[first:last]
            widest = int(own.max())
            parts.append((int(before[first]), int(before[last - 1] + own[-1]), widest, bool((own == widest).all())))
            offset[first:last] = np.arange(last - first) * widest
        place = np.arange(len(rows)) + np.repeat(offset - before, counts)
        device = batch.tokens.device
        return cls(torch.from_numpy(rows).to(device), torch.from_numpy(place).to(device), parts)

    @classmethod
    def first(cls, batch: Batch) -> Asking:
        """The first row of each sequence."""
        parts = [(first, last, 1, True) for first, last, *_ in batch.groups]
        return cls(batch.starts, batch.starts, parts)  # no place is looked up where all parts are even
