"""SEED-Encoder (paper ``seed_encoder`` §3.4): masked words, and the whole text rebuilt from [CLS] by a *weak* decoder.

``L = w_m · L_MLM + w_d · L_dec`` (equation 10: both weights 1; the released code: both ½), each term a mean over its own words
of the whole batch, however it is cut (playing-code/fairseq, ``mask_decode_lm_para.py`` lines 108-114): L_MLM over the masked
ones, L_dec over all but [CLS]. The encoder reads the masked text, the decoder (:mod:`pretrieve.models.decoder`) the
text as it was. All that goes from one to the other is h, the encoder's last state of [CLS]. With few layers and a short span
the decoder cannot guess the text from the words before, so h has to hold it. A strong decoder can (§3.3), and that is the
baseline in :mod:`pretrieve.pretraining.optimus`.

Not as in that code: its masks can fall on [CLS] and [SEP] too, and are rounded at random to 15 % of the sequence with both
(``mask_tokens_dataset.py`` lines 118-123); here [CLS] is never masked, as for all objectives.
"""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.models.decoder import Decoder
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.mlm import MaskedLanguageModel
from pretrieve.training.objective import MicroBatch


class SeedEncoder(MaskedLanguageModel):
    """Encoder and decoder trained together. A term of weight 0 is omitted, and so is the word head if that is ``mlm``.

    ``word_terms`` leaves the decoder out: where its loss begins depends on more than the vocabulary (see its module).
    """

    #: Terms with a weight among the options.
    weighed: tuple[str, ...] = ("mlm", "decoder")

    def __init__(self, setting: Setting) -> None:
        options = setting.options
        super().__init__(setting)
        self.decoder = Decoder(setting.encoder.config, options["decoder_layers"], options["span"], setting.seed)
        self.terms = {term: weight for term in self.weighed if (weight := options[f"{term}_weight"])}
        self.word_terms = tuple(term for term in self.terms if term == "mlm")
        # In this order, that of the optimiser's state; the word head only if it is trained.
        self.module = nn.ModuleDict({"body": self.body, "decoder": self.decoder})
        if "mlm" in self.terms:
            self.module["mlm"] = self.head

    def counts(self, masked: Masked) -> dict[str, int]:
        """Masked words; words after [CLS]."""
        return super().counts(masked) | {"decoder": len(masked.original) - len(masked.corrupted.lengths)}

    def bottleneck(self, cls: torch.Tensor, masked: Masked) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """What the decoder gets (n, d) from the states of [CLS] (n, d), and further loss terms: the state itself, and none."""
        return cls, {}

    def losses(self, batch: MicroBatch) -> dict[str, torch.Tensor]:
        """Summed cross-entropy of the masked words, and of all words after [CLS]."""
        masked: Masked = batch.data
        packed = masked.batch(self.device)
        losses = {}
        if "mlm" in self.terms:
            states = self.body(packed, asking=masked.asking(packed, cls=True))
            losses["mlm"] = self.word_loss(states, masked)
            cls = states.index_select(0, packed.starts)
        else:
            cls = self.body(packed, first_only=True)
        vectors, more = self.bottleneck(cls, masked)
        decoded = self.decoder.loss(vectors, masked.corrupted, masked.original, self.body.words.weight)
        return losses | {"decoder": decoded} | more


build = SeedEncoder
