"""A cross-encoder: query and document in one sequence, and a score of the pair (Nogueira & Cho 2019).

``[CLS] a [SEP] b [SEP]`` goes through the body, so every token of one text sees every token of the other; this is more
accurate than two vectors, and far too slow to search with: one pass for each pair. Here it reranks, teaches a retriever
(``dupmae`` §3.2, third stage), and with several classes it is BERT's sequence classifier for one or two texts
(``seed_encoder`` A.2).

The head is BERT's (Devlin et al. 2019)::

    p = tanh(W_p·h + b_p)           (d,)          h: state of [CLS]; for T5, which has none, the mean of all states
    y = W_c·dropout(p) + b_c        (classes,)    one class: y is the score

``pooler`` and ``classifier`` are fresh for every start: none of the five papers' encoders was pre-trained with them.
"""

from __future__ import annotations

import torch
from torch import nn

from pretrieve.base.errors import ConfigError
from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.encoder import make_body, pool_states
from pretrieve.models.transformer import seeded


class CrossEncoder(nn.Module):
    """Batch of n pairs (or texts) → (n, classes) float32 logits, in the caller's order.

    Of two texts the second one's tokens are segment 1 of the batch; a body with one segment or none takes no notice.

    Raises ConfigError for less than one class, or a bag-of-words body (it sees no order, so not which text a word is of).
    """

    def __init__(self, config: BodyConfig, classes: int = 1, seed: int = 0) -> None:
        super().__init__()
        if config.kind == "bow-mlp":
            raise ConfigError("a bow-mlp body cannot be a cross-encoder: it mixes the words of both texts.")
        if classes < 1:
            raise ConfigError(f"classes={classes}: expected 1 (a score) or more.")
        self.config, self.classes, self.pooling = config, classes, "mean" if config.kind == "t5" else "cls"
        self.width = classes  # numbers of an output, by the name that towers have for it
        self.body = make_body(config, seed)
        self.pooler = nn.Linear(config.hidden, config.hidden)
        self.classifier = nn.Linear(config.hidden, classes)
        self.dropout = nn.Dropout(config.dropout)
        for number, linear in enumerate((self.pooler, self.classifier)):
            nn.init.normal_(linear.weight, std=config.std, generator=seeded(seed, 13, number))
            nn.init.zeros_(linear.bias)

    def heads(self) -> dict[str, nn.Module]:
        """What heads.safetensors holds, by name."""
        return {"pooler": self.pooler, "classifier": self.classifier}

    def forward(self, batch: Batch) -> torch.Tensor:
        """(n, classes) float32 logits in the caller's order."""
        pooled = torch.tanh(self.pooler(pool_states(self.body, batch, self.pooling)))
        return self.classifier(self.dropout(pooled)).float()[batch.inverse]
