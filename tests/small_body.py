"""Bodies and pre-trainings small enough for a test."""

from __future__ import annotations

from typing import Any

from pretrieve.models.config import BodyConfig

#: A body as options have it.
SHAPE = {"kind": "transformer", "hidden": 16, "layers": 2, "heads": 2, "feed_forward": 32, "max_positions": 40}


def small_options(
    objective: dict[str, Any], batch: int, steps: int, learning_rate: float = 1e-2, **more: Any
) -> dict[str, Any]:
    """Options of a pre-training (:class:`pretrieve.pretraining.encoder_options.EncoderOptions`), as the workflow gives them."""
    projection = {"pooling": "cls", "dim": 8, "similarity": "dot", "head": "linear"}
    budget = {"batch": batch, "steps": steps, "learning_rate": learning_rate}
    return {"body": SHAPE, **projection, "objective": objective, "budget": budget, **more}


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
