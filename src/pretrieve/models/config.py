"""Sizes and initialisation of the three bodies, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pretrieve.base.errors import ConfigError, check_choice

KINDS = ("transformer", "bow-mlp", "t5")
#: Published models whose encoder is BERT's; they differ in position numbers, segments and names.
FAMILIES = ("bert", "roberta", "electra", "ernie")
#: Smallest and largest value of every size: beyond them a file is wrong, or not meant for this. Largest published: 250,112 words,
#: 4,096 wide, 24 layers deep.
SIZES = {
    "vocabulary_size": (1, 1 << 24),
    "hidden": (1, 1 << 16),
    "layers": (0, 1 << 10),
    "heads": (1, 1 << 10),
    "feed_forward": (1, 1 << 18),
    "max_positions": (1, 1 << 20),
    "segments": (0, 1 << 10),
    "position_offset": (0, 1 << 20),
    "head_size": (0, 1 << 12),
    "buckets": (2, 1 << 12),
    "max_distance": (2, 1 << 20),
}
#: The same of every other number.
NUMBERS = {"dropout": (0, 0.999), "layer_norm_eps": (0, 1)} | dict.fromkeys(
    ("std", "word_std", "position_std"), (0, 100)
)


def check_shape(name: str, value: Any, shown: str | None = None, least: float = 0) -> Any:
    """A value of a body's shape, which must be a number of the right kind, within its bounds, and not below ``least``;
    ``shown``: how messages call it.

    Raises ConfigError when it is not.
    """
    whole = name in SIZES
    low, high = (SIZES if whole else NUMBERS)[name]
    low = max(low, least)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not low <= value <= high:
        raise ConfigError(
            f"{shown or name} is {repr(value)[:40]}; expected a {'whole ' if whole else ''}number from {low} to {high:,}."
        )
    return value


@dataclass(frozen=True)
class BodyConfig:
    """A body's shape. ``kind`` is ``transformer`` (BERT's post-LN encoder), ``t5`` (the encoder of T5 v1.1) or ``bow-mlp``.

    Of a transformer, ``family`` says under which names it is saved. ``max_positions`` tokens fit into a sequence; the
    first has the position ``position_offset``: 0 for BERT, the padding's id + 1 for RoBERTa and SEED-Encoder, whose
    position table has that many rows more. ``segments`` counts segment embeddings: BERT 2, ERNIE 2.0 4; RoBERTa 1, so
    that all tokens have the same; SEED-Encoder 0.

    ``head_size`` (0: hidden / heads), ``buckets`` and ``max_distance`` are T5's (:mod:`pretrieve.models.t5`).

    ``positions='sinusoid'`` fills the learned position table with sinusoids of amplitude ``position_std`` to start with
    (Vaswani et al. 2017, §3.5) instead of noise: with it, and with a wider ``word_std`` than BERT's 0.02, a model of a
    few layers learns more than word frequencies within minutes; with BERT's initialisation it does not (docs/fidelity.md).
    """

    kind: str = "transformer"
    vocabulary_size: int = 30522
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    feed_forward: int = 3072
    max_positions: int = 512
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    std: float = 0.02
    word_std: float = 0.02
    positions: str = "normal"
    position_std: float = 0.02
    family: str = "bert"
    segments: int = 2
    position_offset: int = 0
    head_size: int = 0
    buckets: int = 32
    max_distance: int = 128

    def __post_init__(self) -> None:
        for name in (*SIZES, *NUMBERS):
            check_shape(name, getattr(self, name))
        check_choice("body kind", self.kind, KINDS)
        check_choice("body family", self.family, FAMILIES)
        if (self.position_offset > 0) != (self.family == "roberta"):
            raise ConfigError(
                f"family={self.family!r} with position_offset={self.position_offset} and segments={self.segments}: roberta's "
                "positions begin above 0, those of the other families at 0."
            )
        if self.positions not in ("normal", "sinusoid"):
            raise ConfigError(f"positions {self.positions!r} is not allowed; use 'normal' or 'sinusoid'.")
        if self.hidden % self.heads and not (self.kind == "t5" and self.head_size):
            raise ConfigError(f"hidden={self.hidden} is not a multiple of heads={self.heads}.")

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> BodyConfig:
        if not isinstance(values, Mapping):
            raise ConfigError(f"body is {type(values).__name__}; expected its options.")
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"unknown body options {sorted(unknown)}; known: {[f.name for f in fields(cls)]}.")
        return cls(**values)
