"""RetroMAE and DupMAE as one would write them first: padded batches on ``transformers`` modules, logits everywhere.

Written from the paper's equations 2 to 9 and the released modeling.py and modeling_duplex.py, with none of the
project's model code: only the weights are copied, under the names of :data:`pretrieve.models.checkpoint_names.BERT`,
and what the row masks show is taken from the objective (test_row_masks.py has a reference of its own for these).
"""

from __future__ import annotations

import math

import torch
from condenser_reference import PaddedReference, bert_config
from torch import nn
from torch.nn import functional
from transformers import BertForMaskedLM
from transformers.models.bert.modeling_bert import BertLayer

from pretrieve.models.config import BodyConfig
from pretrieve.pretraining.examples import Masked

LEAST = torch.finfo(torch.float32).min


def two_streams(layer: BertLayer, query: torch.Tensor, context: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """A BertLayer that asks with (n, L, d) and is answered from (n, L, d); visible (n, L, L) bool."""
    own = layer.attention.self
    heads = own.num_attention_heads

    def split(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (heads, -1)).transpose(1, 2)

    q, k, v = split(own.query(query)), split(own.key(context)), split(own.value(context))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + (~visible)[:, None] * LEAST
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    attended = layer.attention.output(mixed, query)  # adds ``query``, then LayerNorm
    return layer.output(layer.intermediate(attended), attended)


def padded_visible(objective, masked: Masked, longest: int) -> torch.Tensor:
    """(n, longest, longest) bool, from the objective's own masks."""
    reconstruction, batch = objective.reconstruction, masked.batch("cpu")
    groups = reconstruction.masks.of(masked.corrupted, masked.original, masked.draws, reconstruction.store, batch)
    whole = torch.zeros(len(masked.draws), longest, longest, dtype=torch.bool)
    for (first, last, *_), visible in zip(batch.groups, groups, strict=True):
        width = visible.shape[-1]
        whole[first:last, :width, :width] = visible[:, 0]
    return whole


class Reference(PaddedReference):
    """With ``c_head`` (a BertLayer) and ``bow`` (equation 6's matrix), as far as the objective has them."""

    layers = ("decoder.", "encoder.layer.0.", "c_head.")

    def __init__(self, objective, config: BodyConfig) -> None:
        super().__init__()
        shape = bert_config(config)
        self.lm = BertForMaskedLM(shape)
        self.c_head = BertLayer(shape) if "decoder" in objective.module else None
        self.bow = nn.Linear(config.hidden, config.vocabulary_size, bias=False) if "bow" in objective.module else None
        self.copy(objective)

    def forward(self, masked: Masked, objective, options: dict) -> dict[str, torch.Tensor]:
        """Loss term → its mean, for each term of the objective."""
        packed = masked.corrupted
        n, longest = len(packed.lengths), int(packed.lengths.max())
        ids, plain = torch.zeros(n, longest, dtype=torch.int64), torch.zeros(n, longest, dtype=torch.int64)
        attention, chosen = torch.zeros(n, longest), torch.zeros(n, longest, dtype=torch.bool)
        everything = torch.full((n, longest), -100)
        for i, (start, length) in enumerate(zip(packed.starts.tolist(), packed.lengths.tolist(), strict=True)):
            rows = slice(start, start + length)
            ids[i, :length] = torch.from_numpy(packed.tokens[rows])
            plain[i, :length] = torch.from_numpy(masked.original[rows])
            attention[i, :length] = 1
            everything[i, 1 : length - 1] = plain[i, 1 : length - 1]
            for place in range(length):
                chosen[i, place] = start + place in masked.positions
        out = self.lm(input_ids=ids, attention_mask=attention, output_hidden_states=True)
        last = out.hidden_states[-1]

        def entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(logits.reshape(n * longest, -1), labels.reshape(-1))

        losses = {"mlm": entropy(out.logits, plain.masked_fill(~chosen, -100))}
        if self.c_head is not None:
            embeddings = self.lm.bert.embeddings
            cls = last[:, :1]
            context = torch.cat([cls, embeddings(input_ids=plain)[:, 1:]], dim=1)
            if options["normalised_query"]:
                query = embeddings(inputs_embeds=cls.expand(n, longest, -1))
            else:
                query = cls + embeddings.position_embeddings(torch.arange(longest))
            hidden = two_streams(self.c_head, query, context, padded_visible(objective, masked, longest))
            losses["decoder"] = entropy(self.lm.cls(hidden), everything)
        if "bow" in objective.terms:
            logits = out.logits if options["bow_head"] == "mlm" else self.bow(last)
            taken = attention.bool()
            if options["bow_positions"] == "unmasked":
                taken = taken & ~chosen
            # No −1000, which a logit can be below.
            pooled = (logits + (~taken)[:, :, None] * LEAST)[:, 1:].amax(1).log_softmax(-1)
            total = 0
            for i, length in enumerate(packed.lengths.tolist()):
                words = plain[i, 1 : length - 1].tolist()
                weight = 1 / len(words) if options["bow_normalised"] else 1.0
                total = total - weight * sum(pooled[i, word] for word in set(words))
            losses["bow"] = total / n
        return losses
