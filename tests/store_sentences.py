"""What a token store has of one sentence; no test of its own."""

from __future__ import annotations

import numpy as np

from pretrieve.text.token_store import TokenStore


def sentence_of(store: TokenStore, index: int) -> np.ndarray:
    """Token ids of one sentence."""
    return store.tokens[store.sentence_starts[index] : store.sentence_starts[index + 1]]
