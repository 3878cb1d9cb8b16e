"""Bodies small enough for a test."""

from __future__ import annotations

from typing import Any

from pretrieve.models.config import BodyConfig


def small_body(
    words: int,
    sizes: tuple[int, int, int, int] = (16, 2, 2, 32),
    max_positions: int = 64,
    dropout: float = 0.0,
    **more: Any,
) -> BodyConfig:
    """``words``: in the vocabulary; ``sizes``: hidden, layers, heads, feed_forward; ``more``: of :class:`BodyConfig`."""
    hidden, layers, heads, feed_forward = sizes
    shape = {"hidden": hidden, "layers": layers, "heads": heads, "feed_forward": feed_forward}
    return BodyConfig(vocabulary_size=words, max_positions=max_positions, dropout=dropout, **shape, **more)
