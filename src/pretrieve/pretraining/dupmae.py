"""DupMAE, or RetroMAE v2 (paper ``dupmae`` §3.2): RetroMAE for [CLS], and a bag of words for all other tokens.

``L = L_MLM + L_dec + w·L_bow`` (equation 9: w = 1; the released code: 0.1). The first two are RetroMAE's
(:mod:`pretrieve.pretraining.retromae`). For the third, the encoder's last states are projected to the vocabulary and pooled by
their maximum, and the result has to tell the distinct words of the *unmasked* text from all others
(:mod:`pretrieve.models.bag_of_words`); mean over texts. So the states of ordinary tokens learn to hold the text together, as
[CLS] does alone. ``decode`` is the ablation of table 3: ``cls`` is without L_bow, ``ot`` without L_dec and its decoder.

======================  =========================================  ====================================================
option                  paper                                      released code (modeling_duplex.py:53-61, data.py:129)
======================  =========================================  ====================================================
``bow_positions``       ``unmasked``: "masked tokens excluded"     ``all``
``bow_head``            ``linear``: a matrix of its own            ``mlm``: the whole word head of the MLM
``bow_normalised``      no: Σ over the distinct words              yes: Σ / L, with L *all* words of the text
======================  =========================================  ====================================================

Two choices. [SEP] takes part in the maximum, for ``unmasked`` too: the paper's tokens are all "besides [CLS]", the
code has it in, and a text of one word has nothing else left when that is masked. And ``unmasked`` omits every
position that the encoder has to predict, also where options put a random word or the word itself in place of [MASK].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pretrieve.models.bag_of_words import BagOfWordsProjection, bag_of_words_loss, pooled_words
from pretrieve.models.transformer import Transformer
from pretrieve.models.word_head import MaskedWordHead
from pretrieve.pretraining.examples import Masked, Setting
from pretrieve.pretraining.masking import ordinary_tokens
from pretrieve.pretraining.retromae import RetroMae
from pretrieve.text.vocabulary import SpecialIds


@dataclass(frozen=True)
class BagOfWords:
    """The loss L_bow. projection: W of equation 6, or None for the word head of the MLM."""

    normalised: bool
    positions: str
    projection: BagOfWordsProjection | None
    special: SpecialIds

    def rows(self, masked: Masked) -> tuple[np.ndarray, list[int]]:
        """Rows (m,) of the states that are pooled, and how many each text has: at least one, its [SEP]."""
        taken = np.ones(len(masked.original), dtype=bool)
        taken[masked.corrupted.starts] = False
        if self.positions == "unmasked":
            taken[masked.positions] = False
        return np.flatnonzero(taken), np.add.reduceat(taken, masked.corrupted.starts, dtype=np.int64).tolist()

    def bags(self, masked: Masked) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Distinct words of the unmasked texts: text (u,) and token (u,) of each; and each text's weight (n,)."""
        lengths = masked.corrupted.lengths
        ordinary = ordinary_tokens(masked.original, self.special)
        owners = np.repeat(np.arange(len(lengths)), lengths)[ordinary]
        size = int(masked.original.max()) + 1
        pairs = np.divmod(np.unique(owners * size + masked.original[ordinary]), size)
        counts = np.bincount(owners, minlength=len(lengths))
        weights = 1.0 / np.maximum(counts, 1) if self.normalised else np.ones(len(lengths))
        return pairs[0], pairs[1], weights.astype(np.float32)

    def loss(self, states: torch.Tensor, masked: Masked, body: Transformer, head: MaskedWordHead) -> torch.Tensor:
        """Summed over the texts, from the encoder's last states (T, d)."""
        rows, lengths = self.rows(masked)
        states = states[torch.from_numpy(rows).to(states.device)]
        logits = pooled_words(head if self.projection is None else self.projection, states, body.words.weight, lengths)
        return bag_of_words_loss(logits, *(torch.from_numpy(array).to(states.device) for array in self.bags(masked)))


class DupMae(RetroMae):
    """Terms ``mlm``; ``decoder`` unless ``decode`` is ``ot``; ``bow`` unless it is ``cls``.

    Only the first two begin near ln V: L_bow sums over the words of a text, and their logits are maxima.
    """

    def __init__(self, setting: Setting) -> None:
        options, decode = setting.options, setting.options["decode"]
        super().__init__(setting)
        self.reads_all = decode != "cls"
        if self.reads_all:
            projection = None
            if options["bow_head"] == "linear":
                projection = self.module["bow"] = BagOfWordsProjection(setting.encoder.config, setting.seed)
            normalised, positions = options["bow_normalised"], options["bow_positions"]
            self.terms["bow"] = options["bow_weight"]
            self.bag = BagOfWords(normalised, positions, projection, setting.store.special)

    def counts(self, masked: Masked) -> dict[str, int]:
        """Masked words; all words; texts."""
        return super().counts(masked) | ({"bow": len(masked.corrupted.lengths)} if self.reads_all else {})

    def further_losses(self, states: torch.Tensor, masked: Masked) -> dict[str, torch.Tensor]:
        """Summed loss of the bags of words."""
        return {"bow": self.bag.loss(states, masked, self.body, self.head)} if self.reads_all else {}


build = DupMae
