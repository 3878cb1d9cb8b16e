"""RetroMAE's enhanced decoder (paper ``dupmae`` §3.1): one layer that rebuilds a text from [CLS] and half of its words.

It has two streams. With h the encoder's last state of [CLS], e the *embeddings* of the text as it was, and p positions::

    H1 = [h + p_0, h + p_1, …, h + p_N]        who asks           (equation 2)
    H2 = [h, e_1, …, e_N]                      who answers
    A  = softmax(Q·Kᵀ/√d + M)·V,   Q = H1·W_q,  K = H2·W_k,  V = H2·W_v          (equation 3)

A row asks with nothing but h and its position, so it knows the words around it only through the answers that its mask
M lets through (:mod:`pretrieve.pretraining.row_masks`), and itself not at all. The rest is a BERT layer whose
*residual is H1*: h reaches each row's output even if M hides everything else. The encoder's word head reads that
output, and ``L_dec = Σ over all words of −log P(x_i | A, H1)`` (equation 4): every token but the first and the last
of each text.

What paper and released code do differently, or the paper leaves open (staoxiao/RetroMAE, ``modeling.py:40-58``,
``modeling_duplex.py:31-51``, ``enhancedDecoder.py:199``):

- e_i is written as word + position; in all code it is the encoder's whole embedding, with segment, LayerNorm and
  dropout. So it is here, as the sum alone would be of another size than h, which has a norm of √d.
- ``normalised_query``: DupMAE's code, and RetroMAE's in FlagEmbedding, send h through the embedding too:
  ``LN(h + segment_0 + p_i)``, then dropout. RetroMAE's own code is the equation.

Rows 0 and N, [CLS] and [SEP], have nothing to predict. They do not ask here, which changes no other row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pretrieve.models.batch import Batch
from pretrieve.models.config import BodyConfig
from pretrieve.models.dropout import attend
from pretrieve.models.transformer import Layer, Transformer, initialise_layers, seeded
from pretrieve.text.packing import Packed


def inner_rows(packed: Packed) -> np.ndarray:
    """(T − 2n,) rows of a packed batch that are neither first nor last of their sequence.

    Raises ValueError when a sequence has a single token: its first is its last.

    >>> packed = Packed(np.zeros(7, int), np.zeros(7, int), np.array([4, 3]), np.arange(2))
    >>> inner_rows(packed).tolist()
    [1, 2, 5]
    """
    if len(packed.lengths) and packed.lengths.min() < 2:
        raise ValueError("a sequence of 1 token has no [CLS] and [SEP]; expected [CLS] … [SEP]")
    inner = np.ones(len(packed.tokens), dtype=bool)
    inner[packed.starts] = inner[packed.starts + packed.lengths - 1] = False
    return np.flatnonzero(inner)


class EnhancedDecoder(nn.Module):
    """The one layer. ``layers[0]`` has a BERT layer's parameters under the body's names (query, key and value in one
    matrix), so :data:`pretrieve.models.checkpoint_names.BERT` translates them."""

    def __init__(self, config: BodyConfig, normalised_query: bool, seed: int) -> None:
        super().__init__()
        self.normalised_query = normalised_query
        self.layers = nn.ModuleList([Layer(config)])
        initialise_layers(self.layers, config, seeded(seed, 7))

    def queries(self, cls: torch.Tensor, body: Transformer, batch: Batch, rows: torch.Tensor) -> torch.Tensor:
        """H1 (m, d) at rows (m,), from the sentence embeddings (n, d)."""
        x = cls.index_select(0, batch.sequence[rows]) + body.places(batch.positions[rows])
        if not self.normalised_query:
            return x
        if body.segments is not None:
            x = x + body.segments.weight[0]
        return body.dropout(body.embedding_norm(x))

    def forward(
        self, cls: torch.Tensor, body: Transformer, batch: Batch, rows: torch.Tensor, visible: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """States (m, d) that predict the words at ``rows``.

        cls (n, d): the encoder's states of [CLS]; batch: the text *not* masked; rows (m,): those of :func:`inner_rows`;
        visible: for each group of the batch, (n, 1, L, L) bool with the group's n and L.
        """
        (layer,) = self.layers
        context = body.embed(batch)
        context = context.index_copy(0, batch.starts, cls.to(context.dtype))
        query = self.queries(cls, body, batch, rows)
        return layer.after_attention(query, self._attend(query, context, batch, rows, visible))

    def _attend(
        self,
        query: torch.Tensor,
        context: torch.Tensor,
        batch: Batch,
        rows: torch.Tensor,
        visible: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """Attention of queries (m, d) to the context (T, d) of their sequences: (m, d)."""
        attention = self.layers[0].attention
        hidden, heads = context.shape[1], attention.heads
        weight, bias = attention.qkv.weight, attention.qkv.bias
        query = functional.linear(query, weight[:hidden], bias[:hidden])
        context = functional.linear(context, weight[hidden:], bias[hidden:])
        counts = [end - begin - 2 * (last - first) for first, last, begin, end, _, _ in batch.groups]
        drop = attention.dropout if attention.training else 0.0
        results = []
        for group, asking, answering, at, mask in zip(
            batch.groups, query.split(counts), batch.parts(context), rows.split(counts), visible, strict=True
        ):
            first, last, _, _, longest, full = group
            n, inner, place = last - first, longest - 2, None
            if not full:
                answering, _ = batch.padded(answering, group)
                place = (batch.sequence[at] - first) * inner + batch.positions[at] - 1
                asking = asking.new_zeros(n * inner, hidden).index_copy(0, place, asking)
            asking = asking.view(n, inner, heads, hidden // heads).transpose(1, 2)
            key, value = answering.view(n, longest, 2, heads, hidden // heads).permute(2, 0, 3, 1, 4).unbind(0)
            # Rows of padding ask too; like all rows they see column 0, so no softmax is over nothing.
            mixed = attend(asking, key, value, mask[:, :, 1:-1], drop)
            mixed = mixed.transpose(1, 2).reshape(n * inner, hidden)
            results.append(mixed if full else mixed.index_select(0, place))
        return attention.output(torch.cat(results))
