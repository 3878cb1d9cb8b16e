"""RetroMAE (paper ``dupmae`` §3.1): masked words, and the whole text rebuilt from [CLS] and another, harder mask.

``L = L_MLM + L_dec``. The encoder reads the text with 30 % of it masked and predicts that part, mean over the masked words. Its
last state of [CLS] goes to a decoder of one layer (:mod:`pretrieve.models.enhanced_decoder`), where each word of the *unmasked*
text is predicted from that state and half of the other words, through a mask of its own (:mod:`pretrieve.pretraining.row_masks`);
mean over all words but [CLS] and [SEP]. One layer and half of the words are too little to guess the text, so [CLS] has to hold
it. Encoder and decoder share embeddings and word head (RetroMAE ``modeling.py:22,64``).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from pretrieve.models.batch import Batch
from pretrieve.models.enhanced_decoder import EnhancedDecoder, inner_rows
from pretrieve.models.transformer import Transformer
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.pretraining.row_masks import RowMasks
from pretrieve.training.objective import MicroBatch


class Reconstruction:
    """The loss L_dec: a fresh decoder and its masks, whose shares are of the same tokens (``of``) as the encoder's."""

    def __init__(self, setting: Setting) -> None:
        options, self.store = setting.options, setting.store
        self.decoder = EnhancedDecoder(setting.encoder.config, options["normalised_query"], setting.seed)
        masking = Masking(options["decoder_unit"], options["decoder_rate"], options["of"])
        self.masks = RowMasks(masking, options["row_masks"], setting.seed)

    def loss(
        self, cls: torch.Tensor, masked: Masked, batch: Batch, body: Transformer, head: MaskedWordHead
    ) -> torch.Tensor:
        """Summed cross-entropy of all words, from the states of [CLS] (n, d); batch: the masked texts."""
        packed, device = masked.corrupted, cls.device
        original = torch.from_numpy(masked.original).to(device)
        rows = torch.from_numpy(inner_rows(packed)).to(device)
        visible = self.masks.of(packed, masked.original, masked.draws, self.store, batch)
        states = self.decoder(cls, body, replace(batch, tokens=original), rows, visible)
        return head.loss(states, body.words.weight, original[rows])


class RetroMae(MaskedLanguageModel):
    """Encoder and decoder, trained together. DupMAE is a subclass: its ``decode: ot`` leaves the decoder out, and it may have a
    further loss."""

    #: Whether the losses read the encoder's states at all tokens.
    reads_all = False

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.reconstruction, self.terms = None, {"mlm": 1.0}
        if setting.options.get("decode") != "ot":
            self.reconstruction, self.terms["decoder"] = Reconstruction(setting), 1.0
            self.module["decoder"] = self.reconstruction.decoder
        self.word_terms = tuple(self.terms)

    def counts(self, masked: Masked) -> dict[str, int]:
        """Masked words; all words but the first and the last of each text."""
        inner = len(masked.original) - 2 * len(masked.corrupted.lengths)
        return super().counts(masked) | ({} if self.reconstruction is None else {"decoder": inner})

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words in the encoder, and of all words in the decoder."""
        masked: Masked = batch.data
        packed = masked.batch(self.device)
        states = self.body(packed, asking=None if self.reads_all else masked.asking(packed, cls=True))
        losses = {"mlm": self.word_loss(states, masked)}
        if self.reconstruction is not None:
            cls = states.index_select(0, packed.starts)
            losses["decoder"] = self.reconstruction.loss(cls, masked, packed, self.body, self.head)
        return losses | self.further_losses(states, masked)

    def further_losses(self, states: torch.Tensor, masked: Masked) -> dict[str, torch.Tensor]:
        """Of a subclass, summed, from the encoder's last states (T, d)."""
        return {}


build = RetroMae
