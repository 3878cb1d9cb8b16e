"""RetroMAE (paper ``dupmae`` §3.1): masked words, and the whole text rebuilt from [CLS] and another, harder mask.

``L = L_MLM + L_dec``. The encoder reads the text with 30 % of it masked and predicts that part, mean over the masked
words. Its last state of [CLS] goes to a decoder of one layer (:mod:`pretrieve.models.enhanced_decoder`), where each
word of the *unmasked* text is predicted from that state and half of the other words, through a mask of its own
(:mod:`pretrieve.pretraining.row_masks`); mean over all words but [CLS] and [SEP]. One layer and half of the words are
too little to guess the text, so [CLS] has to hold it. Encoder and decoder share embeddings and word head (RetroMAE
``modeling.py:22,64``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pretrieve.models.batch import Batch
from pretrieve.models.enhanced_decoder import EnhancedDecoder, inner_rows
from pretrieve.models.transformer import Transformer
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.examples import Masked
from pretrieve.pretraining.masking import Masking
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.pretraining.row_masks import RowMasks
from pretrieve.pretraining.setting import Setting
from pretrieve.text.token_store import TokenStore
from pretrieve.training.objective import MicroBatch


@dataclass(frozen=True)
class Reconstruction:
    """The loss L_dec, which DupMAE has too."""

    decoder: EnhancedDecoder
    masks: RowMasks
    store: TokenStore

    @staticmethod
    def count(masked: Masked) -> int:
        """Words that are predicted: all but the first and the last of each text."""
        return len(masked.original) - 2 * len(masked.corrupted.lengths)

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
    """Encoder and decoder, trained together."""

    terms = {"mlm": 1.0, "decoder": 1.0}
    word_terms = ("mlm", "decoder")

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.reconstruction = make_reconstruction(setting)
        self.module["decoder"] = self.reconstruction.decoder

    def counts(self, masked: Masked) -> dict[str, int]:
        """Masked words; all words."""
        return super().counts(masked) | {"decoder": self.reconstruction.count(masked)}

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words in the encoder, and of all words in the decoder."""
        masked: Masked = batch.data
        packed = masked.batch(self.device)
        states = self.body(packed, asking=masked.asking(packed, cls=True))
        cls = states.index_select(0, packed.starts)
        return {
            "mlm": self.word_loss(states, masked),
            "decoder": self.reconstruction.loss(cls, masked, packed, self.body, self.head),
        }


def make_reconstruction(setting: Setting) -> Reconstruction:
    """A fresh decoder and its masks, as the options say. Shares are of the same tokens (``of``) as the encoder's."""
    options = setting.options
    masking = Masking(options["decoder_unit"], options["decoder_rate"], options["of"])
    decoder = EnhancedDecoder(setting.encoder.config, options["normalised_query"], setting.seed)
    return Reconstruction(decoder, RowMasks(masking, options["row_masks"], setting.seed), setting.store)


build = RetroMae
