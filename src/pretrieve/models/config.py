"""Sizes and initialisation of the two bodies, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from pretrieve.errors import ConfigError


@dataclass(frozen=True)
class BodyConfig:
    """A body's shape. ``kind`` is ``transformer`` (BERT's post-LN encoder) or ``bow-mlp``.

    ``positions='sinusoid'`` fills the learned position table with sinusoids of amplitude ``position_std`` to start with
    (Vaswani et al. 2017, §3.5) instead of noise: with it, and with a wider ``word_std`` than BERT's 0.02, a model of a few
    layers leaves the unigram plateau within minutes; with BERT's initialisation it does not (docs/fidelity.md).
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

    def __post_init__(self) -> None:
        if self.kind not in ("transformer", "bow-mlp"):
            raise ConfigError(f"body kind {self.kind!r} is not allowed; use 'transformer' or 'bow-mlp'.")
        if self.positions not in ("normal", "sinusoid"):
            raise ConfigError(f"positions {self.positions!r} is not allowed; use 'normal' or 'sinusoid'.")
        if self.hidden % self.heads:
            raise ConfigError(f"hidden={self.hidden} is not a multiple of heads={self.heads}.")

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> BodyConfig:
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ConfigError(f"unknown body options {sorted(unknown)}; known: {[f.name for f in fields(cls)]}.")
        return cls(**values)
