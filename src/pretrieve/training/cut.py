"""Where a step's examples are cut into micro-batches, when each example is several texts that stay together.

An example may be a query with its whole group of documents: there is no cut inside it. Pieces are consecutive and of
nearly equal numbers of examples, in the caller's order, so that a cut changes nothing but memory.
"""

from __future__ import annotations

import numpy as np

from pretrieve.text.packing import Packed


def tokens_of_each(packed: Packed) -> np.ndarray:
    """(n,) tokens of each example, in the caller's order."""
    lengths = np.empty_like(packed.lengths)
    lengths[packed.order] = packed.lengths
    return lengths


def cut_evenly(tokens: np.ndarray, budget: int, parts: int) -> list[np.ndarray]:
    """Positions 0..n-1 in pieces of at most ``budget`` tokens, or of a single example; as many pieces for each of
    ``parts`` processes, where there are that many examples.

    tokens (n,): of each example.

    >>> [piece.tolist() for piece in cut_evenly(np.array([4, 4, 4, 4]), 8, 1)]
    [[0, 1], [2, 3]]
    >>> [piece.tolist() for piece in cut_evenly(np.array([4, 4, 4, 4]), 99, 3)]
    [[0, 1], [2], [3]]
    """
    pieces = parts * max(1, -(-int(tokens.sum()) // (budget * parts)))
    while pieces < len(tokens) and max(piece.sum() for piece in np.array_split(tokens, pieces)) > budget:
        pieces += parts
    return np.array_split(np.arange(len(tokens)), min(pieces, len(tokens)))
