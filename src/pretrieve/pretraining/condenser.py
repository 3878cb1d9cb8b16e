"""Condenser: masked words are predicted from *early* token states and the *late* [CLS].

Paper ``condenser`` §3.3 and §3.4. The body's layers are ``skip_layer`` early ones (h^early) and the late rest (h^late). A head of
a few fresh layers, which is thrown away afterwards, reads the first row of the one and all other rows of the other::

    h^cd = Head([h^late_CLS ; h^early_1 … h^early_n])             equation 8
    L    = Σ_masked CE(W h^cd_i, x_i) + Σ_masked CE(W h^late_i, x_i)     equations 9 to 11

What the late layers learn about the text reaches the head's prediction through [CLS] alone, so they have to put it
there. The second term (``late_mlm``) keeps the late token states a language model while the head is still random. W
is BERT's own word head in both. As in the released code (modeling.py:68-82) each sum is divided by the number of
masked words, and the head adds neither positions nor a LayerNorm to what it reads.
"""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Asking, Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.transformer import Layer, compute_at, initialise_layers, seeded
from pretrieve.pretraining.examples import Masked, MaskedExamples, Setting
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.training.objective import MicroBatch


class CondenserHead(nn.Module):
    """``layers`` fresh Transformer layers over late [CLS] and early token states.

    ``skip_layer``: whose output is h^early; 0 is the embeddings.

    Raises ConfigError when no late layer is left.
    """

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

    def forward(self, states: list[torch.Tensor], batch: Batch, asking: Asking | None = None) -> torch.Tensor:
        """States (T, d) after the head; states: embeddings and every layer's output, (T, d) each. ``asking``: where they
        are wanted; they are NaN elsewhere."""
        x = self.join(states[self.skip_layer], states[-1], batch)
        for layer in self.layers[:-1]:
            x = layer(x, batch)
        return compute_at(self.layers[-1], x, batch, asking) if len(self.layers) else x


class Condenser(MaskedLanguageModel):
    """Terms ``head`` and, with ``late_mlm``, ``mlm``; equation 11 has both."""

    def __init__(self, setting: Setting, examples: MaskedExamples | None = None) -> None:
        super().__init__(setting, examples)
        options = setting.options
        self.condenser = CondenserHead(
            setting.encoder.config, options["head_layers"], options["skip_layer"], setting.seed
        )
        self.module["condenser"] = self.condenser
        self.word_terms = ("head", "mlm") if options["late_mlm"] else ("head",)
        self.terms = dict.fromkeys(self.word_terms, 1.0)

    def counts(self, masked: Masked) -> dict[str, int]:
        """Masked words, of both terms."""
        return dict.fromkeys(self.word_terms, len(masked.positions))

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words, after the head and, if wanted, after the late layers."""
        packed = batch.data.batch(self.device)
        return self.word_losses(self.body.all_states(packed, self.read(packed, batch.data)), packed, batch.data)

    def read(self, packed: Batch, masked: Masked) -> Asking:
        """Where the body's last states are read: at [CLS], and by late MLM at the masked words."""
        return masked.asking(packed, cls=True) if "mlm" in self.word_terms else Asking.first(packed)

    def word_losses(self, states: list[torch.Tensor], packed: Batch, masked: Masked) -> dict[str, torch.Tensor]:
        """The same from ``states``: embeddings and every layer's output, (T, d) each."""
        found = self.condenser(states, packed, masked.asking(packed, cls=False))
        losses = {"head": self.word_loss(found, masked)}
        if "mlm" in self.word_terms:
            losses["mlm"] = self.word_loss(states[-1], masked)
        return losses


build = Condenser
