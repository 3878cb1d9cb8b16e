"""Condenser (paper ``condenser`` §3): masked words are predicted from *early* token states and the *late* [CLS].

With h^early the states of layer ``skip_layer`` and h^late those of the last, a head of a few fresh layers reads
``[h^late_CLS; h^early_1 … h^early_L]`` (equations 3 and 4), and ``L = L_MLM(head) + L_MLM(late)`` (equation 7), both
through BERT's own word head. What the late layers learn reaches the head's prediction through [CLS] alone.
"""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import Encoder
from pretrieve.models.random import seeded
from pretrieve.models.transformer import Layer, initialise_layers
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.examples import MaskedPassages
from pretrieve.pretraining.mlm import masked_word_loss
from pretrieve.pretraining.setting import Setting
from pretrieve.training.objective import MicroBatch


class CondenserHead(nn.Module):
    """Fresh Transformer layers over late [CLS] and early token states; no positions and no LayerNorm are added."""

    def __init__(self, config: BodyConfig, layers: int, skip_layer: int, seed: int) -> None:
        super().__init__()
        if not 0 <= skip_layer < config.layers:
            raise ConfigError(
                f"condenser: skip_layer={skip_layer} with {config.layers} layers; expected 0 (the embeddings) to "
                f"{config.layers - 1}, so that a late layer stays."
            )
        self.skip_layer = skip_layer
        self.layers = nn.ModuleList(Layer(config) for _ in range(layers))
        initialise_layers(self.layers, config, seeded(seed, 3))

    @staticmethod
    def join(early: torch.Tensor, late: torch.Tensor, batch: Batch) -> torch.Tensor:
        """(T, d): early states with the late one in each sequence's first row."""
        return early.index_copy(0, batch.starts, late[batch.starts].to(early.dtype))

    def forward(self, states: list[torch.Tensor], batch: Batch) -> torch.Tensor:
        """States (T, d) behind the head; states: embeddings and every layer's output."""
        x = self.join(states[self.skip_layer], states[-1], batch)
        for layer in self.layers:
            x = layer(x, batch)
        return x


class Condenser:
    """``late_mlm=False`` is the released code's default; the paper's equation 7 has both terms."""

    def __init__(
        self,
        encoder: Encoder,
        head: MaskedWordHead,
        condenser: CondenserHead,
        examples: MaskedPassages,
        late_mlm: bool,
        device: torch.device | str = "cpu",
    ) -> None:
        self.body, self.head, self.condenser, self.examples, self.device = (
            encoder.body, head, condenser, examples, device
        )  # fmt: skip
        self.terms = {"head": 1.0, "mlm": 1.0} if late_mlm else {"head": 1.0}
        self.word_terms = tuple(self.terms)
        self.module = nn.ModuleDict({"body": encoder.body, "mlm": head, "condenser": condenser})

    def micro_batches(self, step: int, parts: int = 1) -> list[MicroBatch]:
        """Examples of a step; both terms have one item for each masked word."""
        return self.examples.micro_batches(
            step, parts, self.device, lambda m: dict.fromkeys(self.terms, len(m.positions))
        )

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words, behind the head and, if wanted, behind the late layers."""
        packed = batch.data.batch(self.device)
        states = self.body.all_states(packed)
        by_term = {"head": self.condenser(states, packed), "mlm": states[-1]}
        words = self.body.words.weight
        return {t: masked_word_loss(by_term[t], batch.data, self.head, words, self.device) for t in self.terms}


def build(setting: Setting) -> Condenser:
    """From the options of ``condenser``."""
    options = setting.options
    head = CondenserHead(setting.encoder.config, options["head_layers"], options["skip_layer"], setting.seed)
    examples = setting.passages()
    return Condenser(setting.encoder, setting.word_head(), head, examples, options["late_mlm"], setting.device)
