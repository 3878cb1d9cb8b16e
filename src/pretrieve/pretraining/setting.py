"""What every objective is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pretrieve.models.encoder import Encoder
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.encoder_options import check_together
from pretrieve.pretraining.examples import MaskedPassages, TextForm
from pretrieve.pretraining.masking import Masking
from pretrieve.text.token_store import TokenStore


@dataclass(frozen=True)
class Setting:
    """options: of the objective, as :func:`pretrieve.pretraining.presets.resolve` gives them, with ``length`` (or the two
    lengths of pairs); batch: examples a step; encoder: what is pre-trained; seed: of weights, order, masks and pairs;
    token_budget: tokens of a micro-batch (None: the device's default; it changes no result).

    Raises ConfigError for options that do not go together."""

    options: dict[str, Any]
    batch: int
    encoder: Encoder
    store: TokenStore
    seed: int
    device: torch.device
    token_budget: int | None = None

    def __post_init__(self) -> None:
        check_together(self.options)

    def masking(self) -> Masking:
        """The encoder's masks."""
        return Masking(*(self.options[name] for name in ("unit", "rate", "of", "mask", "random", "unk")))

    def passages(self) -> MaskedPassages:
        """The masked examples that all word-predicting objectives share."""
        texts = TextForm(*(self.options[name] for name in ("length", "examples", "short", "packing")))
        return MaskedPassages(self.store, self.seed, self.batch, texts, self.masking(), self.token_budget)

    def word_head(self) -> MaskedWordHead:
        """A fresh word head; the same for every objective of a seed."""
        return MaskedWordHead(self.encoder.config, self.seed)
